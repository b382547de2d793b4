"""Figure 5 of the L4-norm paper: the threshold that would make two neurons fire equally often.

A neuron with weights ⟨1, 0⟩ keeps its threshold. Another one of the same length is swept from 0 to 90°, and both
receive the input half-way between them, for which their mean potentials are equal. The threshold at which the other one
fires as often depends on its variance, and this on the input: the threshold is not a function of the L4 norm, which
takes the same values before and after 45°. The paper calls that a hysteresis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError
from weightsmith.core.options import check_int
from weightsmith.core.records import Record
from weightsmith.core.seeds import subseed
from weightsmith.papers.theory.drift import directions
from weightsmith.reporting.figures.style import (
    DASHED,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    arrow,
    blank_figure,
    house_style,
    legend,
)
from weightsmith.spiking.theory._checks import check_reset
from weightsmith.spiking.theory.firing import count_spikes, matching_threshold, poisson_train
from weightsmith.spiking.theory.potential import shot_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["ThresholdSweep", "draw_threshold_sweep", "threshold_sweep"]


@dataclass(frozen=True, eq=False)
class ThresholdSweep(Record):
    """The data of Figure 5, for every angle (degrees) of the sweeping weights.

    ``needed`` is the simulated threshold, the mean over ``repeats``, and ``error`` its standard error. Predicted are

    - ``by_norms``    ‖w‖₂ + ‖w‖₄: the paper's dots, scaled to be exact at 0°
    - ``by_l4``       μ + (‖w‖₄/‖w₀‖₄)(θ₀ − μ): eq. 6 with the static neuron (w₀, θ₀) as the average of a layer
    - ``by_moments``  μ + (σ/σ₀)(θ₀ − μ): the same with the standard deviations that eq. 2 gives for this input

    ``rates`` are those of the static neuron, ``means`` the common μ of both.
    """

    threshold: float
    tau: float
    length: float
    reset: str
    duration: float
    repeats: int
    angles: NDArray[np.float64]
    weights: NDArray[np.float64]
    inputs: NDArray[np.float64]
    l4_norms: NDArray[np.float64]
    means: NDArray[np.float64]
    rates: NDArray[np.float64]
    needed: NDArray[np.float64]
    error: NDArray[np.float64]
    by_norms: NDArray[np.float64]
    by_l4: NDArray[np.float64]
    by_moments: NDArray[np.float64]
    seed: int


def threshold_sweep(
    *,
    threshold: float = 2.0,
    tau: float = 1.0,
    length: float = 1.0,
    reset: Literal["hard", "soft"] = "hard",
    points: int = 37,
    duration: float = 100_000.0,
    repeats: int = 4,
    seed: int = 0,
) -> ThresholdSweep:
    """Figure 5: the static threshold 2 and τ = 1 are the paper's, the length 1 of the input and the hard reset ours.

    ``repeats`` are independent draws of the input of ``duration`` each.
    """
    check_reset(reset)
    if not 0 < length < np.inf:
        raise OptionError(f"length of the input must be > 0 and finite, not {length!r}")
    if check_int("repeats", repeats) < 2 or check_int("points", points) < 2:
        raise OptionError(f"repeats and points must be ≥ 2, not {repeats} and {points}")
    angles = np.linspace(0.0, 90.0, points)
    weights, inputs = directions(angles), length * directions(angles / 2)
    norms = (weights**4).sum(-1) ** 0.25
    own, static = shot_noise(weights, inputs, tau), shot_noise(weights[:1], inputs, tau)
    needed, rates = np.empty((points, repeats)), np.empty((points, repeats))
    for i in range(points):
        for k in range(repeats):
            train = poisson_train(inputs[i], duration, subseed(seed, "threshold sweep", i, k))
            fired = int(count_spikes(train, weights[:1], tau, threshold, reset=reset).sum())
            rates[i, k] = fired / duration
            needed[i, k] = matching_threshold(train, weights[i], tau, fired, reset=reset)
    return ThresholdSweep(
        threshold=float(threshold),
        tau=float(tau),
        length=float(length),
        reset=reset,
        duration=float(duration),
        repeats=repeats,
        angles=angles,
        weights=weights,
        inputs=inputs,
        l4_norms=norms,
        means=own.mean,
        rates=rates.mean(-1),
        needed=needed.mean(-1),
        error=needed.std(-1, ddof=1) / np.sqrt(repeats),
        by_norms=threshold * (1.0 + norms) / 2.0,
        by_l4=own.mean + norms * (threshold - own.mean),
        by_moments=own.mean + own.std / static.std * (threshold - own.mean),
        seed=seed,
    )


# Figure 5 of the L4-norm paper: the threshold a sweeping neuron needs, and what predicts it.


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
