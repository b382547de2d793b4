"""The effect of single changes to a network on Fashion-MNIST and on CIFAR-10 (slides)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import means, train_row, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from weightsmith.core.statistics import Comparison

__all__ = ["EXPERIMENT", "measure"]

_CHANCE = 0.1
_NETWORK = "mlp:100,100,100"
_CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "sigmoid": {"network": f"{_NETWORK},activation=sigmoid"},
    "batch norm": {"network": f"{_NETWORK},batch_norm=before"},
    "schedule": {"schedule": "exponential:{rate},s={epochs},per=epoch"},
    "dropout": {"network": f"{_NETWORK},dropout=0.3"},
    "early stopping": {"stop": "early:3"},
}
_RATES = (0.02, 0.05)


def measure(
    *, seed: int, path: str | Path | None = None, task: str, change: str, rate: float, rows: int, epochs: int
) -> dict[str, Any]:
    """An MLP of three layers on few rows by momentum at a constant rate, with one change; a fifth of them validates."""
    given = {"network": _NETWORK, "schedule": "constant:{rate}", "stop": None, **_CHANGES[change]}
    schedule = given.pop("schedule").format(rate=rate, epochs=epochs)
    row = train_row(
        training_data(task, path, rows),
        seed,
        optimiser="momentum",
        schedule=schedule,
        batch=64,
        epochs=epochs,
        validation=0.2,
        **given,
    )
    gap = None if row["test_accuracy"] is None else row["train_accuracy"] - row["test_accuracy"]
    return {**{name: row[name] for name in ("test_accuracy", "best_validation_accuracy")}, "gap": gap}


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each change against none on both data sets: decided on both, and to the same side."""
    tasks = list(dict.fromkeys(row["task"] for row in table.rows))

    def best(task: str, change: str, column: str) -> NDArray[Any]:
        validated = means(table, "best_validation_accuracy", "rate", task=task, change=change)
        rate = max(validated, key=lambda each: validated[each])
        diverged = 0.0 if column == "gap" else _CHANCE
        return values(table, column, diverged, task=task, change=change, rate=rate)

    def finding(claim: str, change: str, about: str, column: str = "test_accuracy", sign: int = 1) -> Finding:
        found: dict[str, Comparison] = {}
        for task in tasks:
            pair = (best(task, change, column), best(task, "none", column))
            found[task] = paired(*pair[::sign])
        sides = [by_interval(claim, each, "").verdict.value for each in found.values()]
        decided = {"holds", "does not hold"} >= set(sides)
        each = ", ".join(f"{task} {worded(one)}" for task, one in found.items())
        if column == "gap":
            tested = [
                paired(best(task, change, "test_accuracy"), best(task, "none", "test_accuracy")) for task in tasks
            ]
            each += f"; test accuracy {' and '.join(map(worded, tested))}"
        return by_parts(
            claim,
            [len(set(sides)) == 1 if decided else None],
            f"{about}: {each}",
            ours=worded(found[tasks[-1]]),
            n=sum(one.n for one in found.values()),
            p=max((one.p for one in found.values() if one.p is not None), default=None),
        )

    return [
        finding("activations", "sigmoid", "test accuracy of ReLU against sigmoid", sign=-1),
        finding("batch-norm", "batch norm", "test accuracy with batch norm against without"),
        finding("schedules", "schedule", "test accuracy with an exponential schedule against a constant rate"),
        finding("dropout", "dropout", "train minus test accuracy with a dropout of 0.3 against without", "gap"),
        finding("stopping", "early stopping", "train minus test accuracy with early stopping against without", "gap"),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy by change, a panel for each data set."""
    return draw_lines(
        table,
        x="change",
        y="test_accuracy",
        line="rate",
        panel="task",
        names=("", "test accuracy, %"),
        scale=100,
        joined=False,
    )


def _claim(name: str, where: str, what: str) -> Claim:
    return Claim(
        name,
        where,
        f"What holds on Fashion-MNIST holds on CIFAR-10: {what}.",
        "the same comparison, each at its best validated rate: both intervals on the same side of 0",
    )


EXPERIMENT = Experiment(
    name="cifar10",
    document="training",
    says="The experiments on the slides' recommendations are run on Fashion-MNIST. Here one network is changed in one "
    "thing at a time on Fashion-MNIST and on the harder CIFAR-10.",
    claims=(
        _claim("activations", "some popular activations", "ReLU against sigmoid"),
        _claim("batch-norm", "batch norm, pros", "what batch norm does to the accuracy"),
        _claim("schedules", "learning rate, good practice", "a schedule against a constant rate"),
        _claim("dropout", "dropout", "what dropout does to overfitting"),
        _claim("stopping", "early stopping", "what early stopping does to overfitting"),
    ),
    measure=measure,
    full=Settings(
        grid(task=("fashion-mnist", "cifar10"), change=tuple(_CHANGES), rate=_RATES),
        seeds=range(5),
        data="weights",
        all={"rows": 1_000, "epochs": 10},
    ),
    quick=Settings(
        grid(task=("digits",), change=tuple(_CHANGES), rate=(0.05,)),
        seeds=(0, 1),
        data="weights",
        all={"rows": 300, "epochs": 3},
    ),
    judge=_judge,
    shows=("test_accuracy", "best_validation_accuracy", "gap"),
    draw=_draw,
    how="Means over seeds with standard deviation; a run that diverged counts as chance.",
    notes=(
        "800 training images and small networks: absolute accuracies are low, on CIFAR-10 above all",
        "two rates were tried, so that the better one always lies on the edge",
    ),
    minutes=1.5,
)
