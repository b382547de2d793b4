"""Tables with planted results, so that every verdict can be seen to follow."""

from __future__ import annotations

import pytest

from weightsmith.core.records import Origin
from weightsmith.core.sweep import SweepTable


@pytest.fixture
def verdicts():
    """The verdicts of an experiment on planted rows: ``planted(seed=…, **setting)`` gives the measured values."""

    def judged(experiment, planted, quick=False, seeds=(0, 1, 2)):
        plan = experiment.settings(quick)
        names = tuple(plan.each[0])
        rows = tuple(
            {**setting, "seed": seed, **planted(seed=seed, **setting)} for setting in plan.each for seed in seeds
        )
        table = SweepTable("planted", names, tuple(rows[0]), rows, Origin())
        found = experiment.judge(table)
        assert [each.claim for each in found] == [claim.name for claim in experiment.claims]
        assert experiment.draw is None or experiment.draw(table).axes
        assert set(experiment.shows) <= set(table.columns)
        return {each.claim: each.verdict.value for each in found}

    return judged
