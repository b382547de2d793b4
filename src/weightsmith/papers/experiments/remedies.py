"""Drop, replace or add top layers, and whether a trained base needs fewer epochs (training, transfer learning)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.seeds import stream
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, Verdict, by_interval, combined, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.reuse import DISSIMILAR, NETWORK, SCRATCH, SIMILAR, classes_of, trained_base
from weightsmith.papers.experiments.trained import means, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from weightsmith.data.datasets import Data
    from weightsmith.training.run import History

__all__ = ["EXPERIMENT", "measure"]

_FEW, _MANY, _VALIDATED = 100, 1_000, 500
_BAR = 0.9
_ARMS = {  # blocks reused, blocks of them initialised again, widths of new hidden layers
    "kept": (3, 0, ()),
    "drop": (2, 0, ()),
    "replace": (3, 1, ()),
    "add": (3, 0, (128,)),
}
_HEAD, _FINER, _SCRATCH_RATES = 0.05, 0.3, (0.02, 0.05, 0.1)


def measure(
    *,
    seed: int,
    data: str,
    path: str | Path | None,
    base: str,
    arm: str,
    images: int,
    rate: float,
    rows: int,
    epochs: int,
    validated: int = _VALIDATED,
) -> dict[str, Any]:
    """A network for five classes, from the hidden layers of a base that knows the other five, or from scratch.

    First the head with the base frozen, then with its top two blocks free at 0.3 of the rate; the better of the two on
    validation images is tested. ``epochs_to`` counts epochs of both until 90 % of the validation images are right, one
    more than all if this is never reached.
    """
    from weightsmith.networks.evaluating import evaluate

    known = classes_of(training_data(data, path), range(5, 10))
    assert known.train is not None
    drawn = stream(seed, "images").permutation(len(known.train))
    parts = [drawn[:images], drawn[images : images + validated]]
    first, second = (known.train.take(np.sort(part).tolist()) for part in parts)
    task = dataclasses.replace(known, train=first, validation=second)
    if base == SCRATCH:
        network, histories = _from_scratch(task, seed, rate, 2 * epochs)
    else:
        network, histories = _transferred(
            trained_base(base, seed, data, path, rows), task, arm, seed=seed, rate=rate, epochs=epochs
        )
    curve = np.array([row.validation_accuracy for history in histories for row in history.rows])
    reached = np.flatnonzero(curve >= _BAR)
    return {
        "tested": evaluate(network, task, split="test").score.value,
        "validated": float(curve.max()),
        "epochs_to": int(reached[0]) + 1 if reached.size else 2 * epochs + 1,
    }


def _from_scratch(task: Data, seed: int, rate: float, epochs: int) -> tuple[nn.Module, list[History]]:
    from weightsmith.training.loop import train

    run = train(
        NETWORK,
        task,
        optimiser="momentum",
        schedule=f"constant:{rate}",
        batch=32,
        epochs=epochs,
        stop="best",
        diagnose=False,
        seed=seed,
    )
    return run.network, [run.history]


def _transferred(
    base: nn.Module, task: Data, arm: str, *, seed: int, rate: float, epochs: int
) -> tuple[nn.Module, list[History]]:
    from weightsmith.training.schedules import Constant
    from weightsmith.training.stages import ReusedPart, TransferRecipe

    reuse, fresh, head = _ARMS[arm]
    options = {"optimiser": "momentum", "batch": 32, "stop": "best", "diagnose": False}
    top = {"hidden": head}
    recipe = TransferRecipe(base, task, top, 2, Constant(rate), _FINER, (epochs, epochs), seed, None, options)
    stages = list(recipe.stages(ReusedPart(reuse, fresh)))
    best = max(stages, key=lambda tried: int(tried.right.sum()))
    return best.network, [tried.stage.training.history for tried in stages]


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Each remedy against all layers kept, on both bases; epochs to the accuracy against those from scratch."""

    def column(name: str, base: str, arm: str, images: int, rate: float = _HEAD) -> Any:
        return values(table, name, base=base, arm=arm, images=images, rate=rate)

    sizes = sorted({row["images"] for row in table.rows})
    tests, words = [], []
    for arm, images in (("drop", sizes[0]), ("replace", sizes[-1]), ("add", sizes[-1])):
        for base in (SIMILAR, DISSIMILAR):
            found = paired(column("tested", base, arm, images), column("tested", base, "kept", images))
            tests.append(by_interval("remedies", found, ""))
            words.append(f"{arm} ({images:,} images, {base}) {worded(found)}")
    alone = means(table, "epochs_to", "rate", base=SCRATCH, images=sizes[-1])
    quickest = min(alone, key=lambda rate: alone[rate])
    own = column("epochs_to", SIMILAR, "kept", sizes[-1])
    scratch = column("epochs_to", SCRATCH, SCRATCH, sizes[-1], quickest)
    return [
        combined(
            "remedies",
            tests,
            "against all hidden layers kept: " + ", ".join(words),
            ours=f"{sum(test.verdict is Verdict.HOLDS for test in tests)} of {len(tests)} above",
        ),
        by_interval(
            "faster",
            paired(own, scratch),
            f"epochs until {100 * _BAR:g} % of the validation images are right, {sizes[-1]:,} training images: "
            f"{own.mean():.1f} with the similar base, "
            f"{column('epochs_to', DISSIMILAR, 'kept', sizes[-1]).mean():.1f} with the dissimilar one, "
            f"{alone[quickest]:.1f} from scratch at the quickest of its rates ({quickest:g}); the similar base never "
            f"gets there in {int((column('validated', SIMILAR, 'kept', sizes[-1]) < _BAR).sum())} of {own.size} runs",
            claimed=-1,
            unit="epochs",
            scale=1.0,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy by remedy, a panel for each number of images."""
    return draw_lines(
        table,
        x="arm",
        y="tested",
        line="base",
        panel="images",
        names=("", "test accuracy, %"),
        scale=100,
        joined=False,
        keep=lambda row: row["rate"] == _HEAD,
    )


def _settings(images: Sequence[int]) -> tuple[dict[str, Any], ...]:
    return (
        *grid(base=(SIMILAR, DISSIMILAR), arm=tuple(_ARMS), images=images, rate=(_HEAD,)),
        *grid(base=(SCRATCH,), arm=(SCRATCH,), images=images, rate=_SCRATCH_RATES),
    )


EXPERIMENT = Experiment(
    name="remedies",
    document="training",
    says="Where a base with a new head is not accurate enough, the slides drop its top hidden layers if data are few, "
    "and replace them or add layers otherwise. Transfer learning is said to speed up training considerably.",
    claims=(
        Claim(
            "remedies",
            "transfer learning",
            "If that is not accurate enough, drop, replace or add top layers.",
            "above all layers kept beyond the interval: drop with 100 images, replace and add with 1,000, both bases",
        ),
        Claim(
            "faster",
            "transfer learning",
            "Transfer learning speeds up training.",
            "fewer epochs to 90 % of the validation images than from scratch at its quickest rate, beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(_settings((_FEW, _MANY)), seeds=range(6), data="fashion-mnist", all={"rows": 10_000, "epochs": 10}),
    quick=Settings(_settings((100,)), seeds=(0, 1), data="digits", all={"rows": 800, "epochs": 2, "validated": 100}),
    judge=_judge,
    shows=("tested", "validated", "epochs_to"),
    draw=_draw,
    how="All at a rate of 0.05; mean over seeds with standard deviation.",
    notes=(
        "500 validation images beside the training images choose between the stages and tell when 90 % are reached",
        "epochs with a frozen base take less time than others; the training of the base is not counted",
        "bases and networks are small MLPs; a network from scratch has the best of three rates, a base the one rate of "
        "0.05, and its hidden layers are frozen for the first ten epochs, as the slides say",
    ),
    minutes=3.0,
)
