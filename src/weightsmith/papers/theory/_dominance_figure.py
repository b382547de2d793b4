"""Figure 3 of the L4-norm paper: which of two neurons fires more, over the plane of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._panels import DASHED, DOTTED, arrow, grid, legend
from weightsmith.reporting.figures.style import BLUE, GREEN, INK, ORANGE, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from weightsmith.papers.theory.dominance import Dominance

__all__ = ["draw_dominance"]

_SIMULATED: dict[str, Any] = {"color": INK, "linewidth": 1.4}
_PREDICTED: dict[str, Any] = {"color": GREEN, "linewidth": 1.6, "linestyle": DOTTED}
_MIDPOINT: dict[str, Any] = {"color": INK, "linewidth": 1.1, "linestyle": DASHED}
_PALE_ORANGE, _PALE_GREY, _PALE_BLUE = "#F6D5C2", "#E8E8E8", "#C3DCEB"


def draw_dominance(*found: Dominance) -> Figure:
    """Figure 3: which neuron fires more at each input, one plane per record, and the borders as angles."""
    if not found:
        raise UsageError("there is nothing to draw: give one record of dominance(), or several")
    with house_style():
        figure, axes = grid(2.7 * len(found) + 3.1, 3.4, 1, len(found) + 1)
        for plane, one in zip(axes[0], found, strict=False):
            _draw_plane(plane, one)
        _draw_borders(axes[0, -1], found)
        mark: dict[str, Any] = {"linestyle": "none", "marker": "s", "markersize": 6}
        legend(
            figure,
            [
                {"color": _PALE_ORANGE, "label": "A fires more", **mark},
                {"color": _PALE_BLUE, "label": "B fires more", **mark},
                {"color": _PALE_GREY, "label": "cannot be told", **mark},
                {"label": "angular midpoint", **_MIDPOINT},
                {"label": "simulated border", **_SIMULATED},
                {"label": "border by eqs. 1–2, lognormal", **_PREDICTED},
            ],
        )
    return figure


def _draw_plane(axes: Axes, found: Dominance) -> None:
    from matplotlib.colors import ListedColormap

    radii, angles = np.meshgrid(_edges(found.lengths), np.radians(_edges(found.angles, 90.0)), indexing="ij")
    cells: dict[str, Any] = {"cmap": ListedColormap([_PALE_ORANGE, _PALE_GREY, _PALE_BLUE]), "vmin": -1, "vmax": 1}
    axes.pcolormesh(radii * np.cos(angles), radii * np.sin(angles), found.winner, linewidth=0, rasterized=True, **cells)
    largest = 1.04 * float(radii.max())
    for angle, name, colour in ((found.angle_a, "A", ORANGE), (found.angle_b, "B", BLUE)):
        tip = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
        arrow(axes, tip, colour, 1.8)
        at: dict[str, Any] = {"textcoords": "offset points", "xytext": (2, 5), "ha": "left", "va": "bottom"}
        axes.annotate(name, (tip[0], tip[1]), color=colour, fontweight="bold", **at)
    far = np.array([0.0, largest])
    middle = np.radians(found.midpoint)
    axes.plot(far * np.cos(middle), far * np.sin(middle), **_MIDPOINT)
    for borders, style in ((found.border, _SIMULATED), (found.predicted, _PREDICTED)):
        lengths, degrees = _known(found, borders)
        axes.plot(lengths * np.cos(np.radians(degrees)), lengths * np.sin(np.radians(degrees)), **style)
    axes.set_aspect("equal")
    axes.set_xlim(0, largest)
    axes.set_ylim(0, largest)
    axes.set_xlabel("rate of input 1")
    axes.set_ylabel("rate of input 2")
    axes.set_title(f"{found.reset.capitalize()} reset, threshold {found.threshold:g}")


def _edges(middles: NDArray[np.float64], most: float = np.inf) -> NDArray[np.float64]:
    """The borders between the cells around ascending values; the outer ones end at the limits of the range."""
    if middles.size == 1:
        return np.array([0.5, 1.5]) * middles
    between = (middles[1:] + middles[:-1]) / 2
    first, last = 2 * middles[0] - between[0], 2 * middles[-1] - between[-1]
    return np.concatenate([[max(first, 0.0)], between, [min(last, most)]])


def _draw_borders(axes: Axes, found: Sequence[Dominance]) -> None:
    """The borders as angles against the length of the input."""
    first = found[0]
    axes.axhline(first.midpoint, **_MIDPOINT)
    for one, shape in zip(found, "os^vD" * len(found), strict=False):
        axes.plot(*_known(one, one.border), marker=shape, markersize=3.5, label=f"{one.reset} reset", **_SIMULATED)
    axes.plot(*_known(first, first.predicted), **_PREDICTED)
    for angle, name, colour in ((first.angle_a, "A", ORANGE), (first.angle_b, "B", BLUE)):
        axes.axhline(angle, color=colour, linewidth=1.0)
        axes.annotate(
            name,
            (1, angle),
            xytext=(3, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight="bold",
        )
    axes.set_xlim(0, None)
    axes.set_ylim(-2, None)
    axes.set_xlabel("length of the input (spikes per τ)" if first.tau == 1 else "length of the input (rate)")
    axes.set_ylabel("angle of the border (°)")
    axes.set_title("Borders")
    if len(found) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0.02, 0.08))


def _known(found: Dominance, borders: Sequence[float | None]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths and angles where there is a border."""
    pairs = [(length, angle) for length, angle in zip(found.lengths, borders, strict=True) if angle is not None]
    lengths, degrees = np.array(pairs).reshape(-1, 2).T
    return lengths, degrees
