"""Figures of the activity of populations: rates by layer, and the regularity of spike trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import number
from weightsmith.reporting.figures.spiking._panels import layer_names, layer_rows, legend_below
from weightsmith.reporting.figures.style import BLUE, DASHED, GREEN, GREY, INK, ORANGE, PURPLE, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.monitors.activity import ActivityRecord
    from weightsmith.spiking.results import Population

__all__ = ["draw_rates", "draw_statistics"]

_WRITTEN = 40  # rows up to which bars show their numbers
_EDGE = 0.03  # fraction of the width: marks of missing values
_MARKS: dict[str, Any] = {"linestyle": "none", "markersize": 5}


def draw_rates(populations: Sequence[Population]) -> Figure:
    """Spikes per neuron and step (left) and spikes per image (right) of every layer, as bars."""
    if not populations:
        raise UsageError("there are no populations: nothing spikes, so there are no rates to draw")
    rates = [population.rate for population in populations]
    spikes = [population.spikes_per_image for population in populations]
    with house_style():
        names = layer_names([(population.layer, population.name) for population in populations])
        figure, (left, right) = layer_rows(names, 2)
        _draw_bars(left, rates, BLUE)
        _draw_bars(right, spikes, GREEN)
        left.set_xlabel("rate (spikes per neuron and step)")
        right.set_xlabel("spikes per image")
        right.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        right.locator_params(axis="x", nbins=6)
        units = sum(population.units for population in populations)
        mean = sum(population.rate * population.units for population in populations) / units
        left.set_title(f"Mean rate {number(mean)}")
        right.set_title(f"{_counted(sum(spikes))} spikes per image")
    return figure


def draw_statistics(activity: ActivityRecord) -> Figure:
    """The regularity of the trains of each layer, the overshoot of the threshold, and the share of silent neurons.

    Fano factor and interval CV are 1 for Poisson trains and 0 for regular ones. A cross at the left edge has no value:
    too few spikes or steps.
    """
    if not activity.populations:
        raise UsageError("no population was watched: there is nothing to draw")
    found = activity.populations
    with house_style():
        names = layer_names([(population.layer, population.name) for population in found])
        figure, (trains, overshoot, silent) = layer_rows(names, 3, width_ratios=(2, 1.3, 1.3))
        trains.axvline(1, color=INK, linewidth=1.0, linestyle=DASHED, zorder=1.9, label="Poisson trains: 1")
        missing = _draw_dots(trains, [one.fano for one in found], "o", BLUE, "Fano factor")
        missing |= _draw_dots(trains, [one.interval_cv for one in found], "s", ORANGE, "interval CV", edge=3 * _EDGE)
        missing |= _draw_dots(overshoot, [one.overshoot for one in found], "D", PURPLE, "overshoot")
        _draw_bars(silent, [100 * one.silent for one in found], GREY)
        trains.set_xlim(0, max(1.08, trains.get_xlim()[1]))
        overshoot.set_xlim(0, 1.1 * max([one.overshoot or 0 for one in found]) or 1)
        silent.set_xlim(0, 125)
        silent.set_xticks([0, 25, 50, 75, 100])
        trains.set_xlabel("Fano factor and interval CV")
        overshoot.set_xlabel("overshoot (thresholds)")
        silent.set_xlabel("silent neurons (%)")
        trains.set_title(_seen(activity))
        handles = [*trains.get_legend_handles_labels()[0], *overshoot.get_legend_handles_labels()[0]]
        if missing:
            (cross,) = trains.plot([], [], "x", color=GREY, label="too few spikes or steps", **_MARKS)
            handles.append(cross)
        legend_below(figure, handles)
    return figure


def _draw_bars(axes: Axes, values: Sequence[float], colour: str) -> None:
    """A bar per row, with its number after it."""
    axes.barh(range(len(values)), values, height=0.7, color=colour, linewidth=0)
    axes.set_xlim(0, 1.18 * max(values) if any(values) else 1)
    if len(values) <= _WRITTEN:
        for row, value in enumerate(values):
            look: dict[str, Any] = {"va": "center", "fontsize": 6.5, "textcoords": "offset points", "xytext": (3, 0)}
            axes.annotate(_counted(value), (value, row), **look)


def _counted(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else number(value)


def _draw_dots(
    axes: Axes, values: Sequence[float | None], shape: str, colour: str, label: str, *, edge: float = _EDGE
) -> bool:
    """Draw a mark per row, a cross at the edge for a missing value; whether there is one."""
    known = np.array([np.nan if value is None else value for value in values])
    rows = np.arange(len(values))
    axes.plot(known, rows, shape, color=colour, label=label, zorder=3, **_MARKS)
    empty = rows[np.isnan(known)]
    axes.plot(np.full(empty.size, edge), empty, "x", color=colour, transform=axes.get_yaxis_transform(), **_MARKS)
    return bool(empty.size)


def _seen(activity: ActivityRecord) -> str:
    images = f"{activity.images:,} image{'s' * (activity.images > 1)}"
    after = f", the first {activity.skip} left out" if activity.skip else ""
    steps = f"{activity.steps:.4g} step{'s' * (activity.steps != 1)}"
    return f"Trains: {images}, {steps}{after}, windows of {activity.window}"
