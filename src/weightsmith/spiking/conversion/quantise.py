"""Quantise weights to 8-bit integers, so that a run is exact whatever the order of its sums.

A neuron compares its membrane with its threshold, so that both may be measured in a unit of its own. For unit k with
weights w (all connections that lead to it), bias b and threshold θ

    s = max |w| / 127        w ← round(w / s)        b ← round(b / s)        θ ← max(1, round(θ / s))

and the spikes are those of a network whose weights are off by at most s/2. Average pools become sums, their 1/n part of
the weights that follow. The output layer is rounded likewise, and its sums multiplied by s at the end. Without a leak
every membrane is then a whole number; with one, float64 gives the same bits for every path, because currents are
exact and membranes are computed alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.packing import writes

__all__ = ["LARGEST", "check_quantised", "floating_nodes", "quantised", "units_of"]

LARGEST = 127
# Layers known to be of 8 bits, with how often they had been written to by then.
_WHOLE: WeakKeyDictionary[Synapses, int] = WeakKeyDictionary()


def quantised(network: SpikingNetwork) -> SpikingNetwork:
    """``network`` with weights of 8 bits and whole thresholds.

    Where constant currents flow in, the first layer keeps its weights: it is computed once per image, and its currents
    are no whole numbers anyway.
    """
    _check_sizes(network)
    summed = _summed(network)
    before = {node.name: node for node in summed}
    new: dict[str, Node] = dict(before)
    for name, unit in units_of(network).items():
        node = before[name]
        if isinstance(node, Neurons):
            spread = unit.reshape(-1, *[1] * (node.threshold.dim() - 1))
            whole = torch.round(node.threshold.double() / spread).clamp(min=1).float()
            new[name] = dataclasses.replace(node, threshold=whole)
            branches = _branches(before, node.source, node.name)
        else:
            branches = [node]  # type: ignore[list-item]  # units are those of populations and of the last synapses
        for branch in branches:
            new[branch.name] = _rounded(branch, unit)
    last = network.nodes[-1].name
    scores = Scale(f"{last}*scale", last, units_of(network)[last].float())
    return dataclasses.replace(network, nodes=(*(new[node.name] for node in summed), scores))


def units_of(network: SpikingNetwork) -> dict[str, Tensor]:
    """The quantisation step of each unit of every population that can be quantised, and of the last layer."""
    nodes = {node.name: node for node in _summed(network)}
    floating = floating_nodes(network)
    units: dict[str, Tensor] = {}
    rounded: list[str] = []
    for node in network.populations:
        branches = _branches(nodes, node.source, node.name)
        if not any(branch.name in floating for branch in branches):
            units[node.name] = _unit(branches)
            rounded += [branch.name for branch in branches]
        elif not all(branch.name in floating for branch in branches):
            raise UsageError(f"{node.name}: constant currents and spikes meet here, which int8 cannot hold")
    last = nodes[network.nodes[-1].name]
    if not isinstance(last, Synapses):
        raise UsageError(f"{last.name}: int8 needs a layer of weights at the end, not {type(last).__name__}")
    units[last.name] = _unit([last])
    _check_readers(network, {*rounded, last.name}, floating)
    return units


def _check_readers(network: SpikingNetwork, rounded: set[str], floating: set[str]) -> None:
    """Refuse weights whose values do not all go, in one unit, to one population: what else reads them would be off."""
    readers = Counter(name for node in network.nodes for name in node.sources)
    for node in network.nodes:
        if node.name in floating or not isinstance(node, Synapses | Scale | Add):
            continue
        if not isinstance(node, Add) and node.name not in rounded:
            raise UsageError(f"{node.name}: its values meet other weights before any neuron, which int8 cannot hold")
        if readers[node.name] > 1:
            raise UsageError(f"{node.name}: several nodes read its values, which int8 cannot hold")


def check_quantised(network: SpikingNetwork) -> None:
    """Refuse a network whose weights are not whole numbers of 8 bits, or that averages."""
    _check_sizes(network)
    floating = floating_nodes(network)
    for node in network.nodes:
        if isinstance(node, Pool) and node.average and node.name not in floating:
            raise UsageError(f"{node.name}: int8 runs need sums in place of averages: run quantised(network)")
    for node in network.synapses:
        written = writes(node.weight)
        if _WHOLE.get(node) == written or node.name in floating:
            continue
        if not torch.equal(node.weight, node.weight.round()) or float(node.weight.abs().max()) > LARGEST:
            raise UsageError(f"{node.name}: int8 runs need weights of 8 bits: run quantised(network)")
        _WHOLE[node] = written


def _check_sizes(network: SpikingNetwork) -> None:
    if isinstance(network.neuron, Graded):
        raise UsageError(
            f"{network.neuron} cannot be run in int8: the sizes of its spikes are fractions of a threshold, which have "
            "no exact form in 8 bits; run it with precision float32"
        )


def _summed(network: SpikingNetwork) -> tuple[Node, ...]:
    """The nodes with sums instead of averages, compensated in the weights that follow."""
    worth: dict[str, float] = {INPUT: 1.0}
    nodes: list[Node] = []
    for node in network.nodes:
        share = worth[node.sources[0]]
        match node:
            case Synapses():
                worth[node.name] = 1.0
                nodes.append(node if share == 1 else dataclasses.replace(node, weight=node.weight * share))
            case Scale():
                worth[node.name] = 1.0
                nodes.append(node if share == 1 else dataclasses.replace(node, factor=node.factor * share))
            case Pool():
                worth[node.name] = share / math.prod(node.kernel) if node.average else share
                nodes.append(dataclasses.replace(node, average=False))
            case Flatten():
                worth[node.name] = share
                nodes.append(node)
            case _:
                if any(worth[name] != 1 for name in node.sources):
                    raise UsageError(f"{node.name}: an average goes into it without weights, which int8 cannot hold")
                worth[node.name] = 1.0
                nodes.append(node)
    return tuple(nodes)


def floating_nodes(network: SpikingNetwork) -> set[str]:
    """The nodes that constant currents reach before they meet a neuron."""
    if not isinstance(network.encode, Constant):
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
    raise UsageError(f"{population}: {name} leads into it without weights, which int8 cannot hold")


def _unit(branches: list[Synapses | Scale]) -> Tensor:
    """The quantisation step of each unit."""
    largest = [
        branch.factor.double().abs() if isinstance(branch, Scale) else branch.weight.double().abs().flatten(1).amax(1)
        for branch in branches
    ]
    top = torch.stack(largest).amax(dim=0)
    return torch.where(top > 0, top, torch.ones_like(top)) / LARGEST


def _rounded(branch: Synapses | Scale, unit: Tensor) -> Synapses | Scale:
    if isinstance(branch, Scale):
        return dataclasses.replace(branch, factor=torch.round(branch.factor.double() / unit).float())
    spread = unit.reshape(-1, *[1] * (branch.weight.dim() - 1))
    bias = None if branch.bias is None else torch.round(branch.bias.double() / unit).float()
    return dataclasses.replace(branch, weight=torch.round(branch.weight.double() / spread).float(), bias=bias)
