"""Canny's edges (1986), in SciPy alone, with thresholds taken from the image itself.

    1  smooth with a Gaussian of width ``sigma``, take Sobel gradients
    2  keep a pixel if its gradient is no smaller than that of both neighbours along the gradient (interpolated)
    3  keep chains of these whose gradient is above ``low`` everywhere and above ``high`` somewhere

``high`` is the gradient that the fraction ``quiet`` of all pixels does not exceed, and ``low`` is 0.4 of it, with
``sigma`` = √2: the customary automatic setting, which finds the same edges at any contrast. Where more than that
fraction is flat, ``high`` is 1/64 of the largest gradient. The outermost pixels are never edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weightsmith.data.descriptors import grey_image

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["canny", "sobel"]

_LOW = 0.4
_LEAST = 1 / 64
_ROUNDING = 1e-9  # what is smaller than this beside the contrast is flat; what differs by less is equal


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
    """The 3×3 Sobel gradients to the right and downwards; pixels beyond the rim repeat it."""
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
