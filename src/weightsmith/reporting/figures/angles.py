"""Figures of the angles between the units of a layer: all pairs as a heat map, and groups of units as a tree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import BLUE, GREY, ORANGE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

__all__ = ["draw_angles", "draw_dendrogram"]

_NAMED = 40  # units up to which each is labelled
_CELLS = 250  # cells per side of the heat map: more would be too small
_ROTATED = 300  # units up to which leaves are ordered optimally: beyond, that takes seconds
_DARK_BLUE, _PALE_BLUE, _PALE_ORANGE, _DARK_ORANGE = "#00283E", "#C3DCEB", "#F6D5C2", "#5E2A00"

_Numbers = NDArray[np.float64]


def draw_angles(degrees: NDArray[np.floating[Any]], *, layer: str, threshold: float | None = None) -> Figure:
    """The angle between the activation vectors of every two units, 0° similar to 180° complementary, as a heat map.

    Units are in the order of :func:`draw_dendrogram`, so that similar ones are adjacent. With a
    ``threshold`` t in degrees, pairs below t and above 180 − t are dark. The diagonal, a unit with itself, is blank.
    With more units than can be shown, a cell is a square of several pairs and shows the one farthest from 90°, so that
    no pair beyond the threshold is lost.
    """
    angles = _checked(degrees, layer, threshold)
    order = _branches(angles)[1]
    cells = angles[np.ix_(order, order)]
    np.fill_diagonal(cells, 90.0)
    with house_style():
        figure, (axes,) = new_figure(5.5, 4.7)
        axes.grid(visible=False)
        size = math.ceil(len(cells) / _CELLS)
        shades = _furthest(cells, size)
        end = size * len(shades) - 0.5
        look: dict[str, Any] = {"cmap": _two_sided(threshold), "vmin": 0, "vmax": 180, "interpolation": "nearest"}
        image = axes.imshow(shades, extent=(-0.5, end, end, -0.5), **look)
        axes.set_xlim(-0.5, len(cells) - 0.5)
        axes.set_ylim(len(cells) - 0.5, -0.5)
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
        bar.set_label("angle (°): 0 similar, 90 unrelated, 180 complementary")
        bar.outline.set_visible(False)
        near = [] if threshold is None else [threshold, 180 - threshold]
        free = [tick for tick in (0, 45, 90, 135, 180) if all(abs(tick - other) > 7 for other in near)]
        bar.set_ticks(sorted({*near, *free}), labels=[f"{tick:g}" for tick in sorted({*near, *free})])
        _name_units(axes.xaxis, order, 90 if len(order) > 20 else 0)
        _name_units(axes.yaxis, order, 0)
        square = f";\neach cell shows {size} × {size} of them by the pair furthest from 90°" if size > 1 else ""
        axes.set_xlabel(_units_text(angles) + square)
        _head(figure, axes, layer, _pairs_text(angles, threshold))
    return figure


def draw_dendrogram(degrees: NDArray[np.floating[Any]], *, layer: str, threshold: float | None = None) -> Figure:
    """The dendrogram of units: the two nearest groups are joined repeatedly.

    The height at which two groups join is the largest angle between two of their units (complete linkage), where
    complementary units count as near: 180° − angle if that is smaller. So of each group below the ``threshold`` at
    most one unit is left when similar units are merged and complementary ones folded: the number of groups is the
    largest number that can stay.
    """
    angles = _checked(degrees, layer, threshold)
    if len(angles) < 2:
        raise UsageError(f"{layer}: a dendrogram needs at least two units, not one")
    with house_style():
        from matplotlib.collections import LineCollection

        figure, (axes,) = new_figure(5.5, 3.4)
        links, order = _branches(angles)
        forks = _forks(links, order)
        below = np.full(len(links), fill_value=True) if threshold is None else links[:, 2] < threshold
        width = min(1.2, max(0.25, 100 / len(angles)))
        for group, colour in ((~below, GREY), (below, BLUE)):
            axes.add_collection(LineCollection(list(forks[group]), colors=colour, linewidths=width))
        if threshold is not None:
            axes.axhline(threshold, color=ORANGE, linewidth=1.1, linestyle=(0, (4, 3)))
            words: dict[str, Any] = {"va": "center", "color": ORANGE, "fontsize": 7}
            axes.text(1.01, threshold, f"{threshold:g}°", transform=axes.get_yaxis_transform(), **words)
        axes.set_xlim(-0.02 * len(angles) - 0.5, 1.02 * len(angles) - 0.5)
        axes.set_ylim(0, 92)
        axes.set_yticks(range(0, 91, 15))
        axes.grid(visible=False, axis="x")
        _name_units(axes.xaxis, order, 90)
        axes.set_xlabel(_units_text(angles))
        axes.set_ylabel("largest angle within a group (°),\ncomplementary as 180° − angle")
        groups = len(angles) - int(below.sum())
        text = "" if threshold is None else f"{groups:,} group{'s' * (groups > 1)} below {threshold:g}°"
        _head(figure, axes, layer, text)
    return figure


def _checked(degrees: NDArray[np.floating[Any]], layer: str, threshold: float | None) -> _Numbers:
    """A checked copy of the angles."""
    angles = np.array(degrees, np.float64)
    if angles.ndim != 2 or angles.shape[0] != angles.shape[1] or not angles.size:
        raise UsageError(f"{layer}: angles must be a matrix of units by units, not of shape {angles.shape}")
    if not np.isfinite(angles).all() or angles.min() < 0 or angles.max() > 180:
        raise UsageError(f"{layer}: all angles must lie between 0 and 180 degrees")
    if not np.allclose(angles, angles.T, atol=1e-3):
        raise UsageError(f"{layer}: the matrix of angles must be symmetric")
    if threshold is not None and not 0 < threshold <= 90:
        raise UsageError(f"{layer}: the threshold must be above 0 and at most 90 degrees, not {threshold:g}")
    return angles


def _branches(angles: _Numbers) -> tuple[_Numbers, NDArray[np.intp]]:
    """The links of the clustering (SciPy's rows: two nodes, height, size), and the leaf order of the units."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(angles) == 1:
        return np.empty((0, 4)), np.zeros(1, np.intp)
    near = np.minimum(angles, 180 - angles)[np.triu_indices(len(angles), 1)]
    links = linkage(near, "complete", optimal_ordering=len(angles) <= _ROTATED)
    return links, leaves_list(links).astype(np.intp)


def _forks(links: _Numbers, order: NDArray[np.intp]) -> _Numbers:
    """The four corners of every fork; SciPy's own drawing is recursive, and a long chain of units would overflow it."""
    count = len(order)
    x, y = np.zeros(2 * count - 1), np.zeros(2 * count - 1)
    x[order] = np.arange(count)
    corners = np.empty((len(links), 4, 2))
    for index, (left, right, height, _) in enumerate(links):
        a, b = int(left), int(right)
        corners[index] = (x[a], y[a]), (x[a], height), (x[b], height), (x[b], y[b])
        x[count + index], y[count + index] = (x[a] + x[b]) / 2, height
    return corners


def _two_sided(threshold: float | None) -> Colormap:
    """Blue for similar, white at 90°, orange for complementary; with a threshold, a step to the dark side there."""
    from matplotlib.colors import LinearSegmentedColormap

    if threshold is None:
        nodes = [(0.0, _DARK_BLUE), (0.2, BLUE), (0.5, "white"), (0.8, ORANGE), (1.0, _DARK_ORANGE)]
    else:
        step = threshold / 180
        similar = [(0.0, _DARK_BLUE), (step, BLUE), (step, _PALE_BLUE if threshold < 90 else "white")]
        complementary = [(1 - step, _PALE_ORANGE if threshold < 90 else "white"), (1 - step, ORANGE)]
        nodes = [*similar, (0.5, "white"), *complementary, (1.0, _DARK_ORANGE)]
    return LinearSegmentedColormap.from_list("angles", nodes, N=1801)  # a tenth of a degree


def _furthest(cells: _Numbers, size: int) -> _Numbers:
    """Of every square of ``size`` × ``size`` angles the one farthest from 90°; padded with 90°."""
    if size == 1:
        return cells
    side = math.ceil(len(cells) / size)
    filled = np.full((side * size, side * size), 90.0)
    filled[: len(cells), : len(cells)] = cells
    squares = filled.reshape(side, size, side, size).swapaxes(1, 2).reshape(side, side, size * size)
    positions = np.abs(squares - 90).argmax(axis=2)[..., None]
    return np.take_along_axis(squares, positions, axis=2)[..., 0]


def _pairs_text(angles: _Numbers, threshold: float | None) -> str:
    pairs = angles[np.triu_indices(len(angles), 1)]
    text = f"{pairs.size:,} pair{'s' * (pairs.size != 1)}"
    if threshold is None:
        return text
    similar, complementary = int((pairs < threshold).sum()), int((pairs > 180 - threshold).sum())
    return f"of {text} {similar:,} below {threshold:g}°, {complementary:,} above {180 - threshold:g}°"


def _head(figure: Figure, axes: Axes, layer: str, text: str) -> None:
    figure.suptitle(shown(layer, 56), x=0.01, ha="left", fontsize=9, fontweight="bold")
    axes.set_title(text, fontsize=7.5, fontweight="normal")


def _name_units(axis: Axis, order: NDArray[np.intp], rotation: int) -> None:
    few = len(order) <= _NAMED
    axis.set_ticks(range(len(order)) if few else [], labels=order.tolist() if few else [], rotation=rotation)
    axis.set_tick_params(length=0, labelsize=7 if len(order) <= 20 else 5.5)


def _units_text(angles: _Numbers) -> str:
    plain = f"{len(angles):,} unit{'s' * (len(angles) > 1)}"
    return plain if len(angles) == 1 else f"{plain}, similar ones side by side"
