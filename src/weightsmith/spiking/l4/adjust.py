"""The L4-norm adjustment: scale the weights of the first layer so that noisy membranes do not fire too easily.

The standard deviation of a membrane under random spikes grows with the L4 norm of the unit's weights, so of two
units with the same mean the one with the larger L4 norm reaches the threshold more often. J. M. Allred and K. Roy,
*L⁴-norm weight adjustments for converted spiking neural networks*, section 4, therefore ask how far each threshold
should be from the mean of its membrane, and scale the weights instead of the threshold (:func:`l4_scales`).

Our reading where the paper does not specify: the mean is that of the membrane just before its threshold test, over
images, positions and steps, at the leak, reset and thresholds of the network that is adjusted; a bias is scaled with
the weights of its unit; thresholds of deeper layers stay.

>>> Adjust.parse("l4:1.0")
L4(smoothing=1.0, layers=1, by='norm', images=512, steps=None, mean='membrane')
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.records import Record
from weightsmith.spiking.l4._input_weights import (
    Array,
    InputWeights,
    Scales,
    array_of,
    input_weights_of,
    l4_scales,
    population_means,
    population_norms,
    population_spreads,
    time_constants,
    times,
)
from weightsmith.spiking.network import SpikingNetwork

__all__ = [
    "L4",
    "Adjust",
    "Adjusted",
    "AdjustedPopulation",
    "Adjustment",
    "Scales",
    "adjusted",
    "apply_scales",
    "channel_factors",
    "l4_scales",
    "population_means",
    "population_norms",
    "population_scales",
    "population_spreads",
]


class Adjust(Option, family="adjust"):
    """The family of adjustments after conversion: ``l4``."""


class L4(Adjust, name="l4"):
    """Scale each unit's weights by eqs. 6 to 9 of the paper.

    ``by="input"`` uses the spread caused by the actual inputs, sqrt(mean of Σ λ·w²) with λ the rate of the incoming
    spikes, in place of the L4 norm. ``mean="current"`` uses the steady state of eq. 1, τ · mean current with
    τ = −1/ln(leak), in place of the membrane's mean.
    """

    smoothing: float = param(ge=0, doc="r of eqs. 8 and 9; larger values change less, and inf changes nothing")
    layers: int = param(default=1, ge=1, doc="number of populations to adjust, from the first; 1 in the paper")
    by: Literal["norm", "input"] = param(default="norm", doc="L4 norm, or the spread the inputs cause")
    images: int = param(default=512, ge=1, doc="number of first images on which means are measured")
    steps: int | None = param(default=None, ge=1, doc="steps of that measurement; none: those of the run")
    mean: Literal["membrane", "current"] = param(default="membrane", doc="the quantity whose mean is used for a unit")


@dataclasses.dataclass(frozen=True, eq=False)
class AdjustedPopulation(Record):
    """The adjustment of the input weights of one population; tuples have one value per unit (channel).

    ``guarded`` are the indices of the units whose wanted threshold was raised to a tenth of the current one. The
    weights of unit j were multiplied by ``scalars[j]`` · ``rescale``.
    """

    population: str
    layer: str
    synapses: str
    norms: tuple[float, ...]
    smoothed: tuple[float, ...]
    means: tuple[float, ...]
    thresholds: tuple[float, ...]
    wanted: tuple[float, ...]
    scalars: tuple[float, ...]
    guarded: tuple[int, ...]
    rescale: float


@dataclasses.dataclass(frozen=True, eq=False)
class Adjustment(Record):
    """The report of an adjustment. ``adjust`` is the option in its text form (JSON has no infinite numbers)."""

    adjust: str
    images: int
    steps: int
    seed: int
    populations: tuple[AdjustedPopulation, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Adjusted:
    """The adjusted network, and the report of the adjustment."""

    network: SpikingNetwork
    report: Adjustment


def adjusted(network: SpikingNetwork, adjust: L4, x: Tensor, *, steps: int, seed: int = 0) -> Adjusted:
    """Adjust the first populations of ``network``, measuring on the first ``adjust.images`` of ``x``.

    ``steps`` is the number of steps of the later run. Each population is measured with those before it already
    adjusted. Thresholds are not changed.
    """
    names = [node.name for node in network.populations]
    if adjust.layers > len(names):
        raise UsageError(f"l4: the network has {len(names)} populations, fewer than the {adjust.layers} to adjust")
    for name in names[: adjust.layers]:  # refuse before any work
        inputs = input_weights_of(network, name)
        if adjust.mean == "current":
            time_constants(network, inputs.population)
    shown, length = x[: adjust.images], steps if adjust.steps is None else adjust.steps
    reports = []
    for name in names[: adjust.layers]:
        norms = population_norms(network, name)
        if adjust.by == "input":
            norms = population_spreads(network, name, shown, steps=length, seed=seed)
        means = population_means(network, name, shown, steps=length, seed=seed, of=adjust.mean)
        scales = population_scales(network, name, means, adjust.smoothing, norms)
        inputs = input_weights_of(network, name)
        network, rescale = apply_scales(network, name, scales)
        reports.append(_report(inputs, norms, means, scales, rescale))
    return Adjusted(network, Adjustment(str(adjust), len(shown), length, seed, tuple(reports)))


def population_scales(
    network: SpikingNetwork, population: str, means: ArrayLike, smoothing: float, norms: ArrayLike | None = None
) -> Scales:
    """:func:`l4_scales` of the units of ``population`` at its thresholds; ``norms`` are its L4 norms by default."""
    inputs = input_weights_of(network, population)
    known = population_norms(network, population) if norms is None else np.asarray(norms, np.float64)
    if not known.any():
        raise DataMismatch(f"{population} cannot be adjusted: its weights are all zero, or no input reaches them")
    return l4_scales(known, means, array_of(inputs.population.threshold), smoothing)


def channel_factors(
    network: SpikingNetwork, population: str, means: ArrayLike, smoothing: float, norms: ArrayLike | None = None
) -> Array:
    """The factor of each channel's current: ŝ · the rescaling of the whole layer.

    A sweep over smoothings and thresholds needs only these factors: the currents themselves are computed once.
    """
    scales = population_scales(network, population, means, smoothing, norms)
    return scales.applied * _rescale(input_weights_of(network, population), scales)


def apply_scales(network: SpikingNetwork, population: str, scales: Scales) -> tuple[SpikingNetwork, float]:
    """The network with the weights and biases of each unit times ŝ, the layer rescaled to its old mean |w|.

    Also returns the factor of that rescaling, which applies to biases as well.
    """
    inputs = input_weights_of(network, population)
    rescale = _rescale(inputs, scales)
    factors = torch.from_numpy(scales.applied * rescale)
    old = inputs.synapses
    weight, bias = times(old.weight, factors), None if old.bias is None else times(old.bias, factors)
    return network.replaced([dataclasses.replace(old, weight=weight, bias=bias)]), rescale


def _rescale(inputs: InputWeights, scales: Scales) -> float:
    """The old mean |w| divided by the new one."""
    sizes = array_of(inputs.weight().abs().flatten(1).sum(dim=1))
    if sizes.shape != scales.applied.shape:
        raise DataMismatch(f"{inputs.population.name} has {len(sizes)} units, the scales have {len(scales.applied)}")
    return float(sizes.sum() / (scales.applied * sizes).sum())


def _report(inputs: InputWeights, norms: Array, means: Array, scales: Scales, rescale: float) -> AdjustedPopulation:
    def several(values: Array) -> tuple[float, ...]:
        return tuple(values.tolist())

    return AdjustedPopulation(
        population=inputs.population.name,
        layer=inputs.population.layer,
        synapses=inputs.synapses.name,
        norms=several(norms),
        smoothed=several(scales.smoothed),
        means=several(means),
        thresholds=several(array_of(inputs.population.threshold)),
        wanted=several(scales.wanted),
        scalars=several(scales.applied),
        guarded=tuple(np.flatnonzero(scales.guarded).tolist()),
        rescale=rescale,
    )
