"""The Marchenko–Pastur law of the eigenvalues of pure noise, and the Tracy–Widom law of the largest one.

W is N × M with N ≥ M, its entries independent with mean zero and variance σ². The eigenvalues λ of WᵀW then lie
between the edges λ∓ = σ²(√N ∓ √M)². An angle θ from 0 (upper edge) to π (lower edge) makes them elementary:

    λ = σ²(N + M + 2√(NM)·cos θ)
    ρ(λ) = √((λ₊ − λ)(λ − λ₋)) / (2πσ²·M·λ)
    P(beyond λ) = (2/π)·[ (N + M)θ/(4M) − ½√(N/M)·sin θ − (N − M)/(2M)·arctan((√N − √M)/(√N + √M)·tan(θ/2)) ]

(Marchenko & Pastur, Math. USSR-Sbornik 1 (1967) 457; the last line is the integral of ρ.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import OptionError

__all__ = ["MarchenkoPastur", "tracy_widom_quantile"]


_STEPS, _CLOSE = 80, 1e-13  # the law is flat at its edges, where only bisection works; elsewhere six steps are enough
_TINY = 1e-300


@dataclass(frozen=True)
class MarchenkoPastur:
    """The law for ``rows`` N ≥ ``columns`` M and entries of standard deviation ``sigma``.

    Both sizes may be fractional, like a layer's mean rank per matrix.

    >>> law = MarchenkoPastur(rows=400, columns=100)
    >>> law.low, law.high, round(float(law.cdf(law.quantile(0.25))), 12)
    (100.0, 900.0, 0.25)
    """

    rows: float
    columns: float
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.columns <= self.rows < math.inf:
            raise OptionError(f"noise has rows ≥ columns > 0, not {self.rows} rows and {self.columns} columns")
        if not 0 < self.sigma < math.inf:
            raise OptionError(f"the standard deviation of noise must be > 0 and finite, not {self.sigma!r}")

    @property
    def low(self) -> float:
        """The lower edge λ₋."""
        return self.sigma**2 * (math.sqrt(self.rows) - math.sqrt(self.columns)) ** 2

    @property
    def high(self) -> float:
        """The upper edge λ₊."""
        return self.sigma**2 * (math.sqrt(self.rows) + math.sqrt(self.columns)) ** 2

    def density(self, eigenvalues: ArrayLike) -> NDArray[np.float64]:
        """ρ(λ): one over all eigenvalues, zero outside the edges and at λ = 0."""
        values = np.asarray(eigenvalues, np.float64)
        inside = (values > max(self.low, 0.0)) & (values < self.high)
        safe = np.where(inside, values, self.high)
        width = np.sqrt((self.high - safe) * (safe - self.low))
        return np.where(inside, width / (2 * math.pi * self.sigma**2 * self.columns * safe), 0.0)

    def cdf(self, eigenvalues: ArrayLike) -> NDArray[np.float64]:
        """The share of eigenvalues up to λ."""
        values = np.asarray(eigenvalues, np.float64) / self.sigma**2
        cosine = (values - self.rows - self.columns) / (2 * math.sqrt(self.rows * self.columns))
        return np.clip(1.0 - self._beyond(np.arccos(np.clip(cosine, -1.0, 1.0))), 0.0, 1.0)

    def quantile(self, shares: ArrayLike) -> NDArray[np.float64]:
        """The λ below which the given shares of the eigenvalues lie."""
        wanted = 1.0 - np.asarray(shares, np.float64)
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise OptionError(f"the shares of a quantile must be ≥ 0 and ≤ 1, not {shares!r}")
        return self.sigma**2 * self._at(self._angle(wanted))

    def _at(self, angle: NDArray[np.float64]) -> NDArray[np.float64]:
        """λ/σ² at an angle."""
        return self.rows + self.columns + 2 * math.sqrt(self.rows * self.columns) * np.cos(angle)

    def _angle(self, beyond: NDArray[np.float64]) -> NDArray[np.float64]:
        """The angle beyond which the given share lies: Newton's method, with bisection if it leaves the bracket."""
        low, high = np.zeros_like(beyond), np.full_like(beyond, math.pi)
        angle = (low + high) / 2
        for _ in range(_STEPS):
            excess = self._beyond(angle) - beyond
            low, high = np.where(excess <= 0, angle, low), np.where(excess >= 0, angle, high)
            slope = 2 * self.rows / math.pi * np.sin(angle) ** 2 / np.maximum(self._at(angle), _TINY)
            moved = angle - excess / np.maximum(slope, _TINY)
            moved = np.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
            if np.abs(moved - angle).max(initial=0.0) <= _CLOSE:
                break
            angle = moved
        return moved

    def _beyond(self, angle: NDArray[np.float64]) -> NDArray[np.float64]:
        rows, columns = self.rows, self.columns
        difference, total = math.sqrt(rows) - math.sqrt(columns), math.sqrt(rows) + math.sqrt(columns)
        turned = np.arctan2(difference * np.sin(angle / 2), total * np.cos(angle / 2))
        parts = (
            (rows + columns) * angle / 4 - math.sqrt(rows * columns) * np.sin(angle) / 2 - (rows - columns) * turned / 2
        )
        return parts * (2 / (math.pi * columns))


# The Tracy–Widom law of real matrices: the largest eigenvalue of pure noise relative to the bulk's edge.
#
# Its distribution function F₁ is a determinant (Ferrari & Spohn, J. Phys. A 38 (2005) L557), exact but slow to invert.
# The quantile here is a polynomial in u = (−ln p)^⅓, p being the probability of going beyond: the tail falls as
# exp(−⅔·s^1.5), so s is nearly of degree two in u. It was fitted to the determinant, which the test computes again.


_COEFFICIENTS = (-4.7098109, 4.7847047, -2.0360663, 1.4493517, -0.37618204, 0.053774934, -0.0032602598)
_SMALLEST, _LARGEST = 1e-15, 0.5  # the range of the fit


def tracy_widom_quantile(tail: float) -> float:
    """The s with 1 − F₁(s) = ``tail``, to within 2e-5.

    >>> [round(tracy_widom_quantile(tail), 3) for tail in (0.05, 0.01)]  # the 95 and 99 % points of the usual tables
    [0.979, 2.023]
    """
    if not _SMALLEST <= tail <= _LARGEST:
        raise OptionError(f"the tail probability of a quantile must be ≥ {_SMALLEST:g} and ≤ {_LARGEST}, not {tail!r}")
    u = math.cbrt(-math.log(tail))
    return math.fsum(coefficient * u**power for power, coefficient in enumerate(_COEFFICIENTS))
