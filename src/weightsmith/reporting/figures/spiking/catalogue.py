"""All figures of a spiking network: accuracy, cost, activity, and its conversion.

All are drawn from records. :func:`figures_of` lists those that apply to a conversion.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weightsmith.reporting.figures.spiking._accuracy import draw_accuracy
from weightsmith.reporting.figures.spiking._adjustment import draw_adjustment
from weightsmith.reporting.figures.spiking._agreement import draw_confusion, draw_correspondence
from weightsmith.reporting.figures.spiking._energy import draw_energy, draw_layer_energy
from weightsmith.reporting.figures.spiking._raster import draw_membranes, draw_raster
from weightsmith.reporting.figures.spiking._rivals import draw_rivals
from weightsmith.reporting.figures.spiking.activity import draw_rates, draw_statistics
from weightsmith.reporting.figures.spiking.sweep import LeakPoint, draw_leak_sweep, leak_points
from weightsmith.reporting.figures.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.spiking.results import SpikeRecord, Watched

__all__ = [
    "LeakPoint",
    "draw_accuracy",
    "draw_adjustment",
    "draw_confusion",
    "draw_correspondence",
    "draw_energy",
    "draw_layer_energy",
    "draw_leak_sweep",
    "draw_membranes",
    "draw_raster",
    "draw_rates",
    "draw_rivals",
    "draw_statistics",
    "figures_of",
    "leak_points",
    "save_figure",
]


def figures_of(record: SpikeRecord, classes: Sequence[str] | None = None) -> dict[str, Callable[[], Figure]]:
    """The figures that apply to a record, by their file names; each is drawn when called.

    ``classes`` are the names of the classes, which the record does not hold.
    """
    found: dict[str, Callable[[], Figure]] = {
        "accuracy": functools.partial(draw_accuracy, record),
        "energy": functools.partial(draw_energy, record),
        "confusion": functools.partial(draw_confusion, record.decisions.confusion, classes),
    }
    if record.cost.layers:
        found["layer-energy"] = functools.partial(draw_layer_energy, record.cost)
    if record.cost.rivals:
        found["rivals"] = functools.partial(draw_rivals, record.cost)
    if record.populations:
        found["rates"] = functools.partial(draw_rates, record.populations)
    if record.watched is not None:
        found |= _of_watched(record.watched)
    if record.adjustment is not None and record.adjustment.populations:
        found["adjustment"] = functools.partial(draw_adjustment, record.adjustment)
    return found


def _of_watched(watched: Watched) -> dict[str, Callable[[], Figure]]:
    found: dict[str, Callable[[], Figure]] = {}
    raster = watched.raster
    if watched.activity.populations:
        found["statistics"] = functools.partial(draw_statistics, watched.activity)
    if watched.correspondence.populations:
        found["correspondence"] = functools.partial(draw_correspondence, watched.correspondence)
    if raster.populations and raster.images:
        found["raster"] = functools.partial(draw_raster, raster)
        if all(population.membranes is not None for population in raster.populations):
            found["membranes"] = functools.partial(draw_membranes, raster)
    return found
