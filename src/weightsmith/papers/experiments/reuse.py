"""How many layers of a trained network can be reused, by how similar the new data are (training, transfer learning)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.seeds import stream
from weightsmith.core.statistics import mean_interval
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from torch import nn

    from weightsmith.data.datasets import Data

__all__ = ["DISSIMILAR", "EXPERIMENT", "NETWORK", "SCRATCH", "SIMILAR", "classes_of", "measure", "trained_base"]

SIMILAR, DISSIMILAR, SCRATCH = "other classes", "shuffled pixels", "from scratch"
"""Bases by their training data, and no base."""

NETWORK = "mlp:128,128,128"
"""The network of the bases, and of the one from scratch."""

_SETTINGS = (*grid(base=(SIMILAR, DISSIMILAR), reuse=(1, 2, 3)), {"base": SCRATCH, "reuse": 0})


def measure(
    *, seed: int, data: str, path: str | Path | None, base: str, reuse: int, images: int, rows: int, epochs: int
) -> dict[str, Any]:
    """A new head on the frozen first ``reuse`` layers of an MLP that was trained on similar or dissimilar images.

    The new task has ``images`` images of the last five classes. The similar base has learned the first five; the
    dissimilar one has learned these with the pixels of every image in another order, the same for all.
    """
    from weightsmith.networks.evaluating import evaluate
    from weightsmith.training.loop import train
    from weightsmith.training.transfer import transfer

    known = classes_of(training_data(data, path), range(5, 10))
    assert known.train is not None
    drawn = stream(seed, "images").permutation(len(known.train))[:images]
    task = dataclasses.replace(known, train=known.train.take(np.sort(drawn).tolist()))
    how: dict[str, Any] = {"optimiser": "momentum", "batch": 32, "validation": 0.2, "stop": None, "diagnose": False}
    if base == SCRATCH:
        network = train(NETWORK, task, schedule="constant:0.02", epochs=epochs, seed=seed, **how).network
    else:
        learned = trained_base(base, seed, data, path, rows)
        made = transfer(learned, task, reuse=reuse, unfreeze=0, rate="constant:0.02", epochs=epochs, seed=seed, **how)
        network = made.network
    return {"tested": evaluate(network, task, split="test").score.value}


def classes_of(data: Data, wanted: Sequence[int], order: NDArray[np.int64] | None = None) -> Data:
    """The rows of some classes, numbered from 0; with an order their pixels are rearranged."""
    places = {label: place for place, label in enumerate(wanted)}

    def part(split: Any) -> Any:
        kept = [row for row, label in enumerate(split.y.tolist()) if label in places]
        taken = split.take(kept)
        x = taken.x if order is None else taken.x.flatten(1)[:, order].reshape(taken.x.shape)
        return dataclasses.replace(taken, x=x, y=taken.y.new_tensor([places[label] for label in taken.y.tolist()]))

    names = tuple(str(label) for label in wanted)
    return dataclasses.replace(data, train=part(data.train), test=part(data.test), validation=None, classes=names)


@functools.lru_cache(maxsize=16)
def trained_base(base: str, seed: int, data: str, path: str | Path | None, rows: int) -> nn.Module:
    """An MLP that has learned the first five classes of the data."""
    from weightsmith.training.loop import train

    whole = training_data(data, path, rows)
    assert whole.train is not None
    pixels = whole.train.x[0].numel()
    order = stream(seed, "pixels").permutation(pixels) if base == DISSIMILAR else None
    return train(
        NETWORK,
        classes_of(whole, range(5), order),
        optimiser="momentum",
        schedule="cosine:0.02",
        batch=64,
        epochs=10,
        stop=None,
        diagnose=False,
        seed=seed,
    ).network


def _judge(table: SweepTable) -> Sequence[Finding]:
    """What two more layers cost, similar against dissimilar; all layers of the similar base against no base."""

    def tested(base: str, reuse: int) -> Any:
        return values(table, "tested", base=base, reuse=reuse)

    cost = {base: tested(base, 3) - tested(base, 1) for base in (SIMILAR, DISSIMILAR)}
    alone = tested(SCRATCH, 0)
    return [
        by_interval(
            "similar",
            paired(cost[SIMILAR], cost[DISSIMILAR]),
            f"three reused layers instead of one change the accuracy by {worded(mean_interval(cost[SIMILAR]))} "
            f"where the base knows other classes, and by {worded(mean_interval(cost[DISSIMILAR]))} where its pixels "
            "were shuffled",
        ),
        by_interval(
            "all-layers",
            paired(tested(SIMILAR, 3), alone),
            "a new output layer on all hidden layers of the similar base against the same network from scratch, on "
            f"the same images; shuffled pixels: {worded(paired(tested(DISSIMILAR, 3), alone))}",
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy against the number of layers reused."""
    return draw_lines(table, x="reuse", y="tested", line="base", names=("layers reused", "test accuracy, %"), scale=100)


EXPERIMENT = Experiment(
    name="reuse",
    document="training",
    says="In transfer learning the lower layers of a trained network are reused. The slides say how many: the more "
    "similar the data, the more of them.",
    claims=(
        Claim(
            "similar",
            "transfer learning",
            "The more similar the data, the more layers can be reused.",
            "change from one to three reused layers better for the similar base, beyond the interval over seeds",
        ),
        Claim(
            "all-layers",
            "transfer learning",
            "All hidden layers can be reused when the data are similar enough.",
            "above training from scratch on the same images, beyond the interval over seeds",
        ),
    ),
    measure=measure,
    full=Settings(
        _SETTINGS,
        seeds=(0, 1, 2, 3, 4),
        data="fashion-mnist",
        all={"images": 100, "rows": 10_000, "epochs": 30},
    ),
    quick=Settings(_SETTINGS, seeds=(0, 1), data="digits", all={"images": 100, "rows": 800, "epochs": 3}),
    judge=_judge,
    shows=("tested",),
    draw=_draw,
    how="100 images of five classes; mean over seeds with standard deviation.",
    minutes=3.0,
)
