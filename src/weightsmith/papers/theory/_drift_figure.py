"""Figure 4 of the L4-norm paper: arrows from vectors to their entry-wise squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.reporting.figures._panels import DASHED, grid
from weightsmith.reporting.figures.style import GREY, PURPLE, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.papers.theory.drift import HadamardDrift

__all__ = ["draw_hadamard_drift"]


def draw_hadamard_drift(found: HadamardDrift) -> Figure:
    """Figure 4: arrows from vectors to their entry-wise squares (left), and the rotation against the angle (right)."""
    with house_style():
        figure, axes = grid(7.0, 3.4, 1, 2, width_ratios=(1.15, 1))
        plane, curve = axes[0]
        largest = 1.04 * float(max(found.start.max(), found.end.max()))
        plane.axline((0, 0), slope=1, color=GREY, linestyle=DASHED, linewidth=1.0)
        around = np.linspace(0, np.pi / 2, 91)
        plane.plot(np.cos(around), np.sin(around), color=GREY, linewidth=0.8)
        moves = found.end - found.start
        still = np.hypot(*moves.T) < 1e-12
        plane.plot(*found.start[still].T, "o", color=GREY, markersize=2.5)
        limit = float(np.abs(found.drift_of_angle).max())
        turned = np.abs(found.drift) > 1e-9
        straight = ~turned & ~still
        true_size: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.005, "zorder": 3}
        plane.quiver(*found.start[straight].T, *moves[straight].T, color=GREY, **true_size)
        colours = {"cmap": "coolwarm", "clim": (-limit, limit)}
        arrows = plane.quiver(*found.start[turned].T, *moves[turned].T, found.drift[turned], **colours, **true_size)
        bar = figure.colorbar(arrows, ax=plane, shrink=0.85, pad=0.02)
        bar.set_label("turned by (°)")
        plane.set_aspect("equal")
        plane.set_xlim(-0.03, largest)
        plane.set_ylim(-0.03, largest)
        plane.set_xlabel("first entry")
        plane.set_ylabel("second entry")
        plane.set_title("From w to w∘w")
        _draw_drift(curve, found)
    return figure


def _draw_drift(axes: Axes, found: HadamardDrift) -> None:
    """The rotation against the angle, with its extremes."""
    limit = float(np.abs(found.drift_of_angle).max())
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.plot(found.angles, found.drift_of_angle, color=PURPLE)
    for index in (int(found.drift_of_angle.argmin()), int(found.drift_of_angle.argmax())):
        angle, drift = found.angles[index], found.drift_of_angle[index]
        axes.plot(angle, drift, "o", color=PURPLE, markersize=4)
        text = f"{drift:+.1f}° at {angle:g}°".replace("-", "−")
        at: dict[str, Any] = {"textcoords": "offset points", "xytext": (0, 8 if drift > 0 else -8), "fontsize": 7}
        axes.annotate(text, (angle, drift), ha="center", va="center", **at)
    axes.set_xlim(0, 90)
    axes.set_xticks(range(0, 91, 15))
    axes.set_ylim(-1.25 * limit, 1.25 * limit)
    axes.set_xlabel("angle of w (°)")
    axes.set_ylabel("angle of w∘w − angle of w (°)")
    axes.set_title("Turned to the nearer axis")
