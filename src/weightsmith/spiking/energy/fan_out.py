"""The fan-out of every unit: the accumulates that one of its spikes causes in the layer that reads it.

A *landing* is a node that adds up spikes: a node with weights, or a population (or the output) that spikes reach
without weights, as on an identity shortcut. Spikes come from *roots*: the input, populations, and gates, which pass
only some of them. Between a root and a landing lie pools, scales, sums and flattening, so the reach of a unit is a
number of paths. It is found by one backward pass from each landing, with w ≠ 0 in place of weights w and sums over
windows in place of averages. Padding and zero weights do not count, so borders, strides, dilation and groups are exact.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pair, Pool, Scale, Shape, Synapses
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Landing", "fan_out", "landings_of", "root_gates", "shown", "summing_units"]


@dataclasses.dataclass(frozen=True, eq=False)
class Landing:
    """A node where spikes are summed.

    ``reach[root]`` (positions, channels) counts the accumulates of one spike of each unit of a root. ``constant``:
    values that never change arrive (a constant input). ``graded``: values that are not spikes and change with every
    step arrive, from weights without neurons after them. ``lasting``: its output flows into neurons or the output, so
    that its constant currents are added at every step. ``bound``: the reach counts all input spikes of a gate.
    """

    name: str
    kind: Literal["synapses", "direct"]
    reach: dict[str, NDArray[np.int64]]
    constant: bool
    graded: bool
    lasting: bool
    bound: bool


def landings_of(network: SpikingNetwork, *, gates: bool = True) -> tuple[Landing, ...]:
    """All landings that a spike or a current reaches, in the order of the network.

    With ``gates``, gates that read a population are separate roots; otherwise every spike counts as passing.
    """
    roots = {gate.name for gate in root_gates(network)} if gates else set()
    backward = _Backward(network, frozenset(roots))
    direct = {node.name: backward.direct(node) for node in network.nodes if _ends(network, node)}
    lasting = set().union(*(walk.synapses for walk in direct.values()))
    found = []
    for node in network.nodes:
        if isinstance(node, Synapses):
            reach = fan_out(node, network.shapes[node.source], network.shapes[node.name])
            walk = backward.from_node(node.source, reach)
            found.append(backward.landing(node.name, "synapses", walk, lasting=node.name in lasting))
        elif node.name in direct and (direct[node.name].roots or direct[node.name].constant):
            found.append(backward.landing(node.name, "direct", direct[node.name], lasting=True))
    return tuple(found)


def root_gates(network: SpikingNetwork) -> tuple[Gate, ...]:
    """The gates that read a population, or such a gate: the spikes alone determine what they pass."""
    spiking = {node.name for node in network.populations}
    gates = []
    for node in network.nodes:
        if isinstance(node, Gate) and node.source in spiking:
            spiking.add(node.name)
            gates.append(node)
    return tuple(gates)


def summing_units(network: SpikingNetwork) -> int:
    """The number of neurons and outputs that graded spikes of other neurons reach."""
    carrying, found = set[str](), 0
    if network.neuron.event != "graded":
        return 0
    for node in network.nodes:
        arrives, fires = not carrying.isdisjoint(node.sources), isinstance(node, Neurons)
        if arrives and (fires or node is network.nodes[-1]):
            found += math.prod(network.shapes[node.name])
        if arrives or fires:
            carrying.add(node.name)
    return found


def shown(values: Tensor) -> NDArray[np.float64]:
    """Values (channels, …) as observers see them: (positions, channels)."""
    flat = values.reshape(len(values), -1)
    array: NDArray[np.float64] = flat.t().contiguous().double().cpu().numpy()
    return array


@dataclasses.dataclass(frozen=True)
class _Walk:
    """The roots met on the way back from a landing."""

    roots: dict[str, Tensor]
    synapses: frozenset[str]
    constant: bool
    bound: bool


class _Backward:
    """Walks from landings back to the roots of one network."""

    def __init__(self, network: SpikingNetwork, gates: frozenset[str]) -> None:
        self._network, self._gates = network, gates
        self._changing = _changing(network)

    def direct(self, node: Node) -> _Walk:
        """From neurons or the output, where each unit receives its own spikes."""
        start = node.source if isinstance(node, Neurons) else node.name
        return self.from_node(start, torch.ones(self._network.shapes[start], dtype=torch.float64))

    def from_node(self, start: str, reach: Tensor) -> _Walk:
        """From ``start``, whose units have this reach, back to every root."""
        pending = {start: reach}
        roots: dict[str, Tensor] = {}
        synapses, bound = set(), False
        for node in reversed(self._network.nodes):
            if node.name not in pending:
                continue
            here = pending.pop(node.name)
            if isinstance(node, Neurons) or node.name in self._gates:
                roots[node.name] = here
            elif isinstance(node, Synapses):
                synapses.add(node.name)
            else:
                bound |= isinstance(node, Gate)
                for name, before in zip(node.sources, self._before(node, here), strict=True):
                    pending[name] = pending[name] + before if name in pending else before
        constant = INPUT in pending and not self._changing[INPUT]
        if INPUT in pending and not constant:
            roots[INPUT] = pending[INPUT]
        return _Walk(roots, frozenset(synapses), constant, bound)

    def landing(self, name: str, kind: Literal["synapses", "direct"], walk: _Walk, *, lasting: bool) -> Landing:
        behind = [self._changing[other] for other in walk.synapses] if kind == "synapses" else []
        return Landing(
            name,
            kind,
            {root: np.rint(shown(walk.roots[root])).astype(np.int64) for root in sorted(walk.roots)},
            constant=walk.constant or not all(behind),
            graded=any(behind),
            lasting=lasting,
            bound=walk.bound,
        )

    def _before(self, node: Pool | Gate | Flatten | Scale | Add, reach: Tensor) -> list[Tensor]:
        """The reach of the output of each source of ``node``."""
        shape = self._network.shapes[node.sources[0]]
        match node:
            case Pool() | Gate():
                ones = torch.ones(shape[0], *node.kernel, dtype=torch.float64)
                return [_reaching(reach, ones, shape, node.stride, node.padding)]
            case Flatten():
                return [reach.reshape(shape)]
            case Scale():
                return [reach * (node.factor != 0).reshape(-1, *[1] * (reach.dim() - 1))]
            case Add():
                return [reach] * len(node.sources)


def _ends(network: SpikingNetwork, node: Node) -> bool:
    """Whether sums end here: in neurons, or in the output."""
    return isinstance(node, Neurons) or node is network.nodes[-1]


def _changing(network: SpikingNetwork) -> dict[str, bool]:
    """Whether the output of each node changes from step to step."""
    changing = {INPUT: not isinstance(network.encode, Constant)}
    for node in network.nodes:
        changing[node.name] = isinstance(node, Neurons) or any(changing[name] for name in node.sources)
    return changing


def fan_out(node: Synapses, before: Shape, after: Shape) -> Tensor:
    """For each input unit of the weights, the number of units it is connected to.

    The sum is the number of connections: the MACs of the layer without padding and weights of 0.
    """
    connected = node.weight != 0
    if node.dense:
        return connected.sum(dim=0).double()
    # All output channels of a group at once: only the number that each kernel position reaches matters.
    grouped = connected.reshape(node.groups, -1, *connected.shape[1:]).sum(dim=1).double()
    targets = torch.ones(before[0], *after[1:], dtype=torch.float64)
    return _reaching(targets, grouped.flatten(0, 1), before, node.stride, node.padding, dilation=node.dilation)


def _reaching(
    reach: Tensor, kernels: Tensor, before: Shape, stride: Pair, padding: Pair, *, dilation: Pair = (1, 1)
) -> Tensor:
    """The reach of the inputs of a depthwise convolution with this kernel (channels, height, width)."""
    sizes = zip(before[1:], reach.shape[1:], kernels.shape[1:], stride, padding, dilation, strict=True)
    # Pixels at the far border that no window covers have reach 0.
    rest = [
        size - (count - 1) * by + 2 * pad - apart * (length - 1) - 1 for size, count, length, by, pad, apart in sizes
    ]
    form = (stride, padding, rest, before[0], dilation)
    return functional.conv_transpose2d(reach[None], kernels[:, None], None, *form)[0]
