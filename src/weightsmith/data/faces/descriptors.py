"""The family of image descriptors: a grey image goes in, a vector of fixed length comes out.

``LPQ(window=5)`` in Python is ``lpq:window=5`` on the command line. All descriptors here depend on the image up to
brightness and contrast only: a · image + b with a > 0 has the same description.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import DataMismatch
from weightsmith.core.options import Option

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Descriptor", "grey_image", "part_of"]


class Descriptor(Option):
    """A family: a feature vector of fixed length of a grey image."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many values describe one image."""

    @property
    @abstractmethod
    def least_size(self) -> int:
        """How many pixels an image needs along each side."""

    @abstractmethod
    def __call__(self, image: ArrayLike) -> NDArray[np.float32]:
        """The description of a grey image ``(h, w)``."""


def grey_image(image: ArrayLike, least: int, what: object) -> NDArray[np.float64]:
    """A grey image of finite numbers, at least ``least`` pixels a side, as floats above its darkest pixel."""
    array: NDArray[Any] = np.asarray(image)
    if array.ndim != 2 or array.dtype.kind not in "buif":
        raise DataMismatch(f"{what}: a grey image (h, w) of numbers is needed, not {array.dtype} {array.shape}")
    if min(array.shape) < least:
        raise DataMismatch(
            f"{what}: an image of {array.shape[1]}×{array.shape[0]} pixels is too small, {least} a side are needed"
        )
    floats: NDArray[np.float64] = array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise DataMismatch(f"{what}: the image holds NaN or infinity")
    floats -= floats.min()  # exact for a flat image, so that rounding does not look like contrast
    return floats


def part_of(length: int, parts: int) -> NDArray[np.int64]:
    """To which of ``parts`` stretches each of ``length`` pixels belongs; the stretches differ by at most one pixel.

    Halving nests: part k of n is cut into the parts 2k and 2k + 1 of 2n.

    >>> part_of(5, 2)
    array([0, 0, 0, 1, 1])
    """
    return np.arange(length, dtype=np.int64) * parts // length
