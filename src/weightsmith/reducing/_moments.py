"""Sums and products of activations, gathered block by block: memory does not grow with the number of rows.

The products are gathered about an origin near each unit's mean, taken from the first block, and moved to any other
centre when they are read. A unit that hovers just below 1 would otherwise lose what it tells in rounding (the shifted
form of Chan, Golub and LeVeque, 1983), and the centre need not be known beforehand.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch

__all__ = ["Moments", "Precision"]

Precision = Literal["float32", "float64"]

_CHUNK = 1 << 20  # numbers copied at a time; a few rows at least, or the triangle is walked too often
_LEAST_ROWS = 1024


class Moments:
    """Σ h, the extremes, and Σ (h−o)(h−o)ᵀ about the origin o; ``triangle`` holds the lower half, by columns."""

    def __init__(self, units: int, precision: Precision) -> None:
        self.rows = 0
        self.sums = np.zeros(units)
        self.minima = np.full(units, np.inf)
        self.maxima = np.full(units, -np.inf)
        self.origin = np.zeros(units)
        # Columns lie in one piece: BLAS then updates this very array, and no copy of 0.4 GB is made on the way.
        self.triangle: NDArray[Any] = np.zeros((units, units), dtype=precision, order="F")

    def add(self, block: NDArray[Any]) -> None:
        """Gather the rows of ``block`` (rows, units); one that is refused leaves everything as it was."""
        units = len(self.sums)
        if block.ndim != 2 or block.shape[1] != units:
            raise DataMismatch(f"activations of shape {block.shape} given where (rows, {units}) are gathered")
        if block.dtype.kind not in "fiub":
            raise DataMismatch(f"activations are {block.dtype}: they must be real numbers")
        if not len(block):
            return
        minima, maxima = (extreme.astype(np.float64) for extreme in (block.min(axis=0), block.max(axis=0)))
        self._refuse_unusable(block, minima, maxima)
        sums = block.sum(axis=0, dtype=np.float64)
        if not self.rows:
            # As the array holds it, so that moving back later is exact.
            self.origin = (sums / len(block)).astype(self.triangle.dtype).astype(np.float64)
        self._add_products(block)
        self.rows += len(block)
        self.sums += sums
        np.minimum(self.minima, minima, out=self.minima)
        np.maximum(self.maxima, maxima, out=self.maxima)

    def _add_products(self, block: NDArray[Any]) -> None:
        """Half the work of a full product: a symmetric rank-k update of one triangle."""
        from scipy.linalg import blas

        update = blas.ssyrk if self.triangle.dtype == np.float32 else blas.dsyrk
        origin = self.origin.astype(self.triangle.dtype)
        chunk = min(len(block), max(_LEAST_ROWS, _CHUNK // len(origin)))
        moved = np.empty((chunk, len(origin)), dtype=self.triangle.dtype)
        for start in range(0, len(block), chunk):
            part = block[start : start + chunk]
            shifted = moved[: len(part)]
            np.subtract(part, origin, out=shifted, casting="unsafe")
            update(1.0, shifted.T, beta=1.0, c=self.triangle, lower=1, overwrite_c=1)

    def _refuse_unusable(self, block: NDArray[Any], minima: NDArray[Any], maxima: NDArray[Any]) -> None:
        # The extremes carry NaN and infinity along, so sound blocks are not searched.
        if not (np.isfinite(minima).all() and np.isfinite(maxima).all()):
            row, unit = np.argwhere(~np.isfinite(block))[0]
            raise DataMismatch(
                f"row {self.rows + row}: unit {unit} gives {block[row, unit]}, so no angle can be computed; "
                "look at the network's weights and at the data"
            )
        largest = max(np.abs(minima).max(), np.abs(maxima).max())
        bound = np.sqrt(np.finfo(self.triangle.dtype).max / (self.rows + len(block))) / 2
        if largest > bound:
            raise DataMismatch(
                f"activations as large as {largest:.3g} overflow products in {self.triangle.dtype}; scale the data"
            )
