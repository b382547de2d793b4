"""Ridge regression from accumulated moments: the change of a layer's weight that brings its outputs to their targets.

With rows x (what the layer multiplies by its weight W) and residuals r = target − (W x + b), the change is

    ΔW = argmin Σ ‖r − ΔW x − Δb‖² + λ ‖ΔW‖²        λ = ridge · mean diagonal of Σ x xᵀ

The penalty is on the change, not on the weight: an exact cut stays unchanged. Δb is not penalised, so x and r are
measured from their means; a layer that cannot take a constant is solved about 0, without Δb. Only the moments of (x, r)
are kept, so memory does not grow with the rows: rows in float32 are multiplied block by block and added up in float64,
which costs half the time of float64 throughout.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.reducing.criteria.gram import Gram

__all__ = ["Change", "Regression", "ridge_solution"]

Matrix = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Change:
    """ΔW (outputs × columns), Δb, and Σ‖r‖² before and after the change."""

    weight: Matrix
    bias: Matrix
    before: float
    after: float


class Regression:
    """Accumulates rows and residuals; gives the change of weight and bias.

    >>> found = Regression(1, 1, constant=True)
    >>> found.add(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]]))
    >>> change = found.solve(1e-9)
    >>> change.weight.round(6).tolist(), change.bias.round(6).tolist(), change.before, round(change.after, 6)
    ([[2.0]], [1.0], 35.0, 0.0)
    """

    def __init__(
        self, columns: int, outputs: int, *, constant: bool, precision: Literal["float64", "mixed"] = "float64"
    ) -> None:
        self.columns, self.outputs, self.constant = columns, outputs, constant
        self._moments = Gram(columns + outputs, precision=precision)
        self._squares = 0.0

    def add(self, rows: NDArray[np.floating[Any]], residuals: NDArray[np.floating[Any]]) -> None:
        """Add rows (rows × columns) with their residuals (rows × outputs)."""
        self._moments.add(np.concatenate([rows, residuals], axis=1))
        self._squares += float(np.square(residuals, dtype=np.float64).sum())

    def solve(self, ridge: float) -> Change:
        """The change that minimises the squared residuals under the penalty."""
        moments = self._moments.about_mean() if self.constant else self._moments
        products, split = moments.products, self.columns
        gram, cross = products[:split, :split], products[:split, split:]
        weight = ridge_solution(gram, cross, ridge)
        means = self._moments.means if self.constant else np.zeros(self.columns + self.outputs)
        left = np.trace(products[split:, split:]) - 2 * np.sum(weight * cross) + np.sum(weight * (gram @ weight))
        return Change(weight.T, means[split:] - means[:split] @ weight, self._squares, max(0.0, float(left)))


def ridge_solution(gram: Matrix, cross: Matrix, ridge: float) -> Matrix:
    """(G + λI)⁻¹ C with λ = ridge · mean diagonal of G; 0 where no input ever varies."""
    from scipy.linalg import cho_factor, cho_solve

    level = float(np.trace(gram)) / len(gram)
    if not level > 0:
        return np.zeros_like(cross)
    solved: Matrix = cho_solve(cho_factor(gram + ridge * level * np.eye(len(gram))), cross)
    return solved
