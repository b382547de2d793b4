"""Spike rasters: the spikes and membranes of a few units for a few images, step by step.

Units are drawn by the seed, since evenly spaced ones would fall on the same few channels. Only these are kept, so
memory is a few numbers per step for a network of any size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.core.seeds import stream
from weightsmith.spiking.graph import Neurons
from weightsmith.spiking.monitors._watching import Watched, check_units, chosen, per_unit
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["PopulationRaster", "Raster", "RasterRecord"]


@dataclasses.dataclass(frozen=True, eq=False)
class PopulationRaster(Record):
    """Some units of one population.

    Row r of the raster is the unit at ``positions[r]`` (row by row of an image) of channel ``channels[r]``, with the
    threshold ``thresholds[r]``. Spike k was fired for the image ``spike_images[k]`` (an index into
    :attr:`RasterRecord.images`) at step ``spike_steps[k]`` (from 0) by row ``spike_rows[k]``, ordered in this way.
    ``membranes`` (images, steps, rows) are those just before they are compared with the threshold, and 0 after the last
    step of an image. ``spike_sizes`` are −1 and +1 for signed neurons, whole numbers of the smallest size for graded
    ones, and None where all spikes are alike.
    """

    name: str
    layer: str
    positions: NDArray[np.int64]
    channels: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    spike_images: NDArray[np.int32]
    spike_steps: NDArray[np.int32]
    spike_rows: NDArray[np.int32]
    membranes: NDArray[np.float32] | None
    spike_sizes: NDArray[np.int8] | None = None

    def spikes(self, image: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Steps and rows of the spikes for the image at this index, as for a scatter plot."""
        of_image = self.spike_images == image
        return self.spike_steps[of_image], self.spike_rows[of_image]

    def taken_back(self, image: int) -> NDArray[np.bool_]:
        """Which of the :meth:`spikes` are negative."""
        of_image = self.spike_images == image
        if self.spike_sizes is None:
            return np.zeros(int(of_image.sum()), np.bool_)
        found: NDArray[np.bool_] = self.spike_sizes[of_image] < 0
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class RasterRecord(Record):
    """Rasters of some populations; ``images`` are rows of the input, ``steps`` the number of steps seen of each."""

    images: tuple[int, ...]
    steps: tuple[int, ...]
    populations: tuple[PopulationRaster, ...]


class Raster:
    """An observer that keeps the spikes (and, with ``membranes``, the membranes) of ``units`` units of each population.

    ``images`` is a number of first rows of the input, or a list of rows.
    """

    def __init__(
        self,
        network: SpikingNetwork,
        *,
        images: int | Iterable[int] = 1,
        units: int = 50,
        populations: Iterable[str] | None = None,
        membranes: bool = False,
        seed: int = 0,
    ) -> None:
        if units < 1:
            raise UsageError(f"units must be ≥ 1, not {units}")
        self.membranes, self.inputs = membranes, False
        self._network = network
        nodes = chosen(network, populations)
        self._watched = Watched(images, nodes)
        self._kept = {node.name: _Kept(network, node, units, seed) for node in nodes}

    def see(
        self,
        population: str,
        images: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Keep the part that belongs to the chosen units."""
        if population not in self._kept:
            return
        check_units(self._network, population, spikes)
        here, mine = self._watched.indices(population, images, step, spikes.shape[1])
        if len(here):
            self._kept[population].add(here, mine, step, spikes, membranes)

    def record(self) -> RasterRecord:
        """The recorded rasters."""
        ended = self._watched.ended()
        shown = np.flatnonzero(ended)
        return RasterRecord(
            images=tuple(self._watched.rows[shown].tolist()),
            steps=tuple(ended[shown].tolist()),
            populations=tuple(kept.raster(shown, int(ended.max())) for kept in self._kept.values()),
        )


class _Kept:
    """The parts seen of the chosen units of one population."""

    def __init__(self, network: SpikingNetwork, node: Neurons, units: int, seed: int) -> None:
        self._node = node
        total = math.prod(network.shapes[node.name])
        drawn = stream(seed, "raster", node.name).choice(total, min(units, total), replace=False)
        self._positions, self._channels = np.divmod(np.sort(drawn), network.shapes[node.name][0])
        self._thresholds = per_unit(network, node.name, node.threshold)[self._positions, self._channels]
        self._spikes, self._signed = [np.empty((4, 0), np.int64)], network.neuron.signed
        self._membranes: list[tuple[NDArray[np.int64], int, NDArray[np.float32]]] = []

    def add(
        self,
        here: NDArray[np.int64],
        mine: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        taken = self._taken(here, spikes)
        image, offset, row = np.nonzero(taken)
        self._spikes.append(np.stack((mine[image], offset + step, row, taken[image, offset, row].astype(np.int64))))
        if membranes is not None:
            self._membranes.append((mine, step, self._taken(here, membranes).astype(np.float32)))

    def _taken(self, here: NDArray[np.int64], values: NDArray[np.generic]) -> NDArray[np.generic]:
        """The values (images, steps, rows) of the chosen images and units."""
        return values[here][:, :, self._positions, self._channels]

    def raster(self, images: NDArray[np.int64], steps: int) -> PopulationRaster:
        spikes = np.concatenate(self._spikes, axis=1)
        image, step, row, size = spikes[:, np.lexsort(spikes[2::-1])].astype(np.int32)
        return PopulationRaster(
            name=self._node.name,
            layer=self._node.layer,
            positions=self._positions,
            channels=self._channels,
            thresholds=self._thresholds,
            spike_images=np.searchsorted(images, image).astype(np.int32),
            spike_steps=step,
            spike_rows=row,
            membranes=self._traces(images, steps) if self._membranes else None,
            spike_sizes=size.astype(np.int8) if self._signed else None,
        )

    def _traces(self, images: NDArray[np.int64], steps: int) -> NDArray[np.float32]:
        traces = np.zeros((len(images), steps, len(self._positions)), np.float32)
        for mine, step, part in self._membranes:
            traces[np.searchsorted(images, mine), step : step + part.shape[1]] = part
        return traces
