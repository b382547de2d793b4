"""Clipping by value and by norm where gradients explode, thresholds tuned (slides, gradient clipping)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import means, rows_of, train_row, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_CHANCE = 0.1
_THRESHOLDS = (0.001, 0.01, 0.1, 1.0)


def measure(
    *, seed: int, data: str, path: str | Path | None, clip: str, threshold: float, epochs: int
) -> dict[str, Any]:
    """An MLP of ten tanh layers with large initial weights and a high rate: gradients explode."""
    from weightsmith.networks.models.mlp import Mlp

    given = None if clip == "none" else f"{clip}:{threshold}"
    row = train_row(
        training_data(data, path),
        seed,
        network=Mlp((50,) * 10),
        optimiser="sgd",
        schedule="constant:0.5",
        batch=64,
        epochs=epochs,
        validation=0.2,
        clip=given,
    )
    return {**row, "failed": int(row["test_accuracy"] is None or row["test_accuracy"] < 2 * _CHANCE)}


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Tuned on validation rows, tested once; and the slides' own example."""
    tuned = {}
    for kind in ("value", "norm"):
        validated = means(table, "best_validation_accuracy", "threshold", clip=kind)
        best = max(validated, key=lambda threshold: validated[threshold])
        tuned[kind] = (best, values(table, "test_accuracy", _CHANCE, clip=kind, threshold=best))
    none = values(table, "test_accuracy", _CHANCE, clip="none")
    failed = sum(row["failed"] for row in rows_of(table, clip="none"))
    clipped = max(tuned.values(), key=lambda found: float(found[1].mean()))[1]
    either = paired(tuned["value"][1], tuned["norm"][1])
    return [
        by_parts(
            "example",
            _example(),
            "[0.9, 100] becomes [0.9, 1.0] by value and [0.00899964, 0.9999595] by norm",
            ours="equal to seven digits",
            n=4,
        ),
        by_interval(
            "remedy",
            paired(clipped, none),
            f"{failed} of {len(none)} runs without clipping fail to learn; tested accuracy of the best clipping "
            f"against none",
        ),
        by_parts(
            "both",
            [True if either.decided else None],
            f"best by value {tuned['value'][0]:g}: {100 * tuned['value'][1].mean():.1f} %, best by norm "
            f"{tuned['norm'][0]:g}: "
            f"{100 * tuned['norm'][1].mean():.1f} %; {100 * either.difference:+.2f} points between them",
            ours=f"{100 * either.difference:+.2f} points",
            n=either.n,
            p=either.p,
        ),
    ]


def _example() -> list[bool]:
    import torch

    from weightsmith.training.clipping import ClipNorm, ClipValue

    results = []
    for clip, wanted in ((ClipValue(1.0), (0.9, 1.0)), (ClipNorm(1.0), (0.00899964, 0.9999595))):
        gradient = torch.tensor([0.9, 100.0], dtype=torch.float64)
        clip(gradient, [gradient])
        results += [bool(abs(float(got) - want) < 5e-8) for got, want in zip(gradient, wanted, strict=True)]
    return results


def _draw(table: SweepTable) -> Figure:
    """Validation accuracy against the threshold."""
    return draw_lines(
        table,
        x="threshold",
        y="best_validation_accuracy",
        line="clip",
        names=("threshold", "validation accuracy, %"),
        scale=100,
        log=True,
    )


def _settings(thresholds: Sequence[float]) -> tuple[dict[str, Any], ...]:
    return (
        {"clip": "none", "threshold": float(np.median(thresholds))},
        *grid(clip=("value", "norm"), threshold=thresholds),
    )


EXPERIMENT = Experiment(
    name="clipping",
    document="training",
    says="Clipping keeps gradients in a range: by value (which changes their direction) or by norm (which does not, "
    "but may "
    "make small entries vanish). The slides advise to try both and to tune the threshold.",
    claims=(
        Claim(
            "example",
            "gradient clipping",
            "clipvalue = 1 and clipnorm = 1 transform [0.9, 100] as printed.",
            "both results equal the slides' to seven digits",
        ),
        Claim(
            "remedy",
            "gradient clipping",
            "Clipping handles exploding gradients.",
            "test accuracy of the best clipping above that without, beyond the interval",
        ),
        Claim(
            "both",
            "gradient clipping",
            "Both may have to be tried: which is better depends on the case.",
            "tuned value against tuned norm: a difference beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(_settings(_THRESHOLDS), data="fashion-mnist", all={"epochs": 5}),
    quick=Settings(_settings((0.01, 0.1)), seeds=(0, 1), data="digits", all={"epochs": 2}),
    judge=_judge,
    shows=("best_validation_accuracy", "test_accuracy", "failed"),
    draw=_draw,
    how="Mean over seeds with standard deviation; without clipping one point, in the middle.",
    minutes=6.0,
)
