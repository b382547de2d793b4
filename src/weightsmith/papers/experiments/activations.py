"""Six activations at three depths: the slides' order of preference, and ReLU's speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.statistics import rank_correlation
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import ACTIVATIONS, train_row, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_CHANCE = 0.1  # of ten classes: the accuracy assigned to a diverged run
_DEPTHS = (2, 5, 20)


def measure(
    *, seed: int, data: str, path: str | Path | None, activation: str, depth: int, epochs: int
) -> dict[str, Any]:
    """One MLP with the initial weights that match its activation, trained with momentum at a rate that suits all."""
    from weightsmith.networks.models.mlp import Mlp

    network = Mlp((100,) * depth, activation=activation)
    return train_row(
        training_data(data, path),
        seed,
        network=network,
        optimiser="momentum",
        schedule="cosine:0.02",
        batch=64,
        epochs=epochs,
    )


def _judge(table: SweepTable) -> Sequence[Finding]:
    """The order within each depth by rank correlation; the best of the slides against the worst; the time per run."""

    def accuracy(activation: str, depth: int) -> Any:
        return values(table, "test_accuracy", _CHANCE, activation=activation, depth=depth)

    depths = sorted({row["depth"] for row in table.rows})
    orders = {
        depth: rank_correlation(range(6), [-accuracy(name, depth).mean() for name in ACTIVATIONS]) for depth in depths
    }
    deepest = depths[-1]
    best = paired(accuracy("selu", deepest), accuracy("relu", deepest))
    saturating = paired(
        np.mean([accuracy(name, deepest) for name in ACTIVATIONS[:4]], axis=0),
        np.mean([accuracy(name, deepest) for name in ACTIVATIONS[4:]], axis=0),
    )
    shallow = depths[0]
    times = {name: values(table, "cpu_seconds", activation=name, depth=shallow) for name in ACTIVATIONS}
    others = np.min([found.min() for name, found in times.items() if name != "relu"])
    faster = float(others / times["relu"].min())
    taus = ", ".join(f"{depth} layers {found.value:+.2f}" for depth, found in orders.items())
    return [
        by_parts(
            "order",
            [None if found.p > 0.05 else found.value > 0 for found in orders.values()],
            f"Kendall's τ between the slides' order and ours: {taus}",
            ours=f"τ = {orders[deepest].value:+.2f} at {deepest} layers",
            n=6 * len(depths),
            p=min(found.p for found in orders.values()),
        ),
        by_interval("selu", best, f"SELU against ReLU at {deepest} layers, test accuracy", claimed=1),
        by_interval(
            "saturating",
            saturating,
            f"the four that do not saturate against tanh and sigmoid at {deepest} layers, mean test accuracy",
            claimed=1,
        ),
        by_parts(
            "relu-time",
            [True if faster > 1.05 else None],
            "CPU time of the fastest other activation over ReLU's, best of the runs; below 1.05 it counts as no "
            "difference",
            ours=f"{faster:.2f} times",
            n=len(times["relu"]),
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy against depth."""
    return draw_lines(
        table, x="depth", y="test_accuracy", line="activation", names=("hidden layers", "test accuracy, %"), scale=100
    )


EXPERIMENT = Experiment(
    name="activations",
    document="training",
    says="The slides sort activations by preference: SELU, ELU, leaky ReLU, ReLU, tanh, sigmoid. ReLU may still be "
    "the best "
    "choice where run time has priority.",
    claims=(
        Claim(
            "order",
            "comparing activations",
            "SELU > ELU > leaky ReLU > ReLU > tanh > sigmoid, in general.",
            "Kendall's τ with the order of the mean test accuracies, p < 0.05 at each depth",
        ),
        Claim(
            "selu",
            "comparing activations",
            "If run time has no priority, SELU could be the best choice.",
            "SELU above ReLU in the deepest network, beyond the interval",
        ),
        Claim(
            "saturating",
            "some popular activations",
            "Activations that do not saturate are better in deep networks.",
            "their mean above that of tanh and sigmoid in the deepest network",
        ),
        Claim(
            "relu-time",
            "comparing activations",
            "If run time has priority, ReLU could be the best choice.",
            "CPU seconds of a training, fastest of the others over ReLU's, more than 1.05",
        ),
    ),
    measure=measure,
    full=Settings(grid(activation=ACTIVATIONS, depth=_DEPTHS), data="fashion-mnist", all={"epochs": 5}),
    quick=Settings(grid(activation=ACTIVATIONS, depth=(2, 20)), seeds=(0, 1), data="digits", all={"epochs": 2}),
    judge=_judge,
    shows=("test_accuracy", "train_accuracy", "cpu_seconds"),
    draw=_draw,
    how="Each point is a mean over seeds with its standard deviation; a run that diverged counts as chance.",
    minutes=10.0,
)
