"""Memory accesses of a spiking network and of its rivals, a second figure besides arithmetic.

Counted as by E. Lemaire et al., "An analytical estimation of spiking neural networks energy efficiency", ICONIP 2022,
with the operations counted in the run in place of their means (θ · C_out · H · W of a kernel). For an image run for T
steps, with A the accumulates of a layer, C its constant currents of one step, θ its incoming events, S the events its
neurons send, and N_leak its leaky neurons:

    weights      reads  A                                             eqs. 7, 8
    membranes    reads  A + C·T + N_leak·T     writes  as many + S    eqs. 9, 10, 14, 15; the last for the reset
    events       reads  θ                      writes  S              eqs. 5, 13
    values       reads  C·T, pixels drawn from                        eq. 7: biases and constant currents

A layer that multiplies (a layer of the network, or one that reads a constant input), with M MACs:

    weights      reads  M                                             eq. 6
    values       reads  M for a convolution, N_in for a dense layer, a bias per unit      eqs. 3, 4, 6
                 writes a value per unit                                                  eqs. 11, 12

One access reads or writes one value, and costs by the size of its memory in bytes: the least-squares line through
Horowitz's caches (8 KB 10 pJ, 32 KB 20 pJ, 1 MB 100 pJ), as there; but at most his 1.3 nJ for DRAM. Every layer has
separate memories for weights, membranes, values (4 bytes; 1 in int8, membranes 4) and events (a bit per unit).
Communication between cores and the computing of addresses are left out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from weightsmith.core.records import Record
from weightsmith.spiking.graph import Synapses
from weightsmith.spiking.network import SpikingNetwork

if TYPE_CHECKING:
    from weightsmith.spiking.energy.cost import LayerCost, SpikeCost

__all__ = ["MemoryAccess", "access_price", "mac_accesses", "spiking_accesses", "together"]

_INTERCEPT, _PER_BYTE = 13.2563, 8.2816e-5  # the least-squares line, in picojoules
_DRAM = 1300.0  # picojoules for an access to DRAM, the lower end of the range
_WIDE = 4  # bytes of a float32, and of a membrane in int8 runs

Kind = Literal["weights", "membranes", "events", "values"]


@dataclasses.dataclass(frozen=True, eq=False)
class MemoryAccess(Record):
    """Accesses to all memories of one kind for an image, and their energy in picojoules."""

    kind: Kind
    reads: float
    writes: float
    energy: float


def access_price(size: float) -> float:
    """Picojoules for an access to a memory of ``size`` bytes.

    >>> round(access_price(32 * 1024), 2), access_price(1e9)
    (15.97, 1300.0)
    """
    return min(_INTERCEPT + _PER_BYTE * size, _DRAM)


def together(accesses: Iterable[MemoryAccess]) -> tuple[MemoryAccess, ...]:
    """One sum for each kind that occurs."""
    sums: dict[Kind, list[float]] = {}
    for each in accesses:
        known = sums.setdefault(each.kind, [0.0, 0.0, 0.0])
        for index, value in enumerate((each.reads, each.writes, each.energy)):
            known[index] += value
    return tuple(MemoryAccess(kind, *values) for kind, values in sums.items())


def mac_accesses(
    network: SpikingNetwork, node: Synapses, macs: float, *, weight_bytes: float, value_bytes: float
) -> list[MemoryAccess]:
    """The accesses of a layer that multiplies ``macs`` times for an image."""
    entering, leaving = (math.prod(network.shapes[name]) for name in (node.source, node.name))
    biases = 0 if node.bias is None else leaving
    return [
        _access("weights", node.weight.numel() * weight_bytes, reads=macs),
        _access("values", entering * value_bytes, reads=min(macs, entering) if node.dense else macs),
        _access("values", leaving * value_bytes, reads=biases, writes=leaving),
    ]


def spiking_accesses(network: SpikingNetwork, cost: SpikeCost) -> tuple[MemoryAccess, ...]:
    """The accesses for an image after the last step, in a run of ``network`` with the operations ``cost``."""
    run = float(cost.run[-1])
    found: list[MemoryAccess] = []
    for layer in cost.layers:
        found += _of_layer(network, layer, run, integers=cost.prices.numbers == "int8")
    for population in cost.neurons:
        leaks, fired = population.leaking * run, population.spikes
        found.append(_access("membranes", population.units * _WIDE, reads=leaks, writes=leaks + fired))
        found.append(_access("events", population.units / 8, writes=fired))
    pixels = math.prod(network.input_shape)
    found.append(_access("values", pixels * _WIDE, reads=cost.draws * run))
    return together(found)


def _of_layer(network: SpikingNetwork, layer: LayerCost, run: float, *, integers: bool) -> list[MemoryAccess]:
    node = network.node(layer.name)
    units = math.prod(network.shapes[layer.name])
    accumulates, constants = float(layer.accumulates[-1]), layer.constant_additions(run)
    width = 1 if integers and not layer.floating else _WIDE
    added = accumulates + constants
    found = [
        _access("membranes", units * _WIDE, reads=added, writes=added),
        _access("values", units * _WIDE, reads=constants),
    ]
    found.append(_access("events", math.prod(network.shapes[node.sources[0]]) / 8, reads=layer.spikes))
    if isinstance(node, Synapses):
        found.append(_access("weights", node.weight.numel() * width, reads=accumulates))
        times = (layer.multiplies_once > 0) + (layer.multiplies_per_step > 0) * run
        if times:
            macs = layer.multiplies_once or layer.multiplies_per_step
            once = mac_accesses(network, node, macs, weight_bytes=width, value_bytes=width)
            found += [
                MemoryAccess(each.kind, times * each.reads, times * each.writes, times * each.energy) for each in once
            ]
    return found


def _access(kind: Kind, size: float, *, reads: float = 0.0, writes: float = 0.0) -> MemoryAccess:
    return MemoryAccess(kind, float(reads), float(writes), (reads + writes) * access_price(size))
