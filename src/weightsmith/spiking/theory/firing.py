"""Event-driven simulation of firing leaky neurons in continuous time.

Several neurons can receive the same spikes, so that differences between them are not due to the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.core.options import check_int
from weightsmith.core.seeds import stream
from weightsmith.spiking.theory._checks import check_events, check_reset, check_tau, numbers, rates_of

__all__ = ["PoissonTrain", "count_spikes", "matching_threshold", "poisson_train"]

_HALVINGS = 24  # of the bracket around a threshold


@dataclass(frozen=True, eq=False)
class PoissonTrain:
    """Poisson spikes of several inputs over ``duration``: for each the time since the previous spike, and its input."""

    intervals: NDArray[np.float64]
    sources: NDArray[np.int64]
    inputs: int
    duration: float

    def __len__(self) -> int:
        return self.intervals.size


def poisson_train(rates: ArrayLike, duration: float, seed: int) -> PoissonTrain:
    """Independent Poisson spikes at ``rates``, one rate per input.

    >>> train = poisson_train([3.0, 1.0], duration=10_000, seed=0)
    >>> round(len(train) / train.duration, 1), round(float((train.sources == 0).mean()), 2)
    (4.0, 0.75)
    """
    lam = rates_of(rates)
    if lam.ndim != 1 or not lam.size:
        raise DataMismatch(f"rates are a list with one value per input, not of shape {lam.shape}")
    if not 0 < duration < np.inf:
        raise OptionError(f"duration must be > 0 and finite, not {duration!r}")
    total = float(lam.sum())
    check_events(total * duration)
    generator = stream(seed, "poisson train")
    number = int(generator.poisson(total * duration))
    # The spacings of that many uniform points, without sorting: exponential ones, scaled to their sum.
    gaps = generator.standard_exponential(number + 1)
    intervals = gaps[:-1] * (duration / gaps.sum())
    sources = np.searchsorted(np.cumsum(lam)[:-1], generator.random(number) * total, side="right")
    return PoissonTrain(intervals, sources.astype(np.int64), lam.size, float(duration))


def count_spikes(
    train: PoissonTrain,
    weights: ArrayLike,
    tau: float,
    thresholds: ArrayLike,
    *,
    reset: Literal["hard", "soft"] = "hard",
    parts: int = 1,
) -> NDArray[np.int64]:
    """How often each unit fires in each of ``parts`` equal parts of the time: an array (units, parts).

    ``weights`` are (units, inputs); ``thresholds`` one for all units or one each. A spike of input i lifts V by wᵢ; if
    V is then above the threshold the unit fires, and V falls to 0 (hard) or by the threshold (soft). A unit fires at
    most once per input spike.

    >>> train = poisson_train([1.0], duration=1000, seed=0)
    >>> once, third = count_spikes(train, [[1.0], [1.0]], float("inf"), thresholds=[0.5, 2.5]).sum(axis=1).tolist()
    >>> once == len(train), third == len(train) // 3
    (True, True)
    """
    from weightsmith.spiking.theory._kernels import count

    decays, lifts = _drive(train, weights, tau)
    levels = numbers(thresholds, "thresholds")
    if levels.ndim > 1 or (levels.ndim and levels.size != len(lifts)):
        raise DataMismatch(f"thresholds must be one number or one for each of {len(lifts)} units, not {levels.shape}")
    if (levels <= 0).any():
        raise OptionError(f"thresholds must be > 0, not {levels.min():g}")
    limits = train.duration * np.arange(1, check_int("parts", parts) + 1) / parts
    ends = np.searchsorted(np.cumsum(train.intervals), limits)
    ends[-1] = len(train)  # even if the last time was rounded
    spikes: NDArray[np.int64] = count(decays, lifts, ends, np.full(len(lifts), levels), check_reset(reset))
    return spikes


def matching_threshold(
    train: PoissonTrain, weights: ArrayLike, tau: float, spikes: int, *, reset: Literal["hard", "soft"] = "hard"
) -> float:
    """The threshold at which a unit with these weights fires as often as ``spikes``, found by bisection.

    More precisely the lowest at which it fires no more often than that; with thousands of spikes the thresholds of two
    neighbouring counts are close.
    """
    from weightsmith.spiking.theory._kernels import count

    row = numbers(weights, "weights")[None]
    decays, lifts = _drive(train, row, tau)
    whole_time, hard = np.array([len(train)]), check_reset(reset)

    def fired(threshold: float) -> int:
        return int(count(decays, lifts, whole_time, np.array([threshold]), hard)[0, 0])

    if fired(np.finfo(float).tiny) <= spikes:
        raise UsageError(f"a unit with these weights never fires {spikes} times, at any threshold")
    low, high = 0.0, float(np.abs(row).sum())
    while fired(high) > spikes:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fired(middle) > spikes else (low, middle)
    return high


def _drive(train: PoissonTrain, weights: ArrayLike, tau: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The decay of potentials at each input spike, and the rise of each unit's potential (units, spikes)."""
    w = numbers(weights, "weights")
    if w.ndim != 2 or w.shape[1] != train.inputs:
        raise DataMismatch(f"weights must be (units, {train.inputs}), one per input of the train, not {w.shape}")
    return np.exp(-train.intervals / check_tau(tau)), np.take(w, train.sources, axis=1)
