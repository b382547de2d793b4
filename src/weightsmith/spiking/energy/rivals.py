"""Other ways to run the network that was converted, for comparison with the energy of the spiking network.

    float32                   every connection, a multiply–accumulate in float32
    int8                      the same with weights and activations of 8 bits
    int8, zeros skipped       only where the activation is not zero: the share is measured by running the network
    b bits, zeros skipped     activations of b = ⌈log₂ L⌉ bits, L the number of values of a neuron in T steps
                              (T + 1 for spikes), as fine as its rates: Z. Yan et al., arXiv 2409.08290; and without

A rival is the same network in another number format: same connections, arithmetic at the prices of the table
(:func:`~weightsmith.spiking.energy.prices.mac_price`), memory by the same formulas. Its accuracy is not measured:
8 bits seldom lose any, few bits may. Activations count as zero here if they are exactly zero in float32; rounding makes
more of them zero, which would make the last two cheaper still. The sums of an int8 MAC are priced as 8-bit additions,
as is usual, while spikes are added in 32 bits: this favours the rival where the two are close.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from weightsmith.core.records import Record
from weightsmith.core.seeds import pinned_threads
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.energy.fan_out import fan_out
from weightsmith.spiking.energy.memory import mac_accesses
from weightsmith.spiking.energy.prices import FLOAT_MAC, mac_price
from weightsmith.spiking.graph import INPUT, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.simulation.reference import plain_value

__all__ = ["Rival", "active_macs", "connections", "rivals_of"]

_BATCH = 64
_FLOAT_BITS, _INT_BITS = 32, 8


@dataclasses.dataclass(frozen=True, eq=False)
class Rival(Record):
    """The network in another number format: MACs for an image, picojoules for each, energy of arithmetic and memory.

    ``bits`` is the width of an activation. ``rows`` is the number of images on which the MACs with a zero activation,
    which are left out, were counted; None if every connection counts.
    """

    name: str
    bits: int
    macs: float
    price: float
    energy: float
    memory: float
    rows: int | None = None


def connections(network: SpikingNetwork, node: Synapses) -> tuple[int, int]:
    """The MACs of a layer for an image: one for each connection, and including zeros of the padding and weights of 0.

    A layer that only copies (each unit reads one of several inputs) multiplies nothing.
    """
    connected = (node.weight != 0).flatten(1)
    if connected.shape[1] > 1 and bool((connected.sum(dim=1) <= 1).all()):
        return 0, 0
    before, after = network.shapes[node.source], network.shapes[node.name]
    return int(fan_out(node, before, after).sum()), node.weight.numel() * math.prod(after[1:])


@torch.no_grad()
def active_macs(network: SpikingNetwork, x: Tensor, weights: SpikingNetwork | None = None) -> dict[str, float]:
    """For each layer the MACs of an image whose activation is not zero, averaged over the rows ``x``.

    ``network`` must compute the same as the plain network (:attr:`Converted.network`), and ``x`` are rows as they come
    from the data. ``weights``, if given, is the network whose zero weights do not count.
    """
    wired = weights or network
    reach = {
        node.name: fan_out(node, wired.shapes[node.source], wired.shapes[node.name])
        for node in wired.synapses
        if connections(wired, node)[0]
    }
    totals = dict.fromkeys(reach, 0.0)
    with pinned_threads(1):
        for _, inputs in batches_for(network.card, x, _BATCH, memory_format=torch.channels_last):
            for node, values in _read_by_synapses(network, network.encode.given(inputs)):
                if node.name in reach:
                    totals[node.name] += float(((values != 0).sum(dim=0).double() * reach[node.name]).sum())
    return {name: total / len(x) for name, total in totals.items()}


def _read_by_synapses(network: SpikingNetwork, x: Tensor) -> Iterator[tuple[Synapses, Tensor]]:
    """Every layer with the values it reads in the plain network: neurons compute ReLU, gates the largest value."""
    values = {INPUT: x}
    for node in network.nodes:
        values[node.name] = plain_value(node, values)
        if isinstance(node, Synapses):
            yield node, values[node.source]


def rivals_of(
    network: SpikingNetwork, x: Tensor, levels: int, weights: SpikingNetwork | None = None
) -> tuple[Rival, ...]:
    """The rivals of a spiking network whose neurons can represent ``levels`` values.

    ``network`` is the converted network before it is balanced, and ``x`` are rows as they come from the data.
    ``weights`` is the network that is run: weights that rounding made 0 cost integer rivals nothing either.
    """
    whole, every = (
        {node.name: float(connections(each, node)[0]) for node in each.synapses}
        for each in (network, weights or network)
    )
    active = active_macs(network, x, weights)
    rows = len(x)
    bits = max(1, math.ceil(math.log2(levels)))
    found = [_rival(network, "float32", whole, _FLOAT_BITS), _rival(network, "int8", every, _INT_BITS)]
    found.append(_rival(network, "int8, zeros skipped", active, _INT_BITS, rows))
    if bits < _INT_BITS:
        name = f"{bits} bit{'s' * (bits > 1)}"
        found += [
            _rival(network, name, every, bits),
            _rival(network, f"{name}, zeros skipped", active, bits, rows),
        ]
    return tuple(found)


def _rival(network: SpikingNetwork, name: str, macs: Mapping[str, float], bits: int, rows: int | None = None) -> Rival:
    floating = bits == _FLOAT_BITS
    price = FLOAT_MAC if floating else mac_price(bits)
    accesses = [
        access
        for node in network.synapses
        if macs.get(node.name)
        for access in mac_accesses(
            network, node, macs[node.name], weight_bytes=4 if floating else 1, value_bytes=bits / 8
        )
    ]
    total = sum(macs.values())
    return Rival(name, bits, total, price, price * total, sum(each.energy for each in accesses), rows)
