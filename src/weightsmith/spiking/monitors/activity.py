"""Firing statistics of populations: rates, silence, regularity, overshoot (discussed but not measured in seed 000).

A *train* is the sequence of spikes of one unit for one image. With n_k its spikes in the k-th of K whole windows of W
steps, and I_1 … I_n the intervals between its spikes:

    Fano factor        F = s²/m,   m = Σ n_k/K,   s² = Σ (n_k − m)²/(K − 1)
    interval CV        c² = (n + 1)/n · s²/m²,    m = Σ I_i/n,   s² = Σ (I_i − m)²/(n − 1)
    overshoot          (v − θ)/θ of a membrane v that fires at the threshold θ

Both F and c² are 1 − p for Bernoulli trains of probability p (1 for Poisson trains) and 0 for regular ones. This holds
for short trains too: over all trains with N spikes in T = K·W steps the mean of F is (1 − N/T)·T/(T − 1), and over all
with n intervals in a span of S steps the mean of c² is 1 − n/S, due to the factor (n + 1)/n. A train of one spike
always has F = 1; so F is averaged over the trains of at least two spikes (in whole windows), c² over those of at least
three with weights n − 1, and the interval CV is the root of that mean.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.spiking.graph import Neurons
from weightsmith.spiking.monitors._watching import Watched, check_units, chosen, per_unit
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded

__all__ = ["ActivityRecord", "PopulationStatistics", "Statistics"]


@dataclasses.dataclass(frozen=True, eq=False)
class PopulationStatistics(Record):
    """The firing of one population; None where nothing fired, or too little.

    ``rate`` is spikes per unit and step, ``rate_variance`` the variance over units of each unit's rate over all images,
    ``silent`` the share of units that fired for no image. ``rate_noise`` is the variance over windows of the rate
    within them, averaged over all trains: the temporal noise that the next layer receives. ``fano`` and ``interval_cv``
    are means over ``fano_trains`` and ``interval_trains`` trains, ``overshoot`` over all spikes above a threshold, in
    thresholds (None for graded neurons, which have no single threshold). ``taken_back`` is the share of the spikes that
    are negative, None for unsigned neurons; all other figures count spikes of both signs alike.
    """

    name: str
    layer: str
    units: int
    spikes: int
    rate: float
    rate_variance: float
    silent: float
    rate_noise: float | None
    fano: float | None
    fano_trains: int
    interval_cv: float | None
    interval_trains: int
    overshoot: float | None
    taken_back: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class ActivityRecord(Record):
    """The firing of the populations for ``images`` images, from step ``skip`` on, ``steps`` steps on average."""

    images: int
    steps: float
    skip: int
    window: int
    populations: tuple[PopulationStatistics, ...]

    def of(self, name: str) -> PopulationStatistics:
        """The statistics of one population."""
        for population in self.populations:
            if population.name == name:
                return population
        raise UsageError(f"{name!r} was not watched (watched: {', '.join(item.name for item in self.populations)})")


class Statistics:
    """An observer that measures how populations fire, for some images.

    ``images`` is a number of first rows of the input, or a list of rows. Steps before ``skip`` are left out: deeper
    layers start late, which looks like variance. Memory is 32 bytes per unit and image, for any number of steps.
    Overshoot needs membranes, which cost time; without ``overshoot`` it is None.
    """

    def __init__(
        self,
        network: SpikingNetwork,
        *,
        images: int | Iterable[int] = 16,
        populations: Iterable[str] | None = None,
        window: int = 10,
        skip: int = 0,
        overshoot: bool = True,
    ) -> None:
        if window < 1 or skip < 0:
            raise UsageError(f"window must be ≥ 1 and skip ≥ 0, not {window} and {skip}")
        self.membranes, self.inputs = overshoot and not isinstance(network.neuron, Graded), False
        self._network, self._window, self._skip = network, window, skip
        nodes = chosen(network, populations)
        self._watched = Watched(images, nodes)
        self._trains = {node.name: _Trains(network, node, len(self._watched.rows), window) for node in nodes}

    def see(
        self,
        population: str,
        images: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Add a part of the run."""
        if population not in self._trains:
            return
        check_units(self._network, population, spikes)
        here, mine = self._watched.indices(population, images, step, spikes.shape[1])
        early = min(max(self._skip - step, 0), spikes.shape[1])
        if len(here) == 0 or early == spikes.shape[1]:
            return
        tested = None if membranes is None or not self.membranes else membranes[here, early:]
        self._trains[population].add(mine, step + early - self._skip, spikes[here, early:], tested)

    def record(self) -> ActivityRecord:
        """The statistics measured."""
        ended = np.maximum(self._watched.ended() - self._skip, 0)
        shown = ended > 0
        if not shown.any():
            raise UsageError(f"no image was run for more than the {self._skip} steps that are skipped")
        return ActivityRecord(
            images=int(shown.sum()),
            steps=float(ended[shown].mean()),
            skip=self._skip,
            window=self._window,
            populations=tuple(trains.statistics(ended) for trains in self._trains.values()),
        )


class _Trains:
    """Sums over the trains of one population, one entry for each image and unit."""

    def __init__(self, network: SpikingNetwork, node: Neurons, images: int, window: int) -> None:
        self._node, self._window = node, window
        self._units = math.prod(network.shapes[node.name])
        self._threshold = per_unit(network, node.name, node.threshold).reshape(-1)
        trains = images * self._units
        self._count = np.zeros(trains, np.int32)
        self._first, self._last = np.full(trains, -1, np.int32), np.full(trains, -1, np.int32)
        self._intervals_squared = np.zeros(trains, np.int64)
        self._in_window, self._in_windows = np.zeros(trains, np.int32), np.zeros(trains, np.int32)
        self._windows_squared = np.zeros(trains, np.int32)
        self._overshoot, self._signed, self._negative = 0.0, network.neuron.signed, 0
        self._tested = 0

    def add(
        self, images: NDArray[np.int64], step: int, spikes: NDArray[np.integer], membranes: NDArray[np.floating] | None
    ) -> None:
        signs = spikes.reshape(len(images), spikes.shape[1], self._units)
        fired = (signs != 0).view(np.uint8)
        self._negative += int((signs < 0).sum())
        trains = (images[:, None] * self._units + np.arange(self._units)).reshape(-1)
        self._add_windows(trains, step, fired)
        by_train = np.ascontiguousarray(fired.transpose(0, 2, 1))
        events = np.flatnonzero(by_train)
        if len(events) == 0:
            return
        row, offset = np.divmod(events, fired.shape[1])
        self._add_intervals(trains[row], offset.astype(np.int32) + np.int32(step))
        if membranes is not None:
            image, unit = np.divmod(row, self._units)
            up = signs[image, offset, unit] > 0  # a negative spike passes no threshold
            tested = membranes.reshape(fired.shape)[image, offset, unit].astype(np.float64)[up]
            self._overshoot += float((tested / self._threshold[unit[up]] - 1).sum())
            self._tested += int(up.sum())

    def _add_windows(self, trains: NDArray[np.int64], step: int, fired: NDArray[np.uint8]) -> None:
        start = 0
        while start < fired.shape[1]:
            room = self._window - (step + start) % self._window
            stop = min(start + room, fired.shape[1])
            counts = self._in_window[trains] + fired[:, start:stop].sum(axis=1, dtype=np.int32).reshape(-1)
            if stop - start == room:
                self._in_windows[trains] += counts
                self._windows_squared[trains] += counts**2
                counts[:] = 0
            self._in_window[trains] = counts
            start = stop

    def _add_intervals(self, trains: NDArray[np.int64], times: NDArray[np.int32]) -> None:
        """Add spikes that are ordered by train and, within it, by time."""
        begins = np.flatnonzero(np.diff(trains, prepend=-1))
        ends = np.append(begins[1:], len(trains)) - 1
        firing = trains[begins]
        before = np.empty_like(times)
        before[1:] = times[:-1]
        before[begins] = self._last[firing]
        squares = np.where(before >= 0, (times - before).astype(np.int64) ** 2, 0)
        self._intervals_squared[firing] += np.add.reduceat(squares, begins)
        self._count[firing] += (ends - begins + 1).astype(np.int32)
        new = self._first[firing] < 0
        self._first[firing[new]] = times[begins[new]]
        self._last[firing] = times[ends]

    def statistics(self, ended: NDArray[np.int64]) -> PopulationStatistics:
        by_image = self._count.reshape(len(ended), self._units)
        by_unit = by_image.sum(axis=0)
        steps = int(ended.sum())
        noise, fano, fano_trains = self._over_windows(np.repeat(ended // self._window, self._units))
        interval_cv, interval_trains = self._over_intervals()
        return PopulationStatistics(
            name=self._node.name,
            layer=self._node.layer,
            units=self._units,
            spikes=int(by_unit.sum()),
            rate=int(by_unit.sum()) / (self._units * steps),
            rate_variance=float(by_unit.var()) / steps**2,
            silent=float((by_unit == 0).mean()),
            rate_noise=noise,
            fano=fano,
            fano_trains=fano_trains,
            interval_cv=interval_cv,
            interval_trains=interval_trains,
            overshoot=self._overshoot / self._tested if self._tested else None,
            taken_back=self._negative / int(by_unit.sum()) if self._signed and by_unit.any() else None,
        )

    def _over_windows(self, windows: NDArray[np.int64]) -> tuple[float | None, float | None, int]:
        """The variance of the rate over windows, the mean Fano factor, and the number of trains."""
        long = windows >= 2
        if not long.any():
            return None, None, 0
        count, spikes = windows[long], self._in_windows[long].astype(np.float64)
        variance = (self._windows_squared[long] - spikes**2 / count) / (count - 1)
        firing = spikes >= 2
        factors = variance[firing] * count[firing] / spikes[firing]
        return (
            float(variance.mean()) / self._window**2,
            float(factors.mean()) if len(factors) else None,
            len(factors),
        )

    def _over_intervals(self) -> tuple[float | None, int]:
        """The interval CV and the number of trains."""
        enough = self._count >= 3
        if not enough.any():
            return None, 0
        number = self._count[enough] - 1.0
        mean = (self._last[enough] - self._first[enough]) / number
        squares = self._intervals_squared[enough] - number * mean**2  # Σ (I − m)²
        weighted = (number + 1) / number * squares / mean**2
        # Rounding can give a value slightly below zero if all intervals are equal.
        return math.sqrt(max(0.0, float(weighted.sum() / (number - 1).sum()))), int(enough.sum())
