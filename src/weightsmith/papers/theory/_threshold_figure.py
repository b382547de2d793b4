"""Figure 5 of the L4-norm paper: the threshold a sweeping neuron needs, and what predicts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.reporting.figures._panels import DASHED, arrow, blank_figure, legend
from weightsmith.reporting.figures.style import GREEN, GREY, INK, ORANGE, RED, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from weightsmith.papers.theory.threshold import ThresholdSweep

__all__ = ["draw_threshold_sweep"]

_SNAPSHOTS = 4


def draw_threshold_sweep(found: ThresholdSweep) -> Figure:
    """Figure 5: snapshots of the sweep (above), and the threshold it needs against angle and L4 norm (below)."""
    from matplotlib import colormaps

    with house_style():
        figure = blank_figure(7.2, 5.0)
        names = [f"snapshot {k}" for k in range(_SNAPSHOTS)]
        rows: list[Any] = [names, ["angle", "angle", "norm", "norm"]]
        axes = figure.subplot_mosaic(rows, height_ratios=(1, 1.9))
        colours = colormaps["viridis"](found.angles / 95)
        middle = len(colours) // 2
        indices = np.linspace(0, found.angles.size - 1, _SNAPSHOTS).round().astype(int)
        for name, index, letter in zip(names, indices, "abcd", strict=True):
            _draw_snapshot(axes[name], found, int(index), colours[index], letter)
        axes[names[0]].set_ylabel("entry 2")
        for axis, values in (("angle", found.angles), ("norm", found.l4_norms)):
            _draw_needed(axes[axis], found, values, colours)
        _finish_needed(axes["angle"], axes["norm"])
        legend(
            figure,
            [
                {"color": INK, "linewidth": 3.0, "label": "static weights"},
                {"color": colours[middle], "linewidth": 2.0, "label": "sweeping weights"},
                {"color": RED, "linewidth": 1.2, "label": "input"},
                {"color": colours[middle], "marker": "o", "linestyle": "none", "label": "simulated ± std. error"},
                {"color": INK, "marker": ".", "linestyle": "none", "label": "‖w‖₂ + ‖w‖₄"},
                {"color": ORANGE, "linestyle": DASHED, "linewidth": 1.2, "label": "eq. 6, L4 norm"},
                {"color": GREEN, "linewidth": 1.2, "label": "std of eq. 2 for this input"},
                {"color": GREY, "linewidth": 1.0, "label": "threshold of the static one"},
            ],
        )
    return figure


def _draw_snapshot(axes: Axes, found: ThresholdSweep, index: int, colour: Any, letter: str) -> None:
    arrow(axes, found.weights[0], INK, 3.2)
    arrow(axes, found.weights[index], colour, 2.0)
    arrow(axes, found.inputs[index], RED, 1.0)
    largest = 1.12 * max(1.0, found.length)
    axes.set_xlim(-0.06 * largest, largest)
    axes.set_ylim(-0.06 * largest, largest)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    axes.set_aspect("equal")
    axes.set_xlabel("entry 1")
    axes.set_title(f"({letter}) {found.angles[index]:.0f}°")


def _draw_needed(axes: Axes, found: ThresholdSweep, values: NDArray[np.float64], colours: Any) -> None:
    axes.axhline(found.threshold, color=GREY, linewidth=1.0)
    axes.plot(values, found.by_l4, color=ORANGE, linestyle=DASHED, linewidth=1.2)
    axes.plot(values, found.by_moments, color=GREEN, linewidth=1.2)
    axes.plot(values, found.by_norms, ".", color=INK, markersize=2.5)
    axes.errorbar(values, found.needed, found.error, fmt="none", ecolor=GREY, elinewidth=0.8, zorder=3)
    axes.scatter(values, found.needed, c=colours, s=14, linewidths=0, zorder=4)


def _finish_needed(angle: Axes, norm: Axes) -> None:
    angle.set_xlim(-2, 92)
    angle.set_xticks(range(0, 91, 15))
    angle.set_xlabel("angle of the sweeping weights (°)")
    angle.set_ylabel("threshold needed")
    angle.set_title("(e) Threshold for equal firing")
    norm.set_ylim(angle.get_ylim())
    norm.set_xlabel("‖w‖₄ of the sweeping weights")
    norm.tick_params(labelleft=False)
    norm.set_title("(f) One norm, two thresholds")
