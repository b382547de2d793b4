"""The cost of a spiking network: synaptic operations and energy, compared with the network it was converted from.

A spike adds a weight to every unit it is connected with: an *accumulate* (AC). A network that does not spike multiplies
and accumulates at every connection, once for an image (MAC). Both are counted alike: padding at the border of an image
is no connection, nor is a weight of 0. The counts, per image and layer:

    accumulates    spikes · reach, the reach of each unit being exact: borders, strides, groups, no weights of 0
    constants      one AC at every step for each unit with a bias, or with a constant current as input
    multiplies     MACs: once for layers that a constant input passes, at every step where values that are not spikes
                   arrive (weights after weights, without neurons between them)

Graded neurons keep what they receive, so constant currents reach them only once, at the first step.

A spike before an average pool reaches all windows it lies in, and each spike is a separate event; before a gate (max
pooling) only the spikes that pass count. Factors of pools and scales are part of the weights that follow. A layer that
only copies (an identity shortcut written with weights) costs the network no MAC, and a spike on it one accumulate.
Neurons are counted separately, each with one update per step, and so are random draws, one for each pixel and step.

NeuroBench (Yik et al. 2025) calls these counts effective ACs and effective MACs, and *dense* the number of all
operations including zeros: :attr:`SpikeCost.neurobench`. Prices are those of :mod:`~weightsmith.spiking.energy.prices`;
memory (:mod:`~weightsmith.spiking.energy.memory`) and rivals (:mod:`~weightsmith.spiking.energy.rivals`) are separate.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.records import Record
from weightsmith.spiking.conversion.quantise import floating_nodes
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.energy.fan_out import Landing, landings_of, summing_units
from weightsmith.spiking.energy.memory import MemoryAccess, spiking_accesses
from weightsmith.spiking.energy.prices import PriceList, Prices
from weightsmith.spiking.energy.rivals import Rival, connections
from weightsmith.spiking.graph import INPUT, Neurons, Synapses
from weightsmith.spiking.monitors.unit_counts import UnitCounts
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import Event
from weightsmith.spiking.simulation.responses import Responses

__all__ = ["LayerCost", "NeuronCost", "PriceList", "Prices", "SpikeCost", "UnitCounts", "estimate", "spike_cost"]


class _Arrived(NamedTuple):
    """The spikes from a root at a landing, per step and over all images."""

    spikes: NDArray[np.float64]
    accumulates: NDArray[np.float64]
    exact: bool


def spike_cost(
    network: SpikingNetwork,
    responses: Responses,
    counts: UnitCounts,
    prices: Prices | None = None,
    *,
    precision: Precision = "float32",
) -> SpikeCost:
    """The cost of the run that gave ``responses`` and ``counts``; ``precision`` is the precision of the run.

    Every spike is counted with the reach of its own unit. Spikes that pass a gate which does not read a population are
    an estimate (all are counted), and marked as such.
    """
    if counts.network is not network:
        raise UsageError("the unit counts belong to another network; pass a UnitCounts of this network to the run")
    _check_same_run(responses, counts)
    counted = functools.partial(_counted, responses=responses, counts=counts)
    return _cost(network, responses, counts.landings, counted, prices, precision=precision)


def estimate(
    network: SpikingNetwork, responses: Responses, prices: Prices | None = None, *, precision: Precision = "float32"
) -> SpikeCost:
    """The cost from the number of spikes of each population times the mean reach of its units, without unit counts.

    It assumes that units at borders fire as often as others, and that every spike passes its gate.
    """
    estimated = functools.partial(_estimated, responses=responses)
    return _cost(network, responses, landings_of(network, gates=False), estimated, prices, precision=precision)


def _cost(
    network: SpikingNetwork,
    responses: Responses,
    landings: tuple[Landing, ...],
    arrived: Callable[[Landing, str], _Arrived],
    given: Prices | None,
    *,
    precision: Precision,
) -> SpikeCost:
    prices = (given or Prices()).of_run(precision)
    running = responses.ended[:, None] > np.arange(responses.steps)
    layers = [_layer(network, landing, responses, arrived) for landing in landings]
    if precision == prices.numbers == "int8":  # weights that constant currents pass are not rounded, if those are not
        floating = floating_nodes(network)
        layers = [dataclasses.replace(layer, floating=layer.name in floating) for layer in layers]
    cost = SpikeCost(
        images=responses.images,
        steps=responses.steps,
        run=running.mean(axis=0).cumsum(),
        layers=tuple(layers),
        neurons=tuple(_neurons(network, node, responses) for node in network.populations),
        prices=prices,
        draws=math.prod(network.input_shape) if isinstance(network.encode, Poisson) else 0,
        sizes=network.neuron.largest.bit_length(),
        summing=summing_units(network),
    )
    return dataclasses.replace(cost, memory=spiking_accesses(network, cost))


def _layer(
    network: SpikingNetwork, landing: Landing, responses: Responses, arrived: Callable[[Landing, str], _Arrived]
) -> LayerCost:
    parts = [arrived(landing, root) for root in landing.reach]
    per_step = np.sum([part.accumulates for part in parts], axis=0) if parts else np.zeros(responses.steps)
    node = network.node(landing.name)
    macs, dense = connections(network, node) if isinstance(node, Synapses) else (0, 0)
    constants = _constants(network, landing) if landing.lasting else 0
    graded = network.neuron.event == "graded"
    return LayerCost(
        name=landing.name,
        kind=landing.kind,
        macs=macs,
        spikes=float(sum(part.spikes.sum() for part in parts) / responses.images),
        accumulates=per_step.cumsum() / responses.images,
        constants=0 if graded else constants,
        multiplies_once=macs if landing.constant else 0,
        multiplies_per_step=macs if landing.graded else 0,
        basis="counted" if all(part.exact for part in parts) else "estimate",
        dense=dense,
        event="spike" if set(landing.reach) == {INPUT} else network.neuron.event,
        constants_once=constants if graded else 0,
    )


def _counted(landing: Landing, root: str, responses: Responses, counts: UnitCounts) -> _Arrived:
    if not counts.saw(root):
        return _estimated(landing, root, responses)
    fired, landed = counts.fired(root, responses.steps), counts.landed(landing.name, root, responses.steps)
    return _Arrived(fired.astype(np.float64), landed.astype(np.float64), exact=not landing.bound)


def _estimated(landing: Landing, root: str, responses: Responses) -> _Arrived:
    spikes = _spikes(responses, root).astype(np.float64)
    return _Arrived(spikes, spikes * float(landing.reach[root].mean()), exact=False)


def _spikes(responses: Responses, root: str) -> NDArray[np.int64]:
    if root != INPUT:
        return responses.spikes_per_step[root]
    if responses.inputs_per_step is None:
        raise UsageError("the responses have no input spikes: they may come from a run with constant currents")
    return responses.inputs_per_step


def _check_same_run(responses: Responses, counts: UnitCounts) -> None:
    for name in (*responses.spikes_per_step, *([INPUT] if counts.saw(INPUT) else [])):
        true = _spikes(responses, name)
        seen = counts.fired(name, responses.steps) if counts.saw(name) else np.zeros(responses.steps, np.int64)
        if counts.images != responses.images or not np.array_equal(true, seen):
            raise DataMismatch(
                f"the unit counts are not those of this run ({name} sent {int(true.sum())} spikes for "
                f"{responses.images} images, {int(seen.sum())} for {counts.images} were counted); use a new "
                "UnitCounts for each run"
            )


def _constants(network: SpikingNetwork, landing: Landing) -> int:
    """The number of units of a landing that receive a current at every step."""
    node = network.node(landing.name)
    shape = network.shapes[landing.name]
    if landing.constant:
        return math.prod(shape)
    if isinstance(node, Synapses) and node.bias is not None:
        return int((node.bias != 0).sum()) * math.prod(shape[1:])
    return 0


def _neurons(network: SpikingNetwork, node: Neurons, responses: Responses) -> NeuronCost:
    shape = network.shapes[node.name]
    units = math.prod(shape)
    if node.leak is None:
        leaking = units if network.neuron.leak != 1 else 0
    else:
        leaking = int((node.leak != 1).sum()) * (units // node.leak.numel())
    return NeuronCost(node.name, node.layer, units, leaking, responses.spikes()[node.name] / responses.images)


# The cost records.


Basis = Literal["counted", "estimate"]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCost(Record):
    """Operations of one layer for an image, averaged over the images of the run.

    ``kind`` is "direct" where spikes reach the population (or the output) of that name without weights. ``macs`` are
    those of the network, one for each connection; ``dense`` also counts zeros of the padding and weights of 0 (None in
    older records, whose ``macs`` include them). ``spikes`` arrive from all populations it reads; ``accumulates[t]`` are
    the ACs they cause in the first t + 1 steps. ``constants`` are the ACs of one step for constant currents (for graded
    neurons, which receive them once, ``constants_once`` for an image), ``multiplies_once`` the MACs for an image and
    ``multiplies_per_step`` those of every step. ``basis``: whether accumulates were counted unit by unit, or estimated
    from mean reaches. ``event``: the kind of event that arrives; a graded event shifts the weight too. ``floating``: a
    layer of an int8 run whose weights are not rounded; priced as float32.
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
    dense: int | None = None
    event: Event = "spike"
    floating: bool = False
    constants_once: int = 0

    def constant_additions(self, run: float) -> float:
        """The ACs for constant currents in ``run`` steps."""
        return self.constants_once + self.constants * run


@dataclasses.dataclass(frozen=True, eq=False)
class NeuronCost(Record):
    """A population: its neurons, each updated at every step (leaky ones by a multiplication), and spikes per image."""

    name: str
    layer: str
    units: int
    leaking: int
    spikes: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class SpikeCost(Record):
    """The average cost of an image, in operations and in picojoules, for comparison, not prediction.

    ``run[t]`` is how many of the first t + 1 steps an image was run for, on average: fewer with an early exit.
    ``draws`` are the random draws of a step. ``sizes`` is the number of sizes of a spike, ``summing`` that of the units
    which add up graded spikes. ``memory`` are the accesses after the last step; :attr:`energy` is
    arithmetic only and does not include them. ``rivals`` are other ways to run the network. Older records have neither.
    """

    images: int
    steps: int
    run: NDArray[np.float64]
    layers: tuple[LayerCost, ...]
    neurons: tuple[NeuronCost, ...]
    prices: Prices
    draws: int = 0
    memory: tuple[MemoryAccess, ...] = ()
    rivals: tuple[Rival, ...] = ()
    sizes: int = 1
    summing: int = 0

    @property
    def basis(self) -> Basis:
        """Whether all accumulates were counted, or some estimated."""
        return "counted" if all(layer.basis == "counted" for layer in self.layers) else "estimate"

    @property
    def macs(self) -> int:
        """Multiply–accumulates of the network for one image."""
        return sum(layer.macs for layer in self.layers)

    @property
    def dense(self) -> int:
        """The MACs including padding and weights of 0, as they are usually counted."""
        return sum(layer.macs if layer.dense is None else layer.dense for layer in self.layers)

    @property
    def accumulates(self) -> NDArray[np.float64]:
        """ACs for an image after each step, constant currents included."""
        parts = [layer.accumulates + layer.constants_once + layer.constants * self.run for layer in self.layers]
        total: NDArray[np.float64] = np.sum(parts, axis=0)
        return total

    @property
    def updates(self) -> NDArray[np.float64]:
        """Updates of neurons for an image after each step."""
        return sum(population.units for population in self.neurons) * self.run

    @property
    def neurobench(self) -> dict[str, float]:
        """The operations of an image under the names of NeuroBench's metric of synaptic operations.

        Dense counts every step; biases are not synaptic operations.
        """
        run = float(self.run[-1])
        return {
            "Effective_ACs": sum(float(layer.accumulates[-1]) for layer in self.layers),
            "Effective_MACs": sum(layer.multiplies_once + layer.multiplies_per_step * run for layer in self.layers),
            "Dense": self.dense * run,
        }

    @property
    def curve(self) -> NDArray[np.float64]:
        """The energy for an image after each step, in picojoules."""
        layers = [self._added(layer) + self._multiplied(layer) for layer in self.layers]
        total: NDArray[np.float64] = np.sum(layers, axis=0)
        return total + (sum(self._neuron_step()) + self.prices.random_draw * self.draws) * self.run

    @property
    def energy(self) -> float:
        """The energy for an image after the last step, in picojoules."""
        return float(self.curve[-1])

    @property
    def memory_energy(self) -> float | None:
        """The energy of all memory accesses for an image, in picojoules; None where they were not counted."""
        return sum(each.energy for each in self.memory) if self.memory else None

    @property
    def network_energy(self) -> float:
        """The energy of the network for an image at the same prices, in picojoules."""
        return self.prices.mac * self.macs

    @property
    def ratio(self) -> float | None:
        """Energy of the spiking network over that of the network; None where the latter multiplies nothing."""
        return self.energy / self.network_energy if self.macs else None

    @property
    def cheaper(self) -> tuple[Rival, ...]:
        """The rivals that take less energy than this run."""
        return tuple(rival for rival in self.rivals if rival.energy < self.energy)

    def at(self, prices: Prices) -> SpikeCost:
        """The same operations at other prices: ``Prices(numbers="int8")`` for integer arithmetic."""
        layers = tuple(dataclasses.replace(layer, floating=False) for layer in self.layers)
        return dataclasses.replace(self, prices=prices.of_run("float32"), layers=layers)

    def layer_energy(self) -> dict[str, float]:
        """The energy for an image in each layer after the last step, in picojoules, without neurons and draws."""
        return {layer.name: sum(self.split(layer)) for layer in self.layers}

    def split(self, layer: LayerCost) -> tuple[float, float]:
        """The energy of a layer's accumulates, and of its MACs, after the last step."""
        return float(self._added(layer)[-1]), float(self._multiplied(layer)[-1])

    @property
    def neuron_operations(self) -> tuple[float, float]:
        """The updates of all neurons after the last step: by an addition, and by a multiplication (leaky neurons)."""
        plain, leaking = self._neurons()
        return plain * float(self.run[-1]), leaking * float(self.run[-1])

    @property
    def neuron_energy(self) -> tuple[float, float]:
        """The energy of these updates, zero if neurons have no price, and that of shifted sums."""
        plain, leaking = self._neuron_step()
        return plain * float(self.run[-1]), leaking * float(self.run[-1])

    @property
    def draw_energy(self) -> float:
        """The energy of the random draws of Poisson input after the last step."""
        return self.prices.random_draw * self.draws * float(self.run[-1])

    def _added(self, layer: LayerCost) -> NDArray[np.float64]:
        prices = self._prices_of(layer)
        event = prices.graded_ac if layer.event == "graded" else prices.ac
        return event * layer.accumulates + prices.ac * (layer.constants_once + layer.constants * self.run)

    def _multiplied(self, layer: LayerCost) -> NDArray[np.float64]:
        return self._prices_of(layer).mac * (layer.multiplies_once + layer.multiplies_per_step * self.run)

    def _prices_of(self, layer: LayerCost) -> Prices:
        return Prices(numbers="float32") if layer.floating else self.prices

    def _neuron_step(self) -> tuple[float, float]:
        """The energy of the neurons in one step: without leak (and of shifted sums), and with leak."""
        plain, leaking = self._neurons() if self.prices.neurons else (0, 0)
        sums = self.summing * self.prices.graded_sum(self.sizes)
        return self.prices.ac * plain + sums, self.prices.leak_update * leaking

    def _neurons(self) -> tuple[int, int]:
        """The number of neurons without leak, and with leak."""
        leaking = sum(population.leaking for population in self.neurons)
        return sum(population.units for population in self.neurons) - leaking, leaking
