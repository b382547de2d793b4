"""Pyramid of histograms of oriented gradients (Bosch, Zisserman & Munoz 2007): edge directions by cell, coarse to fine.

    level l divides the image into 2^l × 2^l cells, l = 0 … L
    each cell has a histogram of the directions of the gradient at its edge pixels, weighted by the gradient's size
    all histograms, level by level, in one vector that sums to 1:  K (1 + 4 + … + 4^L) values for K bins

Edges are Canny's (:func:`canny`), gradients are 3×3 Sobel of the unsmoothed image. Directions are
counted anticlockwise as seen, from the right: bin k holds [k, k + 1) · 360°/K. Each pixel goes into one bin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weightsmith.core.options import param
from weightsmith.data.faces.descriptors import Descriptor, grey_image, part_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["PHOG", "canny", "sobel"]


_ROUNDING = 1e-9  # a direction on the border of two bins belongs to the upper one, despite rounding


class PHOG(Descriptor, name="phog"):
    """Pyramid of histograms of oriented gradients.

    >>> PHOG().length
    5456
    >>> ramp = np.tile(np.arange(32), (32, 1))              # grows to the right: direction 0°
    >>> PHOG(levels=0, bins=4, edges=False)(ramp).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    levels: int = param(default=4, ge=0, le=8, doc="L: the finest level has 2^L × 2^L cells")
    bins: int = param(default=16, ge=1, le=360, doc="K: number of directions")
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
        bins = (rows[:, None] * side + columns) * self.bins + direction
        sums = np.bincount(bins.ravel(), weight.ravel(), minlength=side * side * self.bins)
        return sums.astype(np.float64, copy=False).reshape(side, side, self.bins)


# Canny's edges (1986), in SciPy alone, with thresholds taken from the image itself.
#
#     1  smooth with a Gaussian of width ``sigma``, take Sobel gradients
#     2  keep a pixel if its gradient is no smaller than that of both neighbours along the gradient (interpolated)
#     3  keep chains of these whose gradient is above ``low`` everywhere and above ``high`` somewhere
#
# ``high`` is the gradient that the fraction ``quiet`` of all pixels does not exceed, and ``low`` is 0.4 of it, with
# ``sigma`` = √2: the usual automatic setting, which finds the same edges at any contrast. Where more than that
# fraction is flat, ``high`` is 1/64 of the largest gradient. The outermost pixels are never edges.


_LOW = 0.4
_LEAST = 1 / 64


def canny(image: ArrayLike, sigma: float = 2**0.5, quiet: float = 0.7) -> NDArray[np.bool_]:
    """Which pixels of a grey image lie on an edge.

    >>> step = np.repeat([[0, 0, 0, 0, 9, 9, 9, 9]], 8, axis=0)
    >>> canny(step)[4].nonzero()[0].tolist()        # both sides of the step, which are equal
    [3, 4]
    """
    from scipy import ndimage

    pixels = grey_image(image, 3, "canny")
    across, down = sobel(ndimage.gaussian_filter(pixels, sigma, mode="nearest"))
    strength = np.hypot(across, down)
    largest = float(strength.max())
    if largest <= _ROUNDING * float(pixels.max()):
        return np.zeros(pixels.shape, np.bool_)
    high = max(float(np.quantile(strength, quiet)), _LEAST * largest)
    ridge = _ridges(strength, across, down) & (strength > _LOW * high)
    chains, count = ndimage.label(ridge, structure=np.ones((3, 3)))
    strong = np.zeros(count + 1, np.bool_)
    strong[chains[ridge & (strength > high)]] = True
    found: NDArray[np.bool_] = strong[chains]
    return found


def sobel(pixels: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 3×3 Sobel gradients to the right and downwards; the border pixels are repeated outwards."""
    from scipy import ndimage

    return ndimage.sobel(pixels, axis=1, mode="nearest"), ndimage.sobel(pixels, axis=0, mode="nearest")


def _ridges(strength: NDArray[np.float64], across: NDArray[np.float64], down: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Step 2: where the gradient is largest along its own direction."""
    inner = (slice(1, -1), slice(1, -1))
    right, below = np.sign(across[inner]).astype(int), np.sign(down[inner]).astype(int)
    wide, steep = np.abs(across[inner]), np.abs(down[inner])
    level = wide >= steep
    # The line along the gradient leaves the 3×3 neighbourhood between a straight neighbour and a diagonal one.
    slant = np.divide(np.minimum(wide, steep), np.maximum(wide, steep), out=np.zeros_like(wide), where=wide + steep > 0)
    straight = np.where(level, 0, below), np.where(level, right, 0)
    row, column = np.indices(wide.shape) + 1
    keep = np.ones(wide.shape, np.bool_)
    for way in (1, -1):
        beside = (1 - slant) * strength[row + way * straight[0], column + way * straight[1]]
        beside += slant * strength[row + way * below, column + way * right]
        keep &= strength[inner] * (1 + _ROUNDING) >= beside
    return np.pad(keep, 1)
