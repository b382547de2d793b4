"""Exact bounds, against sums written out and against their promise: they hold as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from weightsmith.core.errors import UsageError
from weightsmith.core.exact import _at_most, least_difference, least_share


@pytest.mark.parametrize(("right", "rows"), [(1, 5), (17, 20), (20, 20), (931, 1000)])
def test_the_least_share_is_the_one_that_the_binomial_just_allows(right, rows):
    bound = least_share(right, rows)
    assert stats.binom.sf(right - 1, rows, bound) == pytest.approx(0.05)


def test_all_right_is_no_proof_of_a_perfect_network():
    assert least_share(50, 50) == pytest.approx(0.05 ** (1 / 50))
    assert least_share(0, 50) == 0.0


def test_the_distribution_is_that_of_the_trinomial_written_out():
    rows, worse, better = 7, 0.2, 0.13
    for lead in range(-7, 8):
        total = 0.0
        for c in range(rows + 1):
            for b in range(rows + 1 - c):
                if c - b <= lead:
                    ways = math.factorial(rows) / (math.factorial(b) * math.factorial(c) * math.factorial(rows - b - c))
                    total += ways * worse**c * better**b * (1 - worse - better) ** (rows - b - c)
        assert _at_most(lead, rows, worse, better) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(("loss", "share", "rows"), [(0.02, 0.06, 200), (0.0, 0.02, 150), (0.05, 0.05, 60)])
def test_a_true_loss_is_excluded_no_more_often_than_the_level(loss, share, rows):
    drawn = np.random.default_rng(0).multinomial(rows, [(share - loss) / 2, (share + loss) / 2, 1 - share], size=600)
    pairs, counts = np.unique(drawn[:, :2], axis=0, return_counts=True)
    wrong = sum(
        int(count)
        for (a, b), count in zip(pairs, counts, strict=True)
        if least_difference(int(a), int(b), rows) > -loss
    )
    assert wrong / 600 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


def test_it_comes_near_the_normal_bound_on_many_rows():
    bound = least_difference(300, 420, 10_000)
    normal = -0.012 - 1.645 * math.sqrt((0.072 - 0.012**2) / 10_000)
    assert normal - 0.0006 < bound < normal + 0.0001


def test_more_confidence_excludes_less():
    assert least_difference(3, 9, 200, 0.99) < least_difference(3, 9, 200, 0.95) < -0.03


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="counts are impossible"):
        least_difference(5, 6, 10)
    with pytest.raises(UsageError, match="trials"):
        least_share(3, 2)
