"""Figure 6 of the L4-norm paper, with intervals: accuracy against leak, with and without the adjustment."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import Interval
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.spiking._accuracy import NETWORK
from weightsmith.reporting.figures.spiking._panels import legend_below
from weightsmith.reporting.figures.study import barred_line
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, ORANGE, grid, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.sweep.results import SpikeSweep

__all__ = ["LeakPoint", "draw_leak_sweep", "leak_points"]

_LOOKS: dict[bool, dict[str, Any]] = {
    False: {"color": BLUE, "linestyle": "-", "marker": "o", "label": "baseline"},
    True: {"color": ORANGE, "linestyle": (0, (5, 2)), "marker": "s", "label": "L4-adjusted"},
}
_DIFFERENCE: dict[str, Any] = {"color": GREEN, "linestyle": "-", "linewidth": 1.0, "marker": "D", "markersize": 4.5}
_ENDS = ("low", "value", "high")
_RESETS = ("soft", "hard")
_NEAREST = 0.07  # fraction of a panel's width: closer ticks would overlap


@dataclasses.dataclass(frozen=True)
class LeakPoint:
    """Accuracy at one leak and reset; an adjusted point may have its paired difference from the baseline."""

    leak: float
    reset: str
    adjusted: bool
    accuracy: Interval
    difference: Interval | None = None


def leak_points(sweep: SpikeSweep, steps: int | None = None) -> list[LeakPoint]:
    """The points of a sweep after ``steps`` steps, by default the most."""
    wanted = max(sweep.steps) if steps is None else steps
    if wanted not in sweep.steps:
        raise UsageError(f"the sweep has answers after {', '.join(map(str, sweep.steps))} steps, not after {wanted}")
    points = []
    for choice in sweep.chosen:
        if choice.steps == wanted:
            points.append(LeakPoint(choice.leak, choice.reset, adjusted=False, accuracy=choice.baseline_test))
            if choice.adjusted_test is not None:
                gain = None if choice.gain is None else choice.gain.interval
                points.append(LeakPoint(choice.leak, choice.reset, True, choice.adjusted_test, gain))
    return points


def draw_leak_sweep(rows: Sequence[LeakPoint], network: Interval | None = None) -> Figure:
    """Accuracy against leak, baseline and adjusted, a column per reset; below, paired differences, if there are any.

    Bars are intervals. A difference is filled where its interval excludes zero. Dashed is the network.
    """
    resets = _checked(rows)
    paired = any(row.difference is not None for row in rows)
    with house_style():
        layout: dict[str, Any] = {"sharex": True, "sharey": "row", "height_ratios": (2, 1) if paired else (1,)}
        figure, axes = grid(2.9 * len(resets) + 0.9, 4.4 if paired else 3.4, 1 + paired, len(resets), **layout)
        for column, reset in enumerate(resets):
            found = sorted((row for row in rows if row.reset == reset), key=lambda row: row.leak)
            _draw_accuracies(axes[0, column], found, network)
            if paired:
                _draw_differences(axes[1, column], found)
            axes[0, column].set_title(f"{shown(reset, 30).capitalize()} reset")
            axes[-1, column].set_xlabel("leak (factor per step, 1: no leak)")
        _ticks(axes[0, 0], sorted({row.leak for row in rows}))
        axes[0, 0].set_ylabel("accuracy (%)")
        if paired:
            axes[1, 0].set_ylabel("adjusted − baseline\n(points)")
            figure.align_ylabels()
        figure.suptitle(_bars(rows), x=0.01, ha="left", fontsize=7.5)
        legend_below(figure, _handles(rows, network, paired=paired))
    return figure


def _checked(rows: Sequence[LeakPoint]) -> list[str]:
    """The resets, soft first; duplicate points, or a baseline that differs from itself, raise."""
    if not rows:
        raise UsageError("the sweep has no points: there is nothing to draw")
    (leak, reset, adjusted), times = Counter((row.leak, row.reset, row.adjusted) for row in rows).most_common(1)[0]
    kind = "adjusted" if adjusted else "baseline"
    if times > 1:
        raise UsageError(f"the {kind} at leak {leak:g} with {reset} reset is given {times} times: give each point once")
    for row in rows:
        if row.difference is not None and not row.adjusted:
            raise UsageError(
                f"the baseline at leak {row.leak:g} with {row.reset} reset has a difference: give it to the adjusted"
            )
    names = {row.reset for row in rows}
    return [*(reset for reset in _RESETS if reset in names), *sorted(names.difference(_RESETS))]


def _draw_accuracies(axes: Axes, rows: Sequence[LeakPoint], network: Interval | None) -> None:
    if network is not None:
        axes.axhspan(100 * network.low, 100 * network.high, color=NETWORK["color"], alpha=0.07, linewidth=0)
        axes.axhline(100 * network.value, **NETWORK)
    for index, (adjusted, look) in enumerate(_LOOKS.items()):
        _draw_line(axes, {row.leak: row.accuracy for row in rows if row.adjusted is adjusted}, (index, 2), look)


def _draw_differences(axes: Axes, rows: Sequence[LeakPoint]) -> None:
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=1.9)
    found = {row.leak: row.difference for row in rows if row.difference is not None}
    _draw_line(axes, found, (0, 1), _DIFFERENCE | {"markerfacecolor": "white"})
    clear = [(leak, one) for leak, one in found.items() if one.low > 0 or one.high < 0]
    axes.plot(
        [leak for leak, _ in clear], [100 * one.value for _, one in clear], **(_DIFFERENCE | {"linestyle": "none"})
    )


def _draw_line(axes: Axes, found: dict[float, Interval], index_of: tuple[int, int], look: dict[str, Any]) -> None:
    if found:
        low, value, high = (100 * np.array([getattr(one, end) for one in found.values()]) for end in _ENDS)
        barred_line(axes, np.array(list(found)), value, (low, high), index_of, **look)


def _ticks(axes: Axes, leaks: Sequence[float]) -> None:
    """Ticks at the leaks, from the largest on, without overlapping ones."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    span = leaks[-1] - leaks[0]
    kept = [leaks[-1]]
    for leak in reversed(leaks[:-1]):
        if kept[-1] - leak >= _NEAREST * span:
            kept.append(leak)
    axes.xaxis.set_major_locator(FixedLocator(kept))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    room = 0.08 * span or 0.05
    axes.set_xlim(leaks[0] - room, leaks[-1] + room)


def _bars(rows: Sequence[LeakPoint]) -> str:
    """The description of the bars."""
    differences = [row.difference for row in rows if row.difference is not None]
    parts = {
        "accuracies": {f"{row.accuracy.method}, {100 * row.accuracy.confidence:g} %" for row in rows},
        "differences": {f"{one.method}, {100 * one.confidence:g} %" for one in differences},
    }
    return "bars: " + "; ".join(f"{what} {' or '.join(sorted(how))}" for what, how in parts.items() if how)


def _handles(rows: Sequence[LeakPoint], network: Interval | None, *, paired: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [] if network is None else [Line2D([], [], label=f"network: {100 * network.value:.1f} %", **NETWORK)]
    handles += [Line2D([], [], **look) for kind, look in _LOOKS.items() if any(row.adjusted is kind for row in rows)]
    if paired:
        handles.append(Line2D([], [], label="difference (filled: excludes zero)", **_DIFFERENCE))
    return handles
