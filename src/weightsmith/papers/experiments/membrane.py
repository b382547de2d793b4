"""Mean and variance of a membrane potential under Poisson input (L4 norm, eqs. 1 to 3), by simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_TAU = 1.0
_NEURONS = 200  # weight vectors whose deviations are compared with their norms
_LARGEST_Z = 4.0  # standard errors: exceeded by chance once in 16,000 values


def measure(*, seed: int, inputs: int, time: float, trials: int) -> dict[str, Any]:
    """Simulated mean and variance in standard errors from eqs. 1 and 2, and how closely norms follow the deviation.

    Weights are normal, three in four of them 0 for half of the neurons; rates are uniform. The deviations of eq. 2 over
    many such neurons are correlated with their L4 and their L2 norms.
    """
    from weightsmith.core.seeds import stream
    from weightsmith.spiking.theory.potential import shot_noise
    from weightsmith.spiking.theory.simulation import simulate_shot_noise

    random = stream(seed, "membrane")
    weights, rates = random.normal(size=inputs), random.uniform(0, 2, size=inputs)
    drawn = simulate_shot_noise(weights, rates, _TAU, time, trials=trials, seed=seed).ravel()
    wanted = shot_noise(weights, rates, _TAU, time)
    mean, variance = float(wanted.mean), float(wanted.variance)
    centred = drawn - mean
    error = np.sqrt((np.mean(centred**4) - variance**2) / trials)
    several = random.normal(size=(_NEURONS, inputs)) * np.where(
        np.arange(_NEURONS)[:, None] % 2, 1.0, random.uniform(size=(_NEURONS, inputs)) < 0.25
    )
    several = several[np.any(several != 0, axis=1)]
    deviations = np.sqrt(shot_noise(several, rates, _TAU, time).variance)
    return {
        "mean_z": float((drawn.mean() - mean) / np.sqrt(variance / trials)),
        "variance_z": float((np.mean(centred**2) - variance) / error),
        "l4_correlation": _correlation(np.sum(several**4, axis=1) ** 0.25, deviations),
        "l2_correlation": _correlation(np.sqrt(np.sum(several**2, axis=1)), deviations),
    }


def _correlation(a: Any, b: Any) -> float | None:
    return None if len(a) < 3 or np.ptp(a) == 0 else float(np.corrcoef(a, b)[0, 1])


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Eqs. 1 and 2 by standard errors; eq. 3's proportionality by correlation over neurons."""
    zs = {name: np.abs(values(table, name)) for name in ("mean_z", "variance_z")}
    several = max(row["inputs"] for row in table.rows)
    l4, l2 = (values(table, f"{norm}_correlation", inputs=several) for norm in ("l4", "l2"))
    return [
        *(
            by_parts(
                claim,
                [bool(found.max() < _LARGEST_Z)],
                f"simulated shot noise differs from the equation by {found.max():.1f} standard errors at the most",
                ours=f"{np.mean(found):.2f} standard errors on average",
                n=found.size,
            )
            for claim, found in zip(("mean", "variance"), zs.values(), strict=True)
        ),
        by_parts(
            "l4",
            [True, bool(l4.mean() > 0.99)],
            f"the deviation grows with the L4 norm, but is not proportional to it: it also depends on the input, and "
            f"over "
            f"{several} inputs the L2 norm follows it with a correlation of {l2.mean():.3f}",
            ours=f"correlation {l4.mean():.3f}",
            n=l4.size,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Correlation of the deviation with the L4 norm against the number of inputs."""
    return draw_lines(
        table,
        x="inputs",
        y="l4_correlation",
        line="time",
        names=("inputs of the neuron", "correlation of deviation and L4 norm"),
        log=True,
        keep=lambda row: row["inputs"] > 1,
    )


EXPERIMENT = Experiment(
    name="membrane",
    document="L4 norm",
    says="The membrane of a leaky neuron under Poisson spikes has a mean proportional to w·λ and a variance "
    "proportional to "
    "w²·λ. From this the paper takes its standard deviation for proportional to the L4 norm of the weights.",
    claims=(
        Claim("mean", "eq. 1", "E[V] = τ (w·λ)(1 − e^(−t/τ)).", "simulated means within four standard errors"),
        Claim(
            "variance", "eq. 2", "Var V = τ/2 (λ·w²)(1 − e^(−2t/τ)).", "simulated variances within four standard errors"
        ),
        Claim(
            "l4",
            "section 3.2, eq. 3",
            "The standard deviation is directly proportional to the L4 norm of the weights.",
            "correlation over neurons with one input vector: above 0.99 proportional, above 0 in part",
        ),
    ),
    measure=measure,
    full=Settings(grid(inputs=(1, 10, 100), time=(0.5, 1.0, 5.0)), seeds=range(5), all={"trials": 200_000}),
    quick=Settings(grid(inputs=(1, 10, 100), time=(0.5, 5.0)), seeds=(0, 1), all={"trials": 5_000}),
    judge=_judge,
    shows=("mean_z", "variance_z", "l4_correlation", "l2_correlation"),
    draw=_draw,
    how="A correlation of 1 would mean that the norm alone tells the deviation.",
    minutes=2.0,
)
