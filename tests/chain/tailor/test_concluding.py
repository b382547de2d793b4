from __future__ import annotations

import types

import numpy as np
import pytest

from weightsmith.chain.tailor.choosing import Preference
from weightsmith.chain.tailor.concluding import _notes, check_any, judge, timeline
from weightsmith.chain.tailor.configurations import Configuration
from weightsmith.chain.tailor.judging import Answered
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.results import Verdict
from weightsmith.chain.tailor.runner import Refusal
from weightsmith.core.errors import UsageError

from .test_candidates import candidate

ROWS = 2000
ENERGIES = (100.0, 5.0, 4.0, 3.0, 2.0)


def runner(right, distances=(0.0, 0.01, 0.02, 0.03, 0.04)):
    """Candidates, ever cheaper, of which so many rows are right."""
    candidates = [
        candidate(number, distance, energy)
        for number, (distance, energy) in enumerate(zip(distances, ENERGIES, strict=True))
    ]
    asked = []

    def judged(found):
        asked.append(found.number)
        return Answered(np.arange(ROWS) < right[found.number], found.energy)

    return types.SimpleNamespace(candidates=candidates, judged=judged, asked=asked, times=[1.0, 2.0, 3.0, 4.0, 5.0])


def test_they_are_judged_from_the_safest_on_and_none_after_the_first_that_fails():
    made = runner([1800, 1800, 1790, 1700, 1800])
    found = judge(made, Preference(Limits(points=0.02)), 0.95)
    assert made.asked == [0, 0, 1, 2, 3]  # the whole network first; the last is not looked at
    assert found.best.number == 2
    assert found.verdict is Verdict.MET
    assert [each.candidate for each in found.judgements] == [0, 1, 2, 3]


def test_with_a_limit_on_a_cost_one_is_judged():
    made = runner([1800, 1790, 1790, 1700, 1600])
    found = judge(made, Preference(Limits(points=0.02, energy=6.0)), 0.95)
    assert made.asked == [0, 1]
    assert (found.best.number, found.verdict) == (1, Verdict.MET)


@pytest.mark.parametrize(
    ("right", "verdict"), [(1795, Verdict.MET), (1763, Verdict.BY_ESTIMATE), (1700, Verdict.NOT_CONFIRMED)]
)
def test_the_verdict_says_how_sure(right, verdict):
    found = judge(runner([1800, right, 0, 0, 0]), Preference(Limits(points=0.02, energy=6.0)), 0.95)
    assert found.verdict is verdict


def test_a_cost_that_is_missed_is_not_met_whatever_the_accuracy():
    found = judge(runner([1800] * 5), Preference(Limits(energy=1.0)), 0.95)
    assert found.verdict is Verdict.NOT_MET
    assert found.best.number == 4


def test_the_time_line_tells_when_the_best_changed():
    made = runner([1800] * 5, distances=(0.0, 0.5, 0.6, 0.2, 0.1))
    moments = timeline(made, Preference(Limits(energy=6.0)))
    assert [(each.seconds, each.candidate) for each in moments] == [(1.0, 0), (2.0, 1), (4.0, 3), (5.0, 4)]


def test_spiking_networks_that_there_are_not_are_refused():
    with pytest.raises(UsageError, match="leave spiking out"):
        judge(runner([1800] * 5), Preference(Limits(energy=6.0), spiking=True), 0.95)


@pytest.mark.parametrize(
    ("layers", "notes"),
    [
        ((), ()),
        (("a", "b", "c"), ("not counted in the energy: a, b, c",)),
        (("a", "b", "c", "d"), ("not counted in the energy: a, b, c …",)),
    ],
)
def test_of_what_the_energy_leaves_out_three_are_named_and_more_are_hinted_at(layers, notes):
    rows = types.SimpleNamespace(choosing=types.SimpleNamespace(notes=()))
    assert _notes(types.SimpleNamespace(rows=rows, refusals=[], uncounted=layers, judged_before=0)) == notes


def test_where_nothing_can_be_done_the_reasons_are_told():
    made = types.SimpleNamespace(
        candidates=[candidate(0)], refusals=[Refusal(Configuration(numbers="int8"), "no layer of a known kind")]
    )
    with pytest.raises(UsageError, match="no layer of a known kind"):
        check_any(made)
