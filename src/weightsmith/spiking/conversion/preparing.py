"""Prepare a spiking network: convert, balance, adjust, quantise, add device mismatch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import stream
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.conversion.balance import Balanced, MaxCurrent, Mse, Percentile, balanced
from weightsmith.spiking.conversion.calibrate import (
    CalibrateBias,
    CalibrateDistill,
    CalibrateWeights,
    Calibration,
    calibrated,
)
from weightsmith.spiking.conversion.convert import Converted, convert
from weightsmith.spiking.conversion.distilling import Distillation, distilled
from weightsmith.spiking.conversion.quantise import quantised, units_of
from weightsmith.spiking.conversion.subject import Subject
from weightsmith.spiking.encoding import WHOLE, Constant, Encode, Poisson
from weightsmith.spiking.graph import Neurons, Shape
from weightsmith.spiking.l4.adjust import L4, Adjustment, adjusted
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import AnyNeuron, Mismatch
from weightsmith.training.schedules import Constant as Rate

__all__ = [
    "ConversionSettings",
    "Prepared",
    "calibration_rows",
    "checked_precision",
    "converted_of",
    "encoding_of",
    "prepare",
    "range_notes",
    "with_mismatch",
    "with_whole_input",
]


@dataclasses.dataclass(frozen=True)
class ConversionSettings:
    """The settings of a conversion."""

    neuron: AnyNeuron
    encode: Poisson | Constant
    balance: Percentile | Mse | MaxCurrent
    adjust: L4 | None
    mismatch: Mismatch | None
    precision: Precision
    steps: int
    seed: int
    calibrate: CalibrateBias | CalibrateWeights | CalibrateDistill | None = None

    def __post_init__(self) -> None:
        if self.adjust is not None and self.neuron.signed:
            raise UsageError(f"{self.adjust} needs spikes of one sign and size, not {self.neuron}")
        if self.adjust is not None and self.calibrate is not None:
            raise UsageError(
                f"{self.adjust} changes the first layer on purpose and calibrate={self.calibrate} would undo "
                "that; leave one of them out"
            )


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A spiking network that is ready to run, and the records of its preparation."""

    network: SpikingNetwork
    converted: Converted
    balance: Balanced
    adjustment: Adjustment | None
    notes: tuple[str, ...]
    calibration: Calibration | None = None
    distillation: Distillation | None = None


def prepare(subject: Subject, recipe: ConversionSettings, progress: StepCallback | None = None) -> Prepared:
    """Convert, balance, calibrate or adjust, quantise, and add device mismatch, in this order."""
    recipe = with_whole_input(subject, recipe)
    converted = converted_of(subject, recipe.neuron, recipe.encode)
    found = balanced(
        converted, recipe.balance, subject.train.x, steps=recipe.steps, seed=recipe.seed, progress=progress
    )
    network, notes, report, moved, taught = found.network, list(found.notes), None, None, None
    if len(subject.train) < _FEW:
        notes.append(f"thresholds were found on few training rows ({len(subject.train)}); give some hundreds")
    if recipe.calibrate is not None:
        how = recipe.calibrate
        images = how.rows(recipe.steps) if isinstance(how, CalibrateDistill) else how.images
        rows = calibration_rows(len(subject.train), images, recipe.seed)
        network, moved, taught, more = _calibrated(network, converted, recipe, subject.train.x[rows], progress)
        notes += more
    if recipe.adjust is not None:
        rows = calibration_rows(len(subject.train), recipe.adjust.images, recipe.seed)
        made = adjusted(network, recipe.adjust, subject.train.x[rows], steps=recipe.steps, seed=recipe.seed)
        network, report = made.network, made.report
        if isinstance(recipe.encode, Constant):
            notes.append(
                "the L4 adjustment is made for Poisson input: a constant current has no variance to adjust for"
            )
    if isinstance(recipe.encode, Constant) and recipe.encode.step is not None:
        notes.append(_rounding_note(subject, recipe, recipe.encode.step))
    if recipe.precision == "int8":
        notes += _small_thresholds(network)
        network = quantised(network)
    if recipe.mismatch is not None:
        network = with_mismatch(network, recipe.mismatch, recipe.seed)
        if recipe.mismatch.leak and recipe.neuron.leak == 1:
            notes.append("the spread of leaks has no effect: the neurons do not leak")
    lineage = network.card.lineage.then(_operation(recipe), subject.inputs["network"])
    network = dataclasses.replace(network, card=dataclasses.replace(network.card, lineage=lineage))
    return Prepared(network, converted, found, report, tuple(notes), moved, taught)


def _calibrated(
    network: SpikingNetwork, converted: Converted, recipe: ConversionSettings, x: Tensor, progress: StepCallback | None
) -> tuple[SpikingNetwork, Calibration, Distillation | None, tuple[str, ...]]:
    """The network calibrated on rows ``x``; a distillation begins with the weights fitted on some of them."""
    how = recipe.calibrate
    assert how is not None
    run: dict[str, Any] = {"steps": recipe.steps, "seed": recipe.seed}
    if not isinstance(how, CalibrateDistill):
        network, moved, notes = calibrated(network, converted.network, how, x, **run)
        return network, moved, None, notes
    first = CalibrateWeights()
    count = min(first.images, len(x))
    some = x[torch.arange(count) * len(x) // count]
    network, moved, notes = calibrated(network, converted.network, first, some, **run)
    whole = recipe.precision == "int8"
    network, taught = distilled(network, converted.network, how, x, **run, whole=whole, progress=progress)
    if not taught.kept:
        more = "more rows (distill:images=…), or " if len(x) == how.rows(recipe.steps) else ""
        notes += (
            "distillation did not bring held-back rows nearer to the network: its weights were not used; "
            f"{more}a lower rate than {taught.rate:.2g} may help",
        )
    return network, moved, taught, notes


def converted_of(subject: Subject, neuron: AnyNeuron, encode: Poisson | Constant) -> Converted:
    """The network of ``subject`` with neurons in place of ReLUs, not yet balanced."""
    return convert(subject.network, neuron, encode, input_shape=_shape(subject))


def with_whole_input(subject: Subject, recipe: ConversionSettings) -> ConversionSettings:
    """The same conversion; for int8, constant inputs get a step, 1/127 of the largest on the rows of the balance."""
    encode = recipe.encode
    if recipe.precision != "int8" or not isinstance(encode, Constant) or encode.step is not None:
        return recipe
    largest = float(_sizes(subject, recipe).max())
    step = float(f"{(largest or 1.0) / WHOLE:.4g}")  # a factor of the weights: its last digits do not matter
    return dataclasses.replace(recipe, encode=Constant(step))


def _sizes(subject: Subject, recipe: ConversionSettings) -> Tensor:
    """The sizes of the inputs on the rows of the balance."""
    rows = calibration_rows(len(subject.train), recipe.balance.images, recipe.seed)
    _, inputs = next(batches_for(card_of(subject.network), subject.train.x[rows], len(rows)))
    return inputs.abs()


def _rounding_note(subject: Subject, recipe: ConversionSettings, step: float) -> str:
    """What a step does to the inputs; refused if it rounds all of them to zero."""
    sizes = _sizes(subject, recipe)
    largest = float(sizes.max())
    if 0 < largest < step / 2:
        raise UsageError(
            f"encode=constant:step={step:g} rounds every input to 0: the largest on the training rows is {largest:g}; "
            f"use a step of {largest / WHOLE:.2g}, or leave it out"
        )
    clipped = float((sizes > (WHOLE + 0.5) * step).float().mean())
    cut = f"; {clipped:.1%} of them are larger than {WHOLE} steps and are clipped" if clipped else ""
    return f"inputs are rounded to 8 bits: multiples of {step:g}{cut}"


def _small_thresholds(network: SpikingNetwork) -> list[str]:
    """Notes about thresholds below one unit of their 8-bit weights, which are raised to one unit."""
    units = units_of(network)
    small = sum(
        int(
            (node.threshold.flatten(1).amin(1) if node.threshold.dim() > 1 else node.threshold)
            .lt(units[node.name])
            .sum()
        )
        for node in network.populations
        if node.name in units
    )
    return [f"the thresholds of {small} channels are less than one unit of their 8-bit weights"] if small else []


def _operation(recipe: ConversionSettings) -> str:
    """The operation for the lineage, from its options: ``spike lif:0.9, poisson, l4:1.0``."""
    words = [f"spike {recipe.neuron}", str(recipe.encode)]
    words += [str(option) for option in (recipe.calibrate, recipe.adjust, recipe.mismatch) if option is not None]
    return ", ".join([*words, *(["int8"] if recipe.precision == "int8" else [])])


def calibration_rows(total: int, images: int, seed: int) -> Tensor:
    """The indices of ``images`` training rows, drawn by the seed, in ascending order."""
    if total <= images:
        return torch.arange(total)
    return torch.from_numpy(np.sort(stream(seed, "calibration").choice(total, images, replace=False)))


_FAR, _MANY, _FEW = 0.25, 0.01, 32


def range_notes(calibrated_on: Tensor, x: Tensor) -> tuple[str, ...]:
    """A note if the values of rows ``x`` go far beyond those that thresholds were found on.

    Far means a quarter of a channel's range beyond its end; the note is given if this holds for more than one row in a
    hundred. Neurons fire at most once per step and clip currents that they were not balanced for.
    """
    known, given = (
        values.float().flatten(2) if values.dim() > 2 else values.float()[..., None] for values in (calibrated_on, x)
    )
    low, high = known.amin(dim=(0, 2), keepdim=True), known.amax(dim=(0, 2), keepdim=True)
    margin = _FAR * (high - low)
    share = float(((given < low - margin) | (given > high + margin)).flatten(1).any(dim=1).float().mean())
    if share <= _MANY:
        return ()
    return (
        f"{share:.0%} of the rows have inputs far beyond those that thresholds were found on (by over {_FAR:.0%} of a "
        "channel's range), which neurons may clip; balance on rows like them",
    )


def encoding_of(given: Any) -> Poisson | Constant:
    """The encoding that ``given`` is or names."""
    if isinstance(given, Rate):
        raise UsageError(f"{given!r} is a learning-rate schedule; the encoding is ws.ConstantInput(), or 'constant'")
    return Encode.of(given)  # type: ignore[return-value]  # the family has these two members


def checked_precision(given: str) -> Precision:
    """``given`` if the engine supports it."""
    if given not in ("float32", "float64", "int8"):
        raise UsageError(f"precision must be float32, float64 or int8, not {given!r}")
    return given  # type: ignore[return-value]


def _shape(subject: Subject) -> tuple[int, ...] | None:
    """The input shape from the data, if the network's card does not have it."""
    return None if card_of(subject.network).input_shape else tuple(subject.judged.x.shape[1:])


# Device mismatch: on analog hardware no two neurons have quite the same threshold and leak.
#
# With σ the given spread and z a normal number drawn for each neuron,
#
#     threshold ← threshold · exp(σ_threshold · z)        leak ← 1 − (1 − leak) · exp(σ_leak · z')
#
# so that the median neuron has the nominal values. The same seed draws the same z for every spread: networks with
# different spreads represent the same devices, made more or less precisely.


_LEAST_LEAK = float(np.finfo(np.float32).eps)  # such a membrane forgets everything within a step


def with_mismatch(network: SpikingNetwork, mismatch: Mismatch, seed: int) -> SpikingNetwork:
    """The network with an individual threshold and leak for every neuron.

    A leak that would fall to zero or below is set to the smallest positive one; neurons without leak stay without.
    """
    if mismatch.threshold == 0 and mismatch.leak == 0:
        return network
    return network.replaced(
        _varied(node, network.shapes[node.name], network.neuron.leak, mismatch, seed) for node in network.populations
    )


def _varied(node: Neurons, shape: Shape, common_leak: float, mismatch: Mismatch, seed: int) -> Neurons:
    generator = stream(seed, "mismatch", node.name)
    thresholds, leaks = generator.standard_normal(shape), generator.standard_normal(shape)
    threshold, leak = node.threshold, node.leak
    if mismatch.threshold:
        threshold = _as(node.threshold, _spread(node.threshold, shape) * np.exp(mismatch.threshold * thresholds))
    given = np.full(shape, common_leak) if leak is None else _spread(leak, shape)
    if mismatch.leak and not (given == 1).all():
        drawn = 1 - (1 - given) * np.exp(mismatch.leak * leaks)
        leak = _as(node.threshold, np.clip(drawn, _LEAST_LEAK, 1))
    return dataclasses.replace(node, threshold=threshold, leak=leak)


def _spread(values: Tensor, shape: Shape) -> NDArray[np.float64]:
    """Values per channel or per unit as values per unit."""
    array = values.detach().double().numpy()
    return np.broadcast_to(array.reshape(*array.shape, *[1] * (len(shape) - array.ndim)), shape)


def _as(like: Tensor, values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values).to(like.dtype)
