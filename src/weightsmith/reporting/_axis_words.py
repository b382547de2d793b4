"""Labels of axis positions: axis label and unit, tick label, or a short number."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.reporting._words import LONGEST_NAME, number_text, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["AxisWords", "label_of", "short", "split_unit"]

_NAME = re.compile(r"(.*?\S)(?:\s+\(([^()]*)\))?(?:[,;:]\s.*)?")
_LONGEST_UNIT = 12
_NUMBER = re.compile(r"[\s\d.,·×%⁰¹²³⁴⁵⁶⁷⁸⁹⁻eE+\-−]*")
_MOST_SEGMENTS = 2_000  # above this, vertical lines are spikes and the like, not intervals


def split_unit(label: str) -> list[str]:
    """A label without its remarks, and the unit in brackets after it, if any.

    >>> split_unit("accuracy (%), bars: 95 % intervals"), split_unit("loss (mean per image)"), split_unit("ρ(λ)")
    (['accuracy', '%'], ['loss', ''], ['ρ(λ)', ''])
    """
    found = _NAME.fullmatch(label)
    if found is None:
        return [label, ""]
    unit = (found[2] or "").strip()
    return [found[1], unit if len(unit) <= _LONGEST_UNIT and " " not in unit else ""]


def label_of(artist: Any) -> str:
    """The legend label of the artist; empty if the legend leaves it out."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else _written(label)


def short(value: float) -> float | int | None:
    """Four digits, or the whole number; None for NaN.

    >>> [short(value) for value in (0.123456, 12.0, 123456.7, float("nan"))]
    [0.1235, 12, 123457, None]
    """
    value = float(value)
    if not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return round(value) if 1e3 <= abs(value) < 1e15 else float(f"{value:.4g}")


class AxisWords:
    """The labels of both axes; ``x`` and ``y`` are their names and units.

    Positions take the text of ticks if these are words and not numbers. A figure that labels only some of its
    positions can format each one by ``axes.fmt_xdata`` and ``axes.fmt_ydata``, as in matplotlib:
    ``axes.fmt_xdata = lambda position: f"unit {order[round(position)]}"``.
    """

    def __init__(self, axes: Axes) -> None:
        self._formats = axes.fmt_xdata, axes.fmt_ydata
        self.x, self.y = (
            ["", ""] if form else split_unit(_label(axes, which))
            for form, which in zip(self._formats, "xy", strict=True)
        )
        self._ticks = _ticks(axes.xaxis), _ticks(axes.yaxis)
        self._names = _annotations(axes)
        self._intervals = _intervals(axes)

    def x_text(self, value: Any) -> str | float | int | None:
        """The label of a position on the x axis."""
        return self._text(0, value)

    def y_text(self, value: Any, x: Any = None) -> str | float | int | None:
        """The label of a position on the y axis, with the interval drawn at ``x``."""
        text = self._text(1, value)
        if isinstance(text, float | int) and isinstance(x, float | int):
            for low, high in self._intervals.get(_key(x), ()):
                if low < value < high:
                    return f"{number_text(value)} [{number_text(low)}, {number_text(high)}]"
        return text

    def name_at(self, x: Any, y: Any) -> str:
        """The annotation of a point."""
        if isinstance(x, tuple) or isinstance(y, tuple):
            return ""
        return self._names.get((_key(x), _key(y)), "")

    def _text(self, which: int, value: Any) -> str | float | int | None:
        if isinstance(value, tuple):
            return " to ".join(map(number_text, value))
        form, ticks = self._formats[which], self._ticks[which]
        if form is not None:
            return _written(form(value))
        if ticks is None or not math.isfinite(value):
            return short(value)
        if not ticks:
            return ""
        near = min(ticks, key=lambda position: abs(position - value))
        return ticks[near] if abs(near - value) < 0.5 else ""


def _label(axes: Axes, which: str) -> str:
    """The label of an axis; panels that share an axis, a row or a column have it on one of them."""
    shared = axes.get_shared_x_axes() if which == "x" else axes.get_shared_y_axes()
    panels = [axes, *shared.get_siblings(axes)]
    own = axes.get_subplotspec()
    for other in axes.figure.axes if own is not None else ():
        spec = other.get_subplotspec()
        if spec is not None and own is not None and spec.get_gridspec() is own.get_gridspec():
            same = spec.colspan == own.colspan if which == "x" else spec.rowspan == own.rowspan
            panels += [other] if same else []
    texts = (panel.get_xlabel() if which == "x" else panel.get_ylabel() for panel in panels)
    return _written(next(filter(None, texts), ""))


def _ticks(axis: Axis) -> dict[float, str] | None:
    """The tick labels by position; None if they are the numbers of the positions.

    An axis without ticks has no labels: its positions are arbitrary.
    """
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

    positions = [float(position) for position in axis.get_majorticklocs()]
    if not positions:
        return {}
    form = axis.get_major_formatter()
    if not isinstance(form, FixedFormatter | FuncFormatter | StrCategoryFormatter):
        return None
    ticks = dict(zip(positions, map(_written, form.format_ticks(positions)), strict=True))
    words = {position: text for position, text in ticks.items() if text}
    numbers = all(map(_NUMBER.fullmatch, words.values()))
    # Numbers that differ from their positions are names, such as those of units in another order.
    fixed = isinstance(axis.get_major_locator(), FixedLocator)
    names = fixed and any(text.isdecimal() and int(text) != position for position, text in words.items())
    return words if words and (not numbers or names) else None


def _annotations(axes: Axes) -> dict[tuple[float, float], str]:
    """Names annotated at points, without numbers, which repeat known values."""
    from matplotlib.text import Annotation

    found = {}
    for text in axes.texts:
        if isinstance(text, Annotation) and text.xycoords == "data":
            name = _written(text.get_text())
            if not _NUMBER.fullmatch(name):
                found[_key(text.xy[0]), _key(text.xy[1])] = name
    return found


def _intervals(axes: Axes) -> dict[float, list[tuple[float, float]]]:
    """Vertical lines by position: their lower and upper ends."""
    from matplotlib.collections import LineCollection

    strokes = [line.get_segments() for line in axes.collections if isinstance(line, LineCollection)]
    found: dict[float, list[tuple[float, float]]] = {}
    if sum(map(len, strokes)) > _MOST_SEGMENTS:
        return found
    for stroke in (np.asarray(one, np.float64) for some in strokes for one in some):
        if stroke.shape == (2, 2) and stroke[0, 0] == stroke[1, 0]:
            low, high = sorted(stroke[:, 1].tolist())
            found.setdefault(_key(stroke[0, 0]), []).append((low, high))
    return found


def _key(value: float) -> float:
    return float(f"{value:.9g}")


def _written(text: Any) -> str:
    """The text of a label, which matplotlib needs with escaped dollars and on several lines."""
    return plain(" ".join(str(text).replace(r"\$", "$").split()), LONGEST_NAME)
