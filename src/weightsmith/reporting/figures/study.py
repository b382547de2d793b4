"""Figures of a study over folds: threshold angles, penalties, methods and initial sizes.

They are figures 1, 3, 4 and 5 of S. Tanovic, "Comparison of distinctiveness pruning and genetic algorithms for the
reduction of a fully trained neural network", with the spread that the paper leaves out. For J values x̄ ± s over k
folds, bands are ± s, and the error bars of accuracies ± s·√(1/J + 1/(k − 1)): the training rows of two folds are mostly
the same, so s/√J would be too small (Nadeau and Bengio, Machine Learning 52 (2003) 239).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.reporting.figures._folds import Cells, by_setting, by_start, curve_of, over_what, positions_of
from weightsmith.reporting.figures._networks import look
from weightsmith.reporting.figures.labels import columns, is_wide, readable_ticks, shown
from weightsmith.reporting.figures.style import BLUE, INK, RED, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.reducing.study_table import StudyRow

__all__ = ["barred_line", "draw_angle_sweep", "draw_final_size", "draw_method_accuracy", "draw_penalty_sweep"]

_SHAPES = "osD^vP"
_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)))
_BEFORE: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 3))}
_CAPTION: dict[str, Any] = {"fontsize": 7, "fontweight": "normal"}
_BARS = "bars: ± standard error, corrected for the training rows that folds share"
_MOST_TICKS = 12

_Numbers = NDArray[np.float64]


def draw_angle_sweep(rows: Iterable[StudyRow], *, whole: str = "whole") -> Figure:
    """Test accuracy (above, red) and hidden size (below, blue) against the threshold angle: the paper's figure 1.

    Takes the rows that have an angle. Dashed is the state before: the mean accuracy of the rows of the method
    ``whole``, if there are any, and the initial size.
    """
    from matplotlib.ticker import MultipleLocator

    every = list(rows)
    series = by_start([row for row in every if row.angle is not None], lambda row: row.angle or 0.0, "an angle")
    before = {row.hidden for cells in series.values() for found in cells.values() for row in found}
    with house_style():
        figure, (upper, lower) = new_figure(5.5, 4.8, 2)
        for index, (label, cells) in enumerate(series.items()):
            line: dict[str, Any] = {"linestyle": _STYLES[index % 3], "marker": _SHAPES[index % 6], "markersize": 3}
            lower.plot([], [], color=INK, label=shown(label, 34), **line)  # for the legend: in neither panel's colour
            for axes, colour, what in ((upper, RED, "test_accuracy"), (lower, BLUE, "units")):
                x, mean, deviation, error = curve_of(cells, what)
                axes.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0)
                axes.plot(x, mean, color=colour, **line)
                if axes is upper:
                    axes.vlines(x, mean - error, mean + error, color=colour, linewidth=1.0)
        for hidden in sorted(before):
            lower.axhline(hidden, zorder=1, **_BEFORE)
            if found := [row.test_accuracy for row in every if row.method == whole and row.hidden == hidden]:
                upper.axhline(float(np.mean(found)), zorder=1, **_BEFORE)
        lower.set_ylim(0, 1.06 * max(before))
        upper.set_ylabel("test accuracy (%)")
        lower.set_ylabel("hidden units left")
        lower.set_xlabel("threshold angle (°)")
        lower.xaxis.set_major_locator(MultipleLocator(15))
        upper.set_title(f"{over_what(series)}, band: ± standard deviation,\n{_BARS}", **_CAPTION)
        lower.plot([], [], label="unreduced", **_BEFORE)
        _legend(figure, lower)
        figure.align_ylabels()
    return figure


def draw_penalty_sweep(rows: Iterable[StudyRow]) -> Figure:
    """Test accuracy against the penalty λ, a line per initial hidden size: the paper's figure 3.

    Takes the rows that have a penalty. Equal λ are drawn slightly offset.
    """
    series = by_start([row for row in rows if row.penalty is not None], lambda row: row.penalty or 0.0, "a penalty")
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.6)
        penalties = positions_of(series)
        positive = [penalty for penalty in penalties if penalty > 0]
        if is_wide(positive):
            axes.set_xscale("symlog", linthresh=positive[0])  # shows λ = 0, unlike a logarithmic scale
        for index, (label, cells) in enumerate(series.items()):
            _accuracies(axes, cells, (index, len(series)), label=shown(label, 34))
        _ticks_at(axes, penalties)
        axes.set_xlabel("penalty λ")
        axes.set_ylabel("test accuracy (%)")
        axes.set_title(f"{over_what(series)},\n{_BARS}", **_CAPTION)
        _legend(figure, axes)
    return figure


def draw_method_accuracy(rows: Iterable[StudyRow], *, whole: str = "whole") -> Figure:
    """Test accuracy against the initial hidden size, a line per method and setting: the paper's figure 4.

    The method ``whole``, the networks before, is dashed. Equal sizes are drawn slightly offset.
    """
    series = by_setting(list(rows))
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.8)
        axes.set_xscale("log")
        # The unreduced ones last, so that methods have the same colours as in draw_final_size.
        for index, label in enumerate(sorted(series, key=lambda label: label == whole)):
            dashed = _BEFORE | {"label": "unreduced"} if label == whole else {"label": shown(label, 34)}
            _accuracies(axes, series[label], (index, len(series)), **dashed)
        _ticks_at(axes, positions_of(series))
        axes.set_xlabel("hidden units before")
        axes.set_ylabel("test accuracy (%)")
        axes.set_title(f"{over_what(series)},\n{_BARS}", **_CAPTION)
        _legend(figure, axes)
    return figure


def draw_final_size(rows: Iterable[StudyRow], *, whole: str = "whole") -> Figure:
    """Hidden units after against those before, a line per method and setting: the paper's figure 5.

    By the paper's criterion a method is good if it ends at one size whatever the initial one. The legend shows
    the slope of log(after) by log(before): 0 for always the same size, 1 for always the same share.
    """
    series = by_setting([row for row in rows if row.method != whole])
    with house_style():
        figure, (axes,) = new_figure(5.5, 4.2)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, (label, cells) in enumerate(series.items()):
            curve = curve_of(cells, "units")
            slope = "" if curve.x.size < 2 else f" ({np.polyfit(np.log(curve.x), np.log(curve.mean), 1)[0]:z.2f})"
            bars = np.maximum(curve.mean - curve.deviation, 1.0), curve.mean + curve.deviation  # no network has fewer
            barred_line(axes, curve.x, curve.mean, bars, (index, len(series)), label=shown(label, 34) + slope)
        sizes = positions_of(series)
        axes.plot(sizes, sizes, zorder=1, label="nothing removed (1.00)", **_BEFORE)
        _ticks_at(axes, sizes)
        readable_ticks(axes.yaxis)
        axes.set_xlabel("hidden units before")
        axes.set_ylabel("hidden units after")
        slopes = "in brackets the slope: 0 always the same size, 1 always the same share"
        axes.set_title(f"{over_what(series)}, bars: ± standard deviation;\n{slopes}", **_CAPTION)
        _legend(figure, axes)
    return figure


def barred_line(
    axes: Axes, x: _Numbers, y: _Numbers, bars: tuple[_Numbers, _Numbers], index_of: tuple[int, int], **more: Any
) -> None:
    """A line with bars from low to high; ``index_of`` is its index and the number of lines, which set its style.

    Lines of equal x are offset by a few points, so that their bars are side by side; the data are unchanged.
    """
    from matplotlib.transforms import ScaledTranslation

    index, count = index_of
    points = min(2.4, 10 / count) * (index - (count - 1) / 2)
    offset = axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
    colour, style = look(index)
    line: dict[str, Any] = {"color": colour, "linestyle": style, "marker": _SHAPES[index % 6]} | more
    axes.vlines(x, *bars, color=line["color"], linewidth=1.0, alpha=0.7, transform=offset)
    axes.plot(x, y, transform=offset, **line)
    # Artists with their own transform do not count for the limits of the axes.
    seen = np.column_stack([np.tile(x, 3), np.concatenate([y, *bars])])
    axes.update_datalim(seen[np.isfinite(seen).all(axis=1)])


def _accuracies(axes: Axes, cells: Cells, index_of: tuple[int, int], **more: Any) -> None:
    x, mean, _, error = curve_of(cells, "test_accuracy")
    barred_line(axes, x, mean, (mean - error, mean + error), index_of, **more)


def _ticks_at(axes: Axes, positions: Sequence[float]) -> None:
    """Ticks at the values, if they are few and do not overlap."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    scale = axes.xaxis.get_transform()
    transformed = scale.transform(np.array(positions, np.float64))
    gaps = np.diff(transformed)
    if len(positions) > _MOST_TICKS or (gaps.size and gaps.min() < 0.04 * (transformed[-1] - transformed[0])):
        if axes.get_xscale() == "log":
            readable_ticks(axes.xaxis)
        return
    axes.xaxis.set_major_locator(FixedLocator(positions))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _legend(figure: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=columns(names, 5.5))
