"""Local phase quantisation (Ojansivu & Heikkilä 2008): texture codes that a symmetric blur does not change.

Around each pixel x the image is seen through a square window N of m×m pixels, at the four lowest frequencies:

    F(u, x) = Σ_{y ∈ N} f(x − y) exp(−2πi u·y),     u ∈ {(a, 0), (0, a), (a, a), (a, −a)},  a = 1/m    (their eq. 4)

A blur multiplies F(u) by its own transform H(u); that of a centrally symmetric blur is real, and positive at low
frequencies, so the quadrant in which F(u) lies does not change. The signs of the eight numbers
g = (Re F(u₁) … Re F(u₄), Im F(u₁) … Im F(u₄)) are the bits of the code:

    code = Σ_j q_j 2^(j−1),     q_j = 1 if g_j ≥ 0 else 0                                     (their eqs. 9 and 10)

Only windows that lie wholly inside the image are used. Their histograms over a grid of blocks, each summing to 1, are
the description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.data.faces.descriptors import Descriptor, grey_image, part_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LPQ", "whitening"]

_CODES = 256
_ROUNDING = 1e-9  # F(u) of a flat window is 0 in theory and a random sign in floating point


class LPQ(Descriptor, name="lpq"):
    """Local phase quantisation: histograms of 256 phase codes over a grid of blocks.

    >>> LPQ().length
    4096
    >>> np.unique(LPQ().codes(np.full((20, 20), 7))).tolist()
    [255]

    ``decorrelate`` is the ρ of the paper's section 3.2 (0.9 there): the eight numbers are rotated so that they would be
    uncorrelated in an image whose neighbouring pixels correlate by ρ. It is off by default: the rotation mixes
    frequencies that a blur weakens unequally, so the argument above no longer holds exactly, and ρ is one more
    assumption. (On photographs blurred by 0.5 to 2 pixels, as many bits survive with it as without it.)
    """

    blocks: int = param(default=4, ge=1, le=64, doc="blocks along each side of the image")
    window: int = param(default=7, ge=3, le=255, doc="pixels along each side of the window, an odd number")
    decorrelate: float | None = param(default=None, gt=0, lt=1, doc="assumed correlation of neighbouring pixels")

    def check(self) -> None:
        """The window must have a middle pixel."""
        if self.window % 2 == 0:
            raise OptionError(f"lpq: window must be odd, not {self.window}")

    @property
    def length(self) -> int:
        """256 values for each block."""
        return _CODES * self.blocks**2

    @property
    def least_size(self) -> int:
        """Room for a window in every block."""
        return self.window - 1 + self.blocks

    def __call__(self, image: ArrayLike) -> NDArray[np.float32]:
        """The histograms of the codes, block after block in reading order, each summing to 1."""
        codes = self.codes(image)
        rows, columns = (part_of(size, self.blocks) for size in codes.shape)
        block = rows[:, None] * self.blocks + columns
        counts = np.bincount((block * _CODES + codes).ravel(), minlength=self.length).reshape(-1, _CODES)
        shares: NDArray[np.float64] = counts / counts.sum(axis=1, keepdims=True)
        return shares.astype(np.float32).ravel()

    def codes(self, image: ArrayLike) -> NDArray[np.uint8]:
        """The code of every pixel whose window lies inside the image: ``(h − m + 1, w − m + 1)`` numbers 0…255."""
        pixels = grey_image(image, self.least_size, self)
        numbers = _phases(pixels, self.window)
        if self.decorrelate is not None:
            numbers = np.tensordot(whitening(self.window, self.decorrelate), numbers, axes=1)
        bits = numbers >= -_ROUNDING * pixels.max()
        codes: NDArray[np.uint8] = np.packbits(bits, axis=0, bitorder="little")[0]
        return codes


def whitening(window: int, correlation: float) -> NDArray[np.float64]:
    """The 8×8 rotation Vᵀ of the paper's eq. 8: g ↦ Vᵀg is uncorrelated if pixels at distance d correlate by ρ^d."""
    basis = _basis(window)
    middle = np.arange(window) - window // 2
    at = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    distance = np.sqrt(((at[:, None] - at) ** 2).sum(axis=-1))
    # The sine parts of both axes share an eigenvalue; without a tie-break their rotation would be arbitrary.
    favour = np.diag(1 + 1e-6 * np.arange(8)[::-1])
    covariance = favour @ basis @ correlation**distance @ basis.T @ favour
    _, vectors = np.linalg.eigh(covariance)
    largest = np.abs(vectors).argmax(axis=0)
    rotation: NDArray[np.float64] = (vectors * np.sign(vectors[largest, np.arange(8)])).T[::-1]
    return rotation


def _phases(pixels: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """The eight numbers g at every pixel, ``(8, h − m + 1, w − m + 1)``, by sums along rows and then along columns."""
    wave = _wave(window)
    across = sliding_window_view(pixels, window, axis=1)
    flat, waved = (sliding_window_view(across @ kernel, window, axis=0) for kernel in (np.ones(window), wave))
    ones = np.ones(window)
    found = np.stack([waved @ ones, flat @ wave, waved @ wave, waved @ wave.conj()])
    return np.concatenate([found.real, found.imag])


def _wave(window: int) -> NDArray[np.complex128]:
    """exp(2πi z/m) over the offsets z = −y of the pixels from the middle."""
    angles: NDArray[np.float64] = 2 * np.pi * (np.arange(window) - window // 2) / window
    return np.cos(angles) + 1j * np.sin(angles)


def _basis(window: int) -> NDArray[np.float64]:
    """The matrix that makes the eight numbers of a patch written as one column: ``(8, m²)``."""
    wave, ones = _wave(window), np.ones(window)
    found = [np.outer(ones, wave), np.outer(wave, ones), np.outer(wave, wave), np.outer(wave.conj(), wave)]
    flat = np.stack(found).reshape(4, -1)
    return np.concatenate([flat.real, flat.imag])
