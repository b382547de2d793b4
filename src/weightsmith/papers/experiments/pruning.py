"""Distinctiveness pruning and genetic search on networks of 20 to 500 units (pruning: tables 1, 3, figures 1 to 5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.statistics import Comparison
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_LITERAL = "merge=outputs,complementary=remove"
_METHODS = {
    "a15": f"angles:15,{_LITERAL}",
    "a45": f"angles:45,{_LITERAL}",
    "g0": "genetic:0",
    "g50": "genetic:50",
}


def measure(*, seed: int, data: str, path: str | Path | None, hidden: int, epochs: int, folds: int) -> dict[str, Any]:
    """Stratified folds; every network is trained once and reduced by the four methods the paper compares.

    Units left and test accuracies, means over the folds, with random masks of equal size beside them.
    """
    from weightsmith.papers.study.study import reduction_study

    study = reduction_study(
        training_data(data, path),
        hidden=[hidden],
        methods=list(_METHODS.values()),
        epochs=epochs,
        folds=folds,
        repeats=1,
        seed=seed,
        random=10,
        scratch=False,
    )
    whole, *others = study.summaries
    row: dict[str, Any] = {"accuracy": whole.test_accuracy / 100}
    for name, found in zip(_METHODS, others, strict=True):
        row[f"{name}_units"] = found.units
        row[f"{name}_accuracy"] = found.test_accuracy / 100
        row[f"{name}_random"] = None if found.random_accuracy is None else found.random_accuracy / 100
    return row


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Sizes by counting, accuracies pair by pair over sizes and seeds."""
    found = {each.claim: each for each in (*_sizes(table), *_accuracies(table))}
    return [found[claim.name] for claim in EXPERIMENT.claims]


def _sizes(table: SweepTable) -> Sequence[Finding]:
    """The number of units each method leaves."""
    sizes = sorted({row["hidden"] for row in table.rows})
    left = {
        name: {hidden: float(values(table, f"{name}_units", hidden=hidden).mean()) for hidden in sizes}
        for name in _METHODS
    }
    small = [left["a15"][hidden] / hidden for hidden in sizes if hidden <= 100]
    final = [left["a45"][hidden] for hidden in sizes if hidden >= 50]
    removed = [1 - left["g50"][hidden] / hidden for hidden in sizes]
    hundred = 1 - left["a45"].get(100, sizes[-1]) / 100
    n, grows = len(table.rows), final == sorted(final) and final[-1] > 1.2 * final[0]
    return [
        by_parts(
            "fifteen",
            [bool(share > 0.97) for share in small],
            f"15° leaves {100 * min(small):.1f} to {100 * max(small):.1f} % of up to 100 units",
            ours=f"{100 * np.mean(small):.1f} % left",
            n=n,
        ),
        by_parts(
            "same-size",
            [bool(15 <= count <= 35) for count in final],
            "45° leaves "
            + ", ".join(f"{left['a45'][hidden]:.0f} of {hidden}" for hidden in sizes)
            + (": the size it ends with grows with the size it begins with" if grows else ""),
            ours=f"{min(final):.0f} to {max(final):.0f} units",
            n=n,
        ),
        by_parts(
            "seventy-two",
            [bool(abs(hundred - 0.72) < 0.05)] if 100 in sizes else [None],
            "units that 45° removes from a layer of 100",
            ours=f"{100 * hundred:.0f} %",
            n=n,
        ),
        by_parts(
            "sixty",
            [bool(share > 0.6) for share in removed],
            f"λ = 50 removes {100 * min(removed):.0f} to {100 * max(removed):.0f} %",
            ours=f"{100 * np.mean(removed):.0f} %",
            n=n,
        ),
    ]


def _accuracies(table: SweepTable) -> Sequence[Finding]:
    """What each method does to the accuracy, and whether random masks of the same size do as well."""

    def change(name: str, against: str = "accuracy") -> Comparison:
        return paired(values(table, f"{name}_accuracy"), values(table, against))

    return [
        by_interval(
            "loses-one", change("a45"), "test accuracy after 45° against the whole network", claimed=1, least=-0.02
        ),
        by_interval(
            "gains-fifty", change("g50"), "test accuracy after the search with λ = 50 against the whole network"
        ),
        by_interval("gains-zero", change("g0"), "test accuracy after the search with λ = 0 against the whole network"),
        by_interval(
            "search",
            change("g50", "g50_random"),
            "genetic search with λ = 50 against random masks of as many units (the paper has no such baseline); "
            f"λ = 0: {worded(change('g0', 'g0_random'))}",
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Share of units left against units at the start, for the four methods."""
    names = {"a15": "15°", "a45": "45°", "g0": "λ = 0", "g50": "λ = 50"}
    rows = tuple(
        {
            "hidden": row["hidden"],
            "method": label,
            "seed": row["seed"],
            "left": 100 * row[f"{name}_units"] / row["hidden"],
        }
        for name, label in names.items()
        for row in table.rows
    )
    long = dataclasses.replace(
        table, names=("hidden", "method"), columns=("hidden", "method", "seed", "left"), rows=rows
    )
    return draw_lines(long, x="hidden", y="left", line="method", names=("units before", "units left, %"), log=True)


EXPERIMENT = Experiment(
    name="pruning",
    document="pruning",
    says="A network of one hidden layer is reduced after training: units whose activations point within an angle of "
    "each "
    "other are merged or removed, or a genetic search chooses the units to keep. The paper uses facial expressions; "
    "here it "
    "is run on data that everybody has.",
    claims=(
        Claim("fifteen", "table 3", "15° has almost no effect on networks of up to 100 units.", "more than 97 % left"),
        Claim(
            "same-size",
            "figure 5",
            "45° reduces every network to 20 to 30 units, whatever its size.",
            "15 to 35 units left, from 50 units on",
        ),
        Claim("seventy-two", "figure 2", "45° removes 72 % of 100 units.", "within 5 points"),
        Claim(
            "loses-one",
            "abstract",
            "45° costs about 1 % of accuracy.",
            "a loss of less than 2 points, beyond the interval",
        ),
        Claim(
            "sixty", "abstract", "λ = 50 removes more than 60 % at all sizes.", "more than 60 % removed at each size"
        ),
        Claim("gains-fifty", "abstract", "λ = 50 raises the accuracy by 1 %.", "above 0 beyond the interval"),
        Claim("gains-zero", "abstract", "λ = 0 raises the accuracy by 2 %.", "above 0 beyond the interval"),
        Claim(
            "search",
            "section 3.3",
            "Genetic search finds a good combination of units.",
            "better than random masks of equal size, beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(grid(hidden=(20, 50, 100, 200, 500)), data="digits", all={"epochs": 40, "folds": 10}),
    quick=Settings(grid(hidden=(20, 100)), seeds=(0, 1), data="digits", all={"epochs": 3, "folds": 2}),
    judge=_judge,
    shows=(
        "accuracy",
        "a15_units",
        "a45_units",
        "a45_accuracy",
        "g0_units",
        "g0_accuracy",
        "g50_units",
        "g50_accuracy",
    ),
    draw=_draw,
    how="A method that ends at one size whatever the network began with would fall as one over the size.",
    minutes=4.0,
)
