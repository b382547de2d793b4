"""The figure of answers against answers: which classes a spiking network takes for others than its network does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import GREY, INK, ORANGE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from weightsmith.spiking.correspondence import Confusion

__all__ = ["draw_confusion"]

_NUMBERED = 20  # classes up to which every cell has its number
_NAMED = 50  # classes up to which each is named
_LONGEST = 16
_UNDECIDED = "undecided"
_PALE = "#DDE4EA"


def draw_confusion(confusion: Confusion, classes: Sequence[str] | None = None) -> Figure:
    """Images by the class that the network (rows) and the spiking network (columns) give them.

    Agreement, the diagonal, is pale; disagreement is the darker the more images, so that it is seen where it is rare.
    A last column holds the images without an answer, if there are any. Without ``classes``, their names, they are
    numbered.
    """
    count = len(confusion.matrix)
    names = [str(place) for place in range(count)] if classes is None else list(classes)
    if len(names) != count:
        raise UsageError(f"the confusion is of {count} classes, but {len(names)} names were given")
    from matplotlib.ticker import MaxNLocator

    undecided = bool(confusion.undecided.any())
    cells = np.column_stack([confusion.matrix, confusion.undecided]) if undecided else confusion.matrix
    apart = cells.copy()
    np.fill_diagonal(apart, 0)
    with house_style():
        side = min(max(3.0, 2.4 + 0.3 * count), 6.2)
        figure, (axes,) = new_figure(max(side + 0.6, 4.8), side)
        image = _draw_cells(axes, apart, undecided=undecided)
        if count <= _NUMBERED:
            _write_numbers(axes, cells, apart)
        elif apart.any():
            bar = figure.colorbar(image, ax=axes, fraction=0.045, pad=0.02, ticks=MaxNLocator(6, integer=True))
            bar.set_label("images on which the two differ")
            bar.outline.set_visible(False)
        across = [*names, _UNDECIDED] if undecided else names
        longest = min(max(map(len, across)), _LONGEST)
        _name(axes.xaxis, across, upright=longest * len(across) > 10 * side)
        _name(axes.yaxis, names, upright=False)
        axes.set_xlabel("class by the spiking network")
        axes.set_ylabel("class by the network")
        title = _agreement(confusion, int(cells.sum()))
        figure.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold")
    return figure


def _draw_cells(axes: Axes, apart: NDArray[np.int64], *, undecided: bool) -> Any:
    """Orange for disagreement, pale for the diagonal."""
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    shades = LinearSegmentedColormap.from_list("apart", ["#F4C3A4", ORANGE, "#7A3300"])
    axes.grid(visible=False)
    look: dict[str, Any] = {"interpolation": "nearest", "aspect": "equal"}
    diagonal = np.ma.masked_equal(np.eye(*apart.shape), 0)
    axes.imshow(diagonal, cmap=ListedColormap([_PALE]), **look)
    image = axes.imshow(np.ma.masked_equal(apart, 0), cmap=shades, vmin=1, vmax=max(int(apart.max()), 2), **look)
    if undecided:
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


def _name(axis: Axis, names: Sequence[str], *, upright: bool) -> None:
    """Every class by its name, or of many some."""
    step = 10 ** math.ceil(math.log10(max(len(names) - 1, 1) / _NAMED)) if len(names) > _NAMED + 1 else 1
    places = [*range(0, len(names), step)]
    if names[-1] == _UNDECIDED and places[-1] < len(names) - 1:
        places[-1] = len(names) - 1
    labels = [shown(names[place], _LONGEST) for place in places]
    look: dict[str, Any] = {"rotation": 90 if upright else 0, "fontsize": 7 if len(names) <= _NUMBERED + 1 else 5.5}
    axis.set_ticks(places, labels=labels, **look)
    axis.set_tick_params(length=0 if step == 1 else 3, color=GREY)


def _agreement(confusion: Confusion, images: int) -> str:
    share = confusion.agreement
    within = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
    return f"Both agree on {100 * share.value:.1f} % {within} of {images:,} image{'s' * (images > 1)}"
