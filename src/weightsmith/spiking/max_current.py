"""The largest current that reaches each population, found layer by layer (the threshold search of the L4-norm paper).

The threshold of a layer is the maximum over steps, images, positions and channels of the instant weighted input

    θ_l = max_{t, image, unit} Σ_j w_ij s_j(t)

while the layers before it, at the thresholds found for them, already give spikes s_j(t) of 0 and 1, do not leak, and
reset softly (seed 000 and its code base, Rathi et al. 2020). There the search starts from the input again for every
layer; here the spikes of a layer are kept on disk until all that read them are done, which gives the same numbers.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from weightsmith.core.errors import DataMismatch
from weightsmith.spiking._ancestry import Between, Linear, ancestors, between
from weightsmith.spiking._packed import PackedSpikes
from weightsmith.spiking._plain import linear
from weightsmith.spiking.graph import INPUT, Gate, Neurons
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.sources import Source

__all__ = ["currents", "largest_currents"]

_IMAGES = 32
_VALUES = 1 << 23  # of one node, computed at once


@torch.no_grad()
def largest_currents(
    network: SpikingNetwork,
    source: Source,
    steps: int,
    *,
    searched: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """The largest current of each population of ``searched`` (all of them by default).

    Populations that are not searched fire at the thresholds they have. A layer that never gets a positive current is
    refused by name: nothing behind it would ever fire.
    """
    names = {node.name for node in network.populations} if searched is None else set(searched)
    before = ancestors(network.nodes)
    needed = {other for name in names for other in before[name] - {name}}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="weightsmith-spikes-") as folder:
        search = _Search(network, source, steps, Path(folder))
        for done, node in enumerate(network.populations, start=1):
            if node.name in names:
                found[node.name] = search.largest(node)
                if not found[node.name] > 0:
                    raise DataMismatch(
                        f"dead layer: {node.layer or node.name} never gives a positive current on the calibration "
                        f"images, so that {node.name} has no threshold; look at its weights, or give other images"
                    )
            if node.name in needed:
                value = found.get(node.name)
                search.fire(node, node.threshold if value is None else torch.full_like(node.threshold, value))
            if progress is not None:
                progress(done, len(network.populations))
    return found


def currents(nodes: Sequence[Linear], spikes: Mapping[str, Tensor], target: str) -> Tensor:
    """What ``target`` gives if the ``nodes`` between it and the ``spikes`` (rows, …) that it reads are computed."""
    values = dict(spikes)
    for node in nodes:
        values[node.name] = linear(node, values)
    return values[target]


class _Search:
    """One population after the other: first its largest current, then its spikes."""

    def __init__(self, network: SpikingNetwork, source: Source, steps: int, folder: Path) -> None:
        self._network, self._source, self._steps, self._folder = network, source, steps, folder
        self._names = [node.name for node in network.populations]
        self._kept: dict[str, PackedSpikes] = {}
        self._between = {node.name: between(network.nodes, node) for node in network.populations}

    def largest(self, node: Neurons) -> float:
        """The largest current of all steps, images and units."""
        return max(float(current.max()) for _, _, current in self._currents(node))

    def fire(self, node: Neurons, threshold: Tensor) -> None:
        """Keep the spikes of this population at this threshold, and forget those that nobody needs any more."""
        shape = self._network.shapes[node.name]
        kept = PackedSpikes(self._folder / str(self._names.index(node.name)), len(self._source), self._steps, shape)
        level = threshold.reshape(-1, *[1] * (len(shape) - threshold.dim()))
        membrane = torch.empty(0)
        for images, steps, current in self._currents(node):
            if steps.start == 0:
                membrane = torch.zeros_like(current[:, 0])
            spikes = torch.empty(current.shape, dtype=torch.bool)
            for step in range(current.shape[1]):
                membrane, spikes[:, step] = self._fired(membrane, current[:, step], level)
            kept.write(images, steps, spikes)
        self._kept[node.name] = kept
        self._forget(node)

    def _fired(self, membrane: Tensor, current: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """One step without leak and with soft reset, see :mod:`weightsmith.spiking.neurons`."""
        tested = membrane if self._network.neuron.delay else membrane + current
        spikes = tested > level
        return membrane + current - level * spikes, spikes

    def _forget(self, done: Neurons) -> None:
        """Populations come in order, so those that only earlier ones read are read no more."""
        later = self._names[self._names.index(done.name) + 1 :]
        wanted = {root for name in later for root in self._between[name].roots}
        for name in [name for name in self._kept if name not in wanted]:
            self._kept.pop(name).remove()

    def _currents(self, node: Neurons) -> Iterator[tuple[slice, slice, Tensor]]:
        """The currents (images, steps, …) of a population, part by part: all steps of some images, then the next."""
        parts = self._between[node.name]
        names = (*parts.roots, *(each.name for each in (*parts.gates, *parts.linear)))
        widest = max(math.prod(self._network.shapes[name]) for name in names)
        block = min(_IMAGES, len(self._source))
        length = max(1, _VALUES // (block * widest))
        for first in range(0, len(self._source), block):
            images = slice(first, min(first + block, len(self._source)))
            counts: dict[str, Tensor] = {}
            for step in range(0, self._steps, length):
                steps = slice(step, min(step + length, self._steps))
                spikes = self._spikes(parts, images, steps, counts)
                values = {name: value.flatten(0, 1) for name, value in spikes.items()}
                current = currents(parts.linear, values, node.source)
                yield images, steps, current.reshape(-1, steps.stop - steps.start, *current.shape[1:])

    def _spikes(self, parts: Between, images: slice, steps: slice, counts: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the population reads: inputs, spikes and, with the ``counts`` that it carries on, gates."""
        dtype = self._network.synapses[0].weight.dtype
        found: dict[str, Tensor] = {}
        for name in parts.roots:
            if name == INPUT:
                inputs = [self._source.step(images, step) for step in range(steps.start, steps.stop)]
                found[name] = torch.stack(inputs, dim=1).to(dtype)
            else:
                found[name] = self._kept[name].read(images, steps).to(dtype)
        for gate in parts.gates:
            so_far = found[gate.source].cumsum(dim=1) + counts.get(gate.name, 0)
            counts[gate.name] = so_far[:, -1:]
            found[gate.name] = _passed(gate, found[gate.source], so_far)
        return found


def _passed(gate: Gate, spikes: Tensor, counts: Tensor) -> Tensor:
    """Of each window the spike of the unit with the highest count, for all images and steps."""
    pooled = functional.max_pool2d(counts.flatten(0, 1), gate.kernel, gate.stride, gate.padding, return_indices=True)
    chosen = pooled[1].reshape(*spikes.shape[:2], *pooled[1].shape[1:])
    return spikes.flatten(3).gather(3, chosen.flatten(3)).reshape(chosen.shape)
