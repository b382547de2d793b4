"""Compiled power-law fits for all candidates of λ_min.

Everything here works on ascending logarithms of eigenvalues, so that nothing overflows at any scale of the weights. For
the tail that starts at index k and has n values, with dᵢ = ln(λᵢ/λ_min) and i = 0 … n−1:

    α = 1 + n / Σ dᵢ                 the maximum-likelihood exponent (Clauset, Shalizi & Newman 2009, eq. 3.1)
    D = maxᵢ | i/n − (1 − e^((1−α)·dᵢ)) |    the distance to the lower empirical distribution function

The search for the smallest D drops a candidate as soon as one of its distances is larger than the best D so far. It
starts at the point where the candidate before had its largest distance, then tries a few points spread over the tail,
then all of them. The result is that of the full scan, bit for bit, for a small part of the work.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["best_cut", "best_cuts", "is_compiled", "scan"]

_PROBES = 8  # points of a tail, and candidates, that are tried first


@njit(cache=True, nogil=True)
def _sums(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ of the logarithms from each index to the end."""
    sums = np.empty_like(logs)
    total = 0.0
    for k in range(logs.size - 1, -1, -1):
        total += logs[k]
        sums[k] = total
    return sums


@njit(cache=True, nogil=True)
def _exponent(logs: NDArray[np.float64], sums: NDArray[np.float64], k: int) -> np.float64:
    """α of the tail from k, or infinity if all its values are equal or the value before k equals that at k."""
    if k > 0 and logs[k] == logs[k - 1]:
        return np.float64(np.inf)
    count = logs.size - k
    spread = sums[k] - count * logs[k]
    if spread <= 0.0 or logs[logs.size - 1] <= logs[k]:
        return np.float64(np.inf)
    return np.float64(1.0 + count / spread)


@njit(cache=True, nogil=True)
def _distance(logs: NDArray[np.float64], k: int, alpha: float, bound: float, worst: int) -> tuple[float, int]:
    """D of the tail from k and the index where it is reached; the search stops at the first value above ``bound``.

    ``worst`` is the index to try first, counted from the start of the tail.
    """
    count = logs.size - k
    slope = 1.0 - alpha
    start = logs[k]
    largest, index = 0.0, 0
    if worst < count:
        largest = abs(worst / count - 1.0 + np.exp(slope * (logs[k + worst] - start)))
        index = worst
        if largest > bound:
            return largest, index
    stride = count // _PROBES
    if stride > 1:
        for i in range(stride, count, stride):
            gap = abs(i / count - 1.0 + np.exp(slope * (logs[k + i] - start)))
            if gap > largest:
                largest, index = gap, i
                if largest > bound:
                    return largest, index
    for i in range(count):
        gap = abs(i / count - 1.0 + np.exp(slope * (logs[k + i] - start)))
        if gap > largest:
            largest, index = gap, i
            if largest > bound:
                return largest, index
    return largest, index


@njit(cache=True, nogil=True)
def best_cut(logs: NDArray[np.float64], least: int) -> tuple[int, float, float]:
    """The start k of the tail with the smallest D (the first of equals), its α and its D; k = −1 when there is none.

    A tail has at least ``least`` values, and never fewer than two.
    """
    last = logs.size - max(least, 2)
    sums = _sums(logs)
    best, best_alpha, best_distance = -1, np.inf, np.inf
    worst = 0
    stride = max(last // _PROBES, 1)
    # A coarse round finds a small D early; in the second round most candidates are then dropped after a point or two.
    for step in (stride, 1):
        if step == 1 and stride == 1 and best >= 0:
            break  # the first round tried all candidates
        for k in range(0, last + 1, step):
            alpha = _exponent(logs, sums, k)
            if alpha == np.inf:
                continue
            distance, worst = _distance(logs, k, alpha, best_distance, worst)
            if distance < best_distance or (distance == best_distance and k < best):
                best, best_alpha, best_distance = k, alpha, distance
    return best, best_alpha, best_distance


@njit(cache=True, nogil=True)
def scan(logs: NDArray[np.float64], least: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Every candidate: its index, α and D, without dropping any; for figures and tests."""
    last = logs.size - max(least, 2)
    sums = _sums(logs)
    starts, alphas, distances = [0 for _ in range(0)], [0.0 for _ in range(0)], [0.0 for _ in range(0)]
    for k in range(last + 1):
        alpha = _exponent(logs, sums, k)
        if alpha == np.inf:
            continue
        distance, _ = _distance(logs, k, alpha, np.inf, 0)
        starts.append(k)
        alphas.append(alpha)
        distances.append(distance)
    return np.array(starts, np.int64), np.array(alphas), np.array(distances)


@njit(cache=True, nogil=True)
def best_cuts(parts: NDArray[np.float64], least: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """:func:`best_cut` for each row of ascending eigenvalues; values that are not positive are skipped.

    The integers of a row are the start of its tail (−1 without a fit) and the number of its positive values; the floats
    are α and D.
    """
    starts = np.empty((parts.shape[0], 2), np.int64)
    numbers = np.empty((parts.shape[0], 2))
    for row in range(parts.shape[0]):
        values = parts[row]
        first = 0
        while first < values.size and values[first] <= 0.0:
            first += 1
        positive = values.size - first
        k, alpha, distance = -1, np.inf, np.inf
        if positive > 1:
            logs = np.log(values[first:])
            logs -= logs[positive - 1]
            k, alpha, distance = best_cut(logs, least)
        starts[row, 0] = k + first if k >= 0 else -1
        starts[row, 1] = positive
        numbers[row, 0] = alpha
        numbers[row, 1] = distance
    return starts, numbers


def is_compiled() -> bool:
    """Whether compiled kernels are cached; the first run on a machine takes seconds to compile them."""
    folder = best_cut.stats.cache_path
    return folder is not None and any(Path(folder).glob("scan.best_cut-*.nbi"))
