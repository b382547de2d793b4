"""Batch norm's four advantages and its cost (slides): initial weights, rates, overfitting, time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import rows_of, train_row, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_CHANCE = 0.1
_INITIALISERS = ("he-normal", "glorot-uniform", "torch-default")
_RATES = (0.03, 0.1, 0.3, 1.0, 3.0)


def measure(
    *,
    seed: int,
    data: str,
    path: str | Path | None,
    batch_norm: bool,
    initialiser: str,
    rate: float,
    rows: int,
    epochs: int,
) -> dict[str, Any]:
    """An MLP of five layers, trained by plain gradient descent at a constant rate on few rows, so that it overfits."""
    norm = ",batch_norm=before" if batch_norm else ""
    return train_row(
        training_data(data, path, rows),
        seed,
        network=f"mlp:100,100,100,100,100,initialiser={initialiser}{norm}",
        optimiser="sgd",
        schedule=f"constant:{rate}",
        batch=64,
        epochs=epochs,
    )


def _judge(table: SweepTable) -> Sequence[Finding]:
    """With against without batch norm, pair by pair over seeds."""

    def accuracy(norm: bool, **setting: Any) -> Any:
        return values(table, "test_accuracy", _CHANCE, batch_norm=norm, **setting)

    usual = {"initialiser": "he-normal", "rate": 0.1}
    spreads = [
        np.ptp([accuracy(norm, initialiser=name, rate=0.1) for name in _INITIALISERS], axis=0) for norm in (True, False)
    ]
    rates = sorted({row["rate"] for row in table.rows})
    largest = [_largest(accuracy, norm, rates) for norm in (True, False)]
    best = paired(
        *(
            np.max([accuracy(norm, initialiser="he-normal", rate=rate) for rate in rates], axis=0)
            for norm in (True, False)
        )
    )
    gaps = [
        values(table, "train_accuracy", _CHANCE, batch_norm=norm, **usual) - accuracy(norm, **usual)
        for norm in (True, False)
    ]
    times = [min(row["cpu_seconds"] for row in rows_of(table, batch_norm=norm, **usual)) for norm in (True, False)]
    return [
        by_interval(
            "initial",
            paired(*spreads),
            f"over three initialisers accuracy moves by {100 * spreads[0].mean():.1f} points with batch norm and "
            f"{100 * spreads[1].mean():.1f} without",
            claimed=-1,
        ),
        by_parts(
            "rates",
            [largest[0] > largest[1]],
            "the largest rate within 2 points of the best is "
            f"{largest[0]:g} with batch norm and {largest[1]:g} without; tuned, {100 * best.difference:+.2f} points; "
            f"at rates of 1 and more {_diverged(table, True)} runs diverge with, {_diverged(table, False)} without",
            ours=f"{largest[0] / largest[1]:g} times the rate",
            n=best.n * len(rates),
        ),
        by_interval(
            "regulariser", paired(*gaps), "train minus test accuracy at the same rate, with against without", claimed=-1
        ),
        by_parts(
            "cost",
            [times[0] > 1.05 * times[1]],
            "CPU time of a training, with over without, best of the seeds",
            ours=f"{times[0] / times[1]:.2f} times",
            n=best.n,
        ),
    ]


def _diverged(table: SweepTable, norm: bool) -> str:
    """The number of runs at rates of 1 and more that have no accuracy, or at most chance accuracy."""
    runs = [row["test_accuracy"] for row in rows_of(table, batch_norm=norm) if row["rate"] >= 1]
    return f"{sum(found is None or found <= _CHANCE for found in runs)} of {len(runs)}"


def _largest(accuracy: Any, norm: bool, rates: Sequence[float]) -> float:
    """The largest rate whose mean accuracy is within two points of the best rate's."""
    means = {rate: accuracy(norm, initialiser="he-normal", rate=rate).mean() for rate in rates}
    return max(rate for rate, mean in means.items() if mean >= max(means.values()) - 0.02)


def _draw(table: SweepTable) -> Figure:
    """Test accuracy against the rate, with and without."""
    return draw_lines(
        table,
        x="rate",
        y="test_accuracy",
        line="batch_norm",
        names=("learning rate", "test accuracy, %"),
        scale=100,
        log=True,
        keep=lambda row: row["initialiser"] == "he-normal",
    )


def _settings(rates: Sequence[float]) -> tuple[dict[str, Any], ...]:
    return (
        *grid(initialiser=("he-normal",), rate=rates, batch_norm=(False, True)),
        *grid(initialiser=_INITIALISERS[1:], rate=(0.1,), batch_norm=(False, True)),
    )


EXPERIMENT = Experiment(
    name="batch-norm",
    document="training",
    says="Batch norm standardises the inputs of every layer within a batch. The slides name four advantages (vanishing "
    "gradients, initial weights, larger rates, regularisation) and the cost in time.",
    claims=(
        Claim(
            "initial",
            "batch norm, pros",
            "It makes networks much less sensitive to initial weights.",
            "spread of the test accuracy over three initialisers, smaller with batch norm beyond the interval",
        ),
        Claim(
            "rates",
            "batch norm, pros",
            "It allows training with much larger learning rates.",
            "largest rate within 2 points of the best one, larger with batch norm",
        ),
        Claim(
            "regulariser",
            "batch norm, pros",
            "It can act as a regulariser.",
            "train minus test accuracy, smaller with batch norm beyond the interval",
        ),
        Claim(
            "cost", "batch norm, cons", "It adds computational cost.", "CPU seconds of a training, more than 1.05 times"
        ),
    ),
    measure=measure,
    full=Settings(_settings(_RATES), seeds=range(8), data="fashion-mnist", all={"rows": 10_000, "epochs": 10}),
    quick=Settings(_settings((0.1, 1.0)), seeds=(0, 1), data="digits", all={"rows": 500, "epochs": 3}),
    judge=_judge,
    shows=("test_accuracy", "train_accuracy", "cpu_seconds"),
    draw=_draw,
    how="Mean over seeds with standard deviation; a run that diverged counts as chance.",
    minutes=8.0,
)
