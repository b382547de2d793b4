"""Backward elimination: which units their readers can do without, if the readers are refitted afterwards.

A reader computes X V from its input rows X (one block J of columns for each unit). Removing a unit and refitting the
others under a ridge penalty on the change costs, with H = XᵀX/n + λI and P = H⁻¹ (the optimal brain surgeon, Hassibi
and Stork 1993, for blocks),

    cost(J) = tr( V_Jᵀ (P_JJ)⁻¹ V_J )

The cheapest unit is removed, and the rest is updated as if refitted:

    V ← V − P_:J (P_JJ)⁻¹ V_J        P ← P − P_:J (P_JJ)⁻¹ P_J:

Costs of several readers are added, each as a share of the variance of its outputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Elimination", "ReaderProblem", "eliminate", "removal_cost"]

Matrix = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class ReaderProblem:
    """One reader: mean products of its input columns, its weight (columns × outputs), and the columns of each unit.

    Errors E of the outputs count as tr(Eᵀ E M) with the ``metric`` M (None: the identity).
    """

    gram: Matrix
    weight: Matrix
    columns: NDArray[np.int64]
    metric: Matrix | None = None

    @property
    def energy(self) -> float:
        """The variance of the outputs, which errors are divided by."""
        outputs = self.weight if self.metric is None else self.weight @ self.metric
        return float(np.sum(outputs * (self.gram @ self.weight)))

    def penalised(self, ridge: float) -> Matrix:
        """H = G + λI with λ = ridge · mean diagonal of G."""
        level = float(np.trace(self.gram)) / len(self.gram)
        found: Matrix = self.gram + (ridge * level if level > 0 else 1.0) * np.eye(len(self.gram))
        return found

    def without(self, gone: Sequence[int], ridge: float) -> Matrix:
        """The weight refitted without these units: V_K + (H_KK)⁻¹ H_KJ V_J for the columns K kept, 0 for the others, J.

        The same as the result of elimination in any order, in a fraction of the time.

        >>> rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [2.0, 1.0, 2.0]])
        >>> ReaderProblem(rows.T @ rows, np.ones((3, 1)), np.arange(3)[:, None]).without([2], 1e-9).round(6).tolist()
        [[2.0], [1.0], [0.0]]
        """
        from scipy.linalg import cho_factor, cho_solve

        lost = self.columns[list(gone)].reshape(-1)
        left = np.setdiff1d(np.arange(len(self.gram)), lost)
        matrix, found = self.penalised(ridge), np.zeros_like(self.weight)
        moved = matrix[np.ix_(left, lost)] @ self.weight[lost]
        found[left] = self.weight[left] + cho_solve(cho_factor(matrix[np.ix_(left, left)]), moved)
        return found


@dataclasses.dataclass(frozen=True)
class Elimination:
    """Units in the order of their removal, the error after each, and at some counts the refitted weight of each reader.

    ``weights[kept]`` has a matrix (columns × outputs) for each reader, zero for the columns of removed units.
    """

    order: tuple[int, ...]
    errors: tuple[float, ...]
    weights: dict[int, tuple[Matrix, ...]]


class _Reader:
    """The state of one reader: P and V with the columns sorted by unit; those of removed units are zero."""

    def __init__(self, problem: ReaderProblem, ridge: float) -> None:
        self.units, self.width = problem.columns.shape
        own = problem.columns.reshape(-1)
        # Columns that belong to no unit of the site are refitted with the others, but never removed.
        self._order = np.concatenate([own, np.setdiff1d(np.arange(len(problem.gram)), own)])
        self.inverse = np.linalg.inv(problem.penalised(ridge)[np.ix_(self._order, self._order)])
        self.weight = problem.weight[self._order]
        self.metric = problem.metric
        self.energy = problem.energy

    def costs(self, active: NDArray[np.int64]) -> Matrix:
        """The cost of removing each active unit next, as a share of the variance of the outputs."""
        size = self.units * self.width
        inverse = self.inverse[:size, :size].reshape(self.units, self.width, self.units, self.width)
        blocks = inverse[active, :, active, :]
        own = self.weight[:size].reshape(self.units, self.width, -1)[active]
        weighed = own if self.metric is None else own @ self.metric
        products = weighed * np.linalg.solve(blocks, own)
        found: Matrix = products.sum(axis=(1, 2)) / (self.energy if self.energy > 0 else 1.0)
        return found

    def cost_of_all(self, gone: NDArray[np.int64]) -> float:
        """The cost of removing all these units at once, as a share of the variance of the outputs."""
        rows = (gone[:, None] * self.width + np.arange(self.width)).reshape(-1)
        own = self.weight[rows]
        weighed = own if self.metric is None else own @ self.metric
        solved = np.linalg.solve(self.inverse[np.ix_(rows, rows)], own)
        return float(np.sum(weighed * solved)) / (self.energy if self.energy > 0 else 1.0)

    def remove(self, unit: int) -> None:
        """Remove the unit, and update the rest."""
        part, size = slice(unit * self.width, (unit + 1) * self.width), len(self.inverse)
        across = self.inverse[:, part].copy()
        factor = np.linalg.solve(self.inverse[part, part], np.concatenate([across.T, self.weight[part]], axis=1))
        self.weight -= across @ factor[:, size:]
        self.inverse -= across @ factor[:, :size]
        self.weight[part], self.inverse[part], self.inverse[:, part] = 0.0, 0.0, 0.0

    def current(self) -> Matrix:
        """The refitted weight, its columns in their own order."""
        found: Matrix = np.empty_like(self.weight)
        found[self._order] = self.weight
        return found


def eliminate(
    problems: Sequence[ReaderProblem], ridge: float, *, keep: int = 1, at: Collection[int] = ()
) -> Elimination:
    """Remove the cheapest unit, ties the later one, until ``keep`` are left; store the weights at the counts ``at``.

    >>> rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [2.0, 1.0, 2.0]])
    >>> found = eliminate([ReaderProblem(rows.T @ rows, np.ones((3, 1)), np.arange(3)[:, None])], 1e-9, at=[2])
    >>> found.order, found.weights[2][0].round(6).tolist()
    ((2, 1), [[2.0], [1.0], [0.0]])
    """
    readers = [_Reader(problem, ridge) for problem in problems]
    active = np.arange(len(problems[0].columns))
    order: list[int] = []
    errors: list[float] = []
    weights: dict[int, tuple[Matrix, ...]] = {}
    total = 0.0
    while len(active) > keep:
        costs = np.sum([reader.costs(active) for reader in readers], axis=0)
        near = costs.min() + 1e-12 * max(1.0, float(costs.max()))
        cheapest = int(np.flatnonzero(costs <= near)[-1])
        for reader in readers:
            reader.remove(int(active[cheapest]))
        total += max(0.0, float(costs[cheapest]))
        order.append(int(active[cheapest]))
        errors.append(total)
        active = np.delete(active, cheapest)
        if len(active) in at:
            weights[len(active)] = tuple(reader.current() for reader in readers)
    return Elimination(tuple(order), tuple(errors), weights)


def removal_cost(problems: Sequence[ReaderProblem], ridge: float) -> Callable[[NDArray[np.int64]], float]:
    """A function from any set of units to the error of the readers without them, once refitted.

    >>> rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [2.0, 1.0, 2.0]])
    >>> cost = removal_cost([ReaderProblem(rows.T @ rows, np.ones((3, 1)), np.arange(3)[:, None])], 1e-9)
    >>> round(cost(np.array([2])), 6), cost(np.array([0, 2])) > 0.1
    (0.0, True)
    """
    readers = [_Reader(problem, ridge) for problem in problems]
    return lambda gone: sum(reader.cost_of_all(gone) for reader in readers) if len(gone) else 0.0
