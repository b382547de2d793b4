"""Ridge regression from moments, against least squares on all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from weightsmith.reducing.refitting.solving import Regression, ridge_solution


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("ridge", [1e-6, 1e-2])
def test_equals_least_squares_on_explicit_rows(constant: bool, ridge: float) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(2.0, 1.0, (200, 5)) @ generator.normal(size=(5, 5))
    r = x @ generator.normal(size=(5, 3)) + generator.normal(size=(200, 3)) + 4.0
    found = Regression(5, 3, constant=constant)
    for start in (0, 70, 140):  # in blocks of unequal size
        found.add(x[start : start + 70], r[start : start + 70])
    change = found.solve(ridge)
    centred, target = (x - x.mean(0), r - r.mean(0)) if constant else (x, r)
    level = np.sqrt(ridge * np.square(centred).sum() / 5)
    rows = np.concatenate([centred, level * np.eye(5)])
    slow = np.linalg.lstsq(rows, np.concatenate([target, np.zeros((5, 3))]), rcond=None)[0]
    np.testing.assert_allclose(change.weight, slow.T, rtol=1e-7, atol=1e-9)
    offset = (r - x @ slow).mean(0) if constant else np.zeros(3)
    np.testing.assert_allclose(change.bias, offset, rtol=1e-7, atol=1e-9)
    assert change.before == pytest.approx(np.square(r).sum())
    assert change.after == pytest.approx(np.square(r - x @ slow - offset).sum())


def test_inputs_that_never_vary_change_nothing() -> None:
    assert not ridge_solution(np.zeros((3, 3)), np.ones((3, 2)), 1e-4).any()


def test_nothing_to_gain_changes_nothing() -> None:
    found = Regression(4, 2, constant=True)
    found.add(np.random.default_rng(0).normal(size=(50, 4)), np.zeros((50, 2)))
    change = found.solve(1e-4)
    assert not change.weight.any()
    assert not change.bias.any()
    assert change.after == 0
