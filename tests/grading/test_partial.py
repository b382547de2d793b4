"""Partial rank correlations: the closed form with one control, regression on ranks with two, planted answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from weightsmith.grading.partial import PartialCorrelation, partial_rank_correlation


def test_one_control_is_the_closed_form():
    rng = np.random.default_rng(0)
    for _ in range(5):
        z = rng.standard_normal(12)
        x, y = z + rng.standard_normal(12), z - rng.standard_normal(12)
        xy, xz, yz = (float(spearmanr(*pair).statistic) for pair in ((x, y), (x, z), (y, z)))
        plain, given = partial_rank_correlation(x, y, [z])
        assert plain == pytest.approx(xy)
        assert given.value == pytest.approx((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)))
        assert -1 <= given.low <= given.value <= given.high <= 1


def test_two_controls_are_what_regression_leaves_also_with_ties():
    rng = np.random.default_rng(1)
    z = np.vstack([rng.integers(0, 4, 20), rng.standard_normal(20)]).astype(float)
    x, y = z.sum(0) + rng.standard_normal(20), z[0] - rng.standard_normal(20)
    design = np.column_stack([np.ones(20), *(rankdata(row) for row in z)])

    def left(values: np.ndarray) -> np.ndarray:
        ranks = rankdata(values)
        return ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0]

    _, given = partial_rank_correlation(x, y, z)
    assert given.value == pytest.approx(np.corrcoef(left(x), left(y))[0, 1])


def test_what_only_follows_depth_tells_nothing_more_and_what_has_its_own_does():
    rng = np.random.default_rng(2)
    depth, own = rng.standard_normal(40), rng.standard_normal(40)
    accuracy = depth + own
    plain, given = partial_rank_correlation(depth + 0.3 * rng.standard_normal(40), accuracy, [depth])
    assert plain > 0.5
    assert given.low < 0 < given.high
    _, given = partial_rank_correlation(own + 0.3 * rng.standard_normal(40), accuracy, [depth])
    assert given.low > 0.5


def test_no_interval_without_enough_networks_or_with_controls_that_say_all():
    x, y, z = [1.0, 3, 2, 4, 5], [2.0, 1, 3, 4, 5], [5.0, 1, 2, 3, 4]
    assert partial_rank_correlation(x, y, [z, x])[1] == "5 networks are too few for 2 controls, 6 are needed"
    twelve = np.arange(12.0)
    shaken = twelve + 5 * np.sin(7 * twelve)
    assert "follows from the others" in partial_rank_correlation(twelve, shaken, [twelve**3])[1]
    assert "constant" in partial_rank_correlation(np.ones(12), shaken, [twelve])[1]
    assert partial_rank_correlation(x, y, [z])[1].startswith(tuple("0123456789"))


def test_words():
    nothing = PartialCorrelation("alpha_hat", ("layers", "lambda_hat"), 4, reason="4 networks are too few")
    assert nothing.words == (
        "Whether alpha_hat adds anything to layers and lambda_hat is unknown: 4 networks are too few."
    )
    rng = np.random.default_rng(3)
    z = rng.standard_normal(30)
    _, given = partial_rank_correlation(z + rng.standard_normal(30), z + rng.standard_normal(30), [z])
    found = PartialCorrelation("alpha", ("layers",), 30, interval=given)
    assert not found.tells
    assert found.words.startswith("Given layers, alpha is not shown to add anything: partial ρ = ")
    assert PartialCorrelation.from_dict(found.to_dict()).words == found.words
