"""Shares of the classes: counted, worded, and true as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weightsmith.core.seeds import stream
from weightsmith.grading.classes import HEAVIEST, LEANING, LIGHTEST, ClassShares
from weightsmith.grading.fits.resampling import resample_alpha


def test_borders_belong_to_the_well_trained():
    assert (HEAVIEST, LIGHTEST) == (2.0, 6.0)
    shares = ClassShares.of(np.array([1.99, 2.0, 6.0, 6.01, math.inf]))
    assert list(shares.by_class.values()) == [0.2, 0.4, 0.2]
    assert shares.no_slope == 0.2
    assert sum(shares.by_class.values()) + shares.no_slope == pytest.approx(1)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((0, 19, 81), "leans weakly trained (81 %)"),
        ((75, 25, 0), "leans over-regularised (75 %)"),
        ((0, 45, 55), "cannot say (45 % well, 55 % weak)"),
        ((40, 60, 0), "cannot say (40 % over, 60 % well)"),
        ((4, 70, 26), "cannot say (70 % well, 26 % weak)"),
        ((0, 1000, 1), "leans well trained (99 %)"),
    ],
)
def test_words_follow_the_shares(counts, words):
    alphas = np.repeat([1.5, 3.0, 9.0], counts)
    assert ClassShares.of(alphas).words == words
    assert ClassShares.of(alphas).leans == words.startswith("leans")
    assert LEANING == 0.75


def test_a_share_reads_back():
    shares = ClassShares(0.1, 0.7, 0.2)
    assert ClassShares.from_dict(shares.to_dict()) == shares


@pytest.mark.slow
def test_a_layer_leans_as_often_to_the_truth_as_it_says():
    """Tails of 20 and 60 values with as many below them; α such that ln(α − 1) is even from 1.35 to 13."""
    stated, right = [], []
    for trial in range(1200):
        rng = stream(trial, "planted leaning")
        alpha = 1 + math.exp(rng.uniform(math.log(0.35), math.log(12)))
        size = (20, 60)[trial % 2]
        body = 1 - rng.random(size) / (alpha - 1)
        tail = (1 - rng.random(size)) ** (-1 / (alpha - 1))
        found = resample_alpha(np.sort(np.concatenate([body[body > 0], tail])), resamples=100, seed=trial)
        shares = ClassShares.of(found.alphas)
        truth = ClassShares.of(np.array([alpha])).best
        if shares.share < 0.99:
            stated.append(shares.share)
            right.append(shares.best == truth)
    said, true = np.array(stated), np.array(right)
    assert said.size > 400
    for low, high in ((0.5, 0.75), (0.75, 0.9), (0.9, 0.99)):
        inside = (said >= low) & (said < high)
        error = math.sqrt(0.25 / inside.sum()) if low < 0.75 else math.sqrt(0.1 / inside.sum())
        assert abs(true[inside].mean() - said[inside].mean()) < 0.05 + 2 * error
