"""Pyramid of histograms of oriented gradients (Bosch, Zisserman & Munoz 2007): which edges run where, coarse to fine.

    level l divides the image into 2^l × 2^l cells, l = 0 … L
    each cell has a histogram of the directions of the gradient at its edge pixels, weighted by the gradient's size
    all histograms, level by level, in one vector that sums to 1:  K (1 + 4 + … + 4^L) values for K bins

Edges are Canny's (:mod:`weightsmith.data.edges`), gradients are 3×3 Sobel of the unsmoothed image. Directions are
counted anticlockwise as seen, from the right: bin k holds [k, k + 1) · 360°/K. Each pixel goes into one bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weightsmith.core.options import param
from weightsmith.data.descriptors import Descriptor, grey_image, part_of
from weightsmith.data.edges import canny, sobel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["PHOG"]

_ROUNDING = 1e-9  # a direction on the border of two bins belongs to the upper one, whatever the last bit says


class PHOG(Descriptor, name="phog"):
    """Pyramid of histograms of oriented gradients.

    >>> PHOG().length
    5456
    >>> ramp = np.tile(np.arange(32), (32, 1))              # grows to the right: direction 0°
    >>> PHOG(levels=0, bins=4, edges=False)(ramp).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    levels: int = param(default=4, ge=0, le=8, doc="L: the finest level has 2^L × 2^L cells")
    bins: int = param(default=16, ge=1, le=360, doc="K: directions told apart")
    signed: bool = param(default=True, doc="0–360°; false: 0–180°, dark-to-light and light-to-dark are the same")
    edges: bool = param(default=True, doc="only edge pixels count; false: every pixel by its gradient")

    @property
    def length(self) -> int:
        """K values for each cell of each level."""
        return self.bins * sum(1 << 2 * level for level in range(self.levels + 1))

    @property
    def least_size(self) -> int:
        """A pixel in every cell of the finest level, and a 3×3 neighbourhood."""
        return max(3, 1 << self.levels)

    def __call__(self, image: ArrayLike) -> NDArray[np.float32]:
        """The pyramid, cells in reading order; all zero, and so summing to 0, if the image has no edge at all."""
        pixels = grey_image(image, self.least_size, self)
        finest = self._finest(pixels)
        side = 2**self.levels
        pyramid = [finest]
        while side > 1:
            side //= 2
            pyramid.append(pyramid[-1].reshape(side, 2, side, 2, self.bins).sum(axis=(1, 3)))
        vector = np.concatenate([level.ravel() for level in reversed(pyramid)])
        total = vector.sum()
        return (vector / total if total > 0 else vector).astype(np.float32)

    def _finest(self, pixels: NDArray[np.float64]) -> NDArray[np.float64]:
        """The histograms of the finest level, ``(2^L, 2^L, K)``; every coarser one is a sum of four of these."""
        across, down = sobel(pixels)
        weight = np.hypot(across, down)
        weight[weight <= _ROUNDING * pixels.max()] = 0
        if self.edges:
            weight *= canny(pixels)
        turn = np.arctan2(-down, across) / (2 * np.pi if self.signed else np.pi)  # rows of an image count downwards
        direction = np.floor(turn % 1 * self.bins + _ROUNDING).astype(np.int64) % self.bins
        side = 2**self.levels
        rows, columns = (part_of(size, side) for size in pixels.shape)
        place = (rows[:, None] * side + columns) * self.bins + direction
        sums = np.bincount(place.ravel(), weight.ravel(), minlength=side * side * self.bins)
        return sums.astype(np.float64, copy=False).reshape(side, side, self.bins)
