"""The numbers behind the figures of a spiking network, as rows for the CSV of each figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weightsmith.reporting.figures.spiking._panels import spread
from weightsmith.reporting.figures.spiking._raster import _representative_units as representative_units
from weightsmith.reporting.parts import Cell
from weightsmith.reporting.sections._spiking_rivals import rival_rows
from weightsmith.reporting.sections._wording import MOST_ROWS, rounded, thinned
from weightsmith.spiking.monitors.raster import PopulationRaster, RasterRecord
from weightsmith.spiking.results import SpikeRecord, Watched

__all__ = ["Rows", "layer_operations", "rows_of"]

Rows = list[dict[str, Cell]]

_TRACED_POPULATIONS, _TRACED_UNITS = 5, 3  # as many as in the figure of membranes


def rows_of(figure: str, record: SpikeRecord, classes: Sequence[str]) -> Rows:
    """The rows of the figure of that name (:func:`weightsmith.reporting.figures.spiking.catalogue.figures_of`)."""
    if figure == "confusion":
        return _confusion(record, classes)
    return rounded(_ROWS[figure](record))


def layer_operations(record: SpikeRecord) -> Rows:
    """Operations and energy of each layer per image, next to the MACs of the network; energies in picojoules.

    Neurons and random draws follow, where they have a price.
    """
    cost = record.cost
    run, energies = float(cost.run[-1]), cost.layer_energy()
    rows: Rows = [
        {
            "layer": layer.name,
            "kind": layer.kind,
            "spikes": layer.spikes,
            "accumulates": float(layer.accumulates[-1]) + layer.constant_additions(run),
            "multiplies": layer.multiplies_once + layer.multiplies_per_step * run,
            "energy_picojoule": energies[layer.name],
            "network_macs": layer.macs,
            "network_dense_macs": layer.macs if layer.dense is None else layer.dense,
            "network_energy_picojoule": cost.prices.mac * layer.macs,
        }
        for layer in cost.layers
    ]
    others = [("all neurons", *cost.neuron_operations, sum(cost.neuron_energy))]
    others.append(("random draws", 0.0, 0.0, cost.draw_energy))
    for name, added, multiplied, energy in others:
        if energy and rows:
            found: dict[str, Cell] = {"layer": name, "kind": "other", "accumulates": added, "multiplies": multiplied}
            rows.append(dict.fromkeys(rows[0]) | found | {"energy_picojoule": energy})
    return rows


def _accuracy(record: SpikeRecord) -> Rows:
    decisions = record.decisions
    rows: Rows = []
    for steps in thinned(range(1, record.steps + 1)):
        found = decisions.accuracy(steps)
        undecided = int(decisions.undecided[steps - 1])
        rows.append(
            {
                "steps": steps,
                "accuracy": found.value,
                "low": found.low,
                "high": found.high,
                "undecided": undecided,
                "network_accuracy": decisions.network.value,
            }
        )
    return rows


def _energy(record: SpikeRecord) -> Rows:
    curve, network = record.cost.curve.tolist(), record.cost.network_energy
    return [
        {"steps": steps, "energy_picojoule": curve[steps - 1], "network_energy_picojoule": network}
        for steps in thinned(range(1, record.steps + 1))
    ]


def _rates(record: SpikeRecord) -> Rows:
    return [
        {
            "layer": population.layer,
            "population": population.name,
            "neurons": population.units,
            "rate": population.rate,
            "spikes_per_image": population.spikes_per_image,
        }
        for population in record.populations
    ]


def _statistics(record: SpikeRecord) -> Rows:
    return [population.to_dict() for population in _watched(record).activity.populations]


def _raster(record: SpikeRecord) -> Rows:
    """Every spike of the listed units: of many units a selection, so that trains stay complete."""
    raster = _watched(record).raster
    room = MOST_ROWS // len(raster.populations)
    rows: Rows = []
    for population in raster.populations:
        steps, units = population.spikes(0)
        listed = _listed(population, room)
        for step, unit in zip(steps.tolist(), units.tolist(), strict=True):
            if unit in listed:
                rows.append({**_unit(population, unit), "step": step + 1})
    return rows


def _listed(population: PopulationRaster, room: int) -> set[int]:
    """Every n-th unit, with the smallest n for at most ``room`` spikes; at least one unit."""
    _, units = population.spikes(0)
    counts = np.bincount(units, minlength=len(population.positions))
    for every in range(1, len(counts)):
        if counts[::every].sum() <= room:
            return set(range(0, len(counts), every))
    return {0}


def _membranes(record: SpikeRecord) -> Rows:
    raster = _watched(record).raster
    ended = raster.steps[0]
    rows: Rows = []
    for index in spread(len(raster.populations), _TRACED_POPULATIONS):
        rows += _traces(raster, index, ended)
    return rows


def _traces(raster: RasterRecord, index: int, ended: int) -> Rows:
    """Membranes of the drawn units of one population."""
    population = raster.populations[index]
    assert population.membranes is not None  # otherwise there is no such figure
    steps, units = population.spikes(0)
    rows: Rows = []
    for unit in representative_units(population, 0, _TRACED_UNITS):
        fired = set(steps[units == unit].tolist())
        trace = (population.membranes[0, :ended, unit] / population.thresholds[unit]).tolist()
        rows += [
            {**_unit(population, unit), "step": step + 1, "membrane": trace[step], "spike": int(step in fired)}
            for step in thinned(range(ended), MOST_ROWS // (_TRACED_POPULATIONS * _TRACED_UNITS))
        ]
    return rows


def _unit(population: PopulationRaster, unit: int) -> dict[str, Cell]:
    return {
        "population": population.name,
        "channel": int(population.channels[unit]),
        "position": int(population.positions[unit]),
    }


def _correspondence(record: SpikeRecord) -> Rows:
    populations = _watched(record).correspondence.populations
    room = max(1, MOST_ROWS // len(populations))
    return [
        {
            "population": population.name,
            "activation": float(population.activations[index]),
            "rate": float(population.rates[index]),
        }
        for population in populations
        for index in spread(len(population.rates), room)
    ]


def _confusion(record: SpikeRecord, classes: Sequence[str]) -> Rows:
    """The cells with images, of many those with the most."""
    confusion = record.decisions.confusion
    names = list(classes) or [str(index) for index in range(len(confusion.matrix))]
    cells = np.column_stack([confusion.matrix, confusion.undecided])
    filled = sorted(np.argwhere(cells).tolist(), key=lambda cell: (-int(cells[tuple(cell)]), cell))
    return [
        {
            "by_network": names[row],
            "by_spiking_network": "undecided" if column == len(names) else names[column],
            "images": int(cells[row, column]),
        }
        for row, column in filled[:MOST_ROWS]
    ]


def _adjustment(record: SpikeRecord) -> Rows:
    assert record.adjustment is not None  # otherwise there is no such figure
    rows: Rows = []
    for population in record.adjustment.populations:
        guarded = set(population.guarded)
        rows += [
            {
                "population": population.population,
                "unit": unit,
                "norm": population.norms[unit],
                "mean_membrane": population.means[unit] / population.thresholds[unit],
                "scalar": population.scalars[unit],
                "raised": int(unit in guarded),
            }
            for unit in range(len(population.norms))
        ]
    return thinned(rows)


def _watched(record: SpikeRecord) -> Watched:
    assert record.watched is not None  # otherwise there are no such figures
    return record.watched


_ROWS: dict[str, Callable[[SpikeRecord], Rows]] = {
    "accuracy": _accuracy,
    "energy": _energy,
    "layer-energy": layer_operations,
    "rivals": lambda record: rival_rows(record.cost),
    "rates": _rates,
    "statistics": _statistics,
    "raster": _raster,
    "membranes": _membranes,
    "correspondence": _correspondence,
    "adjustment": _adjustment,
}
