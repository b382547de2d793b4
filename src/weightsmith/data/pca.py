"""Principal components, fitted on some rows and applied to any.

    x − mean = U S Vᵀ over the rows given;  scores of a row = (row − mean) V,  the first ``count`` columns

The sign of a direction is the machine's choice; here the entry of largest size in each is positive, so that the same
rows give the same scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import pinned_threads

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Principal", "principal"]


class Principal(NamedTuple):
    """Directions ``(count, features)`` of largest variance about ``mean``, and the share of the variance in each."""

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]
    shares: NDArray[np.float64]

    def scores(self, x: ArrayLike) -> NDArray[np.float64]:
        """Rows ``(n, features)`` seen along the directions: ``(n, count)``."""
        with pinned_threads():
            scores: NDArray[np.float64] = (np.asarray(x, np.float64) - self.mean) @ self.directions.T
        return scores


def principal(x: ArrayLike, count: int, what: str = "data") -> Principal:
    """The ``count`` principal components of the rows ``x``; ``what`` names them in errors.

    >>> fit = principal([[0, 0], [1, 2], [2, 4]], 1)
    >>> fit.directions.round(3), fit.shares
    (array([[0.447, 0.894]]), array([1.]))
    """
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or not len(rows):
        raise UsageError(f"{what}: components need rows (n, features), not {rows.shape}")
    mean = rows.mean(axis=0)
    with pinned_threads():
        _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
    # NumPy's own rule for the rank, scaled by the rows themselves, so that equal rows have none.
    rank = int((sizes > max(rows.shape) * np.finfo(np.float64).eps * np.abs(rows).max(initial=0)).sum())
    if not 0 <= count <= rank:
        raise UsageError(
            f"{what}: {count} components were asked for, but the {len(rows)} training rows vary in {rank} directions"
        )
    chosen = directions[:count]
    largest = np.abs(chosen).argmax(axis=1)
    signs = np.sign(chosen[np.arange(count), largest])
    variances = sizes**2
    return Principal(mean, chosen * signs[:, None], variances[:count] / (variances.sum() or 1))
