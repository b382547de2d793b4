"""Early stopping, sizes, and the stretch-pants approach: a large network with regularisation against small ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_WIDTHS, _DEPTHS = (10, 30, 100, 300), (1, 2, 5)


def measure(
    *, seed: int, data: str, path: str | Path | None, depth: int, width: int, regularised: bool, rows: int, epochs: int
) -> dict[str, Any]:
    """An MLP on few rows, with early stopping and dropout 0.3 or with neither; a fifth of the rows validates both."""
    from weightsmith.networks.models.mlp import Mlp
    from weightsmith.training.sweeping import train_once

    network = Mlp((width,) * depth, dropout=0.3 if regularised else 0.0)
    row = train_once(
        data=training_data(data, path, rows),
        seed=seed,
        network=network,
        optimiser="momentum",
        schedule="constant:0.02",
        batch=64,
        epochs=epochs,
        validation=0.2,
        stop="early:5" if regularised else None,
    )
    return {"epochs_run": row["epochs"], "test_accuracy": row["test_accuracy"], "train_accuracy": row["train_accuracy"]}


def _judge(table: SweepTable) -> Sequence[Finding]:
    """The largest regularised network against the rest; regularised against not; inside the usual sizes and outside."""

    def accuracy(depth: int, width: int, regularised: bool) -> Any:
        return values(table, "test_accuracy", 0.1, depth=depth, width=width, regularised=regularised)

    widths, depths = (sorted({row[name] for row in table.rows}) for name in ("width", "depth"))
    sizes = [(depth, width) for depth in depths for width in widths]
    stretch = accuracy(depths[-1], widths[-1], True)
    small = max(
        (accuracy(depth, width, False) for depth, width in sizes if width < widths[-1]),
        key=lambda found: float(found.mean()),
    )
    pairs = [(accuracy(*size, True), accuracy(*size, False)) for size in sizes]
    regular = paired(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    epochs = [values(table, "epochs_run", regularised=flag).mean() for flag in (True, False)]
    inside = max(float(accuracy(depth, width, False).mean()) for depth, width in sizes if width <= 100)
    outside = max(float(accuracy(depth, width, False).mean()) for depth, width in sizes if width > 100)
    return [
        by_interval(
            "stretch",
            paired(stretch, small),
            f"the largest network ({depths[-1]} × {widths[-1]}) with early stopping and dropout against the best "
            f"smaller one without",
        ),
        by_interval("regular", regular, "early stopping and dropout against neither, over all sizes and seeds"),
        by_parts(
            "epochs",
            [bool(epochs[0] < epochs[1])],
            f"early stopping ends after {epochs[0]:.0f} epochs on average, the full run has {epochs[1]:.0f}",
            ours=f"{epochs[0] / epochs[1]:.2f} of the epochs",
            n=len(table.rows),
        ),
        by_parts(
            "sizes",
            [bool(inside >= outside - 0.005)],
            f"best mean accuracy with 10 to 100 units a layer {100 * inside:.1f} %, with {widths[-1]} "
            f"units {100 * outside:.1f} %",
            ours=f"{100 * (inside - outside):+.2f} points",
            n=len(table.rows),
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy against the width, by depth."""
    return draw_lines(
        table,
        x="width",
        y="test_accuracy",
        line="depth",
        panel="regularised",
        names=("units in a layer", "test accuracy, %"),
        scale=100,
        log=True,
    )


EXPERIMENT = Experiment(
    name="stopping",
    document="training",
    says="Typical networks have 1 to 5 hidden layers of 10 to 100 units. Rather than search for the right size the "
    "slides "
    "take a larger one and regularise it by early stopping and dropout: the stretch-pants approach.",
    claims=(
        Claim(
            "stretch",
            "hidden layers",
            "A large network with early stopping and dropout does at least as well as one of the right size.",
            "the largest, regularised, above the best smaller one without, beyond the interval",
        ),
        Claim(
            "regular",
            "handling overfitting",
            "Early stopping and dropout handle overfitting.",
            "regularised above not, over all sizes, beyond the interval",
        ),
        Claim(
            "epochs",
            "early stopping",
            "Early stopping ends the training when the validation metric stops improving.",
            "fewer epochs on average than the full run",
        ),
        Claim(
            "sizes",
            "hidden layers",
            "Typically 10 to 100 units in a layer are enough.",
            "best mean accuracy at up to 100 units within half a point of the best at more",
        ),
    ),
    measure=measure,
    full=Settings(
        grid(depth=_DEPTHS, width=_WIDTHS, regularised=(False, True)),
        seeds=range(8),
        data="fashion-mnist",
        all={"rows": 3_000, "epochs": 30},
    ),
    quick=Settings(
        grid(depth=(1, 2), width=(10, 200), regularised=(False, True)),
        seeds=(0, 1),
        data="digits",
        all={"rows": 400, "epochs": 8},
    ),
    judge=_judge,
    shows=("test_accuracy", "train_accuracy", "epochs_run"),
    draw=_draw,
    how="Left without, right with early stopping and dropout; mean over seeds with standard deviation.",
    minutes=12.0,
)
