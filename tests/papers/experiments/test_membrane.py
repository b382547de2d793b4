from __future__ import annotations

import pytest

from weightsmith.papers.experiments.membrane import EXPERIMENT, measure


def test_the_equations_hold_and_the_proportionality_only_in_part(verdicts):
    def measured(seed, **_):
        return {"mean_z": 0.5 - seed, "variance_z": 1.0 - seed, "l4_correlation": 0.95, "l2_correlation": 0.99}

    assert verdicts(EXPERIMENT, measured) == {"mean": "holds", "variance": "holds", "l4": "in part"}

    def wrong(seed, **_):
        return {"mean_z": 12.0, "variance_z": -9.0, "l4_correlation": 1.0, "l2_correlation": 1.0}

    assert verdicts(EXPERIMENT, wrong) == {"mean": "does not hold", "variance": "does not hold", "l4": "holds"}


def test_simulated_moments_are_those_of_the_equations():
    row = measure(seed=0, inputs=10, time=1.0, trials=20_000)
    assert abs(row["mean_z"]) < 4
    assert abs(row["variance_z"]) < 4
    assert row["l4_correlation"] == pytest.approx(0.95, abs=0.06)
