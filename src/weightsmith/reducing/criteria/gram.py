"""The Gram matrix of activation vectors, which have one entry per row of data, measured from a centre.

    G_ij = Σ_rows (h_i − c_i)(h_j − c_j)          cos ∠(i, j) = G_ij / √(G_ii · G_jj)

Angles, lengths and least-squares combinations of units follow from it, so the activations need not be in memory
at once. It is accumulated block by block and can then be read about any centre.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch, UsageError

__all__ = ["Gram", "Reading"]


_MOST_DOUBLE = 2048  # units up to which products in float64 cost little
_STRIP = 256  # rows of the matrix that are read at a time


class Gram:
    """Accumulates blocks of activations (rows, units); gives lengths, products and cosines of the centred units.

    ``centre`` is subtracted from every value; :meth:`about_mean` measures each unit from its own mean instead.
    ``precision`` of the products is float64 up to 2,048 units and float32 beyond, where 10,000 units take 0.4 GB;
    angles below 0.05° are then lost to rounding. ``mixed`` multiplies blocks in float32 and adds them up in float64:
    half the time, with a relative error near 1e-6 for any number of rows, enough for ridge regression.

    >>> gram = Gram(2, centre=0.5)
    >>> gram.add(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> gram.rows, gram.products.tolist(), gram.cosines().tolist()
    (4, [[1.0, -1.0], [-1.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]])
    """

    def __init__(self, units: int, centre: float = 0.0, precision: _Precision | None = None) -> None:
        if units < 1:
            raise UsageError(f"a Gram matrix needs at least one unit, not {units}")
        if not np.isfinite(centre):
            raise UsageError(f"centre must be a finite number, not {centre}")
        self.units = units
        self.precision: _Precision = precision or ("float64" if units <= _MOST_DOUBLE else "float32")
        self._centre: float | None = float(centre)
        self._moments = _Moments(units, self.precision)

    def add(self, block: NDArray[Any]) -> None:
        """Accumulate further rows; NaN and infinity raise with the index of the row."""
        self._moments.add(np.asarray(block))

    def about_mean(self) -> Gram:
        """The same rows, each unit measured from its own mean; shares memory with this one."""
        other = copy.copy(self)
        other._centre = None
        return other

    @property
    def rows(self) -> int:
        """The number of accumulated rows."""
        return self._moments.rows

    @property
    def sums(self) -> NDArray[np.float64]:
        """Σ h per unit, of the uncentred values."""
        return self._moments.sums

    @property
    def minima(self) -> NDArray[np.float64]:
        """The smallest uncentred value per unit."""
        return self._moments.minima

    @property
    def maxima(self) -> NDArray[np.float64]:
        """The largest uncentred value per unit."""
        return self._moments.maxima

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean value per unit."""
        if not self.rows:
            raise UsageError("no rows yet: add a block of activations first")
        return self.sums / self.rows

    @property
    def centres(self) -> NDArray[np.float64]:
        """The centre of each unit."""
        return self.means if self._centre is None else np.full(self.units, self._centre)

    @property
    def zero(self) -> NDArray[np.bool_]:
        """Units that always equal their centre: their vector has no direction."""
        steady: NDArray[np.bool_] = self.minima == self.maxima
        return steady if self._centre is None else steady & (self.minima == self._centre)

    @property
    def lengths(self) -> NDArray[np.float64]:
        """‖h − c‖ per unit."""
        return self.reading().lengths

    @property
    def products(self) -> NDArray[Any]:
        """The full matrix G."""
        reading = self.reading()
        return self._assembled((start, reading.products(start, stop)) for start, stop in reading.strips())

    def cosines(self) -> NDArray[Any]:
        """The full matrix of cosines; 0 for a unit without direction (:attr:`zero`)."""
        reading = self.reading()
        return self._assembled((start, reading.cosines(start, stop)) for start, stop in reading.strips())

    def reading(self) -> Reading:
        """A snapshot for reading the matrix strip by strip."""
        moments, means, centres = self._moments, self.means, self.centres
        root = np.sqrt(self.rows)
        far, near = root * (means - centres), root * (means - moments.origin)
        squares = np.diagonal(moments.triangle).astype(np.float64) + far * far - near * near
        # The length of a constant unit comes from its value, not from rounding residues.
        squares = np.where(self.minima == self.maxima, far * far, squares)
        lengths = np.where(self.zero, 0.0, np.sqrt(np.maximum(squares, 0.0)))
        inverses = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return Reading(moments.triangle, far, near, lengths, inverses)

    def rounded(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """Round cosines to the precision of the products, so that identical units tie."""
        return np.round(cosines, 12 if self.precision == "float64" else 6)

    def _assembled(self, strips: Iterator[tuple[int, NDArray[np.float64]]]) -> NDArray[Any]:
        matrix: NDArray[Any] = np.empty((self.units, self.units), dtype=self._moments.triangle.dtype, order="F")
        for start, strip in strips:
            matrix[start : start + len(strip), start:] = strip
            matrix[start:, start : start + len(strip)] = strip.T
        return matrix


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """Strips of a Gram matrix about its centre: units ``start`` to ``stop`` against all from ``start`` on.

    With T the products about the origin o, n rows and the means μ:  G = T + n(μ−c)(μ−c)ᵀ − n(μ−o)(μ−o)ᵀ.
    """

    triangle: NDArray[Any]
    far: NDArray[np.float64]
    near: NDArray[np.float64]
    lengths: NDArray[np.float64]
    inverses: NDArray[np.float64]

    def strips(self) -> Iterator[tuple[int, int]]:
        """(start, stop) of strips that together cover every pair once."""
        units = len(self.lengths)
        return ((start, min(start + _STRIP, units)) for start in range(0, units, _STRIP))

    def products(self, start: int, stop: int) -> NDArray[np.float64]:
        """G[start:stop, start:]."""
        strip: NDArray[np.float64] = self.triangle[start:, start:stop].T.astype(np.float64)
        if stop - start > 1:  # off the diagonal only one triangle was accumulated
            below = np.tril_indices(stop - start, -1)
            strip[below] = strip.T[below]
        strip += self.far[start:stop, None] * self.far[start:]
        strip -= self.near[start:stop, None] * self.near[start:]
        return strip

    def cosines(self, start: int, stop: int) -> NDArray[np.float64]:
        """The cosines of units ``start`` to ``stop`` with all from ``start`` on."""
        strip = self.products(start, stop)
        strip *= self.inverses[start:stop, None]
        strip *= self.inverses[start:]
        np.clip(strip, -1.0, 1.0, out=strip)
        np.fill_diagonal(strip, self.lengths[start:stop] > 0)
        return strip


# Sums and products of activations, accumulated block by block: memory does not grow with the number of rows.
#
# The products are accumulated about an origin near each unit's mean, taken from the first block, and shifted to any
# other centre when they are read (the shifted form of Chan, Golub and LeVeque, 1983). A unit with values just below 1
# then does not lose its variation to rounding, and the centre need not be known beforehand.


_Precision = Literal["float32", "float64", "mixed"]

_CHUNK = 1 << 20  # values copied at a time; too few rows per chunk would pass over the triangle too often
_LEAST_ROWS = 1024


class _Moments:
    """Σ h, the extremes, and Σ (h−o)(h−o)ᵀ about the origin o; ``triangle`` holds the lower half, by columns."""

    def __init__(self, units: int, precision: _Precision) -> None:
        self.rows = 0
        self.sums = np.zeros(units)
        self.minima = np.full(units, np.inf)
        self.maxima = np.full(units, -np.inf)
        self.origin = np.zeros(units)
        # Column-major: BLAS then updates this array in place, without a copy of 0.4 GB.
        kind = "float64" if precision == "mixed" else precision
        self.triangle: NDArray[Any] = np.zeros((units, units), dtype=kind, order="F")
        self._products = np.dtype("float32" if precision == "mixed" else kind)

    def add(self, block: NDArray[Any]) -> None:
        """Accumulate the rows of ``block`` (rows, units); a block that raises leaves the state unchanged."""
        units = len(self.sums)
        if block.ndim != 2 or block.shape[1] != units:
            raise DataMismatch(f"activations must have shape (rows, {units}), not {block.shape}")
        if block.dtype.kind not in "fiub":
            raise DataMismatch(f"activations are {block.dtype}: they must be real numbers")
        if not len(block):
            return
        minima, maxima = (extreme.astype(np.float64) for extreme in (block.min(axis=0), block.max(axis=0)))
        self._refuse_unusable(block, minima, maxima)
        sums = block.sum(axis=0, dtype=np.float64)
        if not self.rows:
            # In the precision of the array, so that the shift back is exact.
            self.origin = (sums / len(block)).astype(self._products).astype(np.float64)
        self._add_products(block)
        self.rows += len(block)
        self.sums += sums
        np.minimum(self.minima, minima, out=self.minima)
        np.maximum(self.maxima, maxima, out=self.maxima)

    def _add_products(self, block: NDArray[Any]) -> None:
        """A symmetric rank-k update of one triangle: half the work of a full product."""
        from scipy.linalg import blas

        update = blas.ssyrk if self._products == np.float32 else blas.dsyrk
        origin = self.origin.astype(self._products)
        chunk = min(len(block), max(_LEAST_ROWS, _CHUNK // len(origin)))
        moved = np.empty((chunk, len(origin)), dtype=self._products)
        for start in range(0, len(block), chunk):
            part = block[start : start + chunk]
            shifted = moved[: len(part)]
            np.subtract(part, origin, out=shifted, casting="unsafe")
            if self.triangle.dtype == self._products:
                update(1.0, shifted.T, beta=1.0, c=self.triangle, lower=1, overwrite_c=1)
            else:
                self.triangle += update(1.0, shifted.T, lower=1)

    def _refuse_unusable(self, block: NDArray[Any], minima: NDArray[Any], maxima: NDArray[Any]) -> None:
        # The extremes propagate NaN and infinity, so valid blocks are not searched.
        if not (np.isfinite(minima).all() and np.isfinite(maxima).all()):
            row, unit = np.argwhere(~np.isfinite(block))[0]
            raise DataMismatch(
                f"row {self.rows + row}: unit {unit} gives {block[row, unit]}, so no angle can be computed; "
                "check the network's weights and the data"
            )
        largest = max(np.abs(minima).max(), np.abs(maxima).max())
        bound = np.sqrt(np.finfo(self._products).max / (self.rows + len(block))) / 2
        if largest > bound:
            raise DataMismatch(
                f"activations as large as {largest:.3g} overflow products in {self._products}; scale the data"
            )
