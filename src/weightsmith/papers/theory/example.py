"""Figures 1 and 2 of the L4-norm paper: two neurons with the same mean potential that are not equally likely to fire.

Each has one input and τ = 1: the first rate 1 and weight 2, the second rate 2 and weight 1. Both means are 2, the
variances 2 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.options import check_int
from weightsmith.core.records import Record
from weightsmith.core.seeds import subseed
from weightsmith.spiking.theory.firing import poisson_train
from weightsmith.spiking.theory.potential import exceeds, shot_noise
from weightsmith.spiking.theory.simulation import simulate_shot_noise

__all__ = ["RATES", "TAU", "WEIGHTS", "AboveThreshold", "SameMean", "above_threshold", "same_mean"]

RATES, WEIGHTS, TAU = (1.0, 2.0), (2.0, 1.0), 1.0

_SETTLED = 20.0  # time constants after which what is missing of the steady state is below e⁻²⁰
_LEVELS = 161


@dataclass(frozen=True, eq=False)
class SameMean(Record):
    """The data of Figure 1: input spikes of the two neurons, and mean and variance of their potentials over time.

    ``means`` and ``variances`` are (neurons, times) after eqs. 1 and 2; ``steady_means`` and ``steady_variances`` are
    where they go. ``spikes`` are the times of one draw of each neuron's input.
    """

    rates: tuple[float, ...]
    weights: tuple[float, ...]
    tau: float
    times: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    steady_means: tuple[float, ...]
    steady_variances: tuple[float, ...]
    spikes: tuple[NDArray[np.float64], ...]
    seed: int


@dataclass(frozen=True, eq=False)
class AboveThreshold(Record):
    """The data of Figure 2: potentials over time, how they are distributed, and how often they are above a threshold.

    ``paths`` are (neurons, times), one draw each. ``simulated``, ``lognormal`` and ``normal`` are (neurons, levels):
    the probability to be above each of ``levels`` in the steady state, by simulation of so many ``trials`` and by the
    two approximations; ``above_…`` are the same at ``threshold``.
    """

    rates: tuple[float, ...]
    weights: tuple[float, ...]
    tau: float
    threshold: float
    means: tuple[float, ...]
    variances: tuple[float, ...]
    times: NDArray[np.float64]
    paths: NDArray[np.float64]
    levels: NDArray[np.float64]
    simulated: NDArray[np.float64]
    lognormal: NDArray[np.float64]
    normal: NDArray[np.float64]
    above_simulated: tuple[float, ...]
    above_lognormal: tuple[float, ...]
    above_normal: tuple[float, ...]
    trials: int
    seed: int


def same_mean(*, duration: float = 6.0, points: int = 121, seed: int = 0) -> SameMean:
    """Figure 1: mean and variance of the two potentials from 0 to ``duration``, and one draw of their input spikes.

    The paper draws the two neurons; over how long is ours.

    >>> example = same_mean()
    >>> example.steady_means, example.steady_variances
    ((2.0, 2.0), (2.0, 1.0))
    """
    times = np.linspace(0.0, _checked_duration(duration), check_int("points", points))
    moments, steady = shot_noise(*_columns(), TAU, times), shot_noise(*_columns(), TAU)
    trains = [poisson_train([rate], duration, subseed(seed, "same mean", i)) for i, rate in enumerate(RATES)]
    return SameMean(
        rates=RATES,
        weights=WEIGHTS,
        tau=TAU,
        times=times,
        means=moments.mean,
        variances=moments.variance,
        steady_means=tuple(steady.mean.tolist()),
        steady_variances=tuple(steady.variance.tolist()),
        spikes=tuple(np.cumsum(train.intervals) for train in trains),
        seed=seed,
    )


def above_threshold(
    *, threshold: float = 4.0, duration: float = 30.0, points: int = 3001, trials: int = 200_000, seed: int = 0
) -> AboveThreshold:
    """Figure 2: paths of the two potentials, their distributions, and how often each is above ``threshold``.

    The paper names no threshold but says that it lies above the mean; 4 is twice the mean.
    """
    steady = shot_noise(*_columns(), TAU)
    times = np.linspace(0.0, _checked_duration(duration), check_int("points", points))
    levels = np.linspace(0.0, max(8.0, 1.25 * threshold), _LEVELS)
    paths, drawn = np.empty((2, times.size)), []
    for index, neuron in enumerate(zip(WEIGHTS, RATES, strict=True)):
        weight, rate = ([value] for value in neuron)
        seeds = subseed(seed, "path", index), subseed(seed, "settled", index)
        paths[index] = simulate_shot_noise(weight, rate, TAU, times, trials=1, seed=seeds[0])
        settled = simulate_shot_noise(weight, rate, TAU, _SETTLED * TAU, trials=trials, seed=seeds[1])
        drawn.append(np.sort(settled))
    mean, variance = steady.mean[:, None], steady.variance[:, None]
    at = np.array([threshold])
    return AboveThreshold(
        rates=RATES,
        weights=WEIGHTS,
        tau=TAU,
        threshold=float(threshold),
        means=tuple(steady.mean.tolist()),
        variances=tuple(steady.variance.tolist()),
        times=times,
        paths=paths,
        levels=levels,
        simulated=np.stack([_shares(potentials, levels) for potentials in drawn]),
        lognormal=exceeds(levels, mean, variance),
        normal=exceeds(levels, mean, variance, "normal"),
        above_simulated=tuple(float(_shares(potentials, at)[0]) for potentials in drawn),
        above_lognormal=tuple(exceeds(threshold, *steady).tolist()),
        above_normal=tuple(exceeds(threshold, *steady, "normal").tolist()),
        trials=trials,
        seed=seed,
    )


def _columns() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights and rates as two neurons of one input each."""
    return np.array(WEIGHTS)[:, None], np.array(RATES)[:, None]


def _shares(ordered: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of the ordered values that lie above each level."""
    return 1.0 - np.searchsorted(ordered, levels, side="right") / ordered.size


def _checked_duration(duration: float) -> float:
    if not 0 < duration < np.inf:
        raise UsageError(f"duration must be > 0 and finite, not {duration!r}")
    return float(duration)
