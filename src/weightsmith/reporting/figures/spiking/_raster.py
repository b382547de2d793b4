"""Figures of single neurons: spike raster and membranes for an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.spiking._panels import CAPTION, WIDTH, layer_names, legend_below, spread, step_axis
from weightsmith.reporting.figures.style import BLUE, DASHED, GREY, ORANGE, RED, grid, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.monitors.raster import PopulationRaster, RasterRecord

__all__ = ["draw_membranes", "draw_raster"]

_MOST_PANELS, _MOST_ROWS = 24, 5  # populations of a raster, and of membranes
_MANY = 4000  # spikes from which they are rasterised, also in vector formats
_LEAST = 0.035  # least height of a spike in inches
_TALLEST = 10.0
_PLOT = 5.5  # inches for the steps


def draw_raster(raster: RasterRecord, image: int = 0) -> Figure:
    """The spikes of the recorded units of each population for one image: a panel per population, a row per unit.

    ``image`` is an index into ``raster.images``. Of more populations than fit, an even selection is drawn.
    """
    number = _checked(raster, image)
    indices = spread(len(raster.populations), _MOST_PANELS)
    names = layer_names([(population.layer, population.name) for population in raster.populations])
    steps = max(raster.steps)
    with house_style():
        tall = min(max(0.45, 2.8 / len(indices)), (_TALLEST - 0.9) / len(indices))
        figure, axes = grid(WIDTH, 0.9 + tall * len(indices), len(indices), 1, sharex=True)
        for panel, index in zip(axes[:, 0], indices, strict=True):
            population = raster.populations[index]
            _draw_spikes(panel, population, image, steps, 0.75 * tall)
            _write_rate(panel, population, image, raster.steps[image])
            panel.set_ylabel(shown(names[index], 26), rotation=0, ha="right", va="center", fontsize=7)
            _grey_after(panel, raster.steps[image], steps)
        step_axis(axes[-1, 0], steps, linear=True)
        some = f", {len(indices)} of {len(raster.populations)} populations" * (len(indices) < len(raster.populations))
        red = ", red: taken back" * any(each.taken_back(image).any() for each in raster.populations)
        axes[0, 0].set_title(f"Spikes for image {number}, a row per neuron{some}{red}", pad=5)
    return figure


def draw_membranes(raster: RasterRecord, image: int = 0, units: int = 3) -> Figure:
    """Membranes of a few units of each population for one image, in units of the threshold, and their spikes.

    Of the recorded units the one that fired most, the one that fired least without being silent, and evenly chosen
    ones between them are drawn; of many populations an even selection. Membranes are those before the threshold test.
    """
    number = _checked(raster, image)
    if units < 1:
        raise UsageError(f"units must be at least 1, not {units}")
    indices = spread(len(raster.populations), _MOST_ROWS)
    names = layer_names([(population.layer, population.name) for population in raster.populations])
    with house_style():
        figure, axes = grid(WIDTH, 0.9 + 1.25 * len(indices), len(indices), units, sharex=True, sharey="row")
        for row, index in zip(axes, indices, strict=True):
            population = raster.populations[index]
            rows = _representative_units(population, image, units)
            for panel, unit in zip(row, rows, strict=False):
                _draw_membrane(panel, population, image, unit, raster.steps[image])
            for spare in row[len(rows) :]:
                spare.set_axis_off()
            row[0].set_ylabel(f"{shown(names[index], 18)}\nmembrane ÷ threshold", fontsize=7)
        for panel in axes[-1]:
            step_axis(panel, max(raster.steps), linear=True)
        some = f", {len(indices)} of {len(raster.populations)} populations" * (len(indices) < len(raster.populations))
        figure.suptitle(f"Membranes for image {number}{some}", x=0.01, ha="left", fontsize=9, fontweight="bold")
        legend_below(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def _checked(raster: RasterRecord, image: int) -> int:
    """The number of the image at this index."""
    if not raster.populations or not raster.images:
        raise UsageError("the raster holds no populations or no images: there is nothing to draw")
    if not 0 <= image < len(raster.images):
        raise UsageError(f"the raster holds {len(raster.images)} image(s), so there is none at index {image}")
    return raster.images[image]


def _draw_spikes(axes: Axes, population: PopulationRaster, image: int, steps: int, tall: float) -> None:
    """A line for each spike, as high as its row, with a least height."""
    times, rows = population.spikes(image)
    units = len(population.positions)
    half = max(0.42, 0.5 * _LEAST * units / tall)
    width = float(np.clip(0.4 * 72 * _PLOT / steps, 0.5, 2.0))
    strokes: dict[str, Any] = {"linewidth": width, "rasterized": times.size > _MANY}
    back = population.taken_back(image)
    for color, drawn in ((BLUE, ~back), (RED, back)):
        if drawn.any():
            axes.vlines(times[drawn] + 1, rows[drawn] - half, rows[drawn] + half, color=color, **strokes)
    axes.set_ylim(units - 0.5 + half, -0.5 - half)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")


def _write_rate(axes: Axes, population: PopulationRaster, image: int, ended: int) -> None:
    """The rate of all recorded units, right of the panel."""
    times, _ = population.spikes(image)
    text = f"rate\n{times.size / (len(population.positions) * ended):.3f}"
    where: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "xytext": (4, 0)}
    axes.annotate(text, (1, 0.5), va="center", fontsize=6, **where)


def _grey_after(axes: Axes, ended: int, steps: int) -> None:
    """Shade the steps after this image was stopped."""
    if ended < steps:
        axes.axvspan(ended + 0.5, steps + 0.5, color=GREY, alpha=0.2, linewidth=0)


def _representative_units(population: PopulationRaster, image: int, units: int) -> list[int]:
    """Rows of units that fired, from the most to the least often, and silent ones if there are no others."""
    _, rows = population.spikes(image)
    counts = np.bincount(rows, minlength=len(population.positions))
    order = np.argsort(-counts, kind="stable")
    firing = order[counts[order] > 0]
    chosen = [int(firing[index]) for index in spread(len(firing), units)]
    silent = [int(unit) for unit in order[len(firing) :]]
    return [*chosen, *silent[: units - len(chosen)]]


def _draw_membrane(axes: Axes, population: PopulationRaster, image: int, unit: int, ended: int) -> None:
    if population.membranes is None:
        raise UsageError(
            f"the raster holds no membranes of {population.name}: record the run with Raster(membranes=True)"
        )
    membrane = population.membranes[image, :ended, unit] / population.thresholds[unit]
    steps, rows = population.spikes(image)
    fired = steps[rows == unit]
    line: dict[str, Any] = {"color": BLUE, "linewidth": 1.0, "label": "membrane before the threshold test"}
    axes.plot(np.arange(1, ended + 1), membrane, marker="." if ended <= 40 else None, markersize=3, **line)
    axes.axhline(1, color=RED, linewidth=1.0, linestyle=DASHED, label="threshold")
    axes.plot(fired + 1, membrane[fired], "o", color=ORANGE, markersize=3.5, zorder=3, label="spike")
    where = f"channel {population.channels[unit]}"
    if population.positions.any():
        where += f", position {population.positions[unit]}"
    axes.set_title(f"{where}: {len(fired)} spike{'s' * (len(fired) != 1)}", **(CAPTION | {"fontsize": 7}))
