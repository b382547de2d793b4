"""Averaging over λ_min: weights by the definition, quantiles of the mixture, and what it is for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from weightsmith.grading.fits.averaging import averaged_range, candidate_tails


def test_one_tail_has_the_quantiles_of_a_normal_variable():
    low, high = averaged_range(np.array([[25.0, math.log(2.0), 1.0]]), 0.025)
    assert (low, high) == pytest.approx((math.log(2) - 1.959964 / 5, math.log(2) + 1.959964 / 5), abs=1e-6)


def test_quantiles_are_those_of_the_mixture():
    tails = np.array([[20.0, 0.1, 0.7], [200.0, 1.3, 0.3]])
    for x, share in zip(averaged_range(tails, 0.1), (0.1, 0.9), strict=True):
        assert tails[:, 2] @ ndtr((x - tails[:, 1]) * np.sqrt(tails[:, 0])) == pytest.approx(share, abs=1e-8)


def test_weights_sum_to_one_and_favour_long_tails_that_fit():
    rng = np.random.default_rng(0)
    logs = np.sort(rng.standard_exponential(400) / 2)  # all of it a power law with α = 3
    tails = candidate_tails(logs, 8)
    assert tails[:, 2].sum() == pytest.approx(1)
    assert (tails[0, 0], tails[-1, 0]) == (8, 400)
    assert (np.diff(tails[:, 0]) > 0).all()
    assert tails[tails[:, 0] > 100, 2].sum() > 0.8
    low, high = averaged_range(tails, 0.025)
    assert low < math.log(2) < high < low + 0.5


def test_a_body_that_is_no_power_law_is_given_no_weight():
    rng = np.random.default_rng(1)
    logs = np.sort(np.concatenate([rng.uniform(-0.01, 0, 900), rng.standard_exponential(100) / 2]))
    tails = candidate_tails(logs, 8)
    assert tails[tails[:, 0] > 300, 2].sum() < 0.01


def test_equal_values_have_no_exponent_and_few_values_one_candidate():
    assert candidate_tails(np.zeros(20), 8).shape == (0, 3)
    assert candidate_tails(np.sort(np.random.default_rng(0).random(8)), 8)[:, 0].tolist() == [8]
