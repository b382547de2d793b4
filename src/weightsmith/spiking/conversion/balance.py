"""Threshold balancing: choose the thresholds of a converted network from its activations or currents.

``percentile``: from the activations of the plain network. A threshold is a high percentile of the ReLU's outputs, and
a spike is worth its threshold, so that rate · threshold equals the activation; biases flow as currents at every step.
Starting at half a threshold rounds rates to the nearest instead of down.

``mse``: thresholds with the least squared error of the values that a given number of steps can represent
(``squared_error.py``). Otherwise as ``percentile``.

``max-current``: the method of the L4-norm paper (seed 000). Spikes are worth 1, and the threshold of a layer is the
largest current that ever reaches it (``max_current.py``), times one factor for all layers.

>>> Balance.parse("max-current:factor=0.7")
MaxCurrent(images=512, steps=100, factor=0.7, blocks='search')
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Record
from weightsmith.core.seeds import pinned_threads, stream
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.conversion.amplitudes import with_amplitudes
from weightsmith.spiking.conversion.convert import Converted
from weightsmith.spiking.conversion.max_current import in_residual_blocks, largest_currents
from weightsmith.spiking.conversion.squared_error import least_squared_error, sampled_activations
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import INPUT, Neurons
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.sources import source_of

__all__ = [
    "Balance",
    "Balanced",
    "MaxCurrent",
    "Mse",
    "Percentile",
    "RunningPercentile",
    "ThresholdRange",
    "activation_levels",
    "balanced",
    "threshold_range",
]


class Balance(Option, family="balance"):
    """The family of ways to find thresholds: ``percentile``, ``mse`` and ``max-current``."""


class Percentile(Balance, name="percentile"):
    """Thresholds are percentiles of the activations; a spike is worth its threshold."""

    percent: float = param(default=99.9, gt=0, le=100, doc="share of the activations below the threshold, in percent")
    per_channel: bool = param(default=True, doc="one threshold for each channel, not one for each layer")
    half: bool = param(default=True, doc="membranes start at half a threshold")
    images: int = param(default=512, ge=1, doc="training images to use")
    factor: float = param(default=1.0, gt=0, doc="by which every threshold is multiplied")


class Mse(Balance, name="mse"):
    """Thresholds with the least squared error for the steps of the run; a spike is worth its threshold."""

    images: int = param(default=256, ge=1, doc="training images to use")
    samples: int = param(default=8192, ge=1, doc="activations sampled per channel")
    ratios: int = param(
        default=35, ge=1, doc="thresholds that are tried, as evenly spaced ratios of the largest sample"
    )
    least: float = param(default=0.15, gt=0, le=1, doc="the smallest ratio; the largest is 1")
    factor: float = param(default=1.0, gt=0, doc="by which every threshold is multiplied")


class MaxCurrent(Balance, name="max-current"):
    """Thresholds are the largest currents of each layer, as in the L4-norm paper; for networks without bias."""

    images: int = param(default=512, ge=1, doc="training images to use")
    steps: int = param(default=100, ge=1, doc="time steps of the search")
    factor: float = param(default=1.0, gt=0, doc="by which every threshold is multiplied")
    blocks: Literal["search", "one"] = param(
        default="search", doc="one: neurons of residual blocks keep threshold 1, as the paper's ResNet does"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ThresholdRange(Record):
    """The thresholds of one population."""

    layer: str
    least: float
    median: float
    largest: float


@dataclasses.dataclass(frozen=True, eq=False)
class Balanced:
    """The network with its thresholds, their ranges, and notes on how they were found."""

    network: SpikingNetwork
    notes: tuple[str, ...]
    thresholds: dict[str, ThresholdRange]


def balanced(
    converted: Converted,
    balance: Percentile | Mse | MaxCurrent,
    x: Tensor,
    *,
    steps: int | None = None,
    seed: int = 0,
    progress: StepCallback | None = None,
) -> Balanced:
    """Find thresholds for ``converted`` on training inputs ``x`` as they come from the data.

    If there are more inputs than the method needs, a sample is drawn by ``seed``, as are the spikes of Poisson inputs.
    ``steps``, the length of the run, is needed by ``Mse``. ``progress`` is called with (parts done, parts in all).
    """
    if len(x) == 0:
        raise UsageError("there are no calibration images; balancing needs some of the training data")
    if len(x) > balance.images:
        chosen = stream(seed, "calibration").choice(len(x), balance.images, replace=False)
        x = x[torch.from_numpy(np.sort(chosen))]
    with pinned_threads(1):
        if isinstance(balance, Percentile):
            network, notes = _by_percentile(converted, balance, x, progress)
        elif isinstance(balance, Mse):
            network, notes = _by_squared_error(converted, balance, x, steps, seed=seed, progress=progress)
        else:
            network, notes = _by_current(converted.network, balance, x, seed, progress)
    return Balanced(network, tuple(notes), {node.name: threshold_range(node) for node in network.populations})


def _by_percentile(
    converted: Converted, balance: Percentile, x: Tensor, progress: StepCallback | None
) -> tuple[SpikingNetwork, list[str]]:
    levels = activation_levels(converted, x, balance.percent, per_channel=balance.per_channel, progress=progress)
    network, notes = converted.network, list[str]()
    thresholds = {
        node.name: _level_of(network, node, levels[node.name], balance.percent, notes).expand(
            network.shapes[node.name][0]
        )
        for node in network.populations
    }
    return _placed(network, thresholds, balance.factor, half=balance.half), notes


def _by_squared_error(
    converted: Converted,
    balance: Mse,
    x: Tensor,
    steps: int | None,
    *,
    seed: int,
    progress: StepCallback | None,
) -> tuple[SpikingNetwork, list[str]]:
    network, notes = converted.network, list[str]()
    if steps is None:
        raise UsageError("mse finds thresholds for a number of steps: give steps")
    if isinstance(network.neuron, Graded):
        raise UsageError(f"mse needs spikes of one size, not {network.neuron}; use balance=percentile")
    ratios = torch.linspace(balance.least, 1, balance.ratios)
    thresholds = {}
    for name, samples in sampled_activations(converted, x, balance.samples, seed=seed, progress=progress).items():
        node = network.node(name)
        assert isinstance(node, Neurons)
        found = least_squared_error(samples, steps, ratios).double()
        thresholds[name] = _without_zeros(network, node, found, notes)
    return _placed(network, thresholds, balance.factor, half=True), notes


def _placed(network: SpikingNetwork, thresholds: Mapping[str, Tensor], factor: float, *, half: bool) -> SpikingNetwork:
    """The network with these thresholds, a spike being worth its threshold."""
    start = 0.5 if half and not isinstance(network.neuron, Graded) else 0.0
    placed = network.replaced(
        # A threshold is the largest value of a rate: where the network clips, the neurons must clip too.
        dataclasses.replace(
            node,
            threshold=(thresholds[node.name] * factor).clamp(max=node.ceiling).to(node.threshold.dtype),
            start=start,
        )
        for node in network.populations
    )
    worth = {node.name: node.threshold for node in placed.populations}
    if isinstance(network.encode, Poisson) and network.encode.scale != 1:
        # Pixels fire at scale·|x|: each of their spikes represents more than 1.
        worth[INPUT] = torch.full((network.input_shape[0],), 1 / network.encode.scale)
    return with_amplitudes(placed, worth)


def _level_of(network: SpikingNetwork, node: Neurons, level: _Level, percent: float, notes: list[str]) -> Tensor:
    """The percentiles, zeros replaced; a layer that never fires is refused."""
    rare = (level.percentile <= 0) & (level.largest > 0)
    if bool(rare.any()):
        notes.append(
            f"{_named(node)}: {int(rare.sum())} of {len(rare)} threshold(s) are the largest activation, because "
            f"percentile {percent:g} is zero"
        )
    return _without_zeros(network, node, torch.where(rare, level.largest.double(), level.percentile), notes)


def _named(node: Neurons) -> str:
    return f"{node.name} (after {node.layer})" if node.layer else node.name


def _without_zeros(network: SpikingNetwork, node: Neurons, found: Tensor, notes: list[str]) -> Tensor:
    """Thresholds with the largest of the layer in place of zeros; a layer of zeros is refused unless it is bypassed."""
    name, many = _named(node), len(found)
    if not bool((found > 0).any()):
        if _bypassed(network, node):
            notes.append(f"{name} gives only zeros on the calibration images: its threshold is 1, and it hardly fires")
            return torch.ones_like(found)
        raise DataMismatch(
            f"dead layer: {name} gives only zeros on the calibration images, so no threshold can be found; "
            "check its weights and biases, or use other images"
        )
    silent = found <= 0
    found = torch.where(silent, found.max(), found)
    if bool(silent.any()):
        notes.append(
            f"{name}: {int(silent.sum())} of {many} channel(s) never fire on the calibration images and have the "
            "largest threshold of the layer"
        )
    return found


def _bypassed(network: SpikingNetwork, dead: Neurons) -> bool:
    """Whether the input reaches the scores without this population, by a shortcut around it."""
    reached = {INPUT}
    for node in network.nodes:
        if node.name != dead.name and not reached.isdisjoint(node.sources):
            reached.add(node.name)
    return network.nodes[-1].name in reached


def _by_current(
    network: SpikingNetwork, balance: MaxCurrent, x: Tensor, seed: int, progress: StepCallback | None
) -> tuple[SpikingNetwork, list[str]]:
    if isinstance(network.neuron, Graded):
        raise UsageError(f"max-current needs spikes that are worth 1, not {network.neuron}; use balance=percentile")
    clipped = next((node for node in network.populations if math.isfinite(node.ceiling)), None)
    if clipped is not None:
        raise UsageError(
            f"{clipped.name} is clipped at {clipped.ceiling:g}, which max-current cannot represent, since a spike is "
            "worth 1; use balance=percentile"
        )
    for node in network.synapses:
        if node.bias is not None and bool((node.bias != 0).any()):
            raise UsageError(
                f"{node.name} has a bias (or a batch norm folded into it), which max-current does not support; use "
                "balance=percentile, or train without bias and batch norm"
            )
    fixed = in_residual_blocks(network.nodes) if balance.blocks == "one" else set()
    searched = [node.name for node in network.populations if node.name not in fixed]
    source = source_of(network, x, seed, 0)
    found = largest_currents(network, source, balance.steps, searched=searched, progress=progress)
    placed = network.replaced(
        dataclasses.replace(node, threshold=torch.full_like(node.threshold, found.get(node.name, 1.0)), start=0.0)
        for node in network.populations
    )
    notes = (
        [f"{len(fixed)} population(s) of residual blocks were not searched: theirs is 1 times the factor"]
        if fixed
        else []
    )
    return placed.with_factor(balance.factor), notes


def threshold_range(node: Neurons) -> ThresholdRange:
    """Smallest, median and largest threshold of a population."""
    values = node.threshold.double()
    return ThresholdRange(node.layer, float(values.min()), float(values.median()), float(values.max()))


# Exact percentiles of activations, computed batch by batch in bounded memory.
#
# The percentile p of n values has the rank (n − 1)·p/100 in ascending order, interpolated linearly between two
# neighbours (NumPy's "linear"). Only the values from that rank on are kept, a small part for high percentiles.


_BATCH = 32


class RunningPercentile:
    """The percentile of each row of ``count`` values that are added in parts.

    >>> tenth = RunningPercentile(10, count=11)
    >>> tenth.add(torch.arange(6.0)[None])
    >>> tenth.add(torch.arange(6.0, 11.0)[None])
    >>> tenth.value(), tenth.largest()
    (tensor([1.], dtype=torch.float64), tensor([10.]))
    """

    def __init__(self, percent: float, count: int) -> None:
        self._rank = (count - 1) * (percent / 100)
        self._keep = count - math.floor(self._rank)
        self._missing, self._kept = count, torch.empty(0)

    def add(self, values: Tensor) -> None:
        """Add values (rows, part)."""
        self._missing -= values.shape[1]
        pool = torch.cat([self._kept, values], dim=1) if self._kept.numel() else values
        self._kept = pool.topk(min(self._keep, pool.shape[1]), dim=1).values

    def value(self) -> Tensor:
        """The percentile of every row, once all values have been added."""
        if self._missing:
            raise UsageError(f"{self._missing} values have not been added yet: the percentile is not known")
        high, low = (self._kept[:, max(0, self._keep - back)].double() for back in (2, 1))
        share = self._rank - math.floor(self._rank)
        return torch.lerp(low, high, share)

    def largest(self) -> Tensor:
        """The largest value of every row."""
        return self._kept[:, 0]


@dataclasses.dataclass(frozen=True, eq=False)
class _Level:
    """The percentile and the largest of a population's activations, each (channels,), or (1,) for the whole layer."""

    percentile: Tensor
    largest: Tensor


def activation_levels(
    converted: Converted,
    x: Tensor,
    percent: float,
    *,
    per_channel: bool = True,
    progress: StepCallback | None = None,
) -> dict[str, _Level]:
    """For every population the percentile of its ReLU's outputs in the plain network, over images and positions.

    ``x`` are inputs as they come from the data.
    """
    network = converted.network
    found: dict[str, RunningPercentile] = {}
    for node in network.populations:
        shape = network.shapes[node.name]
        found[node.name] = RunningPercentile(percent, len(x) * math.prod(shape[1:] if per_channel else shape))
    for done, inputs in batches_for(network.card, x, _BATCH, memory_format=torch.channels_last):
        network.encode.check_inputs(inputs)
        for name, values in converted.activations(inputs).items():
            rows = values.transpose(0, 1).flatten(1)
            found[name].add(rows if per_channel else rows.reshape(1, -1))
        if progress is not None:
            progress(done, len(x))
    return {name: _Level(each.value(), each.largest()) for name, each in found.items()}
