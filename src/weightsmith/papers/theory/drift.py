"""Figure 4 of the L4-norm paper: squaring a vector entry by entry turns it towards the nearer axis.

The variance of a potential depends on the cosine between the input λ and w∘w, the mean on that between λ and w. The two
vectors have the same direction only along the axes and along ⟨1, 1⟩; in between, w∘w lies closer to the axis by

    δ(θ) = arctan(tan² θ) − θ,      θ the angle of w
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.options import check_int
from weightsmith.core.records import Record
from weightsmith.reporting.figures.style import DASHED, GREY, PURPLE, grid, house_style
from weightsmith.spiking.theory._checks import numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["HadamardDrift", "angle_drift", "directions", "draw_hadamard_drift", "hadamard_drift"]


@dataclass(frozen=True, eq=False)
class HadamardDrift(Record):
    """The data of Figure 4: vectors (n, 2), their squares entry by entry, and the rotation in degrees.

    ``angles`` and ``drift_of_angle`` are the same as a curve from axis to axis, in degrees.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    drift: NDArray[np.float64]
    angles: NDArray[np.float64]
    drift_of_angle: NDArray[np.float64]


def angle_drift(weights: ArrayLike) -> NDArray[np.float64]:
    """The rotation of w∘w against w in degrees, for each vector (…, 2) with entries ≥ 0; positive is away from x.

    >>> angle_drift([[1.0, 0.0], [1.0, 1.0]]).tolist(), round(float(angle_drift([2.0, 1.0])), 2)
    ([0.0, 0.0], -12.53)
    """
    w = numbers(weights, "weights")
    if w.ndim == 0 or w.shape[-1] != 2:
        raise DataMismatch(f"vectors in the plane have two entries along their last axis, not shape {w.shape}")
    if (w < 0).any() or not w.any(-1).all():
        raise OptionError(
            "vectors must have entries ≥ 0, at least one of them > 0: squares of others change their quadrant"
        )
    x, y = w[..., 0], w[..., 1]
    drift: NDArray[np.float64] = np.degrees(np.arctan2(y * y, x * x) - np.arctan2(y, x))
    return drift


def hadamard_drift(*, points: int = 9, largest: float = 1.2) -> HadamardDrift:
    """Figure 4: a grid of ``points`` × ``points`` vectors in the positive quadrant up to ``largest``, origin left out.

    The paper does not give its grid. Vectors inside the unit square get shorter, beyond it longer.
    """
    if not 0 < largest < np.inf:
        raise OptionError(f"largest must be > 0 and finite, not {largest!r}")
    if check_int("points", points) < 2:
        raise OptionError("points must be ≥ 2: a grid has two sides")
    side = np.linspace(0.0, largest, points)
    start = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)[1:]
    angles = np.linspace(0.0, 90.0, 181)
    return HadamardDrift(start, start**2, angle_drift(start), angles, angle_drift(directions(angles)))


# Directions in the plane of two inputs.


def directions(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors (…, 2) of length 1 at angles from 0 to 90°; values that rounding makes negative are 0."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=-1).clip(0.0)


# Figure 4 of the L4-norm paper: arrows from vectors to their entry-wise squares.


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
