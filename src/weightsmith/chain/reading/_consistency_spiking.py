"""Consistency rules for records of spiking networks; see :mod:`weightsmith.chain.reading.consistency`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from weightsmith.core.records import Record
from weightsmith.spiking.energy.cost import SpikeCost
from weightsmith.spiking.l4.adjust import AdjustedPopulation
from weightsmith.spiking.monitors.correspondence import Confusion, PopulationCorrespondence
from weightsmith.spiking.monitors.raster import PopulationRaster, RasterRecord
from weightsmith.spiking.results import Decisions, Population, SpikeRecord
from weightsmith.spiking.sweep.results import SettingResult, SpikeSweep

__all__ = ["RULES"]

_Fits = Iterator[tuple[bool, str]]


def _record(record: SpikeRecord) -> _Fits:
    yield record.steps >= 1, "steps must be at least 1"
    yield record.cost.steps == record.steps, "cost.steps must be equal to its steps"
    yield bool(record.populations), "populations must not be empty"
    for name in ("correct", "undecided", "only_network"):
        fits = getattr(record.decisions, name).shape == (record.steps,)
        yield fits, f"decisions.{name} must have a number for each of its {record.steps} steps"


def _decisions(record: Decisions) -> _Fits:
    yield record.images >= 1, "images must be at least 1"
    for name in ("correct", "undecided", "only_network"):
        yield bool((getattr(record, name) <= record.images).all()), f"{name} must not be more than its images"
    # Rows that only the plain network answers correctly count as correct for it, but not for the spiking network.
    both = record.network.value * record.images + 0.5
    fits = (record.only_network <= both) & (record.correct + record.only_network <= record.images)
    yield bool(fits.all()), "only_network must fit the right answers of both networks"


def _confusion(record: Confusion) -> _Fits:
    shape = record.matrix.shape
    yield len(shape) == 2 and shape[0] == shape[1] > 0, "matrix must be square"
    yield record.undecided.shape == shape[:1], "undecided must have a number for each row of the matrix"
    yield bool((record.matrix >= 0).all() and (record.undecided >= 0).all()), "matrix must not be negative"


def _cost(record: SpikeCost) -> _Fits:
    yield bool(record.layers), "layers must not be empty"
    yield record.run.shape == (record.steps,), f"run must have a number for each of its {record.steps} steps"
    for index, layer in enumerate(record.layers):
        fits = layer.accumulates.shape == record.run.shape
        yield fits, f"layers[{index}].accumulates must have a number for each of its {record.steps} steps"
    for index, each in enumerate(record.neurons):
        yield each.leaking <= each.units, f"neurons[{index}].leaking must not be more than its units"


def _population(record: Population) -> _Fits:
    found = record.threshold
    yield found.least <= found.median <= found.largest, "threshold must rise from the least to the largest"


def _adjusted(record: AdjustedPopulation) -> _Fits:
    units = len(record.norms)
    for name in ("smoothed", "means", "thresholds", "wanted", "scalars"):
        yield len(getattr(record, name)) == units, f"{name} must have a number for each of {units} units"
    yield all(record.thresholds), "thresholds must not be 0"
    yield all(0 <= unit < units for unit in record.guarded), f"guarded must name some of {units} units"


def _corresponding(record: PopulationCorrespondence) -> _Fits:
    fits = record.activations.ndim == 1 and record.activations.shape == record.rates.shape
    yield fits, "rates must have a value for each activation"


def _raster(record: RasterRecord) -> _Fits:
    images = len(record.images)
    yield len(record.steps) == images, "steps must have a number for each image"
    yield all(steps >= 1 for steps in record.steps), "steps must be at least 1"
    longest = max(record.steps, default=0)
    for index, population in enumerate(record.populations):
        for fits, fault in _trains(population, images, longest):
            yield fits, f"populations[{index}].{fault}"


def _trains(record: PopulationRaster, images: int, longest: int) -> _Fits:
    units = record.positions.shape
    yield len(units) == 1, "positions must be a list"
    for name in ("channels", "thresholds"):
        yield getattr(record, name).shape == units, f"{name} must have a number for each position"
    yield bool((record.thresholds != 0).all()), "thresholds must not be 0"
    spikes = record.spike_images.shape
    fits = record.spike_sizes is None or record.spike_sizes.shape == spikes
    yield fits, "spike_sizes must have a number for each spike"
    for name, most in (("spike_images", images), ("spike_steps", longest), ("spike_rows", *units)):
        found = getattr(record, name)
        yield found.ndim == 1 and found.shape == spikes, f"{name} must have a number for each spike"
        yield bool(((found >= 0) & (found < most)).all()), f"{name} must be between 0 and {most - 1}"
    if record.membranes is not None:
        fits = record.membranes.shape == (images, longest, *units)
        yield fits, f"membranes must have the shape {(images, longest, *units)}"


def _sweep(record: SpikeSweep) -> _Fits:
    yield bool(record.steps), "steps must not be empty"
    yield len(set(record.steps)) == len(record.steps), "steps must not repeat a number"
    tried = {result.setting.key for result in record.table}
    for index, result in enumerate(record.table):
        fits = len(result.correct) == len(record.steps)
        yield fits, f"table[{index}].correct must have a number for each of {len(record.steps)} numbers of steps"
    for index, choice in enumerate(record.chosen):
        where = f"chosen[{index}]"
        yield choice.steps in record.steps, f"{where}.steps must be one of the steps that were tried"
        adjusted = choice.adjusted
        for name, setting in (("baseline", choice.baseline), ("adjusted", adjusted)):
            yield setting is None or setting.key in tried, f"{where}.{name} must be one of the table"
            same = setting is None or (setting.leak, setting.reset) == (choice.leak, choice.reset)
            yield same, f"{where}.{name} must have its leak and its reset"
        yield (adjusted is None) == (choice.adjusted_test is None), f"{where}.adjusted_test must go with adjusted"


def _tried(record: SettingResult) -> _Fits:
    yield record.seen >= 1, "seen must be at least 1"
    yield all(correct <= record.seen for correct in record.correct), "correct must not be more than seen"


RULES: Mapping[type[Record], Callable[[Any], _Fits]] = {
    AdjustedPopulation: _adjusted,
    Confusion: _confusion,
    Decisions: _decisions,
    Population: _population,
    PopulationCorrespondence: _corresponding,
    RasterRecord: _raster,
    SettingResult: _tried,
    SpikeCost: _cost,
    SpikeRecord: _record,
    SpikeSweep: _sweep,
}
"""By record type: pairs of whether a rule holds, and the rule."""
