"""The Marchenko–Pastur law: closed forms where there are any, moments, and eigenvalues of real noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import airy

from weightsmith.core.errors import OptionError
from weightsmith.grading.random_matrix.laws import MarchenkoPastur, tracy_widom_quantile

sizes = st.tuples(st.integers(1, 3000), st.integers(1, 3000)).map(lambda pair: (max(pair), min(pair)))


@given(sizes, st.floats(1e-3, 1e3), st.floats(0, 1))
def test_the_quantile_inverts_the_distribution(size, sigma, share):
    law = MarchenkoPastur(*size, sigma)
    value = float(law.quantile(share))
    assert law.low * (1 - 1e-9) <= value <= law.high * (1 + 1e-9)
    assert float(law.cdf(value)) == pytest.approx(share, abs=1e-8)  # at the edge of a square matrix 1e-9 is passed


@pytest.mark.parametrize(("rows", "columns"), [(50, 50), (60, 50), (400, 100), (1000, 10), (30.5, 7.25)])
def test_the_density_is_the_slope_of_the_distribution(rows, columns):
    law = MarchenkoPastur(rows, columns, 0.3)
    at = law.low + (law.high - law.low) * np.linspace(0.05, 0.95, 19)
    step = 1e-5 * (law.high - law.low)
    slope = (law.cdf(at + step) - law.cdf(at - step)) / (2 * step)
    np.testing.assert_allclose(law.density(at), slope, rtol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(50, 50), (400, 100), (1000, 10)])
def test_its_moments_are_known(rows, columns):
    # Mean σ²N and second moment σ⁴N(N + M): those of Tr(WᵀW)/M and Tr((WᵀW)²)/M in the limit.
    law = MarchenkoPastur(rows, columns, 2.0)
    values = law.quantile((np.arange(20_000) + 0.5) / 20_000)
    assert values.mean() == pytest.approx(4 * rows, rel=1e-4)
    assert np.square(values).mean() == pytest.approx(16 * rows * (rows + columns), rel=1e-4)


def test_of_square_matrices_the_singular_values_lie_on_a_quarter_circle():
    law = MarchenkoPastur(100, 100)
    singular = np.linspace(0, 20, 101)  # the radius is 2√N
    share = (singular / 2 * np.sqrt(400 - singular**2) + 200 * np.arcsin(singular / 20)) / (100 * math.pi)
    np.testing.assert_allclose(law.cdf(singular**2), share, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(400, 400), (800, 200)])
def test_noise_follows_it(rows, columns):
    matrix = np.random.default_rng(3).normal(0, 0.1, (rows, columns))
    values = np.linalg.eigvalsh(matrix.T @ matrix)
    steps = np.arange(columns) / columns
    assert np.abs(MarchenkoPastur(rows, columns, 0.1).cdf(values) - steps).max() < 3 / columns


def test_outside_the_edges_there_is_nothing():
    law = MarchenkoPastur(40, 10)
    outside = np.array([-1.0, 0.0, law.low / 2, law.high * 1.01])
    assert law.density(outside).tolist() == [0.0] * 4
    assert law.cdf(outside).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert float(MarchenkoPastur(10, 10).density(0.0)) == 0.0  # where the formula is 0/0


@pytest.mark.parametrize(("rows", "columns", "sigma"), [(3, 4, 1), (3, 0, 1), (3, 2, 0), (3, 2, math.inf)])
def test_impossible_noise_is_refused(rows, columns, sigma):
    with pytest.raises(OptionError):
        MarchenkoPastur(rows, columns, sigma)


def test_impossible_shares_are_refused():
    with pytest.raises(OptionError, match="shares"):
        MarchenkoPastur(4, 3).quantile([0.5, 1.5])


NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)


def tail_by_determinant(s: float) -> float:
    """1 − det(1 − V) with V(x, y) = ½·Ai((x + y)/2) on (s, ∞), at the nodes of a Gauss–Legendre rule."""
    half = (max(s, 0.0) + 24 - s) / 2
    points, roots = s + half * (NODES + 1), np.sqrt(half * WEIGHTS)
    kernel = airy((points[:, None] + points) / 2)[0] / 2 * np.outer(roots, roots)
    return -math.expm1(np.log1p(-np.linalg.eigvalsh(kernel)).sum())


def test_the_determinant_is_that_of_the_literature():
    # Bornemann, Markov Processes Relat. Fields 16 (2010) 803: F₁(0).
    assert 1 - tail_by_determinant(0.0) == pytest.approx(0.83190806620295, abs=1e-13)


@pytest.mark.parametrize("tail", [0.5, 0.3, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15])
def test_the_quantile_inverts_the_determinant(tail):
    s = tracy_widom_quantile(tail)
    assert tail_by_determinant(s + 2e-5) < tail < tail_by_determinant(s - 2e-5)


@pytest.mark.parametrize("tail", [0.0, 0.51, 1e-16, -1.0, math.nan])
def test_outside_its_range_it_refuses(tail):
    with pytest.raises(OptionError, match="tail probability"):
        tracy_widom_quantile(tail)
