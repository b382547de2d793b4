"""The eigenvalues by way of a band matrix against LAPACK's, against closed forms, and where matrices are odd."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg.lapack
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.grading.spectra import large as _twostage
from weightsmith.grading.spectra.large import eigenvalues_of

BAND = _twostage._BAND
# One block, the first panel with nothing and with one row to clear, the same at the second, and sizes with a rest.
SIZES = [1, 2, 3, BAND - 1, BAND, BAND + 1, BAND + 2, BAND + 3, 2 * BAND, 2 * BAND + 1, 2 * BAND + 2, 130, 193, 401]


def upper(matrix: np.ndarray, dtype: str = "float64") -> np.ndarray:
    """As BLAS leaves a Gram matrix, and worse: what is below the diagonal must not be looked at."""
    gram = np.array(matrix, dtype, order="F")
    gram[np.tril_indices(len(gram), -1)] = np.nan
    return gram


def gaussian_gram(n: int, seed: int = 0, rows: int | None = None) -> np.ndarray:
    weights = np.random.default_rng(seed).normal(size=(rows or 2 * n, n))
    return weights.T @ weights


def rotated(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return (basis * values) @ basis.T


def assert_near(found: np.ndarray, expected: np.ndarray, dtype: str = "float64") -> None:
    """Exact to two n·ε·λ_max."""
    assert found.dtype == np.float64
    assert np.all(np.diff(found) >= 0)
    limit = 2 * len(expected) * float(np.finfo(dtype).eps) * np.abs(expected).max()
    assert np.abs(found - np.sort(expected)).max() <= limit


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", SIZES)
def test_every_size_agrees_with_lapack(n, dtype):
    gram = gaussian_gram(n, seed=n).astype(dtype)
    assert_near(eigenvalues_of(upper(gram, dtype)), np.linalg.eigvalsh(gram.astype(np.float64)), dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_heavy_tails_at_a_real_size(dtype):
    weights = np.random.default_rng(5).standard_t(2, size=(900, 700))
    gram = (weights.T @ weights).astype(dtype)
    assert_near(eigenvalues_of(upper(gram, dtype)), np.linalg.eigvalsh(gram.astype(np.float64)), dtype)


@pytest.mark.parametrize("n", [2, 60, 300])
def test_the_smaller_of_two_indices(n):
    """The covariance of a random walk, min(i, j): a full matrix with eigenvalues 1 / (4 sin²((2k − 1)π / (4n + 2)))."""
    index = np.arange(1, n + 1)
    exact = 1 / (4 * np.sin((2 * index - 1) * np.pi / (4 * n + 2)) ** 2)
    assert_near(eigenvalues_of(upper(np.minimum.outer(index, index))), exact)


@pytest.mark.parametrize("n", [2, 60, 300])
def test_the_second_difference(n):
    """Tridiagonal from the start, eigenvalues 2 − 2 cos(kπ/(n + 1)): there is nothing to clear in any panel."""
    matrix = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    assert_near(eigenvalues_of(upper(matrix)), 2 - 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1)))


def test_a_diagonal_matrix_is_only_sorted():
    values = np.random.default_rng(0).integers(0, 50, 170).astype(float)
    assert np.array_equal(eigenvalues_of(upper(np.diag(values))), np.sort(values))


def test_the_zero_matrix_has_exact_zeros():
    assert np.array_equal(eigenvalues_of(upper(np.zeros((130, 130)))), np.zeros(130))


@pytest.mark.parametrize("n", [1, 49, 200])
def test_all_ones(n):
    assert_near(eigenvalues_of(upper(np.ones((n, n)))), np.r_[np.zeros(n - 1), n])


SHAPES = {
    "ones": lambda n, _: np.ones(n),
    "repeated": lambda n, rng: rng.integers(0, 3, n).astype(float),
    "graded": lambda n, _: 10.0 ** -np.linspace(0, 40, n),
    "rank one": lambda n, _: (np.arange(n) == 0).astype(float),
    "rank deficient": lambda n, rng: np.where(np.arange(n) % 3, 0.0, rng.uniform(1, 2, n)),
    "clustered": lambda n, rng: 1 + 1e-14 * rng.normal(size=n),
    "one far out": lambda n, rng: np.r_[1e12, rng.uniform(0, 1, n - 1)],
}


@settings(max_examples=60, deadline=None)  # the first call compiles
@given(st.sampled_from(sorted(SHAPES)), st.integers(1, 170), st.integers(-300, 300), st.integers(0, 2**32 - 1))
def test_planted_eigenvalues_of_any_scale(shape, n, power, seed):
    planted = SHAPES[shape](n, np.random.default_rng(seed)) * 10.0 ** (power - 12 if power > 0 else power)
    found = eigenvalues_of(upper(rotated(planted, seed)))
    scale = planted.max() or 1.0  # "repeated" may be zero throughout
    assert_near(found / scale, planted / scale)


@settings(max_examples=40, deadline=None)  # the first call compiles
@given(st.sampled_from(["float64", "float32"]), st.integers(1, 170), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_columns_of_very_different_size(dtype, n, seed, dead):
    """Weights that have all but died: squares of their products are far below the smallest number."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n + 5, n)) * np.where(rng.random(n) < dead, 10.0 ** rng.uniform(-180, 0, n), 1.0)
    gram = (weights.T @ weights).astype(dtype)
    assert_near(eigenvalues_of(upper(gram, dtype)), np.linalg.eigvalsh(gram.astype(np.float64)), dtype)


def test_blocks_that_do_not_touch():
    """Panels that are zero beyond the diagonal block, and bands that end in the middle."""
    left, right = gaussian_gram(70, seed=1), gaussian_gram(90, seed=2)
    gram = np.zeros((160, 160))
    gram[:70, :70], gram[70:, 70:] = left, right
    assert_near(eigenvalues_of(upper(gram)), np.r_[np.linalg.eigvalsh(left), np.linalg.eigvalsh(right)])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_same_bits_each_time(dtype):
    gram = gaussian_gram(260, rows=200)
    assert np.array_equal(eigenvalues_of(upper(gram, dtype)), eigenvalues_of(upper(gram, dtype)))


def test_a_power_of_two_changes_nothing_but_the_scale():
    gram = gaussian_gram(150)
    expected = np.ldexp(eigenvalues_of(upper(gram)), 700)
    assert np.array_equal(eigenvalues_of(upper(np.ldexp(gram, 700))), expected)


def test_eigenvalues_that_do_not_converge_are_an_error(monkeypatch):
    monkeypatch.setattr(scipy.linalg.lapack, "dsterf", lambda diagonal, beside: (diagonal, 3))
    with pytest.raises(np.linalg.LinAlgError, match="3 of the 60 eigenvalues"):
        eigenvalues_of(upper(gaussian_gram(60)))
