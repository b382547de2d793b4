"""Figures of a reduction: the history of a search, accuracy against size, and units by layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import columns, is_wide, number, readable_ticks, shown
from weightsmith.reporting.figures.spiking._panels import layer_rows, legend_below
from weightsmith.reporting.figures.study import barred_line
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.reducing.decisions import FrontPoint, Trace
    from weightsmith.reducing.results import SiteReduction

__all__ = ["draw_front", "draw_sites", "draw_sizes", "draw_trace", "gone_by_reason"]


_DASHED = (0, (4, 3))


def draw_trace(trace: Trace) -> Figure:
    """Fitness (above) and units (below) of the best and of the mean mask, by generation.

    A mean that is not finite, because of an empty mask, is a gap.
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
    """The best accuracy found by number of units; ``chosen`` and the ``whole`` network are marked."""
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
    metric: str = "accuracy",
) -> Figure:
    """Accuracy (or another ``metric``) with its interval against the share of remaining parameters, a line per method.

    ``rows[label]`` holds (share from 0 to 1, accuracy, low, high), accuracies in percent; ``whole`` is the accuracy of
    the unreduced network, ``intervals`` describes low and high. Equal shares are drawn slightly offset.
    """
    if not rows or not all(rows.values()):
        raise UsageError("every method needs at least one (share, accuracy, low, high) to be drawn")
    for label, points in rows.items():
        if wrong := [share for share, *_ in points if not 0 < share <= 1]:
            raise UsageError(f"{label}: a share of parameters must be above 0 and at most 1, not {number(wrong[0])}")
    shares = [100 * share for points in rows.values() for share, *_ in points]
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.6)
        if whole is not None:
            text = f"unreduced: {whole:.1f} %"
            axes.axhline(whole, color=INK, linewidth=1.0, linestyle=_DASHED, zorder=1, label=text)
        for index, (label, points) in enumerate(rows.items()):
            share, accuracy, low, high = np.array(sorted(points), np.float64).T
            barred_line(axes, 100 * share, accuracy, (low, high), (index, len(rows)), label=shown(label, 34))
        axes.margins(x=0.04, y=0.06)
        _logarithmic_if_wide(axes, shares)
        axes.set_xlabel("parameters left (%)")
        axes.set_ylabel(f"{metric} (%), bars: {shown(intervals, 40)}")
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=columns(names, 5.5))
    return figure


def _logarithmic_if_wide(axes: Axes, values: Sequence[float], *, whole_numbers: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    if is_wide(values):
        axes.set_xscale("log")
        readable_ticks(axes.xaxis)
    elif whole_numbers:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        if min(values) == max(values):
            axes.set_xlim(min(values) - 1, max(values) + 1)


# Units by layer: how many are left, and why the others were removed.


_WRITTEN = 40  # rows up to which bars show their numbers
_COLOURS = (ORANGE, PURPLE, GREEN)  # of the most frequent reasons; all others together are grey
_OTHERS = "other reasons"
_EARLIER = "earlier rounds"
_PALE = 0.55
_WIDTH = 5.5


def gone_by_reason(site: SiteReduction) -> dict[str, int]:
    """Removed units by reason, the most frequent first, and those of earlier rounds, whose reasons are not stored.

    >>> from weightsmith.reducing.results import RemovedUnit, SiteReduction
    >>> removed = (RemovedUnit(1, "similar", 0), RemovedUnit(2, "constant"))
    >>> gone_by_reason(SiteReduction("fc", ("fc",), "dense", 5, (0, 4), removed))
    {'constant': 1, 'similar': 1, 'earlier rounds': 1}
    """
    counts = Counter(removal.reason or "no reason given" for removal in site.removals)
    found = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    earlier = site.before - site.after - sum(counts.values())
    return found | ({_EARLIER: earlier} if earlier > 0 else {})


def draw_sites(sites: Sequence[SiteReduction]) -> Figure:
    """A bar per layer as long as its units before: the remaining ones, then the removed ones by reason.

    The three most frequent reasons have a colour each. A layer where the chosen units could not be removed is
    marked.
    """
    if not sites:
        raise UsageError("the reduction has no layers whose units can be removed: there is nothing to draw")
    gone = [gone_by_reason(site) for site in sites]
    total = sum((Counter(found) for found in gone), Counter[str]())
    common = sorted(total, key=lambda reason: (-total[reason], reason))
    named = [reason for reason in common if reason != _EARLIER][: len(_COLOURS)]
    others = [reason for reason in common if reason not in named]
    with house_style():
        figure, (axes,) = layer_rows([_name(site) for site in sites], 1, row=0.27)
        figure.set_figwidth(_WIDTH)
        rows = range(len(sites))
        start = [site.after for site in sites]
        look: dict[str, Any] = {"height": 0.7, "linewidth": 0}
        axes.barh(rows, start, color=BLUE, label="left", **look)
        parts = [([reason], shown(reason, 34), colour) for reason, colour in zip(named, _COLOURS, strict=False)]
        if others:
            parts.append((others, others[0] if len(others) == 1 else _OTHERS, GREY))
        for reasons, label, colour in parts:
            counts = [sum(found.get(reason, 0) for reason in reasons) for found in gone]
            axes.barh(rows, counts, left=start, color=colour, alpha=_PALE, label=label, **look)
            start = [length + count for length, count in zip(start, counts, strict=True)]
        axes.set_xlim(0, 1.25 * max(site.before for site in sites))
        axes.set_xlabel("units")
        if len(sites) <= _WRITTEN:
            for row, site in enumerate(sites):
                words: dict[str, Any] = {"textcoords": "offset points", "xytext": (4, 0), "va": "center"}
                axes.annotate(_caption(site), (site.before, row), fontsize=6.5, **words)
        before, after = sum(site.before for site in sites), sum(site.after for site in sites)
        axes.set_title(f"{after:,} of {before:,} units are left")
        legend_below(figure, axes.get_legend_handles_labels()[0])
    return figure


def _name(site: SiteReduction) -> str:
    """The first layer that writes the units, and the number of others."""
    return site.name if len(site.layers) < 2 else f"{site.name} (+{len(site.layers) - 1})"


def _caption(site: SiteReduction) -> str:
    left = f"{site.after:,} of {site.before:,} ({100 * site.after / site.before:.0f} %)"
    return f"{left}, refused" if site.refused else left
