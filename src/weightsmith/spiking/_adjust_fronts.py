"""What stands in front of a population: its weights, their norms, and what they cause on given images."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks.layers.norms import unit_norms
from weightsmith.spiking._adjust_scales import Array
from weightsmith.spiking.graph import INPUT, Neurons, Scale, Synapses
from weightsmith.spiking.membranes import MembraneMoments, arrivals, truncated
from weightsmith.spiking.network import SpikingNetwork

__all__ = [
    "Front",
    "array_of",
    "front_of",
    "population_means",
    "population_norms",
    "population_spreads",
    "time_constants",
    "times",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Front:
    """A population and the synapses directly in front of it; ``factor`` is that of scales in between, per channel."""

    population: Neurons
    synapses: Synapses
    factor: Tensor

    def weight(self) -> Tensor:
        """The weights as the neurons feel them (float64)."""
        return times(self.synapses.weight.double(), self.factor)

    def bias(self) -> Tensor | None:
        """The biases as the neurons feel them (float64)."""
        return None if self.synapses.bias is None else times(self.synapses.bias.double(), self.factor)


def front_of(network: SpikingNetwork, population: str) -> Front:
    """What stands in front of ``population``; refused by name where that is not one layer of weights of its own."""
    node = network.node(population)
    if not isinstance(node, Neurons):
        raise UnknownName("population", population, [known.name for known in network.populations])
    if node.threshold.dim() != 1:
        raise UsageError(f"{population} has a threshold for every position; adjust first, then add the mismatch")
    factor = torch.ones(network.shapes[population][0], dtype=torch.float64)
    name = node.source
    while True:
        before = None if name == INPUT else network.node(name)
        readers = sum(name in other.sources for other in network.nodes)
        if not isinstance(before, Synapses | Scale) or readers > 1:
            kind = "the input" if before is None else f"{name} ({type(before).__name__})"
            also = ", which others read too" if readers > 1 else ""
            raise UsageError(
                f"l4 adjusts populations with one layer of weights of their own: {population} reads {kind}{also}; "
                "adjust fewer layers, or none"
            )
        if isinstance(before, Synapses):
            return Front(node, before, factor)
        factor = factor * before.factor.double()
        name = before.source


def population_norms(network: SpikingNetwork, population: str) -> Array:
    """The L4 norm of each unit's weights in front of ``population``: of rows, or of whole filters."""
    return array_of(unit_norms(front_of(network, population).weight(), 4))


def population_spreads(network: SpikingNetwork, population: str, x: Tensor, *, steps: int, seed: int = 0) -> Array:
    """sqrt(mean over images, positions and steps of Σ λ·w²) of each unit: eq. 2 with the rates λ that really arrive.

    Of values that are not spikes of one size (averages over several) λ is the mean square.
    """
    front = front_of(network, population)
    square = arrivals(network, front.synapses.name, x, steps=steps, seed=seed).square
    if square is None:
        raise UsageError(
            f"by=input: what arrives at {front.synapses.name} is not single random spikes, so that it has no rates; "
            "use by=norm, or encode=poisson"
        )
    return array_of(_mean_currents(front.synapses, square, front.weight().square(), None).sqrt())


def population_means(
    network: SpikingNetwork,
    population: str,
    x: Tensor,
    *,
    steps: int,
    seed: int = 0,
    of: Literal["membrane", "current"] = "membrane",
) -> Array:
    """μ of each unit of ``population``, over images, positions and steps.

    That of the membrane just before it is tested is measured, running the network no further than needed; that of the
    current is τ · mean current, the steady state of eq. 1.
    """
    if of == "membrane":
        moments = MembraneMoments([population])
        truncated(network, population).run(x, steps, seed=seed, observers=[moments])
        return moments.mean(population)
    front = front_of(network, population)
    taus = time_constants(network, front.population)
    mean = arrivals(network, front.synapses.name, x, steps=steps, seed=seed).mean
    return taus * array_of(_mean_currents(front.synapses, mean, front.weight(), front.bias()))


def _mean_currents(synapses: Synapses, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What ``values`` (of one image) cause through ``weight``, averaged over positions: one per unit."""
    if synapses.dense:
        return functional.linear(values, weight, bias)
    currents = functional.conv2d(
        values[None], weight, bias, synapses.stride, synapses.padding, synapses.dilation, synapses.groups
    )
    return currents[0].flatten(1).mean(dim=1)


def time_constants(network: SpikingNetwork, population: Neurons) -> Array:
    """τ = −1/ln(leak) in steps, one or one per unit."""
    leaks = np.float64(network.neuron.leak) if population.leak is None else array_of(population.leak)
    if np.ndim(leaks) > 1:
        raise UsageError(f"{population.name} has a leak for every position; adjust first, then add the mismatch")
    if (leaks >= 1).any():
        raise UsageError(
            f"mean=current: {population.name} does not leak, so that its mean membrane has no steady state; "
            "use mean=membrane"
        )
    return np.asarray(-1 / np.log(leaks))


def times(values: Tensor, factors: Tensor) -> Tensor:
    """Values of each unit (the first dimension) times its factor, computed in float64 and of the old type."""
    return (values.double() * factors.reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


def array_of(values: Tensor) -> Array:
    """Values as a float64 array."""
    return values.detach().double().numpy()
