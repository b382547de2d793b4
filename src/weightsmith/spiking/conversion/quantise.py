"""Quantise weights to 8-bit integers, so that a run is exact in any order of summation.

A neuron compares its membrane with its threshold, so both can be measured in a unit of its own. For unit k with
weights w (all connections that lead to it), bias b and threshold θ

    s = max |w| / 127        w ← round(w / s)        b ← round(b / s)        θ ← max(1, round(θ / s))

and the spikes are those of a network whose weights are off by at most s/2. Average pools become sums, and their 1/n is
moved into the weights that follow. Graded spikes are powers of two times θ/2^(K−1), so membranes are multiples of
1/2^(K−1): integers again, in a finer unit. The output layer is rounded likewise, and its sums are multiplied by s.
Without a leak every membrane is then an integer; with a leak, float64 gives the same bits in every engine, because
currents are exact and membranes are computed in the same way.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.simulation.packing import writes

__all__ = ["LARGEST", "check_quantised", "dequantised", "floating_nodes", "quantised", "units_of"]

LARGEST = 127
_ROWS = 16
# Layers known to have 8-bit weights, with the tensor version at the time of the check.
_WHOLE: WeakKeyDictionary[Synapses, int] = WeakKeyDictionary()


def quantised(network: SpikingNetwork) -> SpikingNetwork:
    """``network`` with weights stored in 8 bits and integer thresholds.

    Where constant currents that are not whole numbers enter, the first layer keeps its weights: it is computed once
    per image, and its currents are not integers anyway.
    """
    shares, units = _shares(network), units_of(network)
    before = {node.name: node for node in network.nodes}
    new: dict[str, Node] = {
        name: dataclasses.replace(node, average=False) if isinstance(node, Pool) else node
        for name, node in before.items()
    }
    for name, unit in units.items():
        node = before[name]
        if isinstance(node, Neurons):
            new[name] = dataclasses.replace(node, threshold=_whole_threshold(node, unit))
            branches = _branches(before, node.source, node.name)
        else:
            branches = [node]  # type: ignore[list-item]  # units are those of populations and of the last synapses
        for branch in branches:
            new[branch.name] = _rounded(branch, unit, shares[branch.source])
    for node in network.nodes:  # floating nodes keep their weights, but the averages before them have become sums
        if new[node.name] is node and isinstance(node, Synapses) and shares[node.source] != 1:
            new[node.name] = dataclasses.replace(node, weight=node.weight * shares[node.source])
        elif new[node.name] is node and isinstance(node, Scale) and shares[node.source] != 1:
            new[node.name] = dataclasses.replace(node, factor=node.factor * shares[node.source])
    last = network.nodes[-1].name
    scores = Scale(f"{last}*scale", last, units[last].float())
    return dataclasses.replace(network, nodes=(*new.values(), scores))


def dequantised(network: SpikingNetwork) -> SpikingNetwork:
    """``network`` with weights, biases and thresholds that are rounded as in 8 bits but have kept their units."""
    shares, nodes = _shares(network), {node.name: node for node in network.nodes}
    new: list[Node] = []
    for name, unit in units_of(network).items():
        node = nodes[name]
        branches: list[Node] = [node]
        if isinstance(node, Neurons):
            threshold = _whole_threshold(node, unit) * _spread(unit, node.threshold)
            new.append(dataclasses.replace(node, threshold=threshold.to(node.threshold.dtype)))
            branches = [*_branches(nodes, node.source, name)]
        new += [_in_old_unit(branch, unit, shares[branch.sources[0]]) for branch in branches]
    return network.replaced(new)


def units_of(network: SpikingNetwork) -> dict[str, Tensor]:
    """The quantisation step of each unit of every population that can be quantised, and of the last layer."""
    nodes, shares = {node.name: node for node in network.nodes}, _shares(network)
    floating = floating_nodes(network)
    units: dict[str, Tensor] = {}
    rounded: list[str] = []
    for node in network.populations:
        branches = _branches(nodes, node.source, node.name)
        if not any(branch.name in floating for branch in branches):
            units[node.name] = _unit(branches, shares)
            rounded += [branch.name for branch in branches]
        elif not all(branch.name in floating for branch in branches):
            raise UsageError(
                f"{node.name}: constant currents and spikes are added here, which int8 represents only for whole "
                "inputs: use encode=constant:step=…"
            )
    last = nodes[network.nodes[-1].name]
    if not isinstance(last, Synapses):
        raise UsageError(
            f"{last.name}: int8 needs a layer of weights at the end, not {type(last).__name__}; run it in float32"
        )
    units[last.name] = _unit([last], shares)
    _check_readers(network, {*rounded, last.name}, floating)
    return units


def _check_readers(network: SpikingNetwork, rounded: set[str], floating: set[str]) -> None:
    """Refuse weights whose values do not all go, in one unit, to one population: other readers would be wrong."""
    readers = Counter(name for node in network.nodes for name in node.sources)
    for node in network.nodes:
        if node.name in floating or not isinstance(node, Synapses | Scale | Add):
            continue
        if not isinstance(node, Add) and node.name not in rounded:
            raise _refused(node.name, "its values reach other weights before any neuron")
        if readers[node.name] > 1:
            raise _refused(node.name, "several nodes read its values")


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"{name}: {why}, which int8 cannot represent; run it in float32")


def check_quantised(network: SpikingNetwork) -> None:
    """Refuse a network whose weights are not 8-bit integers, or that contains averages."""
    floating = floating_nodes(network)
    for node in network.nodes:
        if isinstance(node, Pool) and node.average and node.name not in floating:
            raise UsageError(f"{node.name}: int8 runs need sums in place of averages: convert with precision='int8'")
    for node in network.synapses:
        written = writes(node.weight)
        if _WHOLE.get(node) == written or node.name in floating:
            continue
        whole = node.weight.dtype == torch.int8 or all(
            torch.equal(part, part.round()) for part in torch.split(node.weight, _ROWS)
        )
        if not whole or max(map(abs, map(int, node.weight.aminmax()))) > LARGEST:
            raise UsageError(f"{node.name}: int8 runs need weights of 8 bits: convert with precision='int8'")
        _WHOLE[node] = written


def _shares(network: SpikingNetwork) -> dict[str, float]:
    """The factor of each node's values after averages have become sums: it multiplies the weights that follow."""
    worth: dict[str, float] = {INPUT: 1.0}
    for node in network.nodes:
        share = worth[node.sources[0]]
        match node:
            case Synapses() | Scale():
                worth[node.name] = 1.0
            case Pool():
                worth[node.name] = share / math.prod(node.kernel) if node.average else share
            case Flatten():
                worth[node.name] = share
            case _:
                if any(worth[name] != 1 for name in node.sources):
                    raise _refused(node.name, "it reads an average without weights")
                worth[node.name] = 1.0
    return worth


def floating_nodes(network: SpikingNetwork) -> set[str]:
    """The nodes that constant currents, unless they are whole numbers, reach before any neuron."""
    if not isinstance(network.encode, Constant) or network.encode.step is not None:
        return set()
    reached = {INPUT}
    for node in network.nodes:
        if not isinstance(node, Neurons) and reached & set(node.sources):
            reached.add(node.name)
    return reached - {INPUT}


def _branches(nodes: dict[str, Node], name: str, population: str) -> list[Synapses | Scale]:
    """The connections that lead to a population."""
    node = nodes.get(name)
    if isinstance(node, Synapses | Scale):
        return [node]
    if isinstance(node, Add):
        return [branch for source in node.sources for branch in _branches(nodes, source, population)]
    raise _refused(population, f"{name} leads into it without weights")


def _unit(branches: list[Synapses | Scale], shares: Mapping[str, float]) -> Tensor:
    """The quantisation step of each unit."""
    largest = []
    for branch in branches:
        values = branch.factor[:, None] if isinstance(branch, Scale) else branch.weight.flatten(1)
        low, high = values.aminmax(dim=1)  # no copy of all weights
        largest.append((torch.maximum(-low, high) * shares[branch.source]).double())
    top = torch.stack(largest).amax(dim=0)
    return torch.where(top > 0, top, torch.ones_like(top)) / LARGEST


def _spread(unit: Tensor, like: Tensor) -> Tensor:
    """Values per unit, shaped to broadcast with (outputs, …)."""
    return unit.reshape(-1, *[1] * (like.dim() - 1))


def _whole_threshold(node: Neurons, unit: Tensor) -> Tensor:
    return torch.round(node.threshold.double() / _spread(unit, node.threshold)).clamp(min=1).float()


def _in_old_unit(branch: Node, unit: Tensor, share: float) -> Synapses | Scale:
    assert isinstance(branch, Synapses | Scale)
    whole = _rounded(branch, unit, share)
    if isinstance(whole, Scale):
        return dataclasses.replace(whole, factor=(whole.factor * unit / share).float())
    bias = None if whole.bias is None else (whole.bias * unit).float()
    weight = whole.weight.double() * _spread(unit, whole.weight) / share
    return dataclasses.replace(whole, weight=weight.float(), bias=bias)


def _rounded(branch: Synapses | Scale, unit: Tensor, share: float) -> Synapses | Scale:
    if isinstance(branch, Scale):
        return dataclasses.replace(branch, factor=torch.round((branch.factor * share).double() / unit).float())
    bias = None if branch.bias is None else torch.round(branch.bias.double() / unit).float()
    weight = torch.empty(branch.weight.shape, dtype=torch.int8)
    spread = _spread(unit, weight)
    for begin in range(0, len(weight), _ROWS):  # a few rows at a time: all in double precision would need much memory
        rows = slice(begin, begin + _ROWS)
        weight[rows] = torch.round((branch.weight[rows] * share).double() / spread[rows])
    return dataclasses.replace(branch, weight=weight, bias=bias)
