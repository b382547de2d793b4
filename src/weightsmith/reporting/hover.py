"""The points of a drawn figure with their positions in its SVG and their values, for display on hover.

Nothing is drawn twice: the points are read from the artists of a saved matplotlib figure. Labelled and
unlabelled lines, scattered points, bars, steps and images are supported; other figures have no points.

    {"panels": [{"box": [left, top, right, bottom], "x": [name, unit], "y": [name, unit],
                 "series": [{"name": …, "by": "", "x": […], "y": […], "a": […], "b": […], "z": …, "c": […], "t": […]},
                            {"grid": [left, top, width, height], "a": […], "b": […], "z": …, "c": […]}]}]}

``x`` and ``y`` of a series are positions in the SVG's own units, ``a`` and ``b`` their values on the axes, ``c`` a
third value named ``z``, ``t`` names of single points. ``by`` is the axis along which bars are found. A ``grid`` is an
image: the centre of its first cell and the step to the next, with a label per column and per row and a value per cell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weightsmith.reporting._axis_words import AxisWords, label_of, short, split_unit
from weightsmith.reporting._words import LONGEST_NAME, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox, Transform

__all__ = ["hover_points"]

_MOST, _MOST_CELLS = 2_000, 4_096  # points of a figure, and cells of an image: more are hardly distinguishable
_POINTS_PER_INCH = 72  # matplotlib writes an SVG in points

_Positions = NDArray[np.float64]


class _Series(NamedTuple):
    """The points of one artist: positions on the screen, values on the axes, and further data."""

    name: str
    positions: _Positions
    values: Sequence[tuple[Any, Any]]
    by: str = ""
    third: tuple[str, _Positions] | None = None


def hover_points(figure: Figure) -> dict[str, Any] | None:
    """The points of ``figure``, which must have been saved as SVG just before; None if it has none.

    The layout is that of the last save: drawing again could move the axes away from those in the SVG.
    """
    before = figure.dpi
    figure.dpi = _POINTS_PER_INCH
    try:
        height = float(figure.bbox.height)
        panels = [panel for axes in figure.axes if (panel := _panel(axes, height)) is not None]
    finally:
        figure.dpi = before
    _thin(panels)
    return {"panels": panels} if panels else None


def _panel(axes: Axes, height: float) -> dict[str, Any] | None:
    if not axes.get_visible() or not axes.axison or axes.get_label() == "<colorbar>":
        return None
    words = AxisWords(axes)
    box = axes.bbox
    taken: set[tuple[int, int]] = set()
    # Labelled series first, so that an unlabelled point does not replace the same point with a label.
    found = sorted(_every_series(axes), key=lambda series: not series.name)
    series = [made for one in found if (made := _written(one, words, box, height, taken)) is not None]
    series += [made for image in axes.get_images() if (made := _grid(image, words, height)) is not None]
    if not series:
        return None
    edges = [box.x0, height - box.y1, box.x1, height - box.y0]
    return {"box": [round(float(edge), 1) for edge in edges], "x": words.x, "y": words.y, "series": series}


def _every_series(axes: Axes) -> Iterator[_Series]:
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.patches import StepPatch

    named = {
        id(one[0]): label_of(one)
        for one in axes.containers
        if isinstance(one, ErrorbarContainer) and one[0] is not None
    }
    for line in axes.get_lines():
        values = np.column_stack([np.ma.filled(part, np.nan) for part in line.get_data(orig=False)])
        name = named.get(id(line)) or label_of(line)
        decoration = not name and len(values) <= 2 and line.get_marker() in ("", "None", None)
        if _shows_data(axes, line.get_transform()) and not decoration:
            yield _Series(name, line.get_transform().transform(values), values.tolist())
    for cloud in axes.collections:
        if isinstance(cloud, PathCollection):
            values = np.ma.filled(cloud.get_offsets(), np.nan)
            shades, bar = cloud.get_array(), cloud.colorbar
            third = None
            if shades is not None and len(shades) == len(values):
                third = (_bar_name(bar), np.ma.filled(np.ma.asarray(shades, np.float64), np.nan))
            positions = cloud.get_offset_transform().transform(values)
            yield _Series(label_of(cloud), positions, values.tolist(), third=third)
    for bars in axes.containers:
        if isinstance(bars, BarContainer):
            yield _bars(axes, bars)
    for patch in axes.patches:
        if isinstance(patch, StepPatch):
            yield _steps(axes, patch)


def _shows_data(axes: Axes, transform: Transform) -> bool:
    """Whether the transform is that of the data, up to a shift: others belong to guides across the axes."""
    corners = np.column_stack([axes.get_xlim(), axes.get_ylim()])
    own, data = (np.ptp(one.transform(corners), axis=0) for one in (transform, axes.transData))
    return bool(np.allclose(own, data))


def _bars(axes: Axes, bars: Any) -> _Series:
    """Bars are found at their ends, and have their length as value, not their end: they may be stacked."""
    upright = bars.orientation != "horizontal"
    ends, values = [], []
    for bar in bars.patches:
        x, y, wide, tall = bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()
        ends.append((x + wide / 2, y + tall) if upright else (x + wide, y + tall / 2))
        values.append((x + wide / 2, tall) if upright else (wide, y + tall / 2))
    positions = axes.transData.transform(np.asarray(ends, np.float64).reshape(-1, 2))
    return _Series(label_of(bars), positions, values, by="x" if upright else "y")


def _steps(axes: Axes, patch: Any) -> _Series:
    """The steps of a histogram, each at the centre of its bin."""
    heights, edges, _ = patch.get_data()
    upright = patch.orientation != "horizontal"
    middles = (edges[:-1] + edges[1:]) / 2
    if (axes.get_xscale() if upright else axes.get_yscale()) == "log":
        middles = np.sqrt(edges[:-1] * edges[1:])
    ranges = [(float(low), float(high)) for low, high in itertools.pairwise(edges)]
    ends = np.column_stack([middles, heights] if upright else [heights, middles])
    numbers = heights.tolist()
    values = list(zip(ranges, numbers, strict=True) if upright else zip(numbers, ranges, strict=True))
    return _Series(label_of(patch), axes.transData.transform(ends), values, by="x" if upright else "y")


def _written(
    series: _Series, words: AxisWords, box: Bbox, height: float, taken: set[tuple[int, int]]
) -> dict[str, Any] | None:
    """The series as JSON, without points outside the axes, and without unlabelled duplicates."""
    x, y = series.positions.T
    inside = (x >= box.x0 - 1) & (x <= box.x1 + 1)
    if series.by != "y":
        inside &= np.isfinite(y)
    inside &= ((y >= box.y0 - 1) & (y <= box.y1 + 1)) | bool(series.by)
    keys = [(round(4 * a), round(4 * b)) if fine else None for a, b, fine in zip(x, y, inside, strict=True)]
    chosen = [index for index, key in enumerate(keys) if key and (series.name or key not in taken)]
    taken.update(key for key in keys if key)
    if not chosen:
        return None
    made: dict[str, Any] = {
        "name": series.name,
        "by": series.by,
        "x": [round(float(np.clip(x[index], box.x0, box.x1)), 1) for index in chosen],
        "y": [round(float(height - np.clip(y[index], box.y0, box.y1)), 1) for index in chosen],
        "a": [words.x_text(series.values[index][0]) for index in chosen],
        "b": [words.y_text(*reversed(series.values[index])) for index in chosen],
    }
    if series.third is not None:
        made |= {"z": split_unit(series.third[0]), "c": [short(series.third[1][index]) for index in chosen]}
    names = [words.name_at(*series.values[index]) for index in chosen]
    return made | ({"t": names} if any(names) else {})


def _grid(image: Any, words: AxisWords, height: float) -> dict[str, Any] | None:
    """The cells of an image, of large ones an even selection."""
    shades = image.get_array()
    if shades is None or shades.ndim != 2 or not shades.size:
        return None
    rows, columns = shades.shape
    every = max(1, math.ceil(math.sqrt(rows * columns / _MOST_CELLS)))
    left, right, bottom, top = image.get_extent()
    if image.origin == "upper":
        bottom, top = top, bottom
    across = left + (np.arange(0, columns, every) + 0.5) * (right - left) / columns
    along = bottom + (np.arange(0, rows, every) + 0.5) * (top - bottom) / rows
    grid = np.array(np.meshgrid(across, along)).reshape(2, -1).T
    positions = image.axes.transData.transform(grid).reshape(len(along), len(across), 2)
    first, end = positions[0, 0], positions[-1, -1]
    steps = (end - first) / [max(1, len(across) - 1), max(1, len(along) - 1)]
    cells = np.ma.filled(np.ma.asarray(shades, np.float64), np.nan)[::every, ::every]
    if not np.isfinite(cells).any():
        return None
    return {
        "grid": [round(float(v), 2) for v in (first[0], height - first[1], steps[0], -steps[1])],
        "a": [words.x_text(float(value)) for value in across],
        "b": [words.y_text(float(value)) for value in along],
        "z": split_unit(_bar_name(image.colorbar)),
        "c": [short(value) for value in cells.ravel()],
    }


def _bar_name(bar: Any) -> str:
    """The label of a colour bar."""
    if bar is None:
        return ""
    axis = bar.ax.yaxis if bar.orientation == "vertical" else bar.ax.xaxis
    return plain(axis.get_label_text(), LONGEST_NAME)


def _thin(panels: Sequence[dict[str, Any]]) -> None:
    """Thin out points evenly down to the limit of a figure; images were thinned before."""
    series = [one for panel in panels for one in panel["series"] if "grid" not in one]
    every = max(1, math.ceil(sum(len(one["x"]) for one in series) / _MOST))
    for one in series if every > 1 else ():
        for key in {"x", "y", "a", "b", "c", "t"} & one.keys():
            one[key] = one[key][::every]
