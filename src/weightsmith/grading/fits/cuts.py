"""Three rules for λ_min, the start of the tail, each an option.

    ks                 the λ_min whose power law is nearest to the eigenvalues beyond it (the default)
    erg                the λ_min beyond which the rescaled eigenvalues multiply to one: |det X| = 1
    hill:share=0.5     a fixed share of the eigenvalues, here the upper half

A cut works on the ascending logarithms ln(λ/λ_max), so that the scale of the weights does not matter, and returns the
start of the tail with the α and D of :mod:`weightsmith.grading.fits.powerlaw`. Equal eigenvalues are never separated: a
tail that would start inside a run of them starts at the first.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.options import Option, param

__all__ = ["Hill", "SmallestDistance", "TailCut", "UnitDeterminant"]

_NO_TAIL = -1, math.inf, math.inf


class TailCut(Option, family="cut"):
    """The family of rules for λ_min."""

    @abstractmethod
    def __call__(self, logs: NDArray[np.float64]) -> tuple[int, float, float]:
        """The index at which the tail starts, its α and its D; the index is −1 if no tail has any spread."""


class SmallestDistance(TailCut, name="ks"):
    """The λ_min with the smallest Kolmogorov–Smirnov distance D, among all eigenvalues but the largest.

    (Clauset, Shalizi & Newman, SIAM Review 51 (2009) 661, section 3.3; at equal D the smallest λ_min.)
    """

    def __call__(self, logs: NDArray[np.float64]) -> tuple[int, float, float]:
        """Search all candidates, exactly."""
        from weightsmith.grading.fits.scan import best_cut

        start, alpha, distance = best_cut(logs, 2)
        return start, alpha, distance


class UnitDeterminant(TailCut, name="erg"):
    """The largest λ_min with ∏_{λ ≥ λ_min} λ/λ̄ < 1, λ̄ the mean of all n eigenvalues given: the tail has |det X| = 1.

    After division by λ̄ the eigenvalues sum to n, as those of a matrix with unit variance do. Going down from the
    largest, their product first grows, then falls; the tail ends with the eigenvalue that takes it below one. The
    product of all is below one (the geometric mean is below the arithmetic one), so there always is such a tail.
    (Martin & Hinrichs, "SETOL", arXiv 2507.17912; WeightWatcher's ``detX`` or ``ERG``, where n also counts the zero
    eigenvalues, and where products of thousands of eigenvalues overflow float64 and misplace the cut.)
    """

    def __call__(self, logs: NDArray[np.float64]) -> tuple[int, float, float]:
        """Sum ln(λ/λ̄) from the largest down until it is below zero."""
        if logs.size < 2:
            return _NO_TAIL
        volumes = np.cumsum((logs - math.log(np.exp(logs).mean()))[::-1])
        below = np.flatnonzero(volumes < 0)
        tail = int(below[0]) + 1 if below.size else logs.size  # empty only by rounding
        return _fitted(logs, logs.size - tail)


class Hill(TailCut, name="hill"):
    """The largest ⌈share·n⌉ of n eigenvalues: Hill's estimator (Annals of Statistics 3 (1975) 1163) with a fixed tail.

    AlphaPruning (Lu et al., NeurIPS 2024) takes the median, ``share=0.5``. Nothing is searched: α is the slope of the
    upper half of the spectrum, whether or not that is a power law; D measures how far it is from one.
    """

    share: float = param(default=0.5, gt=0, le=1, doc="the part of the eigenvalues that is the tail")

    def __call__(self, logs: NDArray[np.float64]) -> tuple[int, float, float]:
        """Count from the largest, at least two."""
        if logs.size < 2:
            return _NO_TAIL
        # 0.07 · 100 is 7 plus a rounding error: it must give 7, not 8.
        tail = max(math.ceil(self.share * logs.size - 1e-9), 2)
        return _fitted(logs, logs.size - tail)


def _fitted(logs: NDArray[np.float64], start: int) -> tuple[int, float, float]:
    """The tail of all values not smaller than the one at ``start``, with its α and D."""
    start = int(np.searchsorted(logs, logs[start]))
    excess = logs[start:] - logs[start]
    spread = float(excess.sum())
    if spread <= 0:
        return _NO_TAIL
    alpha = 1 + excess.size / spread
    gaps = np.arange(excess.size) / excess.size + np.expm1((1 - alpha) * excess)
    return start, alpha, float(np.abs(gaps).max())
