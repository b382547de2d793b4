"""The largest current that reaches each population, found layer by layer (the threshold search of the L4-norm paper).

The threshold of a layer is the maximum over steps, images, positions and channels of the instant weighted input

    θ_l = max_{t, image, unit} Σ_j w_ij s_j(t)

while the layers before it, at the thresholds found for them, already send spikes s_j(t) of 0 and 1, without leak and
with soft reset (seed 000 and its code base, Rathi et al. 2020). There the search starts from the input again for every
layer; here the spikes of a layer are kept on disk until all their readers are done, which gives the same numbers.
Every layer is thus computed twice by the compiled engine: for its largest current, and for its spikes.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Collection, Hashable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch
from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import pinned_threads
from weightsmith.spiking.graph import INPUT, Add, Neurons, Node
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF
from weightsmith.spiking.simulation.chunked import ChunkEngine
from weightsmith.spiking.simulation.sources import Source
from weightsmith.spiking.simulation.values import Values

__all__ = ["PackedSpikes", "ancestors", "feeding", "in_residual_blocks", "largest_currents", "leading"]


def largest_currents(
    network: SpikingNetwork,
    source: Source,
    steps: int,
    *,
    searched: Collection[str] | None = None,
    progress: StepCallback | None = None,
) -> dict[str, float]:
    """The largest current of each population of ``searched`` (all of them by default).

    Populations that are not searched fire at the thresholds they have. A layer that never receives a positive current
    is refused: nothing after it would ever fire.
    """
    names = {node.name for node in network.populations} if searched is None else set(searched)
    before = ancestors(network.nodes)
    needed = {other for name in names for other in before[name] - {name}}
    found: dict[str, float] = {}
    with pinned_threads(1), tempfile.TemporaryDirectory(prefix="weightsmith-spikes-") as folder:
        search = _Search(network, source, steps, Path(folder))
        for done, node in enumerate(network.populations, start=1):
            if node.name in names:
                found[node.name] = search.largest(node)
                if not found[node.name] > 0:
                    raise DataMismatch(
                        f"dead layer: {node.layer or node.name} never gives a positive current on the calibration "
                        f"images, so {node.name} has no threshold; check its weights, or use other images or "
                        "more steps"
                    )
            if node.name in needed:
                search.fire(node, found.get(node.name))
            if progress is not None:
                progress(done, len(network.populations))
    return found


class _Search:
    """One population after the other: first its largest current, then its spikes."""

    def __init__(self, network: SpikingNetwork, source: Source, steps: int, folder: Path) -> None:
        self._source, self._steps, self._folder = source, steps, folder
        self._network = network.with_neuron(IF(delay=network.neuron.delay))
        self._read = {
            node.name: [other.name for other in feeding(network.nodes, node) if isinstance(other, Neurons)]
            for node in network.populations
        }
        self._kept: dict[str, PackedSpikes] = {}

    def largest(self, node: Neurons) -> float:
        """The largest current of all steps, images and units."""
        return max(float(values.floats(np.float32).max()) for _, values in self._computed(node.source, node))

    def fire(self, node: Neurons, level: float | None) -> None:
        """Keep the spikes of this population at the threshold ``level`` (None: its own)."""
        threshold = node.threshold if level is None else torch.full_like(node.threshold, level)
        firing = dataclasses.replace(node, threshold=threshold, start=0.0, leak=None)
        self._network = self._network.replaced([firing])
        kept = PackedSpikes(self._folder / str(list(self._read).index(node.name)))
        for part, values in self._computed(node.name, node):
            kept.write(part, values.data)
        self._kept[node.name] = kept
        self._forget(node)

    def _forget(self, done: Neurons) -> None:
        """Drop the spikes of populations that no later population reads."""
        names = list(self._read)
        later = names[names.index(done.name) + 1 :]
        wanted = {root for name in later for root in self._read[name]}
        for name in [name for name in self._kept if name not in wanted]:
            self._kept.pop(name).remove()

    def _computed(self, name: str, population: Neurons) -> Iterator[tuple[tuple[int, int], Values]]:
        """The output of the node ``name`` for the spikes that ``population`` reads, block by block, chunk by chunk.

        The parts stay the same during a search, so spikes are read in the parts in which they were written.
        """
        engine = ChunkEngine(self._network, self._source, "float32", self._steps)
        for first in range(0, len(self._source), engine.block):
            engine.begin(np.arange(first, min(first + engine.block, len(self._source))))
            for step in range(0, self._steps, engine.chunk):
                part = first, step
                given = {root: self._kept[root].read(part) for root in self._read[population.name]}
                yield part, engine.compute(name, step, min(engine.chunk, self._steps - step), given)


# Spikes of whole populations on disk, eight to a byte.


class PackedSpikes:
    """The spikes of one population, part by part, in a file that :meth:`remove` deletes; none are kept in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[Hashable, tuple[int, tuple[int, ...]]] = {}

    def write(self, part: Hashable, spikes: NDArray[np.uint8]) -> None:
        """Store spikes (0 and 1, of any shape) under the name ``part``."""
        with self._path.open("ab") as file:
            self._offsets[part] = file.tell(), spikes.shape
            file.write(np.packbits(spikes).data)

    def read(self, part: Hashable) -> NDArray[np.uint8]:
        """The spikes stored under that name."""
        begin, shape = self._offsets[part]
        count = math.prod(shape)
        bits = np.fromfile(self._path, np.uint8, math.ceil(count / 8), offset=begin)
        return np.unpackbits(bits, count=count).reshape(shape)

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink()


# Ancestors of the nodes of a spiking network.


def feeding(nodes: Sequence[Node], population: Neurons) -> list[Node]:
    """The nodes from which the currents of ``population`` are computed, back to the populations that send the spikes.

    Those populations are included; the input is not a node.
    """
    return leading(nodes, population.source)


def leading(nodes: Sequence[Node], name: str) -> list[Node]:
    """The node ``name`` and the nodes it is computed from, back to populations, which are included."""
    reached, found = {name}, list[Node]()
    for node in reversed(nodes):
        if node.name in reached:
            found.append(node)
            if not isinstance(node, Neurons):
                reached.update(node.sources)
    return found[::-1]


def ancestors(nodes: Sequence[Node]) -> dict[str, frozenset[str]]:
    """For every node the names of all nodes it depends on, including itself."""
    found: dict[str, frozenset[str]] = {INPUT: frozenset({INPUT})}
    for node in nodes:
        found[node.name] = frozenset({node.name}).union(*(found[name] for name in node.sources))
    return found


def in_residual_blocks(nodes: Sequence[Node]) -> set[str]:
    """The populations on only one branch of a sum, and those that threshold a sum."""
    populations = {node.name for node in nodes if isinstance(node, Neurons)}
    before = ancestors(nodes)
    inside: set[str] = set()
    for node in nodes:
        if isinstance(node, Add):
            branches = [before[name] for name in node.sources]
            inside |= frozenset.union(*branches) - frozenset.intersection(*branches)
        elif isinstance(node, Neurons) and any(isinstance(each, Add) for each in feeding(nodes, node)):
            inside.add(node.name)
    return inside & populations
