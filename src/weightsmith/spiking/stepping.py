"""A spiking network run step by step in torch: slow, plain, on any device.

It is the twin of the compiled kernels: the tests hold them against it, and other devices than the CPU use it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Shape, Synapses
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["State", "Stepper", "convolved", "linear"]


@dataclasses.dataclass
class State:
    """What a run carries from step to step: membranes and gate counts."""

    membranes: dict[str, Tensor]
    counts: dict[str, Tensor]


class Stepper:
    """Runs ``network`` one step at a time; all that changes is in the :class:`State` that the caller holds."""

    def __init__(self, network: SpikingNetwork, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        self.network, self.dtype, self.device = network, dtype, device
        self._nodes = tuple(_moved(node, dtype, device) for node in network.nodes)

    def begin(self, images: int) -> State:
        """Clean membranes for a batch."""
        membranes, counts = {}, {}
        for node in self._nodes:
            shape = (images, *self.network.shapes[node.name])
            if isinstance(node, Neurons):
                start = _spread(node.threshold, len(shape)) * node.start
                membranes[node.name] = start.expand(shape).clone()
            elif isinstance(node, Gate):
                before = (images, *self.network.shapes[node.source])
                counts[node.name] = torch.zeros(before, dtype=self.dtype, device=self.device)
        return State(membranes, counts)

    def step(self, state: State, value: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The values of all nodes for this step's input, and the membranes just before they were tested."""
        values: dict[str, Tensor] = {INPUT: value.to(self.dtype)}
        tested: dict[str, Tensor] = {}
        for node in self._nodes:
            match node:
                case Neurons():
                    values[node.name], tested[node.name] = self._fire(node, state, values[node.source])
                case Gate():
                    state.counts[node.name] += values[node.source]
                    values[node.name] = _passed(node, values[node.source], state.counts[node.name])
                case _:
                    values[node.name] = linear(node, values)
        return values, tested

    def _fire(self, node: Neurons, state: State, current: Tensor) -> tuple[Tensor, Tensor]:
        threshold = _spread(node.threshold, current.dim())
        leak = self.network.neuron.leak if node.leak is None else _spread(node.leak, current.dim())
        soft = self.network.neuron.reset == "soft"
        before = state.membranes[node.name]
        if self.network.neuron.delay:
            spikes = before > threshold
            kept = leak * before if soft else leak * before.masked_fill(spikes, 0)
            after = kept + current - (threshold * spikes if soft else 0)
            state.membranes[node.name] = after
            return spikes.to(self.dtype), before
        membrane = leak * before + current
        spikes = membrane > threshold
        after = membrane - threshold * spikes if soft else membrane.masked_fill(spikes, 0)
        state.membranes[node.name] = after
        return spikes.to(self.dtype), membrane


def _moved(node: Node, dtype: torch.dtype, device: str) -> Node:
    tensors = {
        field.name: getattr(node, field.name).to(dtype=dtype, device=device)
        for field in dataclasses.fields(node)
        if isinstance(getattr(node, field.name), Tensor)
    }
    return dataclasses.replace(node, **tensors)


def _spread(values: Tensor, dimensions: int) -> Tensor:
    """Values per channel (or per unit) so that they meet (images, channels, …)."""
    return values.reshape(1, *values.shape, *[1] * (dimensions - 1 - values.dim()))


def linear(node: Synapses | Pool | Flatten | Scale | Add, values: Mapping[str, Tensor]) -> Tensor:
    """What a node between populations gives for the ``values`` (rows, …) of those it reads."""
    entering = values[node.sources[0]]
    match node:
        case Synapses() if node.dense:
            return functional.linear(entering, node.weight, node.bias)
        case Synapses():
            return convolved(node, entering, node.weight, node.bias)
        case Pool():
            pooled = functional.avg_pool2d(entering, node.kernel, node.stride, node.padding, divisor_override=1)
            return pooled / math.prod(node.kernel) if node.average else pooled
        case Flatten():
            return entering.flatten(1)
        case Scale():
            return entering * _spread(node.factor, entering.dim())
        case Add():
            return torch.stack([values[name] for name in node.sources]).sum(dim=0)


def convolved(node: Synapses, maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution of ``node`` on ``maps`` with its weights and biases in the type and order of the caller.

    oneDNN as in torch 2.13 ends the process where a bias meets windows that lie wholly in the padding (its issue 5942):
    biases are then added afterwards.
    """
    apart = bias is not None and _misses(maps.shape[2:], weight.shape[2:], node.stride, node.padding, node.dilation)
    found = functional.conv2d(
        maps, weight, None if apart else bias, node.stride, node.padding, node.dilation, node.groups
    )
    return found if bias is None or not apart else found + bias[:, None, None]


@functools.cache
def _misses(size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> bool:
    """Whether there are windows that see nothing of an image of ``size``."""
    for axis in (0, 1):
        span = dilation[axis] * kernel[axis]
        last = size[axis] + 2 * padding[axis] - span + dilation[axis]
        for begin in range(-padding[axis], last - padding[axis], stride[axis]):
            if not any(0 <= place < size[axis] for place in range(begin, begin + span, dilation[axis])):
                return True
    return False


def _passed(node: Gate, spikes: Tensor, counts: Tensor) -> Tensor:
    """Of each window the spike of the unit with the highest count."""
    _, chosen = functional.max_pool2d(counts, node.kernel, node.stride, node.padding, return_indices=True)
    return spikes.flatten(2).gather(2, chosen.flatten(2)).reshape(chosen.shape)
