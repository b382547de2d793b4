"""Spike counts per unit and accumulates per step, for the exact count of operations.

    counts = UnitCounts(network)
    responses = network.run(x, 75, seed=0, observers=[counts])

Images are summed as they come, so memory is that of one image and does not grow with the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.energy.fan_out import Landing, landings_of, root_gates
from weightsmith.spiking.graph import INPUT, Gate, Shape
from weightsmith.spiking.monitors._watching import check_units
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Passing", "UnitCounts"]


_SLICE = 255  # spikes of this many images can be summed in 8 bits, which is several times faster


class UnitCounts:
    """An observer that counts the spikes of every unit over all images and steps of one run.

    Spikes that pass a gate are also counted under the gate's name, and input spikes under the name ``INPUT``.
    """

    membranes, inputs = False, True

    def __init__(self, network: SpikingNetwork) -> None:
        self.network = network
        self.landings: tuple[Landing, ...] = landings_of(network)
        self.images = 0
        self._first = network.populations[0].name
        self._reading: dict[str, list[Passing]] = {}
        for gate in root_gates(network):
            passing = Passing(gate, network.shapes[gate.source], signed=network.neuron.signed)
            self._reading.setdefault(gate.source, []).append(passing)
        self._units: dict[str, NDArray[np.int64]] = {}
        self._fired: dict[str, NDArray[np.int64]] = {}
        self._landed: dict[tuple[str, str], NDArray[np.int64]] = {}

    def see(
        self,
        population: str,
        images: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Count the spikes of a part of the run."""
        del membranes
        if population == self._first and step == 0:
            self.images += len(images)
        fired = (spikes != 0).view(np.uint8) if spikes.dtype.kind == "i" else spikes.astype(np.uint8, copy=False)
        self._count(population, step, fired)
        for gate in self._reading.get(population, ()):
            self.see(gate.gate.name, images, step, gate.passed(images, step, spikes), None)

    def fresh(self) -> UnitCounts:
        """A new observer of the same network that has seen nothing."""
        return UnitCounts(self.network)

    def counted(self) -> tuple[int, tuple[dict[Any, NDArray[np.int64]], ...]]:
        """The number of images, and all counts."""
        return self.images, (self._units, self._fired, self._landed)

    def add(self, counted: tuple[int, tuple[dict[Any, NDArray[np.int64]], ...]]) -> None:
        """Add the counts of another observer, of other images."""
        images, parts = counted
        self.images += images
        for known, more in zip(self.counted()[1], parts, strict=True):
            for name, values in more.items():
                room = known.get(name, np.zeros_like(values))
                if values.ndim == 1:  # by steps
                    room, values = _of_length(room, most := max(len(room), len(values))), _of_length(values, most)  # noqa: PLW2901
                known[name] = room + values

    def units(self, root: str) -> NDArray[np.int64]:
        """Spikes (positions, channels) of a population, a gate or the input, over all images and steps."""
        if root not in self._units:
            known = ", ".join(self._units) or "none: pass it to run(observers=[…]) first"
            raise UsageError(f"no spikes of {root!r} were seen (seen: {known})")
        return self._units[root]

    def saw(self, root: str) -> bool:
        """Whether spikes of this root were observed."""
        return root in self._fired

    def fired(self, root: str, steps: int) -> NDArray[np.int64]:
        """The spikes of a root at each of ``steps`` steps, over all images."""
        return _of_length(self._fired[root], steps)

    def landed(self, landing: str, root: str, steps: int) -> NDArray[np.int64]:
        """The accumulates that the spikes of a root caused in a landing at each of ``steps`` steps."""
        return _of_length(self._landed[landing, root], steps)

    def population_of(self, root: str) -> str:
        """The population whose spikes a root passes on: itself, unless it is a gate."""
        while root != INPUT and isinstance(node := self.network.node(root), Gate):
            root = node.source
        return root

    def _count(self, root: str, step: int, fired: NDArray[np.uint8]) -> None:
        check_units(self.network, root, fired)
        over_images = _sum_of_images(fired)
        per_step = over_images.reshape(len(over_images), -1)
        end = step + len(per_step)
        known = self._units.get(root)
        added = over_images.sum(axis=0)
        self._units[root] = added if known is None else known + added
        self._fired[root] = _grown(self._fired.get(root), end)
        self._fired[root][step:end] += per_step.sum(axis=1)
        for landing in self.landings:
            if root in landing.reach:
                key = landing.name, root
                self._landed[key] = _grown(self._landed.get(key), end)
                self._landed[key][step:end] += per_step @ landing.reach[root].reshape(-1)


def _sum_of_images(fired: NDArray[np.uint8]) -> NDArray[np.int64]:
    total = np.zeros(fired.shape[1:], np.int64)
    for start in range(0, len(fired), _SLICE):
        total += fired[start : start + _SLICE].sum(axis=0, dtype=np.uint8)
    return total


def _grown(values: NDArray[np.int64] | None, length: int) -> NDArray[np.int64]:
    """``values`` enlarged to at least ``length``; to twice that, since more steps follow."""
    if values is None:
        return np.zeros(length, np.int64)
    return values if len(values) >= length else np.pad(values, (0, 2 * length - len(values)))


def _of_length(values: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    return values[:length] if len(values) >= length else np.pad(values, (0, length - len(values)))


# The spikes that pass a gate, computed from its input spikes.


_AT_ONCE = 1 << 22  # values processed together


class Passing:
    """Simulates a gate during a run: keeps the spike counts of its inputs for the present images only."""

    def __init__(self, gate: Gate, shape: Shape, *, signed: bool = False) -> None:
        self.gate, self._signed = gate, signed
        self._space = shape[1:]
        self._images = np.empty(0, np.int64)
        self._counts = np.empty((0, 1, 1), np.float32)

    def passed(self, images: NDArray[np.int64], step: int, spikes: NDArray[np.integer]) -> NDArray[np.integer]:
        """The spikes that pass the gate, of its input spikes (images, steps, positions, channels)."""
        self._go_on(images, step, spikes)
        slab = max(1, _AT_ONCE // max(1, spikes[0].size))
        parts = [self._slab(slice(start, start + slab), spikes) for start in range(0, len(images), slab)]
        return np.concatenate(parts)

    def _go_on(self, images: NDArray[np.int64], step: int, spikes: NDArray[np.integer]) -> None:
        if step == 0:
            self._counts = np.zeros((len(images), *spikes.shape[2:]), np.float32)
        elif not np.array_equal(images, self._images):  # some have ended
            rows = {image: row for row, image in enumerate(self._images.tolist())}
            if any(image not in rows for image in images.tolist()):
                raise UsageError(f"{self.gate.name}: images begin at step {step}; a gate needs all steps")
            self._counts = self._counts[[rows[image] for image in images.tolist()]]
        self._images = np.array(images)

    def _slab(self, rows: slice, spikes: NDArray[np.integer]) -> NDArray[np.integer]:
        fired = spikes[rows].astype(np.float32)
        counts = fired.cumsum(axis=1)
        counts += self._counts[rows, None]
        self._counts[rows] = counts[:, -1]
        images, steps, _, channels = fired.shape

        def as_images(values: NDArray[np.float32]) -> torch.Tensor:
            flat = torch.from_numpy(values).reshape(images * steps, *self._space, channels)
            return flat.permute(0, 3, 1, 2).contiguous()

        gate = self.gate
        if self._signed:
            largest, last = (
                functional.max_pool2d(as_images(values), gate.kernel, gate.stride, gate.padding)
                for values in (counts, counts - fired)
            )
            change: NDArray[np.int8] = (largest - last).flatten(2).transpose(1, 2).to(torch.int8).numpy()
            return change.reshape(images, steps, -1, channels)
        _, leaders = functional.max_pool2d(
            as_images(counts), gate.kernel, gate.stride, gate.padding, return_indices=True
        )
        leaving = as_images(fired).flatten(2).gather(2, leaders.flatten(2))
        found: NDArray[np.uint8] = leaving.transpose(1, 2).to(torch.uint8).numpy()
        return found.reshape(images, steps, -1, channels)
