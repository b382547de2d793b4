"""Why the variance of a membrane matters: the examples of Figures 1 to 5 of the L4-norm paper, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.trained import values
from weightsmith.papers.reproduction import Experiment, Settings

__all__ = ["EXPERIMENT", "measure"]


def measure(*, seed: int, figure: int, effort: float) -> dict[str, Any]:
    """Two numbers for each figure, described at the function that computes them."""
    first, second = (_figure1, _figure2, _figure3, _figure4, _figure5)[figure - 1](seed, effort)
    return {"first": first, "second": second}


def _figure1(seed: int, effort: float) -> tuple[float, float]:
    """The simulated variances of the two neurons."""
    from weightsmith.papers.theory.example import RATES, TAU, WEIGHTS
    from weightsmith.spiking.theory.simulation import simulate_shot_noise

    trials = int(200_000 * effort)
    drawn = [
        simulate_shot_noise([weight], [rate], TAU, 10 * TAU, trials=trials, seed=seed + 100 * place)
        for place, (weight, rate) in enumerate(zip(WEIGHTS, RATES, strict=True))
    ]
    return float(np.var(drawn[0])), float(np.var(drawn[1]))


def _figure2(seed: int, effort: float) -> tuple[float, float]:
    """The shares of the time that the two spend above the threshold."""
    from weightsmith.papers.theory.example import above_threshold

    found = above_threshold(trials=int(200_000 * effort), seed=seed)
    wide, narrow = found.above_simulated
    return wide, narrow


def _figure3(seed: int, effort: float) -> tuple[float, float]:
    """The border at the shortest and the longest input, in degrees beyond the midpoint."""
    from weightsmith.papers.theory.dominance import dominance

    found = dominance(duration=20_000 * effort, lengths=(0.6, 3.0), seed=seed)
    border = [found.midpoint if angle is None else angle for angle in found.border]
    return border[0] - found.midpoint, border[-1] - found.midpoint


def _figure4(_seed: int, _effort: float) -> tuple[float, float]:
    """The largest drift on the axes and the diagonal, and the smallest towards the axes elsewhere, in degrees."""
    from weightsmith.papers.theory.drift import angle_drift

    angles = np.linspace(0, 90, 91)
    drift = angle_drift(np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=-1))
    fixed = np.isin(angles, (0, 45, 90))
    towards_axis = np.where(angles < 45, -drift, drift)
    return float(np.abs(drift[fixed]).max()), float(towards_axis[~fixed].min())


def _figure5(seed: int, effort: float) -> tuple[float, float]:
    """The largest difference of the thresholds needed at two angles of equal L4 norm, and its standard error."""
    from weightsmith.papers.theory.threshold import threshold_sweep

    found = threshold_sweep(duration=4_000 * max(effort, 0.25), seed=seed)
    mirrored = np.abs(found.needed - found.needed[::-1])
    place = int(np.argmax(mirrored))
    return float(mirrored[place]), float(np.hypot(found.error[place], found.error[::-1][place]))


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each figure over the seeds."""
    pairs = {
        figure: (values(table, "first", figure=figure), values(table, "second", figure=figure))
        for figure in range(1, 6)
    }
    n = len(pairs[1][0])
    wide, narrow = pairs[2]
    short, long = pairs[3]
    apart, error = pairs[5]
    return [
        by_parts(
            "example",
            [bool(abs(pairs[1][0].mean() - 2) < 0.1), bool(abs(pairs[1][1].mean() - 1) < 0.1)],
            "two neurons with equal means have simulated variances of "
            f"{pairs[1][0].mean():.2f} and {pairs[1][1].mean():.2f}; the paper computes 2 and 1",
            ours=f"{pairs[1][0].mean():.2f} and {pairs[1][1].mean():.2f}",
            n=n,
        ),
        by_parts(
            "above",
            [bool((wide > narrow).all())],
            "above a threshold of twice the mean the one with the larger variance spends "
            f"{100 * wide.mean():.1f} % of the time, the other {100 * narrow.mean():.1f} %",
            ours=f"{wide.mean() / narrow.mean():.1f} times as often",
            n=n,
        ),
        by_parts(
            "dominates",
            [bool((short > 1).all()), bool((long > 1).all())],
            f"for weak input the border lies {short.mean():.0f}° beyond the midpoint, as the paper says; for strong "
            f"input it "
            f"does not ({long.mean():+.1f}°), because the mean is then above the threshold",
            ours=f"{short.mean():+.1f}° and {long.mean():+.1f}°",
            n=n,
        ),
        by_parts(
            "drift",
            [bool(pairs[4][0].max() < 1e-9), bool(pairs[4][1].min() > 0)],
            "squaring leaves the axes and the diagonal where they are and turns everything else towards an axis",
            ours="exact",
            n=91,
        ),
        by_parts(
            "hysteresis",
            [bool((apart > 4 * error).all())],
            "two weight vectors of the same L4 norm, mirrored at 45°, need thresholds that differ by up to "
            f"{apart.mean():.2f} (of 2, standard error {error.mean():.2f})",
            ours=f"{apart.mean():.2f} ± {error.mean():.2f}",
            n=n,
        ),
    ]


EXPERIMENT = Experiment(
    name="variance",
    document="L4 norm",
    says="Two neurons with the same mean potential fire differently if their variances differ. Figures 1 to 5 show "
    "this on "
    "small examples, and why no threshold that is the same for all inputs corrects it.",
    claims=(
        Claim(
            "example",
            "figure 1",
            "Two neurons of equal mean 2 have variances 2 and 1.",
            "simulated variances within 0.1",
        ),
        Claim(
            "above",
            "figure 2",
            "The one with the larger variance surpasses a threshold above the mean more often.",
            "the share of time above the threshold larger in every run",
        ),
        Claim(
            "dominates",
            "figure 3",
            "Of two neurons of equal length the one with the larger L4 norm dominates inputs closer to the other.",
            "the border more than 1° beyond the midpoint, for weak and for strong inputs",
        ),
        Claim(
            "drift",
            "figure 4",
            "Element-wise squares drift away from the ones vector towards the axes; axes and ones vector stay.",
            "no drift there, a positive one everywhere else",
        ),
        Claim(
            "hysteresis",
            "figure 5",
            "No single threshold that is independent of the input is completely right.",
            "weights of equal L4 norm need thresholds that differ by more than four standard errors",
        ),
    ),
    measure=measure,
    full=Settings(grid(figure=(1, 2, 3, 4, 5)), seeds=(0, 1, 2), all={"effort": 1.0}),
    quick=Settings(grid(figure=(1, 2, 3, 4, 5)), seeds=(0,), all={"effort": 0.05}),
    judge=_judge,
    shows=("first", "second"),
    minutes=2.0,
)
