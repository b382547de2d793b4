from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from weightsmith.core.errors import UsageError
from weightsmith.data.pca import principal


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(6, 30), st.integers(6, 40))
def test_components_are_those_of_another_implementation(seed, rows, features):
    x = np.random.default_rng(seed).normal(size=(rows, features)) * np.geomspace(1, 100, features)
    other = PCA(4, svd_solver="full").fit(x)
    fit = principal(x, 4)
    assert np.allclose(np.abs(fit.scores(x)), np.abs(other.transform(x)), atol=1e-6)
    assert np.allclose(fit.shares, other.explained_variance_ratio_)
    assert np.allclose(fit.directions @ fit.directions.T, np.eye(4))
    for direction in fit.directions:
        assert direction[np.abs(direction).argmax()] > 0


def test_new_rows_are_seen_from_the_old_mean():
    fit = principal([[0, 0], [2, 0]], 1)
    assert fit.scores([[5, 9]]).tolist() == [[4]]


def test_the_order_of_rows_does_not_turn_the_signs():
    x = np.random.default_rng(3).normal(size=(20, 50))
    assert np.allclose(principal(x, 5).directions, principal(x[::-1], 5).directions)


def test_no_more_components_than_the_rows_have():
    x = np.random.default_rng(0).normal(size=(4, 9))
    assert principal(x, 3).directions.shape == (3, 9)
    with pytest.raises(UsageError, match="LPQ: 4 components were asked for, but the 4 training rows vary in 3"):
        principal(x, 4, "LPQ")
    with pytest.raises(UsageError, match="vary in 0 directions"):
        principal(np.full((8, 5), 0.1), 1)
    with pytest.raises(UsageError, match="vary in 1 directions"):
        principal(np.outer([1, 2, 3, 4, 5], np.full(7, 0.3)), 2)
    with pytest.raises(UsageError, match="-1 components"):
        principal(x, -1)
    with pytest.raises(UsageError, match=r"not \(0,\)"):
        principal([], 1)
    assert principal(x, 0).scores(x).shape == (4, 0)
