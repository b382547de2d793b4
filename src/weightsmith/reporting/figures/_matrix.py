"""A matrix of counts as a heat map: the diagonal pale, other cells darker with their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import GREY, INK, ORANGE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["MatrixWords", "draw_matrix"]

_NUMBERED = 20  # classes up to which every cell shows its number
_NAMED = 50  # classes up to which each is labelled
_LONGEST = 16
_PALE = "#DDE4EA"


class MatrixWords(NamedTuple):
    """The texts of a matrix: its title, the labels of rows and columns, and what is counted off the diagonal."""

    title: str
    rows: str
    columns: str
    apart: str


def draw_matrix(
    cells: NDArray[np.int64], names: Sequence[str], words: MatrixWords, *, further: str | None = None
) -> Figure:
    """Counts by class and class; ``further`` labels a last column that is not a class, separated by a line."""
    from matplotlib.ticker import MaxNLocator

    count, apart = len(cells), cells.copy()
    np.fill_diagonal(apart, 0)
    with house_style():
        side = min(max(3.0, 2.4 + 0.3 * count), 6.2)
        figure, (axes,) = new_figure(max(side + 0.6, 4.8), side)
        image = _draw_cells(axes, cells, apart, further=further is not None)
        if count <= _NUMBERED:
            _write_numbers(axes, cells, apart)
        elif apart.any():
            bar = figure.colorbar(image, ax=axes, fraction=0.045, pad=0.02, ticks=MaxNLocator(6, integer=True))
            bar.set_label(words.apart)
            bar.outline.set_visible(False)
        across = [*names] if further is None else [*names, further]
        longest = min(max(map(len, across)), _LONGEST)
        _name(axes.xaxis, across, upright=longest * len(across) > 10 * side, last=further is not None)
        _name(axes.yaxis, names, upright=False)
        axes.set_xlabel(words.columns)
        axes.set_ylabel(words.rows)
        figure.suptitle(words.title, x=0.01, ha="left", fontsize=9, fontweight="bold")
    return figure


def _draw_cells(axes: Axes, cells: NDArray[np.int64], apart: NDArray[np.int64], *, further: bool) -> Any:
    """Orange for cells off the diagonal, pale for the diagonal."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    shades = LinearSegmentedColormap.from_list("apart", ["#F4C3A4", ORANGE, "#7A3300"])
    axes.grid(visible=False)
    look: dict[str, Any] = {"interpolation": "nearest", "aspect": "equal"}
    diagonal = np.ma.masked_array(cells, np.eye(*cells.shape) == 0)
    axes.imshow(diagonal, cmap=ListedColormap([_PALE]), **look)
    image = axes.imshow(np.ma.masked_equal(apart, 0), cmap=shades, vmin=1, vmax=max(int(apart.max()), 2), **look)
    if further:
        axes.axvline(apart.shape[1] - 1.5, color=INK, linewidth=0.8)
    return image


def _write_numbers(axes: Axes, cells: NDArray[np.int64], apart: NDArray[np.int64]) -> None:
    darkest = max(int(apart.max()), 2)
    small = 7 if len(cells) <= 12 else 5.5
    for row, column in np.argwhere(cells > 0).tolist():
        differs = apart[row, column]
        dark = differs - 1 > 0.4 * (darkest - 1)
        look: dict[str, Any] = {"color": "white" if dark else INK, "fontsize": small, "ha": "center", "va": "center"}
        axes.text(column, row, str(cells[row, column]), fontweight="bold" if differs else "normal", **look)


def _name(axis: Axis, names: Sequence[str], *, upright: bool, last: bool = False) -> None:
    """Label every class, or some of many, and always the ``last`` one if that is not a class."""
    step = 10 ** math.ceil(math.log10(max(len(names) - 1, 1) / _NAMED)) if len(names) > _NAMED + 1 else 1
    positions = [*range(0, len(names), step)]
    if last and positions[-1] < len(names) - 1:
        positions[-1] = len(names) - 1
    labels = [shown(names[position], _LONGEST) for position in positions]
    look: dict[str, Any] = {"rotation": 90 if upright else 0, "fontsize": 7 if len(names) <= _NUMBERED + 1 else 5.5}
    axis.set_ticks(positions, labels=labels, **look)
    axis.set_tick_params(length=0 if step == 1 else 3, color=GREY)
