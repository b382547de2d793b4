"""Scores of masks seen before, so that of each generation only what is new and distinct is computed.

About half of what a genetic search proposes it has proposed before (measured: 54 % in the paper's run).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError

__all__ = ["Memory", "Score"]

Score = Callable[[NDArray[np.bool_]], NDArray[np.float64]]


class Memory:
    """A score function with a memory; ``known`` maps packed masks to their scores, in the order they were met."""

    def __init__(self, score: Score, known: dict[bytes, float] | None = None) -> None:
        self._score, self.known = score, {} if known is None else known

    def __call__(self, masks: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """The scores of all rows, and the rows that had to be computed for it, in one call."""
        packed = np.packbits(masks, axis=1)
        keys: list[bytes] = packed.view(f"V{packed.shape[1]}").ravel().tolist()
        known = self.known
        fresh = {key: row for row, key in enumerate(keys) if key not in known}
        rows = np.fromiter(fresh.values(), np.intp, len(fresh))
        if fresh:
            known.update(zip(fresh, _checked(self._score(masks[rows]), len(rows)).tolist(), strict=True))
        return np.fromiter(map(known.__getitem__, keys), np.float64, len(keys)), rows


def _checked(scores: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """What a score function gave, if it is a number for each mask; −∞ is one, and means: never."""
    values = np.asarray(scores, np.float64)
    if values.shape != (count,):
        raise UsageError(f"the fitness of {count} masks must be {count} numbers, not an array of shape {values.shape}")
    if np.isnan(values).any() or np.isposinf(values).any():
        raise UsageError("the fitness of a mask is NaN or infinite: it must be a finite number, or −∞ for never")
    return values
