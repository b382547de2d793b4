"""Synaptic operations per channel, as prices for structured pruning.

A pruning search can minimise accumulates instead of units: the price of a channel is the number of accumulates that its
removal saves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Shape, Synapses
from weightsmith.spiking.monitors.unit_counts import UnitCounts
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["synaptic_prices"]


def synaptic_prices(network: SpikingNetwork, counts: UnitCounts) -> dict[str, NDArray[np.float64]]:
    """For each layer before a population, the accumulates of an image that depend on each of its channels.

    Outgoing: the channel's spikes times their reach. Incoming: the spikes that reach its units. Accumulates from one
    channel to another are in the price of both, since removing either saves them: prices are not shares of a total.
    Layers are named as in the network that was converted (:attr:`Neurons.layer`), a population without a layer by its
    own name; populations of one layer are added up. Biases are left out, and so is a constant input, which is
    multiplied once for an image and not accumulated. Poisson input counts if ``counts`` has it.
    """
    if counts.images == 0:
        raise UsageError("no spikes were counted; pass the unit counts to run(observers=[…]) first")
    seen = [name for name in (INPUT, *(node.name for node in network.nodes)) if counts.saw(name)]
    mean = {name: counts.units(name) / counts.images for name in seen}
    incoming = _incoming(network, mean)
    prices: dict[str, NDArray[np.float64]] = {}
    for node in network.populations:
        price = incoming[node.name] + _outgoing(counts, node, mean)
        layer = node.layer or node.name
        prices[layer] = prices[layer] + price if layer in prices else price
    return prices


def _outgoing(counts: UnitCounts, node: Neurons, mean: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Accumulates that the spikes of each channel cause, including those after gates."""
    total = np.zeros(mean[node.name].shape[1])
    for landing in counts.landings:
        for root, reach in landing.reach.items():
            if counts.population_of(root) == node.name:
                total += (mean[root] * reach).sum(axis=0)
    return total


def _incoming(network: SpikingNetwork, mean: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Accumulates that reach the units of each channel of each population."""
    events = {name: _in_shape(mean[name], network.shapes[name]) for name in mean}  # copies of spikes at each unit
    landed: dict[str, Tensor] = {}  # accumulates made on the way to each unit
    found = {}
    for node in network.nodes:
        for values, passed_on in ((events, _events), (landed, _landed)):
            entering = [values[name] for name in node.sources if name in values]
            if entering and node.name not in values and not isinstance(node, Neurons | Synapses):
                values[node.name] = passed_on(node, torch.stack(entering).sum(dim=0), network.shapes[node.name])
        if isinstance(node, Synapses) and node.source in events:
            landed[node.name] = _connected(node, events[node.source])
        elif isinstance(node, Neurons):
            arrived = sum(_of_channels(values[node.source]) for values in (events, landed) if node.source in values)
            found[node.name] = np.zeros(network.shapes[node.name][0]) + arrived
    return found


def _events(node: Pool | Gate | Flatten | Scale | Add, entering: Tensor, shape: Shape) -> Tensor:
    match node:
        case Pool() | Gate():
            ones = torch.ones(len(entering), 1, *node.kernel)
            return functional.conv2d(entering[None], ones, None, node.stride, node.padding, groups=len(entering))[0]
        case Scale():
            return entering * (node.factor != 0).reshape(-1, *[1] * (entering.dim() - 1))
        case Flatten() | Add():
            return entering.reshape(shape)


def _landed(node: Pool | Gate | Flatten | Scale | Add, entering: Tensor, shape: Shape) -> Tensor:
    if isinstance(node, Pool | Gate):  # the whole channel is removed, whatever the windows cover
        return entering.mean(dim=(1, 2), keepdim=True).expand(shape) * (entering[0].numel() / math.prod(shape[1:]))
    return entering.reshape(shape)


def _connected(node: Synapses, entering: Tensor) -> Tensor:
    """Accumulates that arrive at each unit after the weights."""
    pattern = (node.weight != 0).float()
    if node.dense:
        return pattern @ entering
    return functional.conv2d(entering[None], pattern, None, node.stride, node.padding, node.dilation, node.groups)[0]


def _in_shape(counts: NDArray[np.float64], shape: Shape) -> Tensor:
    return torch.from_numpy(counts.T.copy()).float().reshape(shape)


def _of_channels(values: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.double().reshape(len(values), -1).sum(dim=1).numpy()
    return array
