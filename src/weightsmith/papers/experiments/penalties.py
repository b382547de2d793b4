"""What penalties on stable rank and on groups of weights do to accuracy, λ_max and α (heavy tails, after eq. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable
from weightsmith.papers.claims import Claim, Finding, by_interval, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_STRENGTHS = {"stable-rank": (1e-3, 1e-2, 1e-1), "group-lasso": (1e-4, 1e-3, 1e-2)}
_SETTINGS = (
    {"penalty": "none", "strength": 0.0},
    *({"penalty": name, "strength": value} for name, several in _STRENGTHS.items() for value in several),
)


def measure(
    *, seed: int, data: str, path: str | Path | None, penalty: str, strength: float, rows: int, epochs: int
) -> dict[str, Any]:
    """An MLP of three hidden layers on few rows: validated and tested accuracy, mean log λ_max and α of its layers."""
    from weightsmith.grading.grade import grade
    from weightsmith.networks.evaluating import evaluate
    from weightsmith.training.loop import train

    known = training_data(data, path, rows)
    run = train(
        "mlp:128,128,128",
        known,
        optimiser="momentum",
        schedule="cosine:0.02",
        batch=64,
        epochs=epochs,
        validation=0.2,
        stop=None,
        penalties=() if penalty == "none" else (f"{penalty}:{strength}",),
        diagnose=False,
        seed=seed,
    )
    layers = grade(run.network, evidence="none", conv="pooled", normalise="none").layers
    largest = [each.metrics.lambda_max for each in layers if each.metrics is not None and each.metrics.lambda_max > 0]
    alphas = [each.alpha for each in layers if each.alpha is not None]
    return {
        "validated": run.history.rows[-1].validation_accuracy,
        "tested": evaluate(run.network, known, split="test").score.value,
        "log_lambda_max": float(np.mean(np.log10(largest))),
        "alpha": float(np.mean(alphas)),
    }


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each penalty at the strength with the best validated mean, against none, paired over seeds."""

    def best(name: str) -> dict[str, Any]:
        strengths = sorted({row["strength"] for row in table.rows if row["penalty"] == name})
        mean = {each: values(table, "validated", 0.0, penalty=name, strength=each).mean() for each in strengths}
        return {"penalty": name, "strength": max(mean, key=lambda each: mean[each])}

    def change(column: str, setting: dict[str, Any]) -> Any:
        return paired(values(table, column, **setting), values(table, column, penalty="none"))

    stable, group = best("stable-rank"), best("group-lasso")
    strongest = {"penalty": "group-lasso", "strength": max(_STRENGTHS["group-lasso"])}
    return [
        by_interval(
            "stable-rank",
            change("tested", stable),
            f"tested accuracy with the strength that validated best ({stable['strength']:g}) against none; "
            f"α {worded(change('alpha', stable), '', 1)}, log λ_max {worded(change('log_lambda_max', stable), '', 1)}",
        ),
        by_interval(
            "group-lambda",
            change("log_lambda_max", strongest),
            f"mean log10 λ_max of the layers at strength {strongest['strength']:g} against none; tested accuracy at "
            f"the best strength ({group['strength']:g}) {worded(change('tested', group))}",
            unit="decades",
            scale=1.0,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy by strength."""
    return draw_lines(
        table,
        x="strength",
        y="tested",
        line="penalty",
        names=("strength", "test accuracy, %"),
        scale=100,
        log=True,
        keep=lambda row: row["strength"] > 0,
    )


EXPERIMENT = Experiment(
    name="penalties",
    document="heavy tails",
    says="The paper proposes a regulariser on the stable rank, to which α is related, and finds that group "
    "regularisation concentrates the weights of a network in fewer, larger ones.",
    claims=(
        Claim(
            "stable-rank",
            "after eq. 6",
            "A stable-rank regulariser improves training.",
            "tested accuracy at the best validated strength above that without, beyond the interval over seeds",
        ),
        Claim(
            "group-lambda",
            "after figure 4",
            "Group regularisation raises the norms of layers that remain.",
            "mean log λ_max at the largest strength above that without, beyond the interval over seeds",
        ),
    ),
    measure=measure,
    full=Settings(_SETTINGS, seeds=(0, 1, 2, 3, 4), data="fashion-mnist", all={"rows": 5_000, "epochs": 20}),
    quick=Settings(_SETTINGS, seeds=(0, 1), data="digits", all={"rows": 500, "epochs": 2}),
    judge=_judge,
    shows=("validated", "tested", "log_lambda_max", "alpha"),
    draw=_draw,
    how="Mean over seeds with standard deviation.",
    minutes=6.0,
)
