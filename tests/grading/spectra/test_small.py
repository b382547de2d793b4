"""The compiled eigenvalues of small matrices against LAPACK's and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.grading.spectra import small as _eigen
from weightsmith.grading.spectra.small import eigenvalues_of_stack

EPS = float(np.finfo(np.float64).eps)


def rotated(values: np.ndarray, seed: int) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2


def found_values(stack: np.ndarray) -> np.ndarray:
    values, found = eigenvalues_of_stack(stack.copy())
    assert found
    assert values.shape == stack.shape[:2]
    assert np.all(np.diff(values, axis=1) >= 0)
    return values


def assert_near(values: np.ndarray, expected: np.ndarray) -> None:
    """Both exact to a few n·ε·λ_max, in every row by its own largest value."""
    limits = 4 * values.shape[-1] * EPS * np.abs(expected).max(axis=-1, keepdims=True)
    assert np.all(np.abs(values - expected) <= limits)


SHAPES = {
    "zero": lambda n, _: np.zeros(n),
    "identity": lambda n, _: np.ones(n),
    "repeated": lambda n, rng: rng.integers(0, 3, n).astype(float),
    "graded": lambda n, _: 10.0 ** -np.linspace(0, 20, n),
    "rank one": lambda n, _: np.arange(n) == n - 1,
    "rank deficient": lambda n, rng: np.where(np.arange(n) % 3, rng.uniform(1, 2, n), 0.0),
    "clustered": lambda n, rng: 1 + 1e-14 * rng.normal(size=n),
    "both signs": lambda n, rng: rng.normal(size=n),
}


@settings(deadline=None)  # the first call compiles
@given(
    st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=9),
    st.integers(1, 24),
    st.lists(st.integers(-290, 290), min_size=1, max_size=9),
    st.integers(0, 2**32 - 1),
)
def test_the_planted_eigenvalues_are_found_in_every_lane(names, n, powers, seed):
    rng = np.random.default_rng(seed)
    planted = np.stack([np.asarray(SHAPES[name](n, rng), np.float64) for name in names])
    scales = np.resize(10.0 ** np.array(powers, np.float64), len(names))[:, None]
    stack = np.stack([rotated(row, seed) for row in planted]) * scales[:, :, None]
    values = found_values(stack)
    assert_near(values / scales, np.linalg.eigvalsh(stack / scales[:, :, None]))
    assert_near(values / scales, np.sort(planted, axis=1))


@pytest.mark.parametrize(("count", "n"), [(1, 1), (1, 2), (5, 1), (3, 2), (1, 33), (49, 64), (2, 128)])
def test_gram_matrices_against_lapack(count, n):
    weights = np.random.default_rng(n).standard_t(3, size=(count, 2 * n, n))
    stack = weights.transpose(0, 2, 1) @ weights
    assert_near(found_values(stack), np.linalg.eigvalsh(stack))


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_the_second_difference(n):
    """Tridiagonal already; its eigenvalues are 2 − 2 cos(kπ/(n + 1))."""
    matrix = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    exact = 2 - 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))
    assert_near(found_values(matrix[None]), exact[None])


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_all_ones(n):
    exact = np.zeros(n)
    exact[-1] = n
    assert_near(found_values(np.ones((1, n, n))), exact[None])


def test_diagonal_matrices_are_only_sorted():
    diagonals = np.random.default_rng(0).integers(-9, 9, size=(4, 7)).astype(float)
    stack = np.stack([np.diag(row) for row in diagonals])
    # Each lane is divided by its largest element and multiplied by it again.
    np.testing.assert_allclose(found_values(stack), np.sort(diagonals, axis=1), rtol=EPS)


def test_the_zero_matrix_has_exact_zeros():
    assert np.array_equal(found_values(np.zeros((2, 5, 5))), np.zeros((2, 5)))


def test_a_lane_does_not_depend_on_its_neighbours():
    weights = np.random.default_rng(1).normal(size=(6, 20, 12))
    stack = weights.transpose(0, 2, 1) @ weights
    stack[3] = 0.0
    stack[4] *= 1e120
    together = found_values(stack)
    assert all(np.array_equal(together[i], found_values(stack[i : i + 1])[0]) for i in range(len(stack)))


def test_what_is_not_a_number_is_not_found():
    stack = np.stack([np.eye(4), np.ones((4, 4))])
    stack[1, 0, 1] = stack[1, 1, 0] = np.nan
    _, found = eigenvalues_of_stack(stack)
    assert not found


def test_too_few_sweeps_are_reported(monkeypatch):
    """The interpreted version with no sweeps at all: a matrix that needs one is not found, a diagonal one is."""
    monkeypatch.setattr(_eigen, "_MOST_SWEEPS", 0)
    interpreted = eigenvalues_of_stack.py_func
    assert not interpreted(np.ones((1, 3, 3)))[1]
    assert interpreted(np.eye(3)[None].copy())[1]
