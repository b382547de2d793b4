"""The cost of a layer on each path of the compiled engine, by which the engine chooses.

In nanoseconds of one core, fitted to the layers of a ResNet-20, a ResNet-56 and the paper's VGG-5 with 1 to 50 % of
their inputs active. Nothing is timed during a run: the same run always takes the same paths and rounds in the same way.

    events   = 0.33 · values read + 50 · neuron rows · tiles + events · tiles · (0.4 + 1.3 · R · registers)
    patterns = 0.2 · (values read + given) + neuron rows · tiles · (2 + groups · (0.1 + R · registers)) + 0.08 · sums
    dense    = MAC · connections + 0.5 · (values read + values given)

An event is counted once for every neuron row that it reaches. Dense layers take their inputs in parts, each of which
costs 10 for a row and tile. Groups are the eights of inputs that a neuron sees, twice for spikes of both signs; sums
are those in the table, which serve many chunks; if they take more than 8 MB, R is 2.4 times as much. Where vectors
have 512 bits MAC is 0.010 and R, the cost of 256 bits of a row, 0.16; elsewhere 0.036 and 0.32. MAC is a third more for
matrix products, and in double precision twice that.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from weightsmith.spiking.graph import Shape, Synapses
from weightsmith.spiking.simulation.packing import pattern_bytes, tiling

__all__ = ["Work"]

_FAR = 8_000_000  # bytes of a table that is mostly outside of a core's own cache
_Route = TypeVar("_Route", bound=str)


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a layer in a chunk: ``maps`` images and steps of ``before`` values each, ``events`` spikes in all.

    ``parts`` is the number of parts of a dense layer's inputs; ``kind`` is the type of its sums, ``table`` that of the
    weights that events add; ``signed`` says whether spikes may be −1.
    """

    node: Synapses
    maps: int
    before: Shape
    after: Shape
    events: int
    parts: int
    kind: np.dtype[Any]
    table: np.dtype[Any]
    signed: bool = False

    @property
    def by_events(self) -> float:
        """The cost of adding the row of every event."""
        registers, tiles = tiling(len(self.node.weight), self.table)
        rows = self.maps * math.prod(self.after[1:])
        reached = 1.0 if self.node.dense else math.prod(self.node.weight.shape[2:]) / math.prod(self.node.stride)
        each = 10.0 * self.parts if self.node.dense else 50.0
        added = self.events * reached * (0.4 + 1.3 * _register() * registers)
        return 0.33 * self.maps * math.prod(self.before) + tiles * (rows * each + added)

    @property
    def by_patterns(self) -> float:
        """The cost of looking up the sums of eight inputs at a time, for a convolution."""
        outputs, inputs, *kernel = self.node.weight.shape
        registers, tiles = tiling(outputs, self.kind)
        rows, groups = self.maps * math.prod(self.after[1:]), math.prod(kernel) * -(-inputs // 8)
        size = pattern_bytes(self.node, self.kind)
        register = _register() * (2.4 if size > _FAR else 1.0)
        looked = groups * (2 if self.signed else 1) * (0.1 + register * registers)
        values = self.maps * (math.prod(self.before) + math.prod(self.after))
        return 0.2 * values + tiles * rows * (2 + looked) + 0.08 * size / self.kind.itemsize

    @property
    def dense(self) -> float:
        """The cost of one product over all images and steps."""
        given = self.maps * math.prod(self.after)
        mac = _mac() * (4 / 3 if self.node.dense else 1) * (2 if self.kind == np.float64 else 1)
        return mac * given * math.prod(self.node.weight.shape[1:]) + 0.5 * (self.maps * math.prod(self.before) + given)

    def cheapest(self, known: Sequence[_Route]) -> _Route:
        """The path of these that costs least."""
        costs = {"events": lambda: self.by_events, "patterns": lambda: self.by_patterns, "dense": lambda: self.dense}
        return min(known, key=lambda path: costs[path]())


@functools.cache
def _mac() -> float:
    return 0.010 if _is_wide() else 0.036


@functools.cache
def _register() -> float:
    return 0.16 if _is_wide() else 0.32


def _is_wide() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512"
