"""The numbers of a conversion as rows, one per step or per layer, for CSV and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from weightsmith.spiking.energy.cost import LayerCost
    from weightsmith.spiking.results import Population, SpikeRecord

__all__ = ["LayerRow", "accuracy_rows", "layer_rows", "shown_steps", "step_rows"]

_MICROJOULE = 1e6  # in picojoules


def shown_steps(total: int) -> list[int]:
    """The steps that a table shows: powers of two, and the last.

    >>> shown_steps(75)
    [1, 2, 4, 8, 16, 32, 64, 75]
    """
    return [*(1 << power for power in range((total - 1).bit_length())), total]


def accuracy_rows(correct: NDArray[np.int64], undecided: NDArray[np.int64], images: int) -> list[dict[str, Any]]:
    """For every number of steps the accuracy (a share) with its interval, and the images without an answer."""
    from weightsmith.core.statistics import wilson

    rows = []
    for steps, (right, open_still) in enumerate(zip(correct.tolist(), undecided.tolist(), strict=True), 1):
        found = wilson(right, images)
        rows.append(
            {
                "steps": steps,
                "accuracy": found.value,
                "low": found.low,
                "high": found.high,
                "undecided": open_still,
            }
        )
    return rows


def step_rows(record: SpikeRecord) -> list[dict[str, Any]]:
    """Accuracy, its difference from the network's, and the energy so far, for every number of steps."""
    decisions, cost = record.decisions, record.cost
    rows = accuracy_rows(decisions.correct, decisions.undecided, decisions.images)
    for row, energy in zip(rows, cost.curve.tolist(), strict=True):
        row["difference"] = row["accuracy"] - decisions.network.value
        row["energy_microjoule"] = energy / _MICROJOULE
        row["energy_ratio"] = energy / cost.network_energy if cost.network_energy else None
    return rows


@dataclasses.dataclass(frozen=True)
class LayerRow:
    """One layer of weights with the neurons it feeds, or a shortcut without weights; counts are per image.

    ``kind`` is "direct" for connections without weights. A layer that feeds no neurons of its own (the last
    one; one branch of a sum) has no values for them. ``fano`` to ``correlation`` were measured on the
    few watched images.
    """

    name: str
    kind: str
    population: str | None = None
    neurons: int | None = None
    threshold_least: float | None = None
    threshold_median: float | None = None
    threshold_largest: float | None = None
    rate: float | None = None
    spikes: float | None = None
    accumulates: float = 0.0
    multiplies: float = 0.0
    energy_share: float | None = None
    path: str | None = None
    fano: float | None = None
    interval_cv: float | None = None
    overshoot: float | None = None
    slope: float | None = None
    correlation: float | None = None


def layer_rows(record: SpikeRecord) -> list[LayerRow]:
    """A row for each layer in order; a population of no layer has a row of its own at the end."""
    waiting = {population.name: population for population in record.populations}
    rows = []
    for layer in record.cost.layers:
        fed = next((each for each in waiting.values() if each.layer == layer.name), None)
        if fed is not None:
            del waiting[fed.name]
        rows.append(_row(record, layer, fed))
    rows += [LayerRow(each.name, "neurons", **_fired(record, each)) for each in waiting.values()]
    cost = record.cost
    others = [("all neurons", *cost.neuron_operations, sum(cost.neuron_energy))]
    others.append(("random draws", 0.0, 0.0, cost.draw_energy))
    return rows + [
        LayerRow(name, "other", accumulates=added, multiplies=multiplied, energy_share=energy / cost.energy)
        for name, added, multiplied, energy in others
        if energy
    ]


def _row(record: SpikeRecord, layer: LayerCost, fed: Population | None) -> LayerRow:
    cost = record.cost
    run = float(cost.run[-1])
    return LayerRow(
        name=layer.name,
        kind=layer.kind,
        accumulates=float(layer.accumulates[-1]) + layer.constant_additions(run),
        multiplies=layer.multiplies_once + layer.multiplies_per_step * run,
        energy_share=cost.layer_energy()[layer.name] / cost.energy if cost.energy else None,
        path=record.paths.get(layer.name),
        **({} if fed is None else _fired(record, fed)),
    )


def _fired(record: SpikeRecord, population: Population) -> dict[str, Any]:
    return {
        "population": population.name,
        "neurons": population.units,
        "threshold_least": population.threshold.least,
        "threshold_median": population.threshold.median,
        "threshold_largest": population.threshold.largest,
        "rate": population.rate,
        "spikes": population.spikes_per_image,
        **_watched(record, population.name),
    }


def _watched(record: SpikeRecord, name: str) -> dict[str, Any]:
    if record.watched is None:
        return {}
    statistics = _named(record.watched.activity.populations, name)
    matched = _named(record.watched.correspondence.populations, name)
    return {
        **{key: getattr(statistics, key) for key in ("fano", "interval_cv", "overshoot")},
        **{key: getattr(matched, key) for key in ("slope", "correlation")},
    }


def _named(populations: Sequence[Any], name: str) -> Any:
    return next(each for each in populations if each.name == name)
