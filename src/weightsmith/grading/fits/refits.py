"""Compiled resampling of a spectrum and of the law fitted to it, with refits.

A resample is a count for each eigenvalue: drawing and counting indices of an ascending array keeps it ascending, and
about 0.63 n of n values are drawn at least once. For the tail that begins at the k-th of them, with n values of which
cⱼ lie below the j-th and mⱼ are equal to it, α and D of :mod:`weightsmith.grading.fits.scan` are

    α = 1 + n / Σ mⱼ·ln(λⱼ/λ_min)        D = maxⱼ max(F(λⱼ) − cⱼ/n, (cⱼ + mⱼ − 1)/n − F(λⱼ)),   F = 1 − (λ/λ_min)^(1−α)

so that equal values need one power. The search begins at the λ_min of the original eigenvalues and at a few more. Then
candidates are tested in blocks of 64: the values where earlier candidates had their largest gaps rule out most of a
block at once; the others stop at the first 64 values with a gap above the best D so far. Powers are computed to 2·10⁻⁸
by a polynomial that compilers vectorise. They decide which candidate wins; α itself is exact.

Resample i of a seed does not depend on those drawn before it (SplitMix64 on a counter), so that more can be drawn
later.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from weightsmith.grading.fits.scan import best_cut

__all__ = ["farthest", "refitted_alphas", "refitted_distances", "resample", "simulate"]

_Numbers = NDArray[np.float64]

_BLOCK = 64  # values of a tail between two checks of the bound, and candidates that are screened together
_SPOTS = 6  # remembered indices at which candidates were dropped
_FEW = 4  # with so few candidates left, a block is tried one by one
_COARSE = 8  # candidates that are tried first
_UNORDERED = {"nnan", "ninf", "nsz", "contract"}  # lets loops be vectorised; no sum is reordered
_STEP, _STREAM = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@njit(cache=True, nogil=True, inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    """The output function of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _count(owners: NDArray[np.int64], seed: int, number: int, counts: NDArray[np.int64]) -> None:
    """Draw ``owners.size`` values and count them by owner; each random number gives two draws of 32 bits."""
    counts[:] = 0
    state = _mix(np.uint64(seed) + np.uint64(number) * _STREAM)
    size = np.uint64(owners.size)
    for _ in range(owners.size // 2):
        state += _STEP
        bits = _mix(state)
        counts[owners[((bits & _LOW) * size) >> _HALF]] += 1
        counts[owners[((bits >> _HALF) * size) >> _HALF]] += 1
    if owners.size % 2:
        counts[owners[((_mix(state + _STEP) & _LOW) * size) >> _HALF]] += 1


@njit(cache=True, nogil=True)
def resample(logs: _Numbers, seed: int, number: int) -> _Numbers:
    """Resample ``number`` of a seed: ``logs.size`` values drawn from the ascending ``logs``, ascending."""
    counts = np.empty(logs.size, np.int64)
    _count(np.arange(logs.size), seed, number, counts)
    return np.repeat(logs, counts)


@njit(cache=True, nogil=True)
def _drawn(distinct: _Numbers, counts: NDArray[np.int64], values: _Numbers, below: _Numbers) -> int:
    """Write the distinct values drawn and how many draws lie below each; returns the number of distinct values."""
    found, total = 0, 0.0
    for index in range(distinct.size):  # without a branch, which would be mispredicted every third time
        values[found], below[found] = distinct[index], total
        total += counts[index]
        found += counts[index] > 0
    below[found] = total
    return found


@njit(cache=True, nogil=True, inline="always")
def _power(x):  # type: ignore[no-untyped-def]
    """e^x for x ≤ 0 to a relative 2·10⁻⁸: 2^f by its series for |f| ≤ ½, the exponent added to the bits."""
    t = (x if x > -700.0 else -700.0) * 1.4426950408889634
    shifted = t + 6755399441055744.0  # 1.5·2⁵²: rounds t and leaves it in the lowest bits
    f = t - (shifted - 6755399441055744.0)
    series = 0.009618129107628477 + f * (0.0013333558146428443 + f * 0.00015403530393381608)
    series = 1.0 + f * (0.6931471805599453 + f * (0.24022650695910072 + f * (0.05550410866482158 + f * series)))
    bits = np.float64(series).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64)


@njit(cache=True, nogil=True, fastmath=_UNORDERED)
def _gaps(values: _Numbers, below: _Numbers, tail: tuple[float, float, float, float], gaps: _Numbers) -> None:
    """The distance at each value, to the step of the empirical distribution above it and below it."""
    slope, start, base, share = tail
    for j in range(values.size):
        law = 1.0 - _power(slope * (values[j] - start))
        over, under = law - (below[j] - base) * share, (below[j + 1] - 1.0 - base) * share - law
        gaps[j] = over if over > under else under


@njit(cache=True, nogil=True)
def farthest(values: _Numbers, below: _Numbers, k: int, slope: float, bound: float) -> tuple[float, int]:
    """D of the tail from k and its index; the search stops after the first block with a distance above the bound."""
    tail = -slope, values[k], below[k], 1.0 / (below[values.size] - below[k])
    gaps = np.empty(_BLOCK)
    largest, where = 0.0, k
    for first in range(k, values.size, _BLOCK):
        end = min(first + _BLOCK, values.size)
        _gaps(values[first:end], below[first : end + 1], tail, gaps)
        for j in range(end - first):
            if gaps[j] > largest:
                largest, where = gaps[j], first + j
        if largest > bound:
            break
    return largest, where


@njit(cache=True, nogil=True, error_model="numpy")
def _slopes(values: _Numbers, below: _Numbers, slopes: _Numbers) -> None:
    """α − 1 of the tail from each of the first values; 0 if all values of the tail are equal."""
    running, total = 0.0, below[values.size]
    for k in range(values.size - 1, -1, -1):
        running += values[k] * (below[k + 1] - below[k])
        if k < slopes.size:
            spread = running - (total - below[k]) * values[k]
            slopes[k] = (total - below[k]) / spread if spread > 0.0 else 0.0


@njit(cache=True, nogil=True, fastmath=_UNORDERED, error_model="numpy")
def _screen(values: _Numbers, below: _Numbers, slopes: _Numbers, spot: tuple[float, ...], gaps: _Numbers) -> None:
    """Raise ``gaps`` to the distance of each candidate at one ``spot``: (value, number below, number up to it, all)."""
    value, before, after, total = spot
    for k in range(slopes.size):
        share = 1.0 / (total - below[k])
        law = 1.0 - _power(-slopes[k] * (value - values[k]))
        over, under = law - (before - below[k]) * share, (after - 1.0 - below[k]) * share - law
        gap = over if over > under else under
        gaps[k] = gap if gap > gaps[k] else gaps[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _gap(values: _Numbers, below: _Numbers, k: int, slope: float, j: int) -> float:
    """The distance at the j-th value of the tail from k."""
    law, share = 1.0 - _power(-slope * (values[j] - values[k])), 1.0 / (below[values.size] - below[k])
    return float(max(law - (below[j] - below[k]) * share, (below[j + 1] - 1.0 - below[k]) * share - law))


@njit(cache=True, nogil=True)
def _bounds(
    sample: tuple[_Numbers, _Numbers], slopes: _Numbers, first: int, ended: NDArray[np.int64], smallest: float
) -> _Numbers:
    """Lower bounds of D for a block of candidates, spot by spot until few of them are below ``smallest``."""
    values, below = sample
    end = min(first + _BLOCK, slopes.size)
    gaps = np.zeros(end - first)
    for j in ended:
        stop = min(end, j)  # only tails that start before j are tested at the j-th value
        if stop <= first:
            continue
        spot = values[j], below[j], below[j + 1], below[values.size]
        _screen(values[first:stop], below[first:stop], slopes[first:stop], spot, gaps)
        left = 0
        for gap in gaps:
            if gap <= smallest:
                left += 1
        if left <= _FEW:
            break
    return gaps


@njit(cache=True, nogil=True)
def _refit(values: _Numbers, below: _Numbers, least: int, hint: float) -> float:
    """α of the tail with the smallest D among tails of at least ``least`` values; infinite if there is none."""
    total = below[values.size]
    last = values.size - 2
    while last >= 0 and total - below[last] < least:
        last -= 1
    if last < 0:
        return np.inf
    slopes = np.empty(last + 1)
    _slopes(values, below, slopes)
    ended = np.zeros(_SPOTS, np.int64)  # where candidates were dropped, the latest first
    best, exponent, smallest = -1, np.inf, np.inf
    near, unknown = min(int(np.searchsorted(values, hint)), last), np.zeros(_BLOCK)
    for low, high, step in ((near, near + 1, _BLOCK), (0, last + 1, max(last // _COARSE, 1)), (0, last + 1, 1)):
        for first in range(low, high, step * _BLOCK):
            end = min(first + step * _BLOCK, high)
            bounds = _bounds((values, below), slopes, first, ended, smallest) if step == 1 else unknown
            for place, k in enumerate(range(first, end, step)):
                if bounds[place] > smallest or slopes[k] == 0.0:
                    continue
                j = ended[0]  # may be newer than the screening
                if j > k and _gap(values, below, k, slopes[k], j) > smallest:
                    continue
                distance, where = farthest(values, below, k, slopes[k], smallest)
                for spot in range(_SPOTS - 1, 0, -1):
                    ended[spot] = ended[spot - 1]
                ended[0] = where
                if distance < smallest or (distance == smallest and k < best):
                    best, exponent, smallest = k, slopes[k], distance
    return 1.0 + exponent


@njit(cache=True, nogil=True)
def refitted_alphas(logs: _Numbers, seed: int, numbers: tuple[int, int], least: int, hint: float) -> _Numbers:
    """α of resamples ``numbers[0]`` to ``numbers[1]`` − 1 of a seed; infinite without a slope.

    In each, λ_min is chosen again among tails of at least ``least`` values. ``hint`` is the logarithm of a λ_min to try
    first, which changes the time and not the result.
    """
    distinct = np.unique(logs)
    owners = np.searchsorted(distinct, logs)
    counts = np.empty(distinct.size, np.int64)
    values, below = np.empty(distinct.size + 1), np.empty(distinct.size + 1)
    first, end = numbers
    alphas = np.empty(end - first)
    for number in range(first, end):
        _count(owners, seed, number, counts)
        found = _drawn(distinct, counts, values, below)
        alphas[number - first] = _refit(values[:found], below[: found + 1], least, hint)
    return alphas


@njit(cache=True, nogil=True)
def simulate(logs: _Numbers, start: int, alpha: float, rng: np.random.Generator) -> _Numbers:
    """A sample of the law: values drawn from ascending ``logs``, those from index ``start`` on replaced by new draws.

    The logarithm of a Pareto value beyond its λ_min is exponential with mean 1/(α − 1). The result is ascending.
    """
    size = logs.size
    counts = np.zeros(size, np.int64)
    for _ in range(size):
        counts[int(rng.random() * size)] += 1
    sample = np.empty_like(logs)
    body = 0
    for index in range(start):
        for _ in range(counts[index]):
            sample[body] = logs[index]
            body += 1
    for index in range(body, size):
        sample[index] = logs[start] + rng.standard_exponential() / (alpha - 1.0)
    sample[body:].sort()
    return sample


@njit(cache=True, nogil=True)
def refitted_distances(logs: _Numbers, start: int, alpha: float, rng: np.random.Generator, resamples: int) -> _Numbers:
    """The smallest D of each of ``resamples`` samples of the law; infinite without a slope."""
    distances = np.empty(resamples)
    for number in range(resamples):
        distances[number] = best_cut(simulate(logs, start, alpha, rng), 2)[2]
    return distances
