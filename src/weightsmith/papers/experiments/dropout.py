"""Dropout: where, how much, beside bagging, and what its passes say about certainty (slides)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["EXPERIMENT", "measure"]

_PLACES = {
    "none": "",
    "last": ",dropout={rate},dropout_layers=1",
    "last three": ",dropout={rate},dropout_layers=3",
    "input too": ",dropout={rate},dropout_layers=3,input_dropout={rate}",
    "bagging": "",
}
_MEMBERS, _BINS = 5, 15


def measure(
    *, seed: int, data: str, path: str | Path | None, place: str, rate: float, rows: int, epochs: int, passes: int
) -> dict[str, Any]:
    """A wide MLP on few rows, trained until it overfits; bagging averages five networks, each on a bootstrap sample."""
    import torch

    from weightsmith.core.seeds import stream, subseed
    from weightsmith.networks.evaluation import scores
    from weightsmith.training.loop import train
    from weightsmith.training.montecarlo import monte_carlo

    known = training_data(data, path, rows)
    assert known.train is not None
    assert known.test is not None
    network = "mlp:300,300,300" + _PLACES[place].format(rate=rate)
    options: dict[str, Any] = {"optimiser": "momentum", "schedule": "constant:0.05", "batch": 64, "epochs": epochs}
    if place == "bagging":
        outputs = []
        for member in range(_MEMBERS):
            drawn = stream(seed, f"bag {member}").integers(len(known.train), size=len(known.train))
            bag = (known.train.x[drawn], known.train.y[drawn])
            sample = train(network, bag, seed=subseed(seed, "bag", member), **options)
            outputs.append(torch.softmax(scores(sample.network, known.test.x), 1))
        mean = torch.stack(outputs).mean(0).double().numpy()
        gap = mc = None
    else:
        run = train(network, known, seed=seed, **options)
        mean = torch.softmax(scores(run.network, known.test.x), 1).double().numpy()
        gap = run.history.rows[-1].train_accuracy
        mc = monte_carlo(run.network, known.test.x, passes=passes, seed=seed).probabilities if place != "none" else None
    right = np.asarray(known.test.y)
    accuracy = float(np.mean(mean.argmax(1) == right))
    return {
        "test_accuracy": accuracy,
        "train_accuracy": gap,
        "calibration": _calibration(mean, right),
        "calibration_passes": None if mc is None else _calibration(mc, right),
        "accuracy_passes": None if mc is None else float(np.mean(mc.argmax(1) == right)),
    }


def _calibration(probabilities: NDArray[np.float64], right: NDArray[Any]) -> float:
    """Expected calibration error: the mean over bins of |accuracy − confidence|, weighted (Guo et al. 2017)."""
    sure, correct = probabilities.max(1), probabilities.argmax(1) == right
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    gaps = [
        abs(correct[bins == b].mean() - sure[bins == b].mean()) * np.mean(bins == b)
        for b in range(_BINS)
        if np.any(bins == b)
    ]
    return float(np.sum(gaps))


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each placement at its best rate (by test accuracy: the places are compared on equal terms, not a rate chosen)."""

    def best(place: str) -> NDArray[np.float64]:
        rates = sorted({row["rate"] for row in table.rows if row["place"] == place})
        return max(
            (values(table, "test_accuracy", place=place, rate=rate) for rate in rates),
            key=lambda found: float(found.mean()),
        )

    none, bagged = best("none"), best("bagging")
    places = {place: best(place) for place in ("last", "last three", "input too")}
    rates = sorted({row["rate"] for row in table.rows if row["place"] == "last three"})
    gaps = [
        values(table, "train_accuracy", place="last three", rate=max(rates))
        - values(table, "test_accuracy", place="last three", rate=max(rates)),
        values(table, "train_accuracy", place="none") - none,
    ]
    passes = [row for row in table.rows if row["calibration_passes"] is not None]
    calibrated = paired([row["calibration_passes"] for row in passes], [row["calibration"] for row in passes])
    more, alike = paired(places["last three"], places["last"]), paired(places["last three"], bagged)
    return [
        by_interval(
            "overfitting",
            paired(*gaps),
            f"train minus test accuracy with a rate of {max(rates):g} against none",
            claimed=-1,
        ),
        by_interval(
            "accuracy",
            paired(places["last three"], none),
            "test accuracy with dropout on the last three layers, best rate, against none",
        ),
        by_interval(
            "places",
            paired(places["last three"], places["input too"]),
            "last three layers against all of them and the input; one layer against three: "
            f"{100 * -more.difference:+.2f} points",
        ),
        by_parts(
            "bagging",
            [None if not alike.decided else False],
            f"bagging of {_MEMBERS} networks gains {100 * (bagged - none).mean():+.2f} points over one network, "
            f"dropout "
            f"{100 * (places['last three'] - none).mean():+.2f}",
            ours=worded(alike),
            n=alike.n,
            p=alike.p,
        ),
        by_interval(
            "passes",
            calibrated,
            "expected calibration error of the mean over passes with dropout on against one pass without",
            claimed=-1,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy against the rate, by place."""
    return draw_lines(
        table, x="rate", y="test_accuracy", line="place", names=("dropout rate", "test accuracy, %"), scale=100
    )


def _settings(rates: Sequence[float]) -> tuple[dict[str, Any], ...]:
    return (
        {"place": "none", "rate": 0.0},
        {"place": "bagging", "rate": 0.0},
        *grid(place=("last", "last three", "input too"), rate=rates),
    )


EXPERIMENT = Experiment(
    name="dropout",
    document="training",
    says="Dropout ignores every unit with a probability of 10 to 50 % during training. It is said to prevent "
    "overfitting, to "
    "act like bagging, and to be used on the last one to three hidden layers.",
    claims=(
        Claim(
            "overfitting",
            "dropout",
            "Dropout handles overfitting.",
            "train minus test accuracy, smaller than without, beyond the interval",
        ),
        Claim(
            "accuracy",
            "dropout",
            "A network with dropout generalises better.",
            "test accuracy above that without, beyond the interval",
        ),
        Claim(
            "places",
            "dropout, good practice",
            "It is best used on the last three to the last one hidden layer.",
            "last three layers above all layers and the input, each at its best rate, beyond the interval",
        ),
        Claim(
            "bagging",
            "dropout, why it works",
            "It acts like bagging.",
            "dropout against five bagged networks: a difference beyond the interval speaks against it, none proves "
            "nothing",
        ),
        Claim(
            "passes",
            "further reading",
            "Averaging many passes with dropout on gives better predictions.",
            "expected calibration error smaller, beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(
        _settings((0.1, 0.3, 0.5)),
        seeds=range(8),
        data="fashion-mnist",
        all={"rows": 5_000, "epochs": 20, "passes": 20},
    ),
    quick=Settings(_settings((0.2,)), seeds=(0, 1), data="digits", all={"rows": 300, "epochs": 5, "passes": 5}),
    judge=_judge,
    shows=("test_accuracy", "train_accuracy", "calibration", "calibration_passes"),
    draw=_draw,
    how="Mean over seeds with standard deviation.",
    minutes=15.0,
)
