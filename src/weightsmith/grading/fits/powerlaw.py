"""The power law in the tail of a spectrum: ρ(λ) ∝ λ^(−α) for λ ≥ λ_min.

For the n eigenvalues λ ≥ λ_min, ascending, i = 0 … n−1:

    α = 1 + n / Σ ln(λᵢ/λ_min)                          maximum likelihood
    σ = (α − 1) / √n                                    its standard error if λ_min is known
    D = maxᵢ | i/n − (1 − (λᵢ/λ_min)^(1−α)) |           distance to the lower empirical distribution function

(Clauset, Shalizi & Newman, SIAM Review 51 (2009) 661, eqs. 3.1, 3.2 and section 3.3.) At λᵢ the empirical distribution
function jumps from i/n to (i + 1)/n; D uses the lower value only, as WeightWatcher does. Using both would choose other
λ_min. σ ignores the uncertainty of λ_min; the interval of :mod:`weightsmith.grading.fits.resampling` includes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.grading.fits.cuts import SmallestDistance, TailCut

__all__ = ["PowerLaw", "SliceFit", "TailScan", "distances", "fit_power_law", "fit_slices", "logarithms"]


_SMALLEST_DISTANCE = SmallestDistance()
_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class PowerLaw(Record):
    """A fitted tail: α ± ``sigma`` beyond ``xmin`` (λ_min), the ``tail`` largest of ``evals`` eigenvalues; D as above.

    ``cut`` is the rule that chose λ_min.
    """

    alpha: float
    sigma: float
    xmin: float
    D: float
    tail: int
    evals: int
    cut: TailCut


@dataclass(frozen=True, eq=False)
class TailScan(Record):
    """Every candidate λ_min, ascending, with the α and D of its tail; empty if no tail has any spread."""

    xmin: NDArray[np.float64]
    alpha: NDArray[np.float64]
    D: NDArray[np.float64]


def fit_power_law(eigenvalues: NDArray[np.float64], cut: TailCut = _SMALLEST_DISTANCE) -> PowerLaw | None:
    """Fit ascending, positive eigenvalues; None if all values of the tail are equal, so that there is no slope to fit.

    >>> fit = fit_power_law(np.array([1.0, 2.0, 4.0, 8.0]))
    >>> round(fit.alpha, 4), fit.xmin, fit.tail  # 1 + 4 / (6 ln 2)
    (1.9618, 1.0, 4)
    """
    logs = logarithms(eigenvalues)
    start, alpha, distance = cut(logs)
    if start < 0:
        return None
    tail = logs.size - start
    return PowerLaw(alpha, (alpha - 1) / math.sqrt(tail), float(eigenvalues[start]), distance, tail, logs.size, cut)


def distances(eigenvalues: NDArray[np.float64]) -> TailScan:
    """α and D for every candidate λ_min of :func:`fit_power_law`, for the figure of D against λ_min.

    >>> distances(np.array([1.0, 1.0, 2.0, 4.0])).xmin
    array([1., 2.])
    """
    from weightsmith.grading.fits.scan import scan

    starts, alphas, gaps = scan(logarithms(eigenvalues), 2)
    return TailScan(np.asarray(eigenvalues, np.float64)[starts], alphas, gaps)


def logarithms(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(λ/λ_max), from the ratios, so that a power of two in the scale of the weights changes no bit."""
    values = np.asarray(eigenvalues, np.float64)
    if not values.size:
        return values
    least, most = float(values[0]), float(values[-1])
    if not 0 < least <= most < math.inf:
        raise UsageError(f"eigenvalues from {least:g} to {most:g}: a power law needs them ascending, > 0 and finite")
    logs: NDArray[np.float64] = np.log(values / most) if least / most >= _SMALLEST else np.log(values) - math.log(most)
    return logs


# One fit per matrix of a layer: the kernel positions of a convolution, over which the seed's α-hat sums.
#
# Martin & Mahoney (seed 004, the formula after eq. 6) give a convolution the sum over its c × d kernel positions of
# αᵢ·log λᵢ_max, each position being an N × M matrix with a fit of its own.


@dataclass(frozen=True, eq=False)
class SliceFit(Record):
    """The power law of one matrix; ``xmin`` and ``lambda_max`` are eigenvalues of WᵀW, without any factor."""

    index: int
    evals: int
    alpha: float
    xmin: float
    D: float
    tail: int
    lambda_max: float


def fit_slices(parts: NDArray[np.float64], least: int, cut: TailCut = _SMALLEST_DISTANCE) -> tuple[SliceFit, ...]:
    """The fits of all rows of ascending eigenvalues with at least ``least`` positive values and a tail.

    >>> found = fit_slices(np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 4.0]]), 3)
    >>> [(fit.index, fit.evals, round(fit.alpha, 3)) for fit in found]
    [(1, 3, 2.443)]
    """
    if not isinstance(cut, SmallestDistance):
        return tuple(_fitted_alone(parts, least, cut))
    from weightsmith.grading.fits.scan import best_cuts

    starts, numbers = best_cuts(parts, 1)
    width = parts.shape[1]
    lower = parts[np.arange(len(parts)), starts[:, 0]].tolist()
    rows = zip(starts.tolist(), numbers.tolist(), lower, parts[:, -1].tolist(), strict=True)
    return tuple(
        SliceFit(index, positive, alpha, xmin, distance, width - start, largest)
        for index, ((start, positive), (alpha, distance), xmin, largest) in enumerate(rows)
        if start >= 0 and positive >= least
    )


def _fitted_alone(parts: NDArray[np.float64], least: int, cut: TailCut) -> Iterator[SliceFit]:
    """One fit after another, for the rules without a compiled kernel for all rows."""
    for index, row in enumerate(parts):
        positive = row[row > 0]
        fit = fit_power_law(positive, cut) if positive.size >= least else None
        if fit is not None:
            yield SliceFit(index, positive.size, fit.alpha, fit.xmin, fit.D, fit.tail, float(row[-1]))
