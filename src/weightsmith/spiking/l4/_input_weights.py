"""The input weights of a population: their norms, currents and mean membranes, and the L4 scales."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.networks.layers.norms import unit_norms
from weightsmith.spiking.graph import INPUT, Neurons, Scale, Synapses
from weightsmith.spiking.l4.membranes import MembraneMoments, arrivals, truncated
from weightsmith.spiking.network import SpikingNetwork

__all__ = [
    "Array",
    "InputWeights",
    "Scales",
    "array_of",
    "input_weights_of",
    "l4_scales",
    "population_means",
    "population_norms",
    "population_spreads",
    "time_constants",
    "times",
]


@dataclasses.dataclass(frozen=True, eq=False)
class InputWeights:
    """A population and the synapses directly before it; ``factor`` is the product of scales in between."""

    population: Neurons
    synapses: Synapses
    factor: Tensor

    def weight(self) -> Tensor:
        """The effective weights, scales included (float64)."""
        return times(self.synapses.weight.double(), self.factor)

    def bias(self) -> Tensor | None:
        """The effective biases, scales included (float64)."""
        return None if self.synapses.bias is None else times(self.synapses.bias.double(), self.factor)


def input_weights_of(network: SpikingNetwork, population: str) -> InputWeights:
    """The input weights of ``population``; refused unless exactly one layer, read by nothing else, feeds it."""
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
            return InputWeights(node, before, factor)
        factor = factor * before.factor.double()
        name = before.source


def population_norms(network: SpikingNetwork, population: str) -> Array:
    """The L4 norm of each unit's input weights: of rows, or of whole filters."""
    return array_of(unit_norms(input_weights_of(network, population).weight(), 4))


def population_spreads(network: SpikingNetwork, population: str, x: Tensor, *, steps: int, seed: int = 0) -> Array:
    """sqrt(mean over images, positions and steps of Σ λ·w²) of each unit: eq. 2 with the measured input rates λ.

    For values that are not spikes of one size (averages over several) λ is the mean square.
    """
    inputs = input_weights_of(network, population)
    square = arrivals(network, inputs.synapses.name, x, steps=steps, seed=seed).square
    if square is None:
        raise UsageError(
            f"by=input: the inputs of {inputs.synapses.name} are not single random spikes and have no rates; "
            "use by=norm, or encode=poisson"
        )
    return array_of(_mean_currents(inputs.synapses, square, inputs.weight().square(), None).sqrt())


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

    The mean of the membrane just before its threshold test is measured, running only the layers needed; the mean of the
    current is τ · mean current, the steady state of eq. 1.
    """
    if of == "membrane":
        moments = MembraneMoments([population])
        truncated(network, population).run(x, steps, seed=seed, observers=[moments])
        return moments.mean(population)
    inputs = input_weights_of(network, population)
    taus = time_constants(network, inputs.population)
    mean = arrivals(network, inputs.synapses.name, x, steps=steps, seed=seed).mean
    return taus * array_of(_mean_currents(inputs.synapses, mean, inputs.weight(), inputs.bias()))


def _mean_currents(synapses: Synapses, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The mean currents of ``values`` (of one image) through ``weight`` over positions: one per unit."""
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
            f"mean=current: {population.name} does not leak, so its mean membrane has no steady state; "
            "use mean=membrane"
        )
    return np.asarray(-1 / np.log(leaks))


def times(values: Tensor, factors: Tensor) -> Tensor:
    """Values of each unit (the first dimension) times its factor, computed in float64 and returned in the old type."""
    return (values.double() * factors.reshape(-1, *[1] * (values.dim() - 1))).to(values.dtype)


def array_of(values: Tensor) -> Array:
    """Values as a float64 array."""
    return values.detach().double().numpy()


# Eqs. 6 to 9 of the L4-norm paper as one pure function.


_LEAST_THRESHOLD = 0.1  # of the current threshold: wanted thresholds near zero would scale weights without bound

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Scales:
    """The result of :func:`l4_scales` for each unit; ``applied`` is the factor of its weights."""

    smoothed: Array
    wanted: Array
    full: Array
    applied: Array
    guarded: NDArray[np.bool_]


def l4_scales(norms: ArrayLike, means: ArrayLike, threshold: ArrayLike, smoothing: float) -> Scales:
    """The scalars of units with L4 norms n_j, mean membranes μ_j and threshold v₀ (one, or one each).

    With n̄ the mean of all norms and r the smoothing, in the paper's numbers:

        n̂_j = (n_j + r·n̄) / (1 + r)                   (8)    ``smoothed``
        v̂_j = μ_j + (n̂_j / n̄)·(v₀ − μ_j)              (6)    ``wanted``
        s_j = 1 / (v̂_j / v₀)                           (7)    ``full``
        ŝ_j = (s_j + r) / (1 + r)                      (9)    ``applied``

    A wanted threshold below 0.1·v₀ is set to 0.1·v₀ and marked in ``guarded``. For r = ∞ every ŝ is exactly 1.

    >>> scales = l4_scales(norms=[1.0, 3.0], means=[0.5, 0.5], threshold=1.0, smoothing=1.0)
    >>> scales.smoothed.tolist(), scales.wanted.tolist()
    ([1.5, 2.5], [0.875, 1.125])
    >>> scales.applied.round(4).tolist()
    [1.0714, 0.9444]
    """
    n, mu, v0 = _checked(norms, means, threshold)
    r, mean = float(smoothing), n.mean()
    if not r >= 0:
        raise OptionError(f"smoothing must be ≥ 0, not {smoothing!r}")
    if mean == 0:
        raise DataMismatch("every unit's norm is zero: there are no weights to adjust")
    # Eqs. 8 and 9 as the distance from their limit, to allow any r: r·n̄ could overflow, and ∞/∞ is NaN.
    smoothed = mean + (n - mean) / (1 + r)
    wanted = mu + smoothed / mean * (v0 - mu)
    guarded = wanted < _LEAST_THRESHOLD * v0
    wanted = np.where(guarded, _LEAST_THRESHOLD * v0, wanted)
    full = 1 / (wanted / v0)
    return Scales(smoothed, wanted, full, 1 + (full - 1) / (1 + r), guarded)


def _checked(norms: ArrayLike, means: ArrayLike, threshold: ArrayLike) -> tuple[Array, Array, Array]:
    """The three as float64 vectors of one length, each value checked."""
    n, mu = np.asarray(norms, np.float64), np.asarray(means, np.float64)
    v0 = np.asarray(threshold, np.float64)
    if n.ndim != 1 or n.size == 0 or mu.shape != n.shape or v0.shape not in ((), n.shape):
        raise DataMismatch(
            f"norms {n.shape}, means {mu.shape} and thresholds {v0.shape} do not match: give one of each per unit"
        )
    for what, values, fine in (
        ("norm", n, n >= 0),
        ("mean", mu, np.isfinite(mu)),
        ("threshold", v0, v0 > 0),
    ):
        good = np.isfinite(values) & fine
        if not good.all():
            raise DataMismatch(
                f"a {what} of {np.atleast_1d(values)[~np.atleast_1d(good)][0]} cannot be used for the adjustment"
            )
    return n, mu, np.broadcast_to(v0, n.shape).copy()
