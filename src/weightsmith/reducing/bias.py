"""Units that need no partner to go: those that hardly vary are a constant, and a constant belongs into the bias.

The 1991 paper names two kinds: units that give the same for every row, and units with short vectors, which say little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weightsmith.reducing.decisions import Removal
from weightsmith.reducing.gram import Gram

__all__ = ["constant_units", "into_bias", "short_units"]


def constant_units(gram: Gram, share: float, *, constants: bool = True) -> list[int]:
    """Units that vary less than ``share`` of the widest, and zero vectors; the steadiest first, the later of equals.

    Without ``constants``, where a bias cannot take them, only zero vectors.

    >>> gram = Gram(3)
    >>> gram.add(np.array([[0.0, 0.2, 0.7], [1.0, 0.3, 0.7]]))
    >>> constant_units(gram, 1e-6), constant_units(gram, 0.5), constant_units(gram, 0.5, constants=False)
    ([2], [2, 1], [])
    """
    spans = gram.maxima - gram.minima
    chosen = gram.zero | (spans < share * spans.max()) if constants else gram.zero
    return _ascending(spans, chosen)


def short_units(gram: Gram, share: float, among: NDArray[np.bool_]) -> list[int]:
    """Of the units ``among``, those whose vector is shorter than ``share`` of the median; the shortest first."""
    lengths = gram.lengths
    if not share or not among.any():
        return []
    return _ascending(lengths, among & (lengths < share * np.median(lengths[among])))


def into_bias(gram: Gram, unit: int, reason: str, *, constants: bool = True) -> Removal:
    """``unit`` goes and its mean stands in for it; without ``constants``, nothing does."""
    return Removal(unit, constant=float(gram.means[unit]) if constants else 0.0, reason=reason)


def _ascending(sizes: NDArray[np.float64], chosen: NDArray[np.bool_]) -> list[int]:
    order = np.lexsort((-np.arange(len(sizes)), sizes))
    return [int(unit) for unit in order if chosen[unit]]
