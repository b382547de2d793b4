"""Figures of several networks and runs: accuracy against cost, lineage, seeds, losses."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import Interval
from weightsmith.reporting.figures._naming import name_marks
from weightsmith.reporting.figures._networks import look
from weightsmith.reporting.figures.labels import is_wide, readable_ticks, shown
from weightsmith.reporting.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    blank_figure,
    house_style,
    legend,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.training.run import History

__all__ = ["Branch", "NetworkMark", "draw_ancestry", "draw_losses", "draw_networks", "draw_seeds", "energy_unit"]

Making = Literal["given", "trained", "reduced", "spiking", "tailored"]

_LOOKS: dict[str, tuple[str, str]] = {
    "given": (GREY, "D"),
    "trained": (BLUE, "o"),
    "reduced": (ORANGE, "s"),
    "spiking": (GREEN, "^"),
    "tailored": (PURPLE, "P"),
}
_JOULES = ((1.0, "pJ"), (1e3, "nJ"), (1e6, "µJ"), (1e9, "mJ"))
_WIDTH = 7.2  # inches of a figure in a row of its own
_NAMED = 24  # networks up to which marks are labelled


class NetworkMark(NamedTuple):
    """A network in :func:`draw_networks`: ``at`` is its x value; ``parent`` the name of its parent."""

    name: str
    making: Making
    at: float
    accuracy: Interval
    parent: str | None = None


class Branch(NamedTuple):
    """A network in :func:`draw_ancestry`: its generation, its name, how it was made, its accuracy."""

    depth: int
    name: str
    making: Making | None
    operation: str
    accuracy: str = ""


def draw_networks(
    marks: Sequence[NetworkMark], against: Literal["parameters", "energy"], metric: str = "accuracy"
) -> Figure:
    """Accuracy (or R²) with its interval against parameters or picojoules per image; a labelled mark per network.

    A thin line leads from each network to those made from it.
    """
    if not marks:
        raise UsageError(f"no network has both an accuracy and {against}: there is nothing to draw")
    scale, unit = energy_unit(max(mark.at for mark in marks)) if against == "energy" else (1.0, "")
    positions = [(mark.at / scale, 100 * mark.accuracy.value) for mark in marks]
    by_name = {mark.name: position for mark, position in zip(marks, positions, strict=True)}
    lines: list[tuple[tuple[float, float], tuple[float, float]]] = []  # from each network to those made from it
    with house_style():
        figure, (axes,) = new_figure(5.5, 4.0)
        for mark, (x, y) in zip(marks, positions, strict=True):
            colour, shape = _LOOKS[mark.making]
            axes.vlines(x, 100 * mark.accuracy.low, 100 * mark.accuracy.high, color=colour, linewidth=1.0, alpha=0.7)
            axes.plot([x], [y], shape, color=colour, markersize=5.5, label=shown(mark.name, 34), zorder=4)
            if mark.parent in by_name:
                lines.append((by_name[mark.parent], (x, y)))
                axes.plot(*zip(*lines[-1], strict=True), color=GREY, linewidth=0.7, alpha=0.6, zorder=1)
        axes.margins(x=0.12, y=0.10)
        _logarithmic_if_wide(axes, [x for x, _ in positions])
        axes.set_xlabel("parameters" if against == "parameters" else f"energy per image ({unit})")
        axes.set_ylabel(f"{metric} (%), bars: {100 * marks[0].accuracy.confidence:g} % intervals")
        used = [making for making in _LOOKS if any(mark.making == making for mark in marks)]
        entries = [
            {"label": "original" if each == "given" else each, "color": _LOOKS[each][0], "marker": _LOOKS[each][1]}
            for each in used
        ]
        legend(figure, [{**entry, "linestyle": ""} for entry in entries])
        if len(marks) <= _NAMED:
            bars = [
                (x, 100 * mark.accuracy.low, 100 * mark.accuracy.high)
                for mark, (x, _) in zip(marks, positions, strict=True)
            ]
            named = [(x, y, mark.name) for mark, (x, y) in zip(marks, positions, strict=True)]
            name_marks(figure, axes, named, bars, lines)
    return figure


def draw_ancestry(branches: Sequence[Branch]) -> Figure:
    """The lineage of networks: a line per network, its children indented below it, in the order of
    :mod:`weightsmith.networks.family`.
    """
    if not branches:
        raise UsageError("there are no networks: there is no ancestry to draw")
    count = len(branches)
    with house_style():
        figure = blank_figure(_WIDTH, 0.26 * count + 0.2)
        axes = figure.add_subplot()
        axes.set_axis_off()
        above: list[int] = []  # rows of the generations above, the youngest last
        for row, branch in enumerate(branches):
            del above[branch.depth :]
            x = _indent(branch.depth)
            if above:
                corner = _indent(branch.depth - 1)
                axes.plot([corner, corner, x], [above[-1], row, row], color=GREY, linewidth=0.9, zorder=1)
            colour, shape = _LOOKS[branch.making] if branch.making is not None else (GREY, ".")
            axes.plot([x], [row], shape, color=colour, markersize=5, zorder=3)
            _write_branch(axes, branch, x, row)
            above.append(row)
        axes.set_xlim(-0.1, _WIDTH - 0.3)
        axes.set_ylim(count - 0.5, -0.5)
    return figure


def draw_seeds(groups: Mapping[str, Sequence[tuple[str, float]]]) -> Figure:
    """Accuracies of the same stage with several seeds: a dot for each, the mean and ± the standard deviation.

    ``groups[stage]`` holds (name of the seed, accuracy from 0 to 1).
    """
    if not groups or any(len(found) < 2 for found in groups.values()):
        raise UsageError("every stage needs at least two seeds for its spread to be drawn")
    with house_style():
        figure, (axes,) = new_figure(5.5, 0.42 * len(groups) + 0.9)
        for row, found in enumerate(groups.values()):
            values = [100 * accuracy for _, accuracy in found]
            mean, deviation = statistics.fmean(values), statistics.stdev(values)
            axes.hlines(row, mean - deviation, mean + deviation, color=INK, linewidth=1.4)
            axes.plot([mean], [row], "|", color=INK, markersize=14, markeredgewidth=1.4, label="mean")
            for seed, value in zip((seed for seed, _ in found), values, strict=True):
                axes.plot([value], [row], "o", color=BLUE, alpha=0.6, markersize=5, zorder=3, label=shown(seed, 24))
        axes.set_yticks(range(len(groups)), [shown(stage, 38) for stage in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlabel("accuracy (%)")
        entries: list[dict[str, Any]] = [
            {"label": "one seed", "color": BLUE, "marker": "o", "linestyle": "", "alpha": 0.6},
            {"label": "mean ± standard deviation over seeds", "color": INK, "marker": "|", "markersize": 9},
        ]
        legend(figure, entries)
    return figure


def draw_losses(histories: Mapping[str, History]) -> Figure:
    """The loss of several runs by epoch: of validation if all of them have one, else of training."""
    if not histories or not all(history.rows for history in histories.values()):
        raise UsageError("every run needs at least one epoch for its loss to be drawn")
    from matplotlib.ticker import MaxNLocator

    validated = all(row.validation_loss is not None for history in histories.values() for row in history.rows)
    column = "validation_loss" if validated else "train_loss"
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.6)
        every: list[float] = []
        entries: list[dict[str, Any]] = []
        for index, (name, history) in enumerate(histories.items()):
            colour, line = look(index)
            values = [float(value) for value in history.column(column) if value is not None]
            epochs = [row.epoch for row in history.rows]
            style: dict[str, Any] = {"color": colour, "linestyle": line, "label": shown(name, 34)}
            style |= {"marker": "o", "markersize": 2.5} if len(epochs) <= 30 else {}
            axes.plot(epochs, values, **style)
            entries.append(style)
            every += values
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
        axes.set_ylabel(f"{'validation' if validated else 'training'} loss (mean per image)")
        if is_wide(every):
            axes.set_yscale("log")
            readable_ticks(axes.yaxis)
        legend(figure, entries)
    return figure


def _indent(depth: int) -> float:
    return 0.22 * min(depth, 12)


def _write_branch(axes: Axes, branch: Branch, x: float, row: int) -> None:
    """Name, operation and accuracy on one line."""
    words: dict[str, Any] = {"textcoords": "offset points", "va": "center", "color": INK}
    name = axes.annotate(shown(branch.name, 40), (x, row), (8, 0), fontweight="bold", **words)
    rest = "   ".join(shown(text, 70) for text in (branch.operation, branch.accuracy) if text)
    axes.annotate(rest, (1, 0.5), (8, 0), xycoords=name, **words)


def energy_unit(picojoules: float) -> tuple[float, str]:
    """The unit in which an energy has one to three digits before the point: its size in picojoules, and its name.

    >>> energy_unit(41_234)
    (1000.0, 'nJ')
    """
    return next((each for each in reversed(_JOULES) if picojoules >= each[0]), _JOULES[0])


def _logarithmic_if_wide(axes: Axes, values: Sequence[float]) -> None:
    if is_wide(values):
        axes.set_xscale("log")
        readable_ticks(axes.xaxis)
        return
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    if min(values) == max(values):
        axes.set_xlim(0.9 * values[0] if values[0] else -1, 1.1 * values[0] if values[0] else 1)
