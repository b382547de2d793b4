"""The classes of heavy tails: the rule, the generators, and whether what they make lands in its class."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from weightsmith.core.errors import OptionError
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.random_matrix.noise import Bulk, fit_bulk
from weightsmith.grading.random_matrix.universality import (
    Universality,
    pareto_matrix,
    student_matrix,
    tail_exponent,
    universality,
    universality_of_entries,
)
from weightsmith.grading.spectra.spectrum import spectrum

VERY, MODERATE, WEAK, NONE = Universality
BULK = Bulk(1.0, 0.0, 4.0, 4.5, 0.01, 5, 0.1, 2.5)


@pytest.mark.parametrize(("alpha", "expected"), [(1.3, VERY), (1.999, VERY), (2.0, MODERATE), (9.0, MODERATE)])
def test_alpha_decides_first_and_the_spikes_after_it(alpha, expected):
    assert universality(alpha, BULK) is expected


@pytest.mark.parametrize(("exponent", "expected"), [(1.5, MODERATE), (2.99, MODERATE), (3.0, WEAK), (50.0, WEAK)])
def test_the_spikes_tell_moderate_from_weak(exponent, expected):
    assert universality(4.0, dataclasses.replace(BULK, spike_alpha=exponent)) is expected


@pytest.mark.parametrize("alpha", [1.5, 2.5, 9.0])
def test_without_spikes_there_is_no_class(alpha):
    assert universality(alpha, dataclasses.replace(BULK, spikes=0, spike_alpha=None)) is NONE


@pytest.mark.parametrize(("mu", "expected"), [(0.5, VERY), (1.9, VERY), (2.1, MODERATE), (3.9, MODERATE), (4.1, WEAK)])
def test_the_limits_of_theory(mu, expected):
    assert universality_of_entries(mu) is expected
    assert tail_exponent(mu) == 1 + mu / 2


@pytest.mark.parametrize("make", [pareto_matrix, student_matrix])
@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_entries_have_the_tail_they_are_asked_for_and_no_preferred_sign(make, mu):
    entries = make(mu, (1000, 1000), np.random.default_rng(0))
    sizes = np.sort(np.abs(entries), axis=None)
    tail = sizes[-1000:] + (1 if make is pareto_matrix else 0)  # (1 + t)^−μ is a pure power of 1 + t
    assert tail.size / np.log(tail / tail[0]).sum() == pytest.approx(mu, rel=0.1)
    assert np.mean(entries > 0) == pytest.approx(0.5, abs=0.002)


@pytest.mark.parametrize("make", [pareto_matrix, student_matrix])
@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan])
def test_an_impossible_tail_is_refused(make, mu):
    with pytest.raises(OptionError, match="μ"):
        make(mu, (2, 2), np.random.default_rng(0))


def share_in(expected: Universality, make, shape: tuple[int, int], trials: int) -> float:
    found = []
    for seed in range(trials):
        layer = spectrum(torch.from_numpy(make(np.random.default_rng(seed), shape))[None])
        found.append(universality(fit_power_law(layer.eigenvalues).alpha, fit_bulk(layer)))
    return found.count(expected) / trials


@pytest.mark.parametrize("make", [pareto_matrix, student_matrix])
@pytest.mark.parametrize(("mu", "expected"), [(0.5, VERY), (1.0, VERY), (2.5, MODERATE)])
@pytest.mark.parametrize("shape", [(128, 128), (256, 128)])
def test_heavy_tailed_matrices_land_in_their_class(make, mu, expected, shape):
    assert share_in(expected, lambda rng, size: make(mu, size, rng), shape, 30) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(256, 256), (512, 256), (512, 512)])
@pytest.mark.parametrize(("mu", "expected", "least"), [(1.5, VERY, 0.75), (3.0, MODERATE, 0.75), (5.0, WEAK, 0.6)])
def test_harder_ones_mostly_do(mu, expected, least, shape):
    assert share_in(expected, lambda rng, size: pareto_matrix(mu, size, rng), shape, 40) >= least


def test_noise_has_no_class():
    assert share_in(NONE, lambda rng, size: rng.standard_normal(size), (96, 64), 100) >= 0.96
