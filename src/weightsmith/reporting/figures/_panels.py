"""Shared by figures of the spiking theory: empty figures, a legend below, arrows from the origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.reporting.figures.labels import columns

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["DASHED", "DOTTED", "arrow", "blank_figure", "grid", "legend"]

DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))


def blank_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches with automatic layout; call it inside the house style."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")


def grid(width: float, height: float, rows: int, count: int, **layout: Any) -> tuple[Figure, Any]:
    """A figure with rows and columns of axes."""
    figure = blank_figure(width, height)
    return figure, figure.subplots(rows, count, squeeze=False, **layout)


def legend(figure: Figure, entries: Sequence[dict[str, Any]]) -> None:
    """A legend under the figure."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **entry) for entry in entries]
    count = columns([str(entry["label"]) for entry in entries], figure.get_figwidth())
    figure.legend(handles=handles, loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=2.0)


def arrow(axes: Axes, tip: NDArray[np.float64], colour: Any, width: float) -> None:
    """An arrow from the origin to exactly ``tip``."""
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (tip[0], tip[1]), (0, 0), arrowprops=look)
