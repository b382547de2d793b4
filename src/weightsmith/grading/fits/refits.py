"""Compiled resampling of a spectrum and of the law fitted to it, with refits.

A sample is ascending without being sorted: drawing indices of an ascending array and counting them is enough. Numbers
come from the NumPy generator that is handed in, in the order in which its own methods would give them, so that a slow
version in NumPy draws the same samples.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from weightsmith.grading.fits.scan import best_cut

__all__ = ["refitted_alphas", "refitted_distances", "resample", "simulate"]


@njit(cache=True, nogil=True)
def _draw(logs: NDArray[np.float64], rng: np.random.Generator, known: int, sample: NDArray[np.float64]) -> int:
    """Draw as many values as ``logs`` has, with replacement; write those with an index below ``known``, ascending.

    Returns how many were written.
    """
    size = logs.size
    counts = np.zeros(size, np.int64)
    for _ in range(size):
        counts[int(rng.random() * size)] += 1
    written = 0
    for index in range(known):
        for _ in range(counts[index]):
            sample[written] = logs[index]
            written += 1
    return written


@njit(cache=True, nogil=True)
def resample(logs: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """As many values as there are, drawn from ascending ``logs`` with replacement, ascending."""
    sample = np.empty_like(logs)
    _draw(logs, rng, logs.size, sample)
    return sample


@njit(cache=True, nogil=True)
def simulate(logs: NDArray[np.float64], start: int, alpha: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """As :func:`resample`, but values from index ``start`` on are drawn anew from the law, ascending.

    The logarithm of a Pareto value beyond its λ_min is exponential with mean 1/(α − 1).
    """
    sample = np.empty_like(logs)
    body = _draw(logs, rng, start, sample)
    for index in range(body, logs.size):
        sample[index] = logs[start] + rng.standard_exponential() / (alpha - 1.0)
    sample[body:].sort()
    return sample


@njit(cache=True, nogil=True)
def refitted_alphas(
    logs: NDArray[np.float64], rng: np.random.Generator, resamples: int, least: int
) -> NDArray[np.float64]:
    """α of so many resamples, λ_min chosen anew in each among tails of at least ``least``; infinite without a slope."""
    alphas = np.empty(resamples)
    for number in range(resamples):
        alphas[number] = best_cut(resample(logs, rng), least)[1]
    return alphas


@njit(cache=True, nogil=True)
def refitted_distances(
    logs: NDArray[np.float64], start: int, alpha: float, rng: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """The smallest D of so many samples of the law; infinite without a slope."""
    distances = np.empty(resamples)
    for number in range(resamples):
        distances[number] = best_cut(simulate(logs, start, alpha, rng), 2)[2]
    return distances
