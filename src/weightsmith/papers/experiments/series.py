"""Does α tell more than norms? Small networks in five families, trained by us (heavy tails, all of its claims)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.statistics import rank_correlation
from weightsmith.core.sweep import SweepTable
from weightsmith.papers.claims import Claim, Finding, by_parts
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["EXPERIMENT", "MEASURES", "draw", "judge", "measure"]

MEASURES = ("alpha", "alpha_weighted", "alpha_hat_raw", "log_norm", "log_spectral_norm", "stable_rank")
"""The measures of a network."""
_NORM = "log_norm"

_BASE: Mapping[str, Any] = {
    "depth": 3,
    "width": 128,
    "rows": 5_000,
    "noise": 0.0,
    "rate": 0.02,
    "batch": 64,
    "decay": 0.0,
}
_FAMILIES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "size": {"width": (64, 96, 128, 192), "depth": (2, 3, 4)},
    "data": {"rows": (500, 1_000, 2_000, 5_000, 10_000, 20_000), "batch": (32, 128)},
    "noise": {"noise": (0.0, 0.1, 0.2, 0.3, 0.4, 0.6), "depth": (2, 3)},
    "rate": {"rate": (0.002, 0.005, 0.01, 0.02, 0.05, 0.1), "batch": (32, 128)},
    "decay": {"decay": (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2), "width": (96, 192)},
}


def measure(
    *,
    seed: int,
    data: str,
    path: str | Path | None,
    family: str,  # noqa: ARG001 (a label of the row)
    depth: int,
    width: int,
    rows: int,
    noise: float,
    rate: float,
    batch: int,
    decay: float,
    steps: int,
) -> dict[str, Any]:
    """One network, trained for the same number of steps as all others: its test error and its measures."""
    import dataclasses

    from weightsmith.core.seeds import stream
    from weightsmith.grading.grade import grade
    from weightsmith.networks.evaluating import evaluate
    from weightsmith.networks.models.mlp import Mlp
    from weightsmith.training.loop import train

    known = training_data(data, path, rows)
    assert known.train is not None
    x, y = known.train.x, known.train.y.clone()
    random = stream(seed, "label noise")
    wrong = random.permutation(len(y))[: round(noise * len(y))]
    y[wrong] = (y[wrong] + y.new_tensor(random.integers(1, 10, size=len(wrong)))) % 10
    noisy = dataclasses.replace(known, train=dataclasses.replace(known.train, x=x, y=y))
    epochs = max(1, round(steps / max(1, len(y) // batch)))
    network = Mlp((width,) * depth)
    penalty = (f"l2:{decay}",) if decay else ()
    run = train(
        network,
        noisy,
        optimiser="momentum",
        schedule=f"cosine:{rate}",
        batch=batch,
        epochs=epochs,
        seed=seed,
        penalties=penalty,
    )
    grades = grade(run.network, evidence="none", conv="pooled", normalise="none")
    found = {each.name: each.value for each in grades.measures}
    return {
        "error": 1 - evaluate(run.network, known, split="test").score.value,
        **{name: found.get(name) for name in MEASURES},
    }


def judge(table: SweepTable) -> Sequence[Finding]:
    """Kendall's τ with the test error: within families (mean), over all, and given the norm; intervals by family."""
    rows = [row for row in table.rows if all(row[name] is not None for name in MEASURES)]
    columns = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in ("error", *MEASURES)}
    families = np.array([row["family"] for row in rows])
    within = {name: _within(columns[name], columns["error"], families) for name in MEASURES}
    partial = _within_partial(columns["alpha_weighted"], columns["error"], columns[_NORM], families)
    overall = {name: rank_correlation(columns[name], columns["error"]) for name in MEASURES}
    text = "; ".join(
        f"{name.replace('_', ' ')} {within[name].mean():+.2f} within ({within[name].min():+.2f} to "
        f"{within[name].max():+.2f}), "
        f"{overall[name].value:+.2f} over all"
        for name in MEASURES
    )
    return [
        _judged(
            "alpha-error", within["alpha"], f"mean τ with the test error over {len(within['alpha'])} families: {text}"
        ),
        _judged(
            "alpha-hat-error", within["alpha_weighted"], "mean α·log λ_max, the form of α-hat that depth does not drive"
        ),
        _judged(
            "more-than-norms",
            partial,
            "partial τ of the same with the error given the log norm: what α-hat tells that the norm does not",
        ),
    ]


def _within(values: NDArray[np.float64], errors: NDArray[np.float64], families: NDArray[Any]) -> NDArray[np.float64]:
    return np.array(
        [rank_correlation(values[families == f], errors[families == f]).value for f in dict.fromkeys(families)]
    )


def _within_partial(
    values: NDArray[np.float64], errors: NDArray[np.float64], given: NDArray[np.float64], families: NDArray[Any]
) -> NDArray[np.float64]:
    """Kendall's partial τ within each family: (τ_xy − τ_xz τ_yz) / √((1 − τ_xz²)(1 − τ_yz²)), Kendall 1942."""
    found = []
    for family in dict.fromkeys(families):
        chosen = families == family
        x, y, z = values[chosen], errors[chosen], given[chosen]
        xy, xz, yz = (rank_correlation(a, b).value for a, b in ((x, y), (x, z), (y, z)))
        rest = (1 - xz**2) * (1 - yz**2)
        found.append((xy - xz * yz) / np.sqrt(rest) if rest > 1e-12 else 0.0)
    return np.array(found)


def _judged(claim: str, within: NDArray[np.float64], found: str) -> Finding:
    """Families are the unit: Student's interval over them decides."""
    from weightsmith.core.statistics import mean_interval
    from weightsmith.papers.claims import paired

    if len(within) < 2 or np.ptp(within) == 0:
        return by_parts(claim, [None], found, ours=f"τ = {within.mean():+.2f}", n=len(within))
    interval = mean_interval(within)
    part = True if interval.low > 0 else False if interval.high < 0 else None
    ours = f"τ = {interval.value:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})"
    return by_parts(claim, [part], found, ours=ours, n=len(within), p=paired(within, np.zeros_like(within)).p)


def draw(table: SweepTable) -> Figure:
    """Mean α against the test error, by family."""
    import dataclasses

    rows = tuple({**row, "error": round(100 * row["error"], 1)} for row in table.rows)
    return draw_lines(
        dataclasses.replace(table, rows=rows),
        x="error",
        y="alpha",
        line="family",
        names=("test error, %", "mean α"),
        log=True,
        joined=False,
    )


def _settings(most: int | None = None) -> tuple[dict[str, Any], ...]:
    from weightsmith.core.sweep import grid

    made = []
    for family, varied in _FAMILIES.items():
        several = [{"family": family, **_BASE, **setting} for setting in grid(**varied)]
        made += several[:most]
    return tuple(made)


EXPERIMENT = Experiment(
    name="series",
    document="heavy tails",
    says="The paper looks at production networks and finds that smaller α and α-hat go with better accuracy. Here "
    "five families "
    "of small networks are trained for the purpose, in each of which a few things are varied and everything else is "
    "kept.",
    claims=(
        Claim(
            "alpha-error",
            "abstract",
            "Smaller α goes with better generalisation.",
            "Kendall's τ of mean α with the test error within each family; Student's interval over families above 0",
        ),
        Claim(
            "alpha-hat-error",
            "results",
            "Smaller α-hat goes with better test accuracy.",
            "the same with the mean of α·log λ_max",
        ),
        Claim(
            "more-than-norms",
            "comparison with other metrics",
            "α-hat is more than a variation of the norms.",
            "Kendall's partial τ given the log norm, within each family; interval over families above 0",
        ),
    ),
    measure=measure,
    full=Settings(_settings(), data="fashion-mnist", all={"steps": 800}),
    quick=Settings(_settings(2), seeds=(0,), data="digits", all={"steps": 20}),
    judge=judge,
    shows=("error", *MEASURES),
    draw=draw,
    how="Each point is a setting, its mean over seeds; one colour for each family.",
    minutes=15.0,
)
