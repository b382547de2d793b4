"""Figures 1 and 2 of the L4-norm paper: two neurons with the same mean potential that are not equally likely to fire.

Each has one input and τ = 1: the first rate 1 and weight 2, the second rate 2 and weight 1. Both means are 2, the
variances 2 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.options import check_int
from weightsmith.core.records import Record
from weightsmith.core.seeds import subseed
from weightsmith.reporting.figures.style import (
    BLUE,
    DASHED,
    DOTTED,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    blank_figure,
    grid,
    house_style,
    legend,
)
from weightsmith.spiking.theory.firing import poisson_train
from weightsmith.spiking.theory.potential import exceeds, shot_noise
from weightsmith.spiking.theory.simulation import simulate_shot_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = [
    "RATES",
    "TAU",
    "WEIGHTS",
    "AboveThreshold",
    "SameMean",
    "above_threshold",
    "draw_above_threshold",
    "draw_same_mean",
    "same_mean",
]


RATES, WEIGHTS, TAU = (1.0, 2.0), (2.0, 1.0), 1.0

_SETTLED = 20.0  # time constants after which the distance from the steady state is below e⁻²⁰
_LEVELS = 161


@dataclass(frozen=True, eq=False)
class SameMean(Record):
    """The data of Figure 1: input spikes of the two neurons, and mean and variance of their potentials over time.

    ``means`` and ``variances`` are (neurons, times) by eqs. 1 and 2; ``steady_means`` and ``steady_variances`` are
    their limits. ``spikes`` are the times of one draw of each neuron's input.
    """

    rates: tuple[float, ...]
    weights: tuple[float, ...]
    tau: float
    times: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    steady_means: tuple[float, ...]
    steady_variances: tuple[float, ...]
    spikes: tuple[NDArray[np.float64], ...]
    seed: int


@dataclass(frozen=True, eq=False)
class AboveThreshold(Record):
    """The data of Figure 2: potentials over time, how they are distributed, and how often they are above a threshold.

    ``paths`` are (neurons, times), one draw each. ``simulated``, ``lognormal`` and ``normal`` are (neurons, levels):
    the probability to be above each of ``levels`` in the steady state, by simulation of ``trials`` potentials and by
    the two approximations; ``above_…`` are the same at ``threshold``.
    """

    rates: tuple[float, ...]
    weights: tuple[float, ...]
    tau: float
    threshold: float
    means: tuple[float, ...]
    variances: tuple[float, ...]
    times: NDArray[np.float64]
    paths: NDArray[np.float64]
    levels: NDArray[np.float64]
    simulated: NDArray[np.float64]
    lognormal: NDArray[np.float64]
    normal: NDArray[np.float64]
    above_simulated: tuple[float, ...]
    above_lognormal: tuple[float, ...]
    above_normal: tuple[float, ...]
    trials: int
    seed: int


def same_mean(*, duration: float = 6.0, points: int = 121, seed: int = 0) -> SameMean:
    """Figure 1: mean and variance of the two potentials from 0 to ``duration``, and one draw of their input spikes.

    The two neurons are the paper's; the duration is ours.

    >>> example = same_mean()
    >>> example.steady_means, example.steady_variances
    ((2.0, 2.0), (2.0, 1.0))
    """
    times = np.linspace(0.0, _checked_duration(duration), check_int("points", points))
    moments, steady = shot_noise(*_columns(), TAU, times), shot_noise(*_columns(), TAU)
    trains = [poisson_train([rate], duration, subseed(seed, "same mean", i)) for i, rate in enumerate(RATES)]
    return SameMean(
        rates=RATES,
        weights=WEIGHTS,
        tau=TAU,
        times=times,
        means=moments.mean,
        variances=moments.variance,
        steady_means=tuple(steady.mean.tolist()),
        steady_variances=tuple(steady.variance.tolist()),
        spikes=tuple(np.cumsum(train.intervals) for train in trains),
        seed=seed,
    )


def above_threshold(
    *, threshold: float = 4.0, duration: float = 30.0, points: int = 3001, trials: int = 200_000, seed: int = 0
) -> AboveThreshold:
    """Figure 2: paths of the two potentials, their distributions, and how often each is above ``threshold``.

    The paper names no threshold but says that it lies above the mean; 4 is twice the mean.
    """
    steady = shot_noise(*_columns(), TAU)
    times = np.linspace(0.0, _checked_duration(duration), check_int("points", points))
    levels = np.linspace(0.0, max(8.0, 1.25 * threshold), _LEVELS)
    paths, drawn = np.empty((2, times.size)), []
    for index, neuron in enumerate(zip(WEIGHTS, RATES, strict=True)):
        weight, rate = ([value] for value in neuron)
        seeds = subseed(seed, "path", index), subseed(seed, "settled", index)
        paths[index] = simulate_shot_noise(weight, rate, TAU, times, trials=1, seed=seeds[0])
        settled = simulate_shot_noise(weight, rate, TAU, _SETTLED * TAU, trials=trials, seed=seeds[1])
        drawn.append(np.sort(settled))
    mean, variance = steady.mean[:, None], steady.variance[:, None]
    at = np.array([threshold])
    return AboveThreshold(
        rates=RATES,
        weights=WEIGHTS,
        tau=TAU,
        threshold=float(threshold),
        means=tuple(steady.mean.tolist()),
        variances=tuple(steady.variance.tolist()),
        times=times,
        paths=paths,
        levels=levels,
        simulated=np.stack([_shares(potentials, levels) for potentials in drawn]),
        lognormal=exceeds(levels, mean, variance),
        normal=exceeds(levels, mean, variance, "normal"),
        above_simulated=tuple(float(_shares(potentials, at)[0]) for potentials in drawn),
        above_lognormal=tuple(exceeds(threshold, *steady).tolist()),
        above_normal=tuple(exceeds(threshold, *steady, "normal").tolist()),
        trials=trials,
        seed=seed,
    )


def _columns() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights and rates as columns: two neurons of one input each."""
    return np.array(WEIGHTS)[:, None], np.array(RATES)[:, None]


def _shares(ordered: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of the ordered values that lie above each level."""
    return 1.0 - np.searchsorted(ordered, levels, side="right") / ordered.size


def _checked_duration(duration: float) -> float:
    if not 0 < duration < np.inf:
        raise UsageError(f"duration must be > 0 and finite, not {duration!r}")
    return float(duration)


# Figures 1 and 2 of the L4-norm paper: two neurons with one mean and two variances.


_NEURONS = (ORANGE, BLUE)
_THRESHOLD: dict[str, Any] = {"color": PURPLE, "linewidth": 1.1, "linestyle": (0, (6, 2, 1, 2))}
_COARSER = 4  # levels of the record in one bin of the histogram


def draw_same_mean(example: SameMean) -> Figure:
    """Figure 1: what each input spike adds (above), and mean and spread of the potential that follows (below)."""
    with house_style():
        figure, axes = grid(6.5, 3.6, 2, 2, height_ratios=(1, 2), sharex=True, sharey="row")
        top = max(float(np.max(means + np.sqrt(variances))) for means, variances in _pairs(example))
        for column, (means, variances) in enumerate(_pairs(example)):
            (above, below), colour = axes[:, column], _NEURONS[column]
            rate, weight = example.rates[column], example.weights[column]
            spikes, spread = example.spikes[column], np.sqrt(variances)
            above.vlines(spikes, 0, weight, color=colour, linewidth=1.2)
            above.set_title(f"Neuron {column + 1}: rate λ = {rate:g}, weight w = {weight:g}")
            below.fill_between(example.times, means - spread, means + spread, color=colour, alpha=0.2, linewidth=0)
            below.plot(example.times, means, color=colour)
            steady = example.steady_means[column], example.steady_variances[column]
            text = f"steady state: mean {steady[0]:.3g}, variance {steady[1]:.3g}"
            below.text(0.97, 0.05, text, transform=below.transAxes, ha="right", color=colour)
            below.set_xlabel("time (τ = 1)" if example.tau == 1 else f"time (τ = {example.tau:g})")
        axes[0, 0].set_ylim(0, 1.2 * max(example.weights))
        axes[0, 0].set_ylabel("added by\na spike")
        axes[1, 0].set_ylabel("potential: mean ± std")
        axes[1, 0].set_ylim(0, 1.08 * top)
        axes[1, 0].set_xlim(0, example.times[-1])
        figure.align_ylabels()
    return figure


def draw_above_threshold(example: AboveThreshold) -> Figure:
    """Figure 2: a path of each neuron, its distribution beside it, and how often it is above each level."""
    with house_style():
        figure = blank_figure(7.6, 4.2)
        axes = figure.subplot_mosaic(
            [["path 0", "share 0", "tail"], ["path 1", "share 1", "tail"]], width_ratios=(2.2, 0.9, 2.0)
        )
        highest = 1.05 * max(example.threshold, float(example.paths.max()))
        for index, colour in enumerate(_NEURONS):
            path, share = axes[f"path {index}"], axes[f"share {index}"]
            path.plot(example.times, example.paths[index], color=colour, linewidth=0.8)
            path.axhline(example.means[index], color=GREY, linewidth=1.0)
            path.set_title(
                f"λ = {example.rates[index]:g}, w = {example.weights[index]:g}: "
                f"mean {example.means[index]:g}, variance {example.variances[index]:g}"
            )
            path.set_ylabel("potential")
            path.set_xlim(0, example.times[-1])
            _draw_shares(share, example, index, colour)
            for one in (path, share):
                one.set_ylim(0, highest)
                one.axhline(example.threshold, **_THRESHOLD)
        widest = max(axes[f"share {index}"].get_xlim()[1] for index in range(2))
        for index in range(2):
            axes[f"share {index}"].set_xlim(0, widest)
            axes[f"share {index}"].tick_params(labelleft=False, labelbottom=index == 1)
        axes["path 0"].tick_params(labelbottom=False)
        axes["path 1"].set_xlabel(f"time (τ = {example.tau:g})")
        axes["share 1"].set_xlabel("density")
        _draw_tails(axes["tail"], example)
        legend(
            figure,
            [
                {"label": f"threshold {example.threshold:g}", **_THRESHOLD},
                {"color": GREY, "linewidth": 1.0, "label": "mean"},
                {"color": INK, "label": f"simulated, {example.trials:,} potentials"},
                {"color": INK, "linestyle": DASHED, "linewidth": 1.0, "label": "lognormal"},
                {"color": INK, "linestyle": DOTTED, "linewidth": 1.0, "label": "normal"},
            ],
        )
    return figure


def _draw_shares(axes: Axes, example: AboveThreshold, index: int, colour: str) -> None:
    """The distribution on its side: differences of the shares above each level."""
    levels = example.levels[::_COARSER]
    share = -np.diff(example.simulated[index][::_COARSER]) / np.diff(levels)
    axes.stairs(share, levels, orientation="horizontal", fill=True, color=colour, alpha=0.35)
    widths = np.diff(example.levels)
    density = -np.diff(example.lognormal[index]) / widths
    axes.plot(density, example.levels[:-1] + widths / 2, color=INK, linewidth=1.0, linestyle=DASHED)


def _draw_tails(axes: Axes, example: AboveThreshold) -> None:
    """The probability to be above each level, on a logarithmic scale down to the resolution of the trials."""
    least = 20 / example.trials
    for index, colour in enumerate(_NEURONS):
        for values, style, width in (
            (example.simulated, "-", 1.5),
            (example.lognormal, DASHED, 1.0),
            (example.normal, DOTTED, 1.0),
        ):
            shown = values[index] >= least
            axes.plot(example.levels[shown], values[index][shown], color=colour, linestyle=style, linewidth=width)
        axes.plot(example.threshold, example.above_simulated[index], "o", color=colour, markersize=4)
        side: dict[str, Any] = {"textcoords": "offset points", "color": colour, "fontsize": 7}
        above = index == 0
        axes.annotate(
            f"{100 * example.above_simulated[index]:.1f} %",
            (example.threshold, example.above_simulated[index]),
            xytext=(5, 4) if above else (-5, -4),
            ha="left" if above else "right",
            va="bottom" if above else "top",
            **side,
        )
    axes.axvline(example.threshold, **_THRESHOLD)
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_ylim(least, 1.3)
    axes.set_xlim(0, example.levels[-1])
    axes.set_xlabel("level")
    axes.set_title("P(potential > level)")


def _pairs(example: SameMean) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    return list(zip(example.means, example.variances, strict=True))
