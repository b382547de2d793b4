"""The reference engine: a spiking network run step by step in torch, slow, on any device.

The tests compare the compiled kernels with it, and devices other than the CPU use it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Shape, Synapses
from weightsmith.spiking.monitors.observing import Observer
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.sources import Currents, Source
from weightsmith.spiking.simulation.tally import INPUTS

__all__ = ["State", "StepEngine", "Stepper", "convolved", "linear", "plain_value"]


@dataclasses.dataclass
class State:
    """The state of a run between steps: membranes, gate counts, the sums of signed spikes sent, the steps done."""

    membranes: dict[str, Tensor]
    counts: dict[str, Tensor]
    sent: dict[str, Tensor]
    step: int = 0


class Stepper:
    """Runs ``network`` one step at a time; all state is in the :class:`State` that the caller holds."""

    def __init__(self, network: SpikingNetwork, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        self.network, self.dtype, self.device = network, dtype, device
        self._nodes = tuple(_moved(node, dtype, device) for node in network.nodes)
        self._once = isinstance(network.neuron, Graded)  # biases and inputs come at the first step only
        self._without_bias = tuple(
            dataclasses.replace(node, bias=None) if isinstance(node, Synapses) else node for node in self._nodes
        )

    def begin(self, images: int) -> State:
        """Clean membranes for a batch."""
        membranes, counts, sent = {}, {}, {}
        for node in self._nodes:
            shape = (images, *self.network.shapes[node.name])
            if isinstance(node, Neurons):
                start = _spread(node.threshold, len(shape)) * node.start
                membranes[node.name] = start.expand(shape).clone()
                if self.network.neuron.signed:
                    sent[node.name] = torch.zeros(shape, dtype=self.dtype, device=self.device)
            elif isinstance(node, Gate):
                before = (images, *self.network.shapes[node.source])
                counts[node.name] = torch.zeros(before, dtype=self.dtype, device=self.device)
        return State(membranes, counts, sent)

    def step(self, state: State, value: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The values of all nodes for this step's input, and the membranes just before they were tested."""
        later = self._once and state.step > 0
        values: dict[str, Tensor] = {INPUT: value.to(self.dtype) * (not later)}
        tested: dict[str, Tensor] = {}
        for node in self._without_bias if later else self._nodes:
            match node:
                case Neurons():
                    values[node.name], tested[node.name] = self._fire(node, state, values[node.source])
                case Gate():
                    values[node.name] = self._gated(node, state.counts[node.name], values[node.source])
                case _:
                    values[node.name] = linear(node, values)
        state.step += 1
        return values, tested

    def _gated(self, node: Gate, counts: Tensor, spikes: Tensor) -> Tensor:
        """The output of a gate: a spike, or the change of the largest sum, so that the sum of the outputs is exact."""
        if not self.network.neuron.signed and self.network.gates_spikes(node):
            counts += spikes
            return _passed(node, spikes, counts)
        before = _largest(node, counts)
        counts += spikes
        return _largest(node, counts) - before

    def _fire(self, node: Neurons, state: State, current: Tensor) -> tuple[Tensor, Tensor]:
        threshold = _spread(node.threshold, current.dim())
        leak = self.network.neuron.leak if node.leak is None else _spread(node.leak, current.dim())
        soft = self.network.neuron.reset == "soft"
        before = state.membranes[node.name]
        if isinstance(self.network.neuron, Graded):
            return self._fire_graded(node, state, before + current)
        if self.network.neuron.delay:
            spikes = before > threshold
            kept = leak * before if soft else leak * before.masked_fill(spikes, 0)
            after = kept + current - (threshold * spikes if soft else 0)
            state.membranes[node.name] = after
            return spikes.to(self.dtype), before
        membrane = leak * before + current
        if self.network.neuron.signed:
            sent = state.sent[node.name]
            signs = (membrane > threshold).to(self.dtype) - ((membrane < 0) & (sent > 0)).to(self.dtype)
            state.membranes[node.name], state.sent[node.name] = membrane - threshold * signs, sent + signs
            return signs, membrane
        spikes = membrane > threshold
        after = membrane - threshold * spikes if soft else membrane.masked_fill(spikes, 0)
        state.membranes[node.name] = after
        return spikes.to(self.dtype), membrane

    def _fire_graded(self, node: Neurons, state: State, total: Tensor) -> tuple[Tensor, Tensor]:
        """Spikes in thresholds; see :class:`Graded` for the formula."""
        largest, sent = self.network.neuron.largest, state.sent[node.name]
        missing = total.clamp(min=0) / _spread(node.threshold, total.dim()) * largest - sent
        size = (missing.abs() >= 0.5).to(self.dtype)
        for exponent in range(largest.bit_length() - 1):
            size = torch.where(missing.abs() >= 1.5 * 2**exponent, 2.0 ** (exponent + 1), size).to(self.dtype)
        spikes = size * missing.sign()
        state.membranes[node.name], state.sent[node.name] = total, sent + spikes
        return spikes / largest, total


def _moved(node: Node, dtype: torch.dtype, device: str) -> Node:
    tensors = {
        field.name: getattr(node, field.name).to(dtype=dtype, device=device)
        for field in dataclasses.fields(node)
        if isinstance(getattr(node, field.name), Tensor)
    }
    return dataclasses.replace(node, **tensors)


def _spread(values: Tensor, dimensions: int) -> Tensor:
    """Values per channel (or per unit) shaped to broadcast with (images, channels, …)."""
    return values.reshape(1, *values.shape, *[1] * (dimensions - 1 - values.dim()))


def linear(node: Synapses | Pool | Flatten | Scale | Add, values: Mapping[str, Tensor]) -> Tensor:
    """The output of a linear node for the ``values`` (rows, …) of its sources."""
    entering = values[node.sources[0]]
    match node:
        case Synapses() if node.dense:
            return functional.linear(entering, node.weight.to(entering.dtype), node.bias)
        case Synapses():
            return convolved(node, entering, node.weight.to(entering.dtype), node.bias)
        case Pool():
            pooled = functional.avg_pool2d(entering, node.kernel, node.stride, node.padding, divisor_override=1)
            return pooled / math.prod(node.kernel) if node.average else pooled
        case Flatten():
            return entering.flatten(1)
        case Scale():
            return entering * _spread(node.factor, entering.dim())
        case Add():
            return torch.stack([values[name] for name in node.sources]).sum(dim=0)


def plain_value(node: Node, values: Mapping[str, Tensor]) -> Tensor:
    """The output of a node in the plain network, the limit of many steps: neurons compute ReLU, gates max pooling."""
    match node:
        case Neurons():
            return node.rectified(values[node.source])
        case Gate():
            return _largest(node, values[node.source])
        case _:
            return linear(node, values)


def convolved(node: Synapses, maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution of ``node`` on ``maps`` with its weights and biases in the type and order of the caller.

    oneDNN as in torch 2.13 crashes if there is a bias and windows lie wholly in the padding (its issue 5942): biases
    are then added afterwards.
    """
    apart = bias is not None and _misses(maps.shape[2:], weight.shape[2:], node.stride, node.padding, node.dilation)
    found = functional.conv2d(
        maps, weight, None if apart else bias, node.stride, node.padding, node.dilation, node.groups
    )
    return found if bias is None or not apart else found + bias[:, None, None]


@functools.cache
def _misses(size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> bool:
    """Whether some windows lie wholly outside an image of ``size``."""
    for axis in (0, 1):
        span = dilation[axis] * kernel[axis]
        last = size[axis] + 2 * padding[axis] - span + dilation[axis]
        for begin in range(-padding[axis], last - padding[axis], stride[axis]):
            if not any(0 <= pixel < size[axis] for pixel in range(begin, begin + span, dilation[axis])):
                return True
    return False


def _largest(node: Gate, counts: Tensor) -> Tensor:
    return functional.max_pool2d(counts, node.kernel, node.stride, node.padding)


def _passed(node: Gate, spikes: Tensor, counts: Tensor) -> Tensor:
    """For each window the spike of the unit with the highest count."""
    _, chosen = functional.max_pool2d(counts, node.kernel, node.stride, node.padding, return_indices=True)
    return spikes.flatten(2).gather(2, chosen.flatten(2)).reshape(chosen.shape)


# The reference engine: one torch step after the other, on any device.


_BLOCK, _CHUNK = 64, 16


class StepEngine:
    """Chunks of a run, computed by a :class:`Stepper`; integers (int8) are exact in float64."""

    block = _BLOCK

    def __init__(
        self, network: SpikingNetwork, source: Source, precision: Precision, device: str, *, chunk: int | None = None
    ) -> None:
        self.chunk = chunk or _CHUNK
        try:
            target = torch.device(device)
        except RuntimeError as error:
            raise UsageError(f"torch does not know the device {device!r}") from error
        self._stepper = Stepper(network, torch.float32 if precision == "float32" else torch.float64, str(target))
        self._network, self._source = network, source
        self._rows = torch.empty(0, dtype=torch.int64)
        self._state = State({}, {}, {})

    def begin(self, rows: NDArray[np.int64]) -> None:
        """A new block with clean membranes."""
        self._rows = torch.from_numpy(rows)
        self._state = self._stepper.begin(len(rows))

    def advance(
        self, step: int, count: int, observers: Sequence[Observer]
    ) -> tuple[NDArray[np.floating], dict[str, NDArray[np.int64]]]:
        """The next ``count`` steps."""
        outputs: list[Tensor] = []
        counts: dict[str, list[Tensor]] = {node.name: [] for node in self._network.populations}
        neuron = self._network.neuron
        if not isinstance(self._source, Currents):
            counts[INPUTS] = []
        for now in range(step, step + count):
            entering = self._source.step(self._rows, now).to(self._stepper.device)
            values, tested = self._stepper.step(self._state, entering)
            values[INPUTS] = entering
            outputs.append(values[self._network.nodes[-1].name])
            for name, kept in counts.items():
                kept.append((values[name] != 0).flatten(1).sum(dim=1))
            for observer in observers:
                if observer.inputs and INPUTS in counts:
                    observer.see(INPUTS, self._rows.numpy(), now, _shown(entering).astype(np.int8), None)
            for node in self._network.populations:
                for observer in observers:
                    wanted = _shown(tested[node.name]) if observer.membranes else None
                    fired = (_shown(values[node.name]) * neuron.largest).astype(np.int8 if neuron.signed else np.uint8)
                    observer.see(node.name, self._rows.numpy(), now, fired, wanted)
        stacked = {name: torch.stack(kept, dim=1).cpu().numpy() for name, kept in counts.items()}
        return torch.stack(outputs, dim=1).cpu().numpy(), stacked

    def keep(self, going: NDArray[np.bool_]) -> None:
        """Continue with these rows only."""
        mask = torch.from_numpy(going)
        self._rows = self._rows[mask]
        kept = mask.to(self._stepper.device)
        self._state = State(
            {name: value[kept] for name, value in self._state.membranes.items()},
            {name: value[kept] for name, value in self._state.counts.items()},
            {name: value[kept] for name, value in self._state.sent.items()},
            self._state.step,
        )

    def paths(self) -> dict[str, str]:
        """The path of every layer: step by step."""
        return {node.name: "steps" for node in self._network.synapses}


def _shown(values: Tensor) -> NDArray[np.floating]:
    """(images, channels, …) as (images, 1, positions, channels)."""
    array: NDArray[np.floating] = (
        values.flatten(2).transpose(1, 2).cpu().numpy() if values.dim() > 2 else values[:, None].cpu().numpy()
    )
    return array[:, None]
