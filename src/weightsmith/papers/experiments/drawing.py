"""One drawing for most experiments: panels of lines over a setting, each point a mean over seeds with its deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_lines"]

_FEW = 8  # most values of the axis that are all labelled
_LONG = 8  # length from which labels are slanted


def draw_lines(
    table: SweepTable,
    *,
    x: str,
    y: str,
    line: str,
    panel: str | None = None,
    names: tuple[str, str] = ("", ""),
    scale: float = 1.0,
    log: bool = False,
    joined: bool = True,
    interval: tuple[str, str] | None = None,
    keep: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> Figure:
    """``y`` (times ``scale``) against ``x``: a line for every value of ``line``, a panel for every value of ``panel``.

    ``names`` are the axis labels; points are connected if ``joined``. Values of ``x`` that are not numbers are spaced
    evenly; rows without ``y`` are left out, and so are those that ``keep`` rejects. ``interval`` names the columns with
    the ends of an interval, which is drawn for points of one row.
    """
    from weightsmith.reporting.figures.style import blank_figure, house_style, legend

    rows = [row for row in table.rows if keep(row) and row[y] is not None]
    panels = list(dict.fromkeys(row[panel] if panel else "" for row in rows))
    places, labels = _places([row[x] for row in rows])
    with house_style():
        figure = blank_figure(3.6 * max(len(panels), 1.4), 3.0)
        for axes, chosen in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
            inside = [row for row in rows if not panel or row[panel] == chosen]
            for number, label in enumerate(dict.fromkeys(row[line] for row in rows)):
                own = [row for row in inside if row[line] == label]
                if not own:
                    continue
                there = {value: [r for r in own if r[x] == value] for value in places}
                across = [places[value] for value, found in there.items() if found]
                points = [_point(found, y, interval, scale) for found in there.values() if found]
                means, below, beyond = zip(*points, strict=True)
                axes.errorbar(across, means, yerr=(below, beyond), capsize=2, elinewidth=0.8, **_look(number, joined))
            axes.set_xlabel(names[0] or x)
            axes.set_title("" if not panel else f"{panel.replace('_', ' ')}: {_label(chosen)}")
            if log:
                axes.set_xscale("log")
            if labels is None and len(places) <= _FEW:
                axes.set_xticks(list(places.values()), [f"{value:g}" for value in places.values()])
                axes.minorticks_off()
            elif labels is not None:
                slanted = {"rotation": 30, "ha": "right"} if max(map(len, labels)) > _LONG else {}
                axes.set_xticks(range(len(labels)), labels, **slanted)
        figure.axes[0].set_ylabel(names[1] or y)
        lines = list(dict.fromkeys(row[line] for row in rows))
        names_of = [_line_label(line, label) for label in lines]
        legend(figure, [{"label": name, **_look(number, joined)} for number, name in enumerate(names_of)])
    return figure


def _places(found: Sequence[Any]) -> tuple[dict[Any, float], list[str] | None]:
    """The position of each value on the axis, and the labels if they are not numbers."""
    distinct = list(dict.fromkeys(found))
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
        return {value: float(value) for value in sorted(distinct)}, None
    return {value: float(place) for place, value in enumerate(distinct)}, [_label(value) for value in distinct]


def _look(number: int, joined: bool) -> dict[str, Any]:
    from weightsmith.reporting.figures.style import LINES

    style = "none" if not joined else "-" if number < len(LINES) else "--"
    return {"color": LINES[number % len(LINES)], "marker": "o", "linestyle": style}


def _point(
    rows: Sequence[Mapping[str, Any]], y: str, interval: tuple[str, str] | None, scale: float
) -> tuple[float, float, float]:
    """The mean of the rows, and the lengths of its bar downwards and upwards."""
    values = scale * np.asarray([row[y] for row in rows], dtype=np.float64)
    mean = float(np.mean(values))
    if values.size > 1:
        deviation = float(np.std(values, ddof=1))
        return mean, deviation, deviation
    if interval is None or rows[0][interval[0]] is None:
        return mean, 0.0, 0.0
    low, high = (scale * rows[0][name] for name in interval)
    return mean, mean - low, high - mean


def _line_label(line: str, value: Any) -> str:
    """The legend label of a line: plain text, or the name of the setting with a boolean or number.

    >>> [_line_label("batch_norm", True), _line_label("depth", 5), _line_label("reset", "soft")]
    ['with batch norm', 'depth 5', 'soft']
    """
    name = line.replace("_", " ")
    if isinstance(value, bool):
        return f"{'with' if value else 'without'} {name}"
    return value if isinstance(value, str) else f"{name} {_label(value)}"


def _label(value: Any) -> str:
    return (
        {True: "yes", False: "no", None: "none"}.get(value, str(value))
        if isinstance(value, bool | None)
        else str(value)
    )
