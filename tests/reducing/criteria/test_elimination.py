"""Backward elimination, against explicit refits of every subset."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from weightsmith.reducing.criteria.elimination import ReaderProblem, eliminate


def _problem(seed: int, units: int = 5, width: int = 2, outputs: int = 3) -> tuple[ReaderProblem, np.ndarray]:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(60, units * width)) @ generator.normal(size=(units * width, units * width))
    weight = generator.normal(size=(units * width, outputs))
    columns = generator.permutation(units * width).reshape(units, width)
    return ReaderProblem(rows.T @ rows / len(rows), weight, columns), rows


def _slow_error(problem: ReaderProblem, kept: tuple[int, ...], ridge: float) -> tuple[float, np.ndarray]:
    """The penalised error of an explicit refit of the kept columns, towards the outputs of all."""
    columns = problem.columns[list(kept)].reshape(-1)
    size = len(problem.gram)
    penalised = problem.gram + ridge * np.trace(problem.gram) / size * np.eye(size)
    gone = np.setdiff1d(np.arange(size), columns)
    change = np.zeros_like(problem.weight)
    change[gone] = -problem.weight[gone]
    inner = penalised[np.ix_(columns, columns)]
    change[columns] = np.linalg.solve(inner, -penalised[np.ix_(columns, gone)] @ change[gone])
    return float(np.sum(change * (penalised @ change))) / problem.energy, problem.weight + change


@pytest.mark.parametrize("seed", range(4))
def test_each_step_takes_the_cheapest_and_costs_what_a_refit_says(seed: int) -> None:
    problem, _ = _problem(seed)
    found = eliminate([problem], 1e-3, at=range(1, 5))
    kept = set(range(5))
    for unit, error in zip(found.order, found.errors, strict=True):
        costs = {other: _slow_error(problem, tuple(kept - {other}), 1e-3)[0] for other in kept}
        assert unit == min(costs, key=lambda other: costs[other])
        kept -= {unit}
        slow, weight = _slow_error(problem, tuple(kept), 1e-3)
        assert error == pytest.approx(slow)
        np.testing.assert_allclose(found.weights[len(kept)][0], weight, rtol=1e-7, atol=1e-9)
        gone = found.order[: 5 - len(kept)]
        np.testing.assert_allclose(problem.without(gone, 1e-3), weight, rtol=1e-7, atol=1e-9)


def test_several_readers_count_together() -> None:
    first, second = _problem(0)[0], _problem(1)[0]
    found = eliminate([first, second], 1e-3, keep=4)
    both = {
        unit: sum(_slow_error(each, tuple(set(range(5)) - {unit}), 1e-3)[0] for each in (first, second))
        for unit in range(5)
    }
    assert found.order == (min(both, key=lambda unit: both[unit]),)


def test_a_metric_weighs_the_outputs() -> None:
    problem, _ = _problem(2, width=1)
    root = np.random.default_rng(3).normal(size=(3, 3))
    weighed = ReaderProblem(problem.gram, problem.weight, problem.columns, root @ root.T)
    turned = ReaderProblem(problem.gram, problem.weight @ root, problem.columns)
    assert weighed.energy == pytest.approx(turned.energy)
    first, second = eliminate([weighed], 1e-3), eliminate([turned], 1e-3)
    assert first.order == second.order
    np.testing.assert_allclose(first.errors, second.errors)


def test_columns_of_no_unit_are_refitted_and_stay() -> None:
    whole, _ = _problem(4)
    part = ReaderProblem(whole.gram, whole.weight, whole.columns[:3])
    found = eliminate([part], 1e-3, at=[1])
    assert set(found.order) < {0, 1, 2}
    left = found.weights[1][0]
    assert np.abs(left[whole.columns[3:].reshape(-1)]).min() > 0
    assert not left[whole.columns[list(found.order)].reshape(-1)].any()


def test_greedy_is_near_the_best_subset() -> None:
    problem, _ = _problem(5)
    found = eliminate([problem], 1e-3, keep=2)
    best = min(_slow_error(problem, kept, 1e-3)[0] for kept in itertools.combinations(range(5), 2))
    assert best <= found.errors[-1] <= 1.5 * best


def test_twins_go_first_and_cost_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4))
    rows[:, 3] = rows[:, 1]
    found = eliminate([ReaderProblem(rows.T @ rows, np.ones((4, 2)), np.arange(4)[:, None])], 1e-9)
    assert found.order[0] == 3
    assert found.errors[0] == pytest.approx(0, abs=1e-6)
