"""Layers of a ResNet-20 before and after group regularisation (heavy tails, figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.networks import DISTILLER, graded
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_BEFORE, _AFTER = DISTILLER


def measure(*, seed: int, before: str, after: str, layer: int, path: str | Path | None = None) -> dict[str, Any]:
    """One layer of the two networks: λ_max, ‖W‖_F² and α; None if it was removed or cannot be fitted."""
    row: dict[str, Any] = {}
    for name, network, number in (("before", before, seed), ("after", after, seed + (after == before))):
        layers = graded(network, path, number).layers
        found = layers[layer] if layer < len(layers) else None
        metrics = None if found is None or found.metrics is None or found.metrics.lambda_max == 0 else found.metrics
        row[f"{name}_lambda_max"] = None if metrics is None else metrics.lambda_max
        row[f"{name}_norm"] = None if metrics is None else metrics.norm
        row[f"{name}_alpha"] = None if metrics is None or found is None else found.alpha
    return row


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Layers that are present in both networks, pair by pair."""

    def pairs(name: str) -> Any:
        both = [(row[f"before_{name}"], row[f"after_{name}"]) for row in table.rows]
        return np.array([pair for pair in both if None not in pair], dtype=np.float64)

    largest, norms, alphas = (pairs(name) for name in ("lambda_max", "norm", "alpha"))
    grown = int(np.sum(largest[:, 1] > largest[:, 0]))
    heavier = int(np.sum(norms[:, 1] > norms[:, 0]))
    change = paired(alphas[:, 1], alphas[:, 0])
    return [
        by_parts(
            "grows",
            [grown >= 2],
            f"λ_max is larger after regularisation in {grown} of {len(largest)} live layers, ‖W‖_F in {heavier}",
            ours=f"{grown} layers",
            n=len(largest),
        ),
        by_parts(
            "alpha-steady",
            [None if not change.decided else False],
            "a difference of α beyond the interval would speak against it; none was found, which proves no equality"
            if not change.decided
            else "α differs systematically between the two",
            ours=f"{change.difference:+.2f}"
            + ("" if change.interval is None else f" ({change.interval.low:+.2f} to {change.interval.high:+.2f})"),
            n=change.n,
            p=change.p,
        ),
        by_interval(
            "alpha-smaller",
            change,
            f"mean α is {alphas[:, 0].mean():.2f} in the baseline and {alphas[:, 1].mean():.2f} after: the paper's "
            f"remark is that "
            "the baseline's is smaller",
            unit="",
            scale=1.0,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """λ_max by layer, before."""
    return draw_lines(
        table, x="layer", y="after_lambda_max", line="after", names=("layer", "λ_max after regularisation")
    )


EXPERIMENT = Experiment(
    name="group-lasso",
    document="heavy tails",
    says="Group regularisation removes five layers of a ResNet-20 and lowers its accuracy a little, but raises the "
    "norms of "
    "remaining layers: norms then point the wrong way, while α is said not to.",
    claims=(
        Claim(
            "grows",
            "figure 4a",
            "λ_max of at least two layers grows.",
            "count of live layers whose λ_max grows, at least 2",
        ),
        Claim(
            "alpha-steady",
            "figure 4b",
            "α does not differ systematically.",
            "a paired difference beyond the interval speaks against it",
        ),
        Claim(
            "alpha-smaller",
            "after figure 4",
            "The baseline's mean α is smaller than the fine-tuned one's.",
            "α after minus before, above 0 beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(grid(before=(_BEFORE,), after=(_AFTER,), layer=tuple(range(22))), seeds=(0,), data="weights"),
    quick=Settings(grid(before=("mlp:64,64,64",), after=("mlp:64,64,64",), layer=(0, 1, 2)), seeds=(0,)),
    judge=_judge,
    shows=("before_lambda_max", "after_lambda_max", "before_norm", "after_norm", "before_alpha", "after_alpha"),
    draw=_draw,
    how="One point for each layer that was not removed.",
    minutes=0.5,
)
