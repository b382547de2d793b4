"""The cost of a spiking network: synaptic operations and energy, compared with the network it came from.

A spike adds a weight to every unit it is connected with: an *accumulate* (AC). A network that does not spike multiplies
and accumulates at every weight, once for an image (MAC). What is counted, per image and layer:

    accumulates    spikes · reach, the reach of each unit being exact: borders, strides, groups, no weights of 0
    constants      one AC for each unit with a bias, at every step; or for each unit that is fed a constant current
                   (graded neurons get both once)
    multiplies     MACs: once for what a constant input flows through, at every step where values that are no spikes
                   arrive (weights behind weights, without neurons between them)

A spike before an average pool reaches all windows it lies in, and each spike is an event of its own, however many
share a window; before a gate (max pooling) only the spikes that pass count. Factors of pools and scales are taken
as part of the weights that follow. A layer that only copies (an identity shortcut written with weights) costs the
network no MAC, and a spike on it one accumulate. Neurons themselves are counted apart: each is updated at every step.

Prices are picojoules in 45 nm for 32-bit floating point: 0.9 for an addition, 3.7 + 0.9 for a MAC (M. Horowitz,
"Computing's energy problem (and what we can do about it)", ISSCC 2014). They leave out memory and communication, which
on real chips cost more than arithmetic: the figures compare, they do not predict.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.records import Record
from weightsmith.spiking.energy.fan_out import Landing, landings_of
from weightsmith.spiking.graph import INPUT, Neurons, Synapses
from weightsmith.spiking.monitors.unit_counts import UnitCounts
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.responses import Responses

__all__ = ["LayerCost", "NeuronCost", "PriceList", "Prices", "SpikeCost", "UnitCounts", "estimate", "spike_cost"]


class _Arrived(NamedTuple):
    """The spikes from a root at a landing, per step and over all images."""

    spikes: NDArray[np.float64]
    accumulates: NDArray[np.float64]
    exact: bool


def spike_cost(
    network: SpikingNetwork, responses: Responses, counts: UnitCounts, prices: Prices | None = None
) -> SpikeCost:
    """The cost of the run that gave ``responses`` and that ``counts`` watched.

    Every spike is counted with the reach of its own unit. Two things are estimates and say so: what passes a gate that
    does not read a population (all of it); and an early exit, since observers are shown some steps that the run then
    takes back: spikes are those of the run also then, only their mean reach is that of the steps shown.
    """
    if counts.network is not network:
        raise UsageError("the unit counts are those of another network: let UnitCounts(network) watch this one")
    _check_same_run(responses, counts)
    return _cost(
        network, responses, counts.landings, lambda landing, root: _counted(landing, root, responses, counts), prices
    )


def estimate(network: SpikingNetwork, responses: Responses, prices: Prices | None = None) -> SpikeCost:
    """The cost by the number of spikes of each population times the mean reach of its units: nothing need be watched.

    It assumes that units at borders fire as often as others, and that every spike passes its gate.
    """
    landings = landings_of(network, gates=False)
    return _cost(network, responses, landings, lambda landing, root: _estimated(landing, root, responses), prices)


def _cost(
    network: SpikingNetwork,
    responses: Responses,
    landings: tuple[Landing, ...],
    arrived: Callable[[Landing, str], _Arrived],
    prices: Prices | None,
) -> SpikeCost:
    running = responses.ended[:, None] > np.arange(responses.steps)
    return SpikeCost(
        images=responses.images,
        steps=responses.steps,
        run=running.mean(axis=0).cumsum(),
        layers=tuple(_layer(network, landing, responses, arrived) for landing in landings),
        neurons=tuple(_neurons(network, node) for node in network.populations),
        prices=Prices() if prices is None else prices,
    )


def _layer(
    network: SpikingNetwork, landing: Landing, responses: Responses, arrived: Callable[[Landing, str], _Arrived]
) -> LayerCost:
    parts = [arrived(landing, root) for root in landing.reach]
    per_step = np.sum([part.accumulates for part in parts], axis=0) if parts else np.zeros(responses.steps)
    node = network.node(landing.name)
    macs = 0
    if isinstance(node, Synapses) and not _copies(node):
        macs = node.weight.numel() * math.prod(network.shapes[node.name][1:])
    constants = _constants(network, landing) if landing.lasting else 0
    if isinstance(network.neuron, Graded):  # what never changes comes once, at the first step
        per_step, constants = per_step + constants * responses.images * (np.arange(responses.steps) == 0), 0
    return LayerCost(
        name=landing.name,
        kind=landing.kind,
        macs=macs,
        spikes=float(sum(part.spikes.sum() for part in parts) / responses.images),
        accumulates=per_step.cumsum() / responses.images,
        constants=constants,
        multiplies_once=macs if landing.constant else 0,
        multiplies_per_step=macs if landing.graded else 0,
        basis="counted" if all(part.exact for part in parts) else "estimate",
    )


def _counted(landing: Landing, root: str, responses: Responses, counts: UnitCounts) -> _Arrived:
    if not counts.saw(root):
        return _estimated(landing, root, responses)
    population = counts.population_of(root)
    seen = counts.fired(population, responses.steps)
    true = _spikes(responses, population)
    share: NDArray[np.float64] = true / np.maximum(seen, 1)  # 1 but for steps that were taken back
    fired, landed = counts.fired(root, responses.steps), counts.landed(landing.name, root, responses.steps)
    return _Arrived(share * fired, share * landed, bool((true == seen).all()) and not landing.bound)


def _estimated(landing: Landing, root: str, responses: Responses) -> _Arrived:
    spikes = _spikes(responses, root).astype(np.float64)
    return _Arrived(spikes, spikes * float(landing.reach[root].mean()), exact=False)


def _spikes(responses: Responses, root: str) -> NDArray[np.int64]:
    if root != INPUT:
        return responses.spikes_per_step[root]
    if responses.inputs_per_step is None:
        raise UsageError("the responses do not say how many spikes were fed in: are they those of constant currents?")
    return responses.inputs_per_step


def _check_same_run(responses: Responses, counts: UnitCounts) -> None:
    early = bool((responses.ended < responses.steps).any())
    for name in (*responses.spikes_per_step, *([INPUT] if counts.saw(INPUT) else [])):
        true = _spikes(responses, name)
        seen = counts.fired(name, responses.steps) if counts.saw(name) else np.zeros(responses.steps, np.int64)
        # With an early exit images are shown to the end of a part of the run, though their answers came before.
        same = bool((true <= seen).all()) if early else np.array_equal(true, seen)
        if counts.images != responses.images or not same:
            raise DataMismatch(
                f"the unit counts are not those of this run (of {name} it had {int(true.sum())} spikes for "
                f"{responses.images} images, {int(seen.sum())} for {counts.images} were seen): let a new UnitCounts "
                "watch each run"
            )


def _constants(network: SpikingNetwork, landing: Landing) -> int:
    """Units of a landing that a current flows into at every step."""
    node = network.node(landing.name)
    shape = network.shapes[landing.name]
    if landing.constant:
        return math.prod(shape)
    if isinstance(node, Synapses) and node.bias is not None:
        return int((node.bias != 0).sum()) * math.prod(shape[1:])
    return 0


def _copies(node: Synapses) -> bool:
    """Whether each unit reads at most one of the several it could read: then nothing is added up."""
    connected = (node.weight != 0).flatten(1)
    return connected.shape[1] > 1 and bool((connected.sum(dim=1) <= 1).all())


def _neurons(network: SpikingNetwork, node: Neurons) -> NeuronCost:
    shape = network.shapes[node.name]
    units = math.prod(shape)
    if node.leak is None:
        leaking = units if network.neuron.leak != 1 else 0
    else:
        leaking = int((node.leak != 1).sum()) * (units // node.leak.numel())
    return NeuronCost(node.name, node.layer, units, leaking)


# The prices of operations, and the cost records.


Basis = Literal["counted", "estimate"]


class PriceList(Option, family="prices"):
    """The family of prices of operations: ``picojoule``."""


class Prices(PriceList, name="picojoule"):
    """Picojoules for each operation.

    >>> str(Prices(0.1, 3.2)), PriceList.parse("picojoule:neurons=true")
    ('picojoule:accumulate=0.1,multiply=3.2', Prices(accumulate=0.9, multiply=4.6, neurons=True))
    """

    accumulate: float = param(default=0.9, ge=0, doc="picojoules for an addition")
    multiply: float = param(default=4.6, gt=0, doc="picojoules for a multiplication with its addition")
    neurons: bool = param(
        default=False, doc="neurons cost too: at every step an addition each, or a multiplication where they leak"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCost(Record):
    """Operations of one layer for an image, on average over the images shown.

    ``kind`` is "direct" where spikes reach the population (the output) of that name without weights. ``macs`` are those
    of the network. ``spikes`` arrive from all populations it reads; ``accumulates[t]`` are the ACs they cause in the
    first t + 1 steps. ``constants`` are the ACs of one step for currents that never change, ``multiplies_once`` the
    MACs for an image and ``multiplies_per_step`` those of every step. ``basis``: whether accumulates were counted unit
    by unit, or are an estimate by mean reaches.
    """

    name: str
    kind: Literal["synapses", "direct"]
    macs: int
    spikes: float
    accumulates: NDArray[np.float64]
    constants: int
    multiplies_once: int
    multiplies_per_step: int
    basis: Basis


@dataclasses.dataclass(frozen=True, eq=False)
class NeuronCost(Record):
    """A population: its neurons, each updated at every step, and those that leak, which takes a multiplication."""

    name: str
    layer: str
    units: int
    leaking: int


@dataclasses.dataclass(frozen=True, eq=False)
class SpikeCost(Record):
    """The average cost of an image, in operations and in picojoules.

    ``run[t]`` is how many of the first t + 1 steps an image was run for, on average: fewer with an early exit.
    """

    images: int
    steps: int
    run: NDArray[np.float64]
    layers: tuple[LayerCost, ...]
    neurons: tuple[NeuronCost, ...]
    prices: Prices

    @property
    def basis(self) -> Basis:
        """Whether all of it was counted."""
        return "counted" if all(layer.basis == "counted" for layer in self.layers) else "estimate"

    @property
    def macs(self) -> int:
        """Multiply–accumulates of the network for one image."""
        return sum(layer.macs for layer in self.layers)

    @property
    def accumulates(self) -> NDArray[np.float64]:
        """ACs for an image after each step, constant currents included."""
        total: NDArray[np.float64] = np.sum([self._accumulates(layer) for layer in self.layers], axis=0)
        return total

    @property
    def updates(self) -> NDArray[np.float64]:
        """Updates of neurons for an image after each step."""
        return sum(population.units for population in self.neurons) * self.run

    @property
    def curve(self) -> NDArray[np.float64]:
        """The energy for an image after each step, in picojoules."""
        total: NDArray[np.float64] = np.sum([self._energy(layer) for layer in self.layers], axis=0)
        return total + self._neuron_energy() * self.run

    @property
    def energy(self) -> float:
        """The energy for an image after the last step, in picojoules."""
        return float(self.curve[-1])

    @property
    def network_energy(self) -> float:
        """The energy of the network for an image, in picojoules."""
        return self.prices.multiply * self.macs

    @property
    def ratio(self) -> float | None:
        """Energy of the spiking network over that of the network; None where the latter multiplies nothing."""
        return self.energy / self.network_energy if self.macs else None

    def layer_energy(self) -> dict[str, float]:
        """The energy for an image in each layer after the last step, in picojoules, neurons left out."""
        return {layer.name: float(self._energy(layer)[-1]) for layer in self.layers}

    def _accumulates(self, layer: LayerCost) -> NDArray[np.float64]:
        return layer.accumulates + layer.constants * self.run

    def _energy(self, layer: LayerCost) -> NDArray[np.float64]:
        multiplies = layer.multiplies_once + layer.multiplies_per_step * self.run
        return self.prices.accumulate * self._accumulates(layer) + self.prices.multiply * multiplies

    def _neuron_energy(self) -> float:
        if not self.prices.neurons:
            return 0.0
        leaking = sum(population.leaking for population in self.neurons)
        units = sum(population.units for population in self.neurons)
        return self.prices.multiply * leaking + self.prices.accumulate * (units - leaking)
