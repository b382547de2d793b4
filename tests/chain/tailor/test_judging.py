from __future__ import annotations

import numpy as np
import pytest

from weightsmith.chain.tailor.choosing import LimitStatus
from weightsmith.chain.tailor.judging import Answered, Judgement, judgement
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.exact import least_difference, least_share

from .test_candidates import candidate

ROWS = 400
WHOLE = np.arange(ROWS) < 360


def judged(right, limits, margin=0.95, energy=50.0):
    return judgement(candidate(7), Answered(np.arange(ROWS) < right, energy), WHOLE, limits, margin)


def test_a_limit_must_hold_with_its_exact_bound():
    sure, estimate, below = (judged(right, Limits(accuracy=0.85)) for right in (358, 345, 330))
    assert sure.bound == least_share(358, ROWS)
    assert [each.standing for each in (sure, estimate, below)] == [
        LimitStatus.ABOVE, LimitStatus.ESTIMATE, LimitStatus.BELOW,
    ]  # fmt: skip
    assert [each.holds(0.95) for each in (sure, estimate, below)] == [True, False, False]
    assert [each.holds(None) for each in (sure, estimate, below)] == [True, True, False]


@pytest.mark.parametrize(
    "limits", [Limits(accuracy=least_share(358, ROWS)), Limits(points=-least_difference(0, 2, ROWS))]
)
def test_a_bound_on_the_limit_itself_holds(limits):
    assert judged(358, limits).standing is LimitStatus.ABOVE
    assert judged(357, limits).standing is LimitStatus.ESTIMATE


def test_all_right_on_few_rows_is_not_enough():
    few = np.ones(20, bool)
    found = judgement(candidate(0), Answered(few, 1.0), few, Limits(accuracy=0.9), 0.95)
    assert found.accuracy.value == 1.0
    assert not found.holds(0.95)
    assert found.holds(None)


def test_points_below_the_network_are_compared_row_by_row():
    found = judged(354, Limits(points=0.03))
    assert found.bound == least_difference(0, 6, ROWS)
    assert found.cost.difference == pytest.approx(-0.015)
    assert found.standing is (LimitStatus.ABOVE if found.bound >= -0.03 else LimitStatus.ESTIMATE)
    assert judged(340, Limits(points=0.03)).standing is LimitStatus.BELOW
    assert judged(340, Limits(points=0.03)).missed == {"accuracy": pytest.approx(0.02)}


def test_costs_are_judged_too_and_energy_as_it_was_on_these_rows():
    found = judged(360, Limits(energy=40.0, params=100), energy=44.0)
    assert found.missed == {"energy": pytest.approx(0.1)}
    assert found.standing is LimitStatus.UNLIMITED
    assert not found.holds(None)


def test_it_survives_json():
    found = judged(350, Limits(points=0.05))
    assert Judgement.from_json(found.to_json()) == found
