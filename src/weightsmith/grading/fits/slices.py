"""One fit per matrix of a layer: the kernel positions of a convolution, over which the seed's α-hat sums.

Martin & Mahoney (seed 004, the formula after eq. 6) give a convolution the sum over its c × d kernel positions of
αᵢ·log λᵢ_max, each position being an N × M matrix with a fit of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.records import Record
from weightsmith.grading.fits.cuts import SmallestDistance, TailCut
from weightsmith.grading.fits.powerlaw import fit_power_law

__all__ = ["SliceFit", "fit_slices"]

_SMALLEST_DISTANCE = SmallestDistance()


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
    """The fits of all rows of ascending eigenvalues that have at least ``least`` positive ones and a tail.

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
    """One fit after another, for the rules that have no kernel for all rows."""
    for index, row in enumerate(parts):
        positive = row[row > 0]
        fit = fit_power_law(positive, cut) if positive.size >= least else None
        if fit is not None:
            yield SliceFit(index, positive.size, fit.alpha, fit.xmin, fit.D, fit.tail, float(row[-1]))
