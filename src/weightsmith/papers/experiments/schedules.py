"""Schedules against a constant rate, each with its best of the same number of rates (slides, eqs. 1 to 4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, combined, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import means, train_row, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_CHANCE = 0.1
_KINDS = ("constant", "power", "exponential", "performance")
_RATES = (0.02, 0.05, 0.1, 0.2, 0.5)


def measure(
    *, seed: int, data: str, path: str | Path | None, schedule: str, rate: float, epochs: int
) -> dict[str, Any]:
    """The course's MLP with one of the slides' schedules; a fifth of the training rows chooses the rate."""
    text = {
        "constant": f"constant:{rate}",
        "power": f"power:{rate},s={epochs / 4},per=epoch",
        "exponential": f"exponential:{rate},s={epochs},per=epoch",
        "performance": f"plateau:{rate},factor=0.3,patience=1",
    }[schedule]
    return train_row(
        training_data(data, path),
        seed,
        network="mlp:100,100",
        optimiser="sgd",
        schedule=text,
        batch=64,
        epochs=epochs,
        validation=0.2,
    )


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each schedule at the rate that validates best, tested; and the algebra of eqs. 2 and 4."""
    chosen = {}
    for kind in _KINDS:
        validated = means(table, "best_validation_accuracy", "rate", schedule=kind)
        chosen[kind] = max(validated, key=lambda rate: validated[rate])
    tuned = {kind: values(table, "test_accuracy", _CHANCE, schedule=kind, rate=chosen[kind]) for kind in _KINDS}
    tests = {kind: paired(tuned[kind], tuned["constant"]) for kind in _KINDS[1:]}
    each = ", ".join(f"{kind} {worded(found)}" for kind, found in tests.items())
    edges = [kind for kind in _KINDS if chosen[kind] in (min(_RATES), max(_RATES))]
    findings = [by_interval(kind, found, "") for kind, found in tests.items()]
    ratios = _ratios()
    return [
        combined(
            "schedules",
            findings,
            f"against the best constant rate ({chosen['constant']:g}), each with the same five runs to choose its "
            f"rate: {each}" + (f"; the best rate of {', '.join(edges)} lies on the edge of the grid" if edges else ""),
            ours=worded(tests["power"]),
        ),
        by_parts(
            "power",
            ratios[0],
            "the ratio of the rates at (k + 1)·s and k·s is (k + 1)/(k + 2) and grows towards 1",
            ours="equal to 1e-12",
            n=len(ratios[0]),
        ),
        by_parts(
            "exponential",
            ratios[1],
            "the ratio is 0.1 at every k; the exponents printed in eq. 4 should be k + 1 and k, its result is right",
            ours="equal to 1e-12",
            n=len(ratios[1]),
        ),
    ]


def _ratios() -> tuple[list[bool], list[bool]]:
    from weightsmith.training.schedules import Exponential, Power, Span

    span, steps = Span(1000, 10), 10
    power, exponential = Power(0.1, s=steps), Exponential(0.1, s=steps)
    ratios = [
        [schedule.at((k + 1) * steps, span) / schedule.at(k * steps, span) for k in range(10)]
        for schedule in (power, exponential)
    ]
    return (
        [abs(ratio - (k + 1) / (k + 2)) < 1e-12 for k, ratio in enumerate(ratios[0])],
        [abs(ratio - 0.1) < 1e-12 for ratio in ratios[1]],
    )


def _draw(table: SweepTable) -> Figure:
    """Validation accuracy against the first rate."""
    return draw_lines(
        table,
        x="rate",
        y="best_validation_accuracy",
        line="schedule",
        names=("first rate", "validation accuracy, %"),
        scale=100,
        log=True,
    )


EXPERIMENT = Experiment(
    name="schedules",
    document="training",
    says="Instead of searching for one constant rate the slides recommend a schedule: power, exponential, or "
    "performance "
    "scheduling.",
    claims=(
        Claim(
            "schedules",
            "learning rate, good practice",
            "A schedule is better than a constant rate found by search.",
            "each schedule against the constant rate, both at their best validated rate: above beyond the interval",
        ),
        Claim(
            "power",
            "eqs. 1 and 2",
            "Under power scheduling the decrease becomes smaller as training progresses.",
            "ratios of the rates equal eq. 2",
        ),
        Claim(
            "exponential",
            "eqs. 3 and 4",
            "Under exponential scheduling the rate falls by a factor of 10 every s steps.",
            "ratios of the rates equal 0.1",
        ),
    ),
    measure=measure,
    full=Settings(grid(schedule=_KINDS, rate=_RATES), seeds=range(8), data="fashion-mnist", all={"epochs": 6}),
    quick=Settings(grid(schedule=_KINDS, rate=(0.02, 0.1)), seeds=(0, 1), data="digits", all={"epochs": 2}),
    judge=_judge,
    shows=("best_validation_accuracy", "test_accuracy", "cpu_seconds"),
    draw=_draw,
    how="Mean over seeds with standard deviation; the rate on the axis is the first one.",
    minutes=15.0,
)
