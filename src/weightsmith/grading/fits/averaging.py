"""Averaging over λ_min: the exponents that other cuts would have given, weighted by how well each fits.

The search for the smallest D settles on one λ_min. If a large body runs smoothly into the tail, several are about as
good, and a resample of the same eigenvalues tends to choose the same one again. So up to 64 tails are considered, their
lengths n spread evenly on a logarithmic scale from ``least`` to all eigenvalues, each with its exponent and the weight

    w ∝ n² · e^(−3.3·n·D²)

The exponential is the chance of a distance D or larger under the law with its exponent fitted (Lilliefors, J. Am. Stat.
Assoc. 64 (1969) 387: for the exponential distribution, which ln λ follows beyond λ_min, the critical D·√n is 1.06 at
5 %, against 1.36 with a known exponent, and e^(−2·n·D²) scales with its square). One n is the information in a tail,
the other the width of its step on the grid. With ln(α − 1) of a tail normal around its estimate with variance 1/n,
quantiles of the weighted mixture bound the exponents that are compatible with the data.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from weightsmith.grading.fits.refits import farthest

__all__ = ["averaged_range", "candidate_tails"]

_GRID = 64
_STEEPNESS = 3.3
_ROUNDS = 30  # of bisection: to 10⁻⁹ of the range
_NOTHING = 1e-17  # smaller weights change no digit of a share
_BEYOND = 4.0  # standard deviations beyond the outermost centre


@njit(cache=True, nogil=True)
def candidate_tails(logs: NDArray[np.float64], least: int) -> NDArray[np.float64]:
    """Rows of n, ln(α − 1) and weight for tails of ``least`` to all of the ascending ``logs``; weights sum to one."""
    found = np.empty((_GRID, 3))
    below = np.arange(logs.size + 1).astype(np.float64)
    sums = np.empty(logs.size)
    running = 0.0
    for i in range(logs.size - 1, -1, -1):
        running += logs[i]
        sums[i] = running
    count, last = 0, 0
    growth = (logs.size / least) ** (1.0 / (_GRID - 1)) if logs.size > least else 1.0
    total = 0.0
    for step in range(_GRID):
        n = min(int(least * growth**step + 0.5), logs.size)
        if n <= last:
            continue
        last = n
        start = logs.size - n
        spread = sums[start] - n * logs[start]
        if spread <= 0.0 or logs[logs.size - 1] <= logs[start]:
            continue
        slope = n / spread  # α − 1
        distance, _ = farthest(logs, below, start, slope, np.inf)
        weight = float(n) * n * np.exp(-_STEEPNESS * n * distance * distance)
        found[count, 0], found[count, 1], found[count, 2] = n, np.log(slope), weight
        total += weight
        count += 1
    found = found[:count].copy()
    if total > 0.0:
        found[:, 2] /= total
        return found
    return found[:0].copy()


@njit(cache=True, nogil=True)
def averaged_range(tails: NDArray[np.float64], outside: float) -> tuple[float, float]:
    """The quantiles of ln(α − 1) at ``outside`` and 1 − ``outside`` of the mixture of :func:`candidate_tails`."""
    low, high = np.inf, -np.inf
    for row in range(tails.shape[0]):
        reach = _BEYOND / np.sqrt(tails[row, 0])
        low, high = min(low, tails[row, 1] - reach), max(high, tails[row, 1] + reach)
    ends = np.empty(2)
    for end in range(2):
        wanted = outside if end == 0 else 1.0 - outside
        below, above = low, high
        for _ in range(_ROUNDS):
            middle = 0.5 * (below + above)
            share = 0.0
            for row in range(tails.shape[0]):
                if tails[row, 2] < _NOTHING:
                    continue
                z = (middle - tails[row, 1]) * np.sqrt(tails[row, 0] / 2.0)
                share += tails[row, 2] * 0.5 * (1.0 + math.erf(z))
            if share < wanted:
                below = middle
            else:
                above = middle
        ends[end] = 0.5 * (below + above)
    return ends[0], ends[1]
