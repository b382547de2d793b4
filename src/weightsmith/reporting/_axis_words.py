"""What a place on an axis is called: the label of the axis and its unit, the word of a tick, or a short number."""

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
_MOST_SEGMENTS = 2_000  # beyond, vertical strokes are spikes or the like and no intervals


def split_unit(label: str) -> list[str]:
    """A label without its remarks, and what stands in brackets behind it if that is a unit.

    >>> split_unit("accuracy (%), bars: 95 % intervals"), split_unit("loss (mean per image)"), split_unit("ρ(λ)")
    (['accuracy', '%'], ['loss', ''], ['ρ(λ)', ''])
    """
    found = _NAME.fullmatch(label)
    if found is None:
        return [label, ""]
    unit = (found[2] or "").strip()
    return [found[1], unit if len(unit) <= _LONGEST_UNIT and " " not in unit else ""]


def label_of(artist: Any) -> str:
    """What a legend calls the artist; nothing where it would leave it out."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else _written(label)


def short(value: float) -> float | int | None:
    """Four digits, or the whole number; None where there is no value.

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
    """The words of both axes; ``x`` and ``y`` are their names and units.

    Places are called by the words of ticks where these are words and not numbers. A figure that names only some of its
    places can say what each is called, in full, by ``axes.fmt_xdata`` and ``axes.fmt_ydata``, as matplotlib has it:
    ``axes.fmt_xdata = lambda place: f"unit {order[round(place)]}"``.
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
        """What a place of the x axis is called."""
        return self._text(0, value)

    def y_text(self, value: Any, x: Any = None) -> str | float | int | None:
        """What a place of the y axis is called, with the interval that is drawn through it at ``x``."""
        text = self._text(1, value)
        if isinstance(text, float | int) and isinstance(x, float | int):
            for low, high in self._intervals.get(_key(x), ()):
                if low < value < high:
                    return f"{number_text(value)} [{number_text(low)}, {number_text(high)}]"
        return text

    def name_at(self, x: Any, y: Any) -> str:
        """What is written beside a point."""
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
        near = min(ticks, key=lambda place: abs(place - value))
        return ticks[near] if abs(near - value) < 0.5 else ""


def _label(axes: Axes, which: str) -> str:
    """The label of an axis; panels that share it, or stand in the same row or column, have it on one of them."""
    shared = axes.get_shared_x_axes() if which == "x" else axes.get_shared_y_axes()
    panels = [axes, *shared.get_siblings(axes)]
    place = axes.get_subplotspec()
    for other in axes.figure.axes if place is not None else ():
        spec = other.get_subplotspec()
        if spec is not None and place is not None and spec.get_gridspec() is place.get_gridspec():
            same = spec.colspan == place.colspan if which == "x" else spec.rowspan == place.rowspan
            panels += [other] if same else []
    texts = (panel.get_xlabel() if which == "x" else panel.get_ylabel() for panel in panels)
    return _written(next(filter(None, texts), ""))


def _ticks(axis: Axis) -> dict[float, str] | None:
    """The words of the ticks by their places; None where they are the numbers of their places.

    An axis without ticks has no words: what is drawn along it was put in an order, and its places mean nothing.
    """
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

    places = [float(place) for place in axis.get_majorticklocs()]
    if not places:
        return {}
    form = axis.get_major_formatter()
    if not isinstance(form, FixedFormatter | FuncFormatter | StrCategoryFormatter):
        return None
    ticks = dict(zip(places, map(_written, form.format_ticks(places)), strict=True))
    words = {place: text for place, text in ticks.items() if text}
    numbers = all(map(_NUMBER.fullmatch, words.values()))
    # Numbers other than those of their places are names, such as those of units that were put in another order.
    fixed = isinstance(axis.get_major_locator(), FixedLocator)
    names = fixed and any(text.isdecimal() and int(text) != place for place, text in words.items())
    return words if words and (not numbers or names) else None


def _annotations(axes: Axes) -> dict[tuple[float, float], str]:
    """Names that are written beside points; numbers there repeat what is known."""
    from matplotlib.text import Annotation

    found = {}
    for text in axes.texts:
        if isinstance(text, Annotation) and text.xycoords == "data":
            name = _written(text.get_text())
            if not _NUMBER.fullmatch(name):
                found[_key(text.xy[0]), _key(text.xy[1])] = name
    return found


def _intervals(axes: Axes) -> dict[float, list[tuple[float, float]]]:
    """Vertical strokes by their place: from where to where they reach."""
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
    """The words of a label, which matplotlib takes with dollars escaped and on several lines."""
    return plain(" ".join(str(text).replace(r"\$", "$").split()), LONGEST_NAME)
