"""The front of accuracy, energy and size found by a search, with its limits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import columns, readable_ticks, shown
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, blank_figure, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FrontDot", "draw_tailoring"]

_LOOKS = {
    "whole": (INK, "s"), "reduced": (BLUE, "o"), "int8": (PURPLE, "P"), "reduced, int8": (RED, "X"),
    "spiking": (ORANGE, "^"), "reduced and spiking": (GREEN, "D"),
}  # fmt: skip
_OTHER = (PURPLE, "v")
_SCALES = ((1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ"), (1.0, "pJ"))
_DASHED = (0, (4, 3))
_DEEP = 30.0  # points of accuracy shown below the best, or below the limit
_SMALLEST, _LARGEST = 6.0, 60.0  # areas of markers, in square points


@dataclasses.dataclass(frozen=True)
class FrontDot:
    """A network: its kind, accuracy with interval (shares), energy per input in picojoules, and parameters."""

    kind: str
    accuracy: float
    low: float
    high: float
    energy: float
    parameters: int
    on_front: bool = True
    chosen: bool = False


def draw_tailoring(
    dots: Sequence[FrontDot],
    *,
    accuracy: float | None = None,
    energy: float | None = None,
    params: int | None = None,
    met: bool = True,
    judged_by: str = "accuracy",
) -> Figure:
    """Accuracy against energy (left, markers larger the more parameters) and against parameters (right).

    Faint networks are dominated in all three; the stairs are the best accuracy for at most that much on the
    axis. Lines are the limits, and networks that meet both of a panel lie in the shaded corner. ``met`` says whether
    the marked network meets all of them, ``judged_by`` names the share on the vertical axis.
    """
    if not dots:
        raise UsageError("there are no networks to draw")
    top = max(100 * dot.accuracy for dot in dots)
    floor = min(top, 101.0 if accuracy is None else 100 * accuracy) - _DEEP
    seen = [dot for dot in dots if 100 * dot.accuracy >= floor or dot.chosen]
    scale, unit = _unit(max(dot.energy for dot in seen))
    most = max(dot.parameters for dot in dots)
    areas = [_SMALLEST + (_LARGEST - _SMALLEST) * dot.parameters / most for dot in seen]
    with house_style():
        figure = blank_figure(7.4, 3.9)
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, seen, [dot.energy / scale for dot in seen], areas)
        _panel(right, seen, [float(dot.parameters) for dot in seen], [24.0] * len(seen))
        _limits(left, accuracy, None if energy is None else energy / scale)
        _limits(right, accuracy, None if params is None else float(params))
        _mark(left, right, seen, scale, met)
        left.set_xlabel(f"energy per input ({unit}); larger marks: more parameters")
        right.set_xlabel("parameters")
        left.set_ylabel(f"{judged_by} on the selection rows (%)")
        left.set_title("accuracy and energy")
        right.set_title("accuracy and size")
        _legend(figure, left, seen)
    return figure


def _panel(axes: Axes, dots: Sequence[FrontDot], positions: Sequence[float], areas: Sequence[float]) -> None:
    """One marker per network by its kind, and the stairs above them."""
    axes.set_xscale("log")
    x, y = np.array(positions, np.float64), np.array([100 * dot.accuracy for dot in dots])
    size = np.array(areas)
    for kind in sorted({dot.kind for dot in dots}, key=[*_LOOKS, *(dot.kind for dot in dots)].index):
        colour, shape = _LOOKS.get(kind, _OTHER)
        # The whole network is the reference of all others, dominated or not.
        solid = np.array([dot.kind == kind and (dot.on_front or kind == "whole") for dot in dots])
        faint = np.array([dot.kind == kind for dot in dots]) & ~solid
        pale: dict[str, Any] = {"alpha": 0.22, "linewidth": 0, "zorder": 2, "label": shown(f"{kind}, dominated", 42)}
        full: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4, "zorder": 3, "label": shown(kind, 34)}
        for chosen, look in ((faint, pale), (solid, full)):
            if chosen.any():
                axes.scatter(x[chosen], y[chosen], s=size[chosen], color=colour, marker=shape, **look)
    steps = _stairs(x, y)
    axes.plot(*steps, color=GREY, linewidth=1.0, drawstyle="steps-post", zorder=1, label="best up to this cost")
    axes.margins(x=0.06, y=0.08)
    readable_ticks(axes.xaxis)


def _stairs(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[list[float], list[float]]:
    """The corners of the running maximum of y over x."""
    corners: list[float] = []
    best: list[float] = []
    for at in np.lexsort((-y, x)):
        if not best or y[at] > best[-1]:
            corners.append(float(x[at]))
            best.append(float(y[at]))
    return [*corners, float(x.max())], [*best, best[-1]]


def _limits(axes: Axes, accuracy: float | None, most: float | None) -> None:
    """The limits as lines, and the corner in which a network meets them."""
    line: dict[str, Any] = {"color": RED, "linewidth": 0.9, "linestyle": _DASHED, "zorder": 1.5}
    if accuracy is not None:
        axes.axhline(100 * accuracy, label="limit", **line)
    if most is not None:
        axes.axvline(most, label="limit" if accuracy is None else None, **line)
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    if accuracy is not None or most is not None:
        width = right if most is None else min(max(most, left), right)
        height = bottom if accuracy is None else max(100 * accuracy, bottom)
        axes.fill_between([left, width], height, max(top, height), color=RED, alpha=0.06, linewidth=0, zorder=0)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, max(top, bottom + 1))


def _mark(left: Axes, right: Axes, dots: Sequence[FrontDot], scale: float, met: bool) -> None:
    """A ring around the chosen network, with its interval."""
    for dot in dots:
        if not dot.chosen:
            continue
        for axes, position in ((left, dot.energy / scale), (right, float(dot.parameters))):
            axes.vlines(position, 100 * dot.low, 100 * dot.high, color=INK, linewidth=1.0, zorder=4)
            ring: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.3, "zorder": 5}
            word = "chosen" if met else "nearest"
            axes.scatter([position], [100 * dot.accuracy], s=150, label=f"{word}, with its 95 % interval", **ring)


def _legend(figure: Figure, axes: Axes, dots: Sequence[FrontDot]) -> None:
    """Kinds by marks of one size, then lines and the ring."""
    from matplotlib.lines import Line2D

    marks: dict[str, Any] = {}
    for kind in dict.fromkeys(dot.kind for dot in dots):
        colour, shape = _LOOKS.get(kind, _OTHER)
        marks[shown(kind, 34)] = Line2D([], [], color=colour, marker=shape, linestyle="none", markersize=5)
    handles, names = axes.get_legend_handles_labels()
    drawn = dict(zip(names, handles, strict=True))
    marks |= {name: handle for name, handle in drawn.items() if name not in marks and not name.endswith(", dominated")}
    figure.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=columns([*marks], 7.4))


def _unit(energy: float) -> tuple[float, str]:
    """The scale and unit for an energy in picojoules.

    >>> _unit(2.9e8), _unit(0)
    ((1000000.0, 'µJ'), (1.0, 'pJ'))
    """
    return next(((scale, unit) for scale, unit in _SCALES if energy >= scale and math.isfinite(energy)), _SCALES[-1])
