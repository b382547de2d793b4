"""Monte Carlo simulation of membranes without a threshold, to check :mod:`weightsmith.spiking.theory.potential`.

Both simulators are exact. In continuous time there is no time grid: the spikes of a span are Poisson in number and
uniform in time, and the remainder of each at the end is summed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import OptionError
from weightsmith.core.options import check_int
from weightsmith.core.seeds import stream
from weightsmith.spiking.theory._checks import (
    ascending,
    check_events,
    check_leak,
    check_tau,
    numbers,
    one_neuron,
    rates_of,
    signed_inputs,
    whole_steps,
)

__all__ = ["simulate_shot_noise", "simulate_steps"]

_BATCH = 2_000_000  # random numbers drawn at once


def simulate_shot_noise(
    weights: ArrayLike, rates: ArrayLike, tau: float, time: ArrayLike, *, trials: int, seed: int
) -> NDArray[np.float64]:
    """Potentials of one neuron a ``time`` after they were 0, one per trial; with several times, one path per row.

    Each input sends Poisson spikes at its rate, each spike adds the input's weight, and potentials decay with the time
    constant ``tau`` (infinite: no leak). Times ascend; a path is exact at each of them, however far they are apart.

    >>> potentials = simulate_shot_noise([2.0], [1.0], tau=1, time=20, trials=100_000, seed=0)
    >>> round(float(potentials.mean()), 1), round(float(potentials.var()), 1)
    (2.0, 2.0)
    """
    w, lam, tau = numbers(weights, "weights"), rates_of(rates), check_tau(tau)
    one_neuron(w, lam, "rates")
    asked = numbers(time, "times")
    times, trials = ascending(asked, "times"), check_int("trials", trials)
    if times[0] < 0:
        raise OptionError(f"times must be ≥ 0, not {times[0]:g}")
    check_events(float(lam.sum() * times[-1]))
    generator = stream(seed, "shot noise")
    paths, potentials = np.empty((trials, times.size)), np.zeros(trials)
    for index, span in enumerate(np.diff(times, prepend=0.0)):
        potentials = potentials * math.exp(-span / tau) + _arrived(generator, w, lam, span, tau, trials=trials)
        paths[:, index] = potentials
    return paths if asked.ndim else paths[:, 0]


def simulate_steps(
    weights: ArrayLike, inputs: ArrayLike, leak: float, steps: ArrayLike, *, trials: int, seed: int
) -> NDArray[np.float64]:
    """Potentials of one neuron after ``steps`` of signed Bernoulli spikes, one per trial; one path per row for several.

    In every step input i spikes with probability |xᵢ|, with the sign of xᵢ, and V ← leak·V + Σ wᵢ·spikeᵢ.

    >>> potentials = simulate_steps([1.0, 2.0], [0.5, -0.25], leak=0.5, steps=30, trials=100_000, seed=0)
    >>> round(abs(float(potentials.mean())), 1), round(float(potentials.var()), 1)
    (0.0, 1.3)
    """
    w, x, leak = numbers(weights, "weights"), signed_inputs(inputs), check_leak(leak)
    one_neuron(w, x, "inputs")
    asked = whole_steps(steps)
    counts, trials = ascending(asked, "steps"), check_int("trials", trials)
    if counts[0] < 1:
        raise OptionError(f"steps must be ≥ 1, not {counts[0]:g}")
    generator = stream(seed, "steps")
    paths = np.empty((trials, counts.size))
    signed, chance = w * np.sign(x), np.abs(x)
    size = max(1, _BATCH // w.size)
    for first in range(0, trials, size):
        some = paths[first : first + size]
        potentials = np.zeros(len(some))
        for step in range(1, int(counts[-1]) + 1):
            spikes = generator.random((len(some), w.size)) < chance
            potentials = leak * potentials + spikes @ signed
            some[:, counts == step] = potentials[:, None]
    return paths if asked.ndim else paths[:, 0]


def _arrived(
    generator: np.random.Generator,
    weights: NDArray[np.float64],
    rates: NDArray[np.float64],
    span: float,
    tau: float,
    *,
    trials: int,
) -> NDArray[np.float64]:
    """The remaining potential of the spikes of the last ``span``, for each trial."""
    left = np.empty(trials)
    size = max(1, int(_BATCH / (rates.sum() * span + rates.size)))
    for first in range(0, trials, size):
        some = left[first : first + size]
        counts = generator.poisson(rates * span, (len(some), rates.size))
        heights = np.repeat(np.broadcast_to(weights, counts.shape), counts.ravel())
        heights *= np.exp(generator.random(heights.size) * (-span / tau))
        some[:] = np.bincount(np.repeat(np.arange(len(some)), counts.sum(1)), heights, len(some))
    return left
