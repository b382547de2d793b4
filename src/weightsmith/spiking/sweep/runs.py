"""The parts of a sweep: blocks of images that settings share, and settings that compete on them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.spiking.conversion.preparing import ConversionSettings
from weightsmith.spiking.graph import INPUT, Add, Gate, Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation.chunked import ChunkEngine
from weightsmith.spiking.simulation.simulate import run_block
from weightsmith.spiking.simulation.sources import source_of
from weightsmith.spiking.simulation.tally import Tally
from weightsmith.spiking.sweep.racing import Racing, dropped
from weightsmith.spiking.sweep.results import Setting, SettingResult

__all__ = ["Answers", "BlockRuns", "BlockTask", "Heat", "SharedBlock", "Winner", "block_of", "first_synapses"]

_BLOCK = 8
_BUDGET = 400_000_000  # bytes
Answers = dict[str, NDArray[np.bool_]]  # setting → (images, steps): right or not


@dataclasses.dataclass(frozen=True)
class Winner:
    """The best setting of a heat at one number of steps, and how often it was right on the training images."""

    setting: Setting
    correct: int


def first_synapses(network: SpikingNetwork) -> str | None:
    """The synapses whose currents all settings share: the only ones between the input and the first population."""
    name = INPUT
    while True:
        readers = [node for node in network.nodes if name in node.sources]
        if len(readers) != 1 or isinstance(readers[0], Add | Gate | Neurons):
            return None
        name = readers[0].name
        if isinstance(readers[0], Synapses):
            return name if network.populations[0].source == name else None


def block_of(network: SpikingNetwork, steps: int) -> int:
    """The number of images run together, so that their shared currents fit in the memory budget."""
    units = math.prod(network.shapes[network.populations[0].name])
    return max(1, min(_BLOCK, _BUDGET // (4 * units * steps)))


class SharedBlock:
    """A block of images for many networks that share the input and the first weights."""

    def __init__(
        self, network: SpikingNetwork, recipe: ConversionSettings, first_synapses: str | None, x: Tensor, first: int
    ) -> None:
        self._recipe = recipe
        self._source = source_of(network, x, recipe.seed, first)
        self._rows = np.arange(len(x))
        self._network, self._first = network, first_synapses
        self._shared: tuple[str, list[NDArray[Any]]] | None = None

    def answers(self, network: SpikingNetwork) -> NDArray[np.int16]:
        """The answers (images, steps) of one of the networks."""
        if self._first is not None and self._shared is None:
            engine = ChunkEngine(self._network, self._source, self._recipe.precision, self._recipe.steps)
            engine.begin(self._rows)
            self._shared = self._first, engine.currents(self._first, self._recipe.steps)
        engine = ChunkEngine(network, self._source, self._recipe.precision, self._recipe.steps)
        engine.shared = self._shared
        tally = Tally(len(self._rows), self._recipe.steps, network.classes, {}, None)
        run_block(engine, self._rows, self._recipe.steps, tally)
        return tally.responses({}).answers


@dataclasses.dataclass(frozen=True, eq=False)
class BlockTask:
    """A setting to run on the block of images at ``start``: the weights of its factor, its neuron and thresholds."""

    start: int
    labels: NDArray[np.int64]
    factor: float
    neuron: IF | LIF
    thresholds: dict[str, Tensor]


@dataclasses.dataclass(frozen=True, eq=False)
class BlockRuns:
    """Runs settings on blocks of images; holds the data common to all, which is sent to a worker once.

    ``networks`` has one network per factor, ``first`` is the number of the first image.
    """

    networks: dict[float, SpikingNetwork]
    recipe: ConversionSettings
    lengths: tuple[int, ...]
    synapses: str | None
    x: Tensor
    first: int
    block: int
    _last: dict[int, SharedBlock] = dataclasses.field(default_factory=dict)

    def __call__(self, task: BlockTask) -> tuple[list[str], float]:
        """Whether the answers after each requested number of steps are right, as digits, and the seconds taken."""
        begin, network = time.perf_counter(), self.networks[task.factor]
        nodes = [dataclasses.replace(node, threshold=task.thresholds[node.name]) for node in network.populations]
        answers = self._at(task.start).answers(network.replaced(nodes).with_neuron(task.neuron))
        hits = answers[:, [length - 1 for length in self.lengths]] == task.labels[:, None]
        return ["".join("01"[int(hit)] for hit in row) for row in hits], time.perf_counter() - begin

    def _at(self, start: int) -> SharedBlock:
        if start not in self._last:
            self._last.clear()
            images, common = self.x[start : start + self.block], next(iter(self.networks.values()))
            self._last[start] = SharedBlock(common, self.recipe, self.synapses, images, self.first + start)
        return self._last[start]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "x": self.x.clone(), "_last": {}}


class Heat:
    """The competing settings of one neuron, with or without adjustment."""

    def __init__(self, neuron: IF | LIF, settings: Sequence[Setting]) -> None:
        self.neuron, self.settings = neuron, list(settings)
        self.running = list(settings)
        self._right: dict[str, list[NDArray[np.bool_]]] = {setting.key: [] for setting in settings}

    def add(self, right: Answers) -> None:
        """Add the answers of a block."""
        for setting in self.running:
            self._right[setting.key].append(right[setting.key])

    def drop(self, rule: Racing) -> None:
        """Drop settings that are clearly worse after every requested number of steps."""
        right = np.array([np.concatenate(self._right[setting.key]) for setting in self.running])
        lost = np.all([dropped(right[:, :, index], rule) for index in range(right.shape[2])], axis=0)
        self.running = [setting for setting, out in zip(self.running, lost, strict=True) if not out]

    def winner(self, index: int) -> Winner:
        """The most accurate setting after the number of steps at ``index``, the first of equals."""
        counts = [int(np.concatenate(self._right[setting.key])[:, index].sum()) for setting in self.running]
        best = int(np.argmax(counts))
        return Winner(self.running[best], counts[best])

    def results(self) -> list[SettingResult]:
        """The results of all settings."""
        found = []
        for setting in self.settings:
            right = np.concatenate(self._right[setting.key])
            counts = tuple(int(count) for count in right.sum(axis=0))
            found.append(SettingResult(setting, len(right), counts, lost=setting not in self.running))
        return found
