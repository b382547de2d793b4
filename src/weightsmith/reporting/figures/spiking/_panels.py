"""Shared by figures of spiking networks: rows of layers, small multiples, an axis of time steps, a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.reporting.figures.labels import columns, shown
from weightsmith.reporting.figures.style import grid

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CAPTION", "WIDTH", "layer_names", "layer_rows", "legend_below", "small_multiples", "spread", "step_axis"]

WIDTH = 7.0
CAPTION: dict[str, Any] = {"fontsize": 7.5, "fontweight": "normal"}

_MOST_NAMES, _LONGEST_NAME, _TALLEST = 64, 30, 10.0
_LINEAR_STEPS = 64  # more are shown on a logarithmic axis


def layer_names(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Labels of populations given as (layer, name): the layer, and both if two share it.

    >>> layer_names([("conv1", "relu1"), ("conv2", "relu2"), ("conv2", "relu3"), ("", "relu4")])
    ['conv1', 'conv2 → relu2', 'conv2 → relu3', 'relu4']
    """
    layers = [layer for layer, _ in pairs]
    return [f"{layer} → {name}" if layer and layers.count(layer) > 1 else layer or name for layer, name in pairs]


def layer_rows(names: Sequence[str], panels: int, *, row: float = 0.24, **layout: Any) -> tuple[Figure, list[Axes]]:
    """Axes side by side with a row for each layer from top to bottom, as many of them labelled as are readable."""
    count = len(names)
    figure, axes = grid(WIDTH, min(max(1.9, 1.15 + row * count), _TALLEST), 1, panels, sharey=True, **layout)
    step = math.ceil(count / _MOST_NAMES)
    labels = [shown(name, _LONGEST_NAME) for name in names[::step]]
    first: Axes = axes[0, 0]
    first.set_yticks(range(0, count, step), labels, fontsize=7 if count <= 40 else 6)
    first.set_ylim(count - 0.4, -0.6)
    if step > 1:
        first.set_ylabel(f"layers from the input on (one in {step} named)")
    for one in axes[0]:
        one.grid(visible=False, axis="y")
        one.tick_params(axis="y", length=0)
    return figure, list(axes[0])


def small_multiples(count: int, x: str, y: str, *, most: int = 5) -> tuple[Figure, list[Axes]]:
    """Axes for ``count`` panels, at most ``most`` in a row, with the labels of x and y at the outer ones.

    Unused axes are removed; the panels above them count as outer ones.
    """
    across = min(count, most)
    down = math.ceil(count / across)
    width, height = {1: (4.2, 3.2), 2: (6.2, 3.2), 3: (WIDTH, 3.0)}.get(count, (WIDTH, 1.5 * down + 0.8))
    figure, axes = grid(width, height, down, across)
    panels: list[Axes] = list(axes.reshape(-1))
    for spare in panels[count:]:
        spare.remove()
    for index, panel in enumerate(panels[:count]):
        if index + across >= count:
            panel.set_xlabel(x, fontsize=7)
        if index % across == 0:
            panel.set_ylabel(y, fontsize=7)
    return figure, panels[:count]


def spread(count: int, most: int) -> list[int]:
    """At most ``most`` indices out of ``count``, evenly spaced, including the first and the last.

    >>> spread(3, 6), spread(19, 4), spread(5, 1)
    ([0, 1, 2], [0, 6, 12, 18], [0])
    """
    if count <= most:
        return list(range(count))
    return [round(index * (count - 1) / max(most - 1, 1)) for index in range(most)]


def step_axis(axes: Axes, steps: int, *, linear: bool = False) -> None:
    """An x axis of time steps from 1 on; many steps by powers of two, unless ``linear``."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    axes.set_xlabel("time steps")
    if steps == 1:
        axes.set_xlim(0, 2)
        axes.set_xticks([1])
        return
    if linear or steps <= _LINEAR_STEPS:
        axes.set_xlim(1 - min(0.02 * steps, 0.8), steps + max(0.02 * steps, 0.2))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
        return
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.93, steps * 1.07)
    powers = [2**power for power in range(math.floor(math.log2(steps)) + 1)]
    axes.xaxis.set_major_locator(FixedLocator([*powers, steps] if steps > 1.4 * powers[-1] else powers))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """A legend under the figure, in as many columns as fit."""
    count = columns([str(handle.get_label()) for handle in handles], figure.get_figwidth())
    figure.legend(handles=handles, loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=2.0)
