"""Figures of a reduction: the angles between units, how a search went, and what size costs in accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.angles import draw_angles, draw_dendrogram
from weightsmith.reporting.figures.labels import columns, number, readable_ticks, shown
from weightsmith.reporting.figures.study import (
    barred_line,
    draw_angle_sweep,
    draw_final_size,
    draw_method_accuracy,
    draw_penalty_sweep,
)
from weightsmith.reporting.figures.style import BLUE, INK, ORANGE, house_style, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.reducing.decisions import FrontPoint, Trace

__all__ = [
    "draw_angle_sweep",
    "draw_angles",
    "draw_dendrogram",
    "draw_final_size",
    "draw_front",
    "draw_method_accuracy",
    "draw_penalty_sweep",
    "draw_sizes",
    "draw_trace",
    "save_figure",
]

_WIDE = 30.0  # largest over smallest value from which on an axis is logarithmic
_DASHED = (0, (4, 3))


def draw_trace(trace: Trace) -> Figure:
    """Fitness (above) and units (below) of the best and of the mean mask, by generation.

    A mean that is not finite, because a mask left nothing, is a gap.
    """
    if not trace.rows:
        raise UsageError("the trace has no generations: there is nothing to draw")
    from matplotlib.ticker import MaxNLocator

    generations = [row.generation for row in trace.rows]
    panels: tuple[tuple[str, Sequence[float], Sequence[float]], ...] = (
        ("fitness", [row.best for row in trace.rows], [row.mean for row in trace.rows]),
        ("units", [row.best_units for row in trace.rows], [row.mean_units for row in trace.rows]),
    )
    marks: dict[str, Any] = {"marker": "o", "markersize": 3} if len(generations) <= 30 else {}
    with house_style():
        figure, both = new_figure(5.5, 4.0, 2)
        for axes, (what, best, mean) in zip(both, panels, strict=True):
            for values, colour, label in ((mean, ORANGE, "mean of the population"), (best, BLUE, "best")):
                finite = [value if math.isfinite(value) else math.nan for value in values]
                axes.plot(generations, finite, color=colour, label=label, **marks)
            axes.set_ylabel(what)
        for axis in (both[1].xaxis, both[1].yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        both[1].set_xlabel("generation")
        both[1].margins(x=0.02)
        if len(generations) == 1:
            both[1].set_xlim(generations[0] - 1, generations[0] + 1)
        both[0].set_title(f"fitness: {shown(trace.fitness, 68)}")
        handles, labels = both[0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=2)
        figure.align_ylabels()
    return figure


def draw_front(
    front: Sequence[FrontPoint], chosen: FrontPoint | None = None, whole: FrontPoint | None = None
) -> Figure:
    """The best accuracy that was found with at most so many units; ``chosen`` and the ``whole`` network are marked."""
    if not front:
        raise UsageError("the front has no networks: there is nothing to draw")
    ordered = sorted(front, key=lambda point: (point.units, point.accuracy))
    units, accuracies = [point.units for point in ordered], [point.accuracy for point in ordered]
    marked = [point for point in (chosen, whole) if point is not None]
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.4)
        last = max([*units, *(point.units for point in marked)])
        stairs: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 1.0, "alpha": 0.5}
        axes.plot([*units, last], [*accuracies, accuracies[-1]], color=BLUE, **stairs)
        axes.plot(units, accuracies, "o", color=BLUE, label=f"front: {len(front):,} network{'s' * (len(front) > 1)}")
        looks = ((whole, INK, "s", "whole"), (chosen, ORANGE, "D", "chosen"))
        for point, colour, shape, name in looks:
            if point is not None:
                text = f"{name}: {point.units:,} unit{'s' * (point.units != 1)}, {point.accuracy:.1f} %"
                axes.plot(point.units, point.accuracy, shape, color=colour, markersize=7, zorder=4, label=text)
        if whole is not None:
            axes.axhline(whole.accuracy, color=INK, linewidth=0.8, linestyle=_DASHED, zorder=1)
        _logarithmic_if_wide(axes, [*units, *(point.units for point in marked)], whole_numbers=True)
        axes.margins(x=0.04, y=0.08)
        axes.set_xlabel("units")
        axes.set_ylabel("accuracy on the search's rows (%)")
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=columns(names, 5.5))
    return figure


def draw_sizes(
    rows: Mapping[str, Sequence[tuple[float, float, float, float]]],
    whole: float | None = None,
    *,
    intervals: str = "95 % intervals",
) -> Figure:
    """Accuracy with its interval against the share of parameters that is left, a line per method.

    ``rows[label]`` holds (share from 0 to 1, accuracy, low, high), accuracies in percent; ``whole`` is the accuracy of
    the network before, ``intervals`` says what low and high are. Equal shares are drawn a little beside each other.
    """
    if not rows or not all(rows.values()):
        raise UsageError("every method needs at least one (share, accuracy, low, high) to be drawn")
    for label, points in rows.items():
        if wrong := [share for share, *_ in points if not 0 < share <= 1]:
            raise UsageError(f"{label}: a share of parameters lies above 0 and is at most 1, not {number(wrong[0])}")
    shares = [100 * share for points in rows.values() for share, *_ in points]
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.6)
        if whole is not None:
            text = f"unreduced: {whole:.1f} %"
            axes.axhline(whole, color=INK, linewidth=1.0, linestyle=_DASHED, zorder=1, label=text)
        for place, (label, points) in enumerate(rows.items()):
            share, accuracy, low, high = np.array(sorted(points), np.float64).T
            barred_line(axes, 100 * share, accuracy, (low, high), (place, len(rows)), label=shown(label, 34))
        axes.margins(x=0.04, y=0.06)
        _logarithmic_if_wide(axes, shares)
        axes.set_xlabel("parameters left (%)")
        axes.set_ylabel(f"accuracy (%), bars: {shown(intervals, 40)}")
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=columns(names, 5.5))
    return figure


def _logarithmic_if_wide(axes: Axes, values: Sequence[float], *, whole_numbers: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    if max(values) / min(values) > _WIDE:
        axes.set_xscale("log")
        readable_ticks(axes.xaxis)
    elif whole_numbers:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        if min(values) == max(values):
            axes.set_xlim(min(values) - 1, max(values) + 1)
