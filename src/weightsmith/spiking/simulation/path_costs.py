"""The cost of a layer on either path of the compiled engine, by which the engine chooses.

In nanoseconds of one core, fitted to the layers of a ResNet-20, a ResNet-56 and the paper's VGG-5 with 4 to 50 % of
their inputs active. Nothing is timed during a run: the same run always takes the same paths and rounds in the same way.

    events = values read + 45 · neuron rows · tiles + events · tiles · (0.4 + R · registers)
    dense  = MAC · connections + 0.5 · (values read + values given)

An event is counted once for every neuron row that it reaches. Dense layers take their inputs in parts, each of which
costs 10 for a row and tile. Where vectors have 512 bits MAC is 0.010 and R, the cost of 256 bits of a row, 0.16;
elsewhere 0.036 and 0.32. MAC is a third more for matrix products, and in double precision twice that.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import torch

from weightsmith.spiking.graph import Shape, Synapses
from weightsmith.spiking.simulation.packing import tiling

__all__ = ["Work", "prefers_events"]


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a layer in a chunk: ``maps`` images and steps of ``before`` values each, ``events`` spikes in all.

    ``parts`` is the number of parts of a dense layer's inputs; ``kind`` is the type of its sums, ``table`` that of the
    weights that events add.
    """

    node: Synapses
    maps: int
    before: Shape
    after: Shape
    events: int
    parts: int
    kind: np.dtype[Any]
    table: np.dtype[Any]

    @property
    def by_events(self) -> float:
        """The cost of adding the row of every event."""
        registers, tiles = tiling(len(self.node.weight), self.table)
        rows = self.maps * math.prod(self.after[1:])
        reached = 1.0 if self.node.dense else math.prod(self.node.weight.shape[2:]) / math.prod(self.node.stride)
        each = 10.0 * self.parts if self.node.dense else 45.0
        added = self.events * reached * (0.4 + _register() * registers)
        return self.maps * math.prod(self.before) + tiles * (rows * each + added)

    @property
    def dense(self) -> float:
        """The cost of one product over all images and steps."""
        given = self.maps * math.prod(self.after)
        mac = _mac() * (4 / 3 if self.node.dense else 1) * (2 if self.kind == np.float64 else 1)
        return mac * given * math.prod(self.node.weight.shape[1:]) + 0.5 * (self.maps * math.prod(self.before) + given)


def prefers_events(work: Work) -> bool:
    """Whether a layer is faster event by event."""
    return work.by_events < work.dense


@functools.cache
def _mac() -> float:
    return 0.010 if _is_wide() else 0.036


@functools.cache
def _register() -> float:
    return 0.16 if _is_wide() else 0.32


def _is_wide() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512"
