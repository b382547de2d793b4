"""The values of a chunk in the compiled engine, and neuron parameters as its kernels read them."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from weightsmith.spiking.graph import INPUT, Gate, Neurons, Node, Shape, Synapses
from weightsmith.spiking.monitors.observing import Observer
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Chunk", "NeuronRows", "Pending", "Values", "largest_sums", "readers_of", "span_of"]

_WIDE = 256  # neurons of a row when positions are joined, enough to make up for the start of a loop
_PART = 128  # inputs of a dense layer processed together: their rows of a tile fit in the cache


@dataclasses.dataclass
class Values:
    """The output of a node: (images, steps, positions, channels), each worth ``unit``, at most ``most`` spikes at once.

    With ``constant`` there is one step, the same for all. Spikes and counts are bytes, signed for inputs; everything
    else is of the engine's float type. ``factor``, one number per channel, multiplies them.
    """

    data: NDArray[Any]
    unit: float = 1.0
    most: int = 1
    constant: bool = False
    factor: NDArray[Any] | None = None
    events: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None

    @property
    def discrete(self) -> bool:
        """Whether these are spikes or counts of them."""
        return self.data.dtype in (np.uint8, np.int8) and self.factor is None

    @property
    def signed(self) -> bool:
        """Whether spikes may be −1."""
        return self.data.dtype == np.int8

    @property
    def depth(self) -> int:
        """The number of table rows that the events of one position can refer to."""
        return int(self.data.shape[3]) * (2 if self.signed else 1)

    @property
    def total(self) -> int:
        """The number of events."""
        from weightsmith.spiking.simulation._kernels import room

        return room(self.data.reshape(-1))

    def listed(self, across: int | None) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Start offsets and codes of events: by positions, ``across`` to a row, or (None) by parts of features."""
        if self.events is None:
            from weightsmith.spiking.simulation._kernels import list_events, list_parts

            flat, (parts, channels) = self.data.reshape(-1), self.data.shape[2:]
            starts = np.empty(flat.size // channels + 1, np.int64)
            total = self.total
            codes = np.empty(total + 8, np.int32)  # they are written in eights
            if across is None:
                list_parts(flat, channels, parts, self.depth, starts, codes)
            else:
                list_events(flat, channels, across, self.depth, starts, codes)
            self.events = starts, codes[:total]
        return self.events

    def in_parts(self, *, half: bool = False) -> Values:
        """The same values as features, divided into parts of one size, which replace positions.

        Parts are twice as large for rows of ``half`` the size (16 bits).
        """
        images, steps, positions, channels = self.data.shape
        features, most = positions * channels, 2 * _PART if half else _PART
        part = max(size for size in range(1, most + 1) if features % size == 0)
        if part < most // 8:
            part = features
        return dataclasses.replace(self, data=self.data.reshape(images, steps, -1, part), events=None)

    def images(self, rows: slice) -> Values:
        """The values of some of the images."""
        return dataclasses.replace(self, data=self.data[rows], events=None)

    def by_channel(self) -> Values:
        """The same values as features, channel by channel."""
        if self.factor is not None:
            return Values(self.floats(self.factor.dtype.type), constant=self.constant).by_channel()
        images, steps = self.data.shape[:2]
        features = np.ascontiguousarray(self.data.transpose(0, 1, 3, 2)).reshape(images, steps, 1, -1)
        return dataclasses.replace(self, data=features, events=None)

    def scaled(self, factor: NDArray[Any]) -> Values:
        """The same values, each channel times its factor; spikes stay bytes."""
        if self.discrete:
            return dataclasses.replace(self, factor=factor, events=None)
        return Values(self.floats(factor.dtype.type) * factor, constant=self.constant)

    def factors(self, channels: int, kind: type[Any]) -> NDArray[Any]:
        """The value of 1 in each of the channels."""
        units = np.full(channels, self.unit, kind)
        return units if self.factor is None else units * self.factor.astype(kind)

    def floats(self, kind: type[Any]) -> NDArray[Any]:
        """The values themselves."""
        values = self.data.astype(kind, copy=False)
        if self.unit != 1:
            values = values * kind(self.unit)
        return values if self.factor is None else values * self.factor.astype(kind)


@dataclasses.dataclass(frozen=True)
class Pending:
    """Currents that are computed together with their neurons: a convolution of spikes, plus other values."""

    node: Synapses
    before: Values
    added: Values | None = None


class Chunk:
    """The values of one chunk, each dropped once its last reader is done."""

    def __init__(self, step: int, steps: int, observers: Sequence[Observer], *, wants_membranes: bool = False) -> None:
        self.step, self.steps, self.observers = step, steps, observers
        self.wants_membranes = wants_membranes or any(observer.membranes for observer in observers)
        self.values: dict[str, Values | Pending] = {}
        self.tested: dict[str, NDArray[Any]] = {}
        self.counts: dict[str, NDArray[np.int64]] = {}
        self.remaining: dict[str, int] = {}

    def part(self, values: Mapping[str, Values]) -> Chunk:
        """The same chunk for some of its images, with these values; spikes are counted together."""
        found = copy.copy(self)
        found.values, found.tested = dict(values), {}
        return found

    def forget(self, node: Node) -> None:
        """Drop values whose last reader was ``node``."""
        self.tested.pop(node.name, None)
        for name in node.sources:
            self.remaining[name] -= 1
            if self.remaining[name] == 0:
                self.values.pop(name, None)


def readers_of(nodes: Sequence[Node]) -> dict[str, int]:
    """The number of readers of each node; the output is never dropped."""
    readers = {INPUT: 0, **{node.name: 0 for node in nodes}}
    for node in nodes:
        for name in node.sources:
            readers[name] += 1
    readers[nodes[-1].name] += 1
    return readers


@dataclasses.dataclass(frozen=True)
class NeuronRows:
    """Thresholds and leaks of a population as the kernels read them: (positions, or 1 for all, channels)."""

    threshold: NDArray[Any]
    leak: NDArray[Any]
    start: float

    @classmethod
    def of(cls, node: Neurons, network: SpikingNetwork, kind: type[Any]) -> NeuronRows:
        """The parameters of ``node``, with the network's leak by default."""
        leak = torch.tensor([network.neuron.leak], dtype=torch.float64) if node.leak is None else node.leak
        shape = network.shapes[node.name]
        per_unit = node.threshold.dim() > 1 or leak.dim() > 1
        threshold, leak = (_by_position(values, shape if per_unit else shape[:1]) for values in (node.threshold, leak))
        return cls(threshold.numpy().astype(kind), leak.numpy().astype(kind), node.start)

    def over(self, span: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Thresholds and leaks of ``span`` positions in a row: (rows, or 1 for all, 1, span · channels)."""
        threshold, leak = (
            (np.tile(values, (1, span)) if len(values) == 1 else values.reshape(len(values) // span, -1))[:, None]
            for values in (self.threshold, self.leak)
        )
        return threshold, leak

    def begin(self, images: int, shape: Shape) -> NDArray[Any]:
        """Membranes (images, units), positions first."""
        rows = math.prod(shape[1:])
        start = np.broadcast_to(self.threshold, (rows, shape[0])) * self.threshold.dtype.type(self.start)
        return np.tile(start.reshape(-1), (images, 1))


def largest_sums(gate: Gate, values: NDArray[Any], space: Shape, sums: NDArray[Any] | None) -> NDArray[Any]:
    """Max pooling of values (images, steps, positions, channels): the change of the largest sum of each window.

    ``sums`` (images, units), the sums so far, are updated; without them values are the same at every step.
    """
    images, channels = len(values), values.shape[3]
    known = values if sums is None else np.concatenate([sums.reshape(images, 1, -1, channels), values], axis=1)
    total = known if sums is None else np.cumsum(known, axis=1, dtype=values.dtype)
    maps = torch.from_numpy(np.ascontiguousarray(total)).reshape(-1, *space, channels).permute(0, 3, 1, 2)
    pooled = functional.max_pool2d(maps.contiguous(), gate.kernel, gate.stride, gate.padding).flatten(2)
    largest: NDArray[Any] = pooled.transpose(1, 2).contiguous().numpy().reshape(images, total.shape[1], -1, channels)
    if sums is None:
        return largest
    sums[:] = total[:, -1].reshape(sums.shape)
    change: NDArray[Any] = largest[:, 1:] - largest[:, :-1]
    return change


def span_of(positions: int, channels: int) -> int:
    """The number of positions in a row of neurons: the largest divisor of all that is not too wide."""
    return max(span for span in range(1, max(1, _WIDE // channels) + 1) if positions % span == 0)


def _by_position(values: torch.Tensor, shape: Shape) -> torch.Tensor:
    """One value, values per channel or per unit, for all of ``shape``: as (positions, channels)."""
    whole = values.reshape(*values.shape, *[1] * (len(shape) - values.dim())).expand(shape)
    return whole.reshape(shape[0], -1).t().contiguous()
