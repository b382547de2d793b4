"""Units that are removed without a partner: nearly constant ones, whose mean goes into the bias, and short ones.

The 1991 paper names both kinds: units with the same output on every row, and units with short activation vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.decisions import Removal

__all__ = ["constant_units", "into_bias", "least_kept", "short_units"]


def constant_units(gram: Gram, share: float, *, constants: bool = True) -> list[int]:
    """Units whose range is below ``share`` of the widest, and zero vectors; smallest range first, ties by later index.

    Without ``constants`` (no bias can absorb them), only zero vectors.

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
    """Remove ``unit`` and replace it by its mean; without ``constants``, by nothing."""
    return Removal(unit, constant=float(gram.means[unit]) if constants else 0.0, reason=reason)


def _ascending(sizes: NDArray[np.float64], chosen: NDArray[np.bool_]) -> list[int]:
    order = np.lexsort((-np.arange(len(sizes)), sizes))
    return [int(unit) for unit in order if chosen[unit]]


# The lower bound of the units that a method based on a Gram matrix may leave.


def least_kept(site: str, units: int, gram: Gram, keep: int | None) -> int:
    """``keep``, or 1 without a target; counts that the site cannot have raise."""
    if gram.units != units:
        raise UsageError(f"{site}: has {units} units, but angles of {gram.units}")
    if keep is not None and not 1 <= keep <= units:
        raise UsageError(f"{site}: can keep 1 to {units} units, not {keep}")
    return keep or 1
