"""The prices of operations, and the records of what a spiking network costs (see :mod:`weightsmith.spiking.energy`)."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.options import Option, param
from weightsmith.core.records import Record

__all__ = ["LayerCost", "NeuronCost", "PriceList", "Prices", "SpikeCost"]

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
    """What an image costs on average, in operations and in picojoules.

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
