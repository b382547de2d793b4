"""Is a trained base worth it, and how much of it should be unfrozen (slides, transfer learning)?

From ResNet-20 trained on CIFAR-10 to twenty classes of CIFAR-100 and to Fashion-MNIST, 1,000 training images each.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, combined, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.networks import network_of
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.data.datasets import Data
    from weightsmith.data.tensors import Split
    from weightsmith.training.stages import TransferRecipe, Tried

__all__ = ["EXPERIMENT", "measure"]

_RATE, _SCRATCH, _FINER = 0.05, 0.03, 0.3
_EVERY = 5  # of the classes of CIFAR-100
_TOP = {"top 1": 1, "top 2": 2}
_ARMS = ("scratch", "frozen", "top 1", "top 2", "all")


@dataclasses.dataclass(frozen=True)
class _Task:
    """The data shared by the arms of one seed; ``blocks`` is the number of blocks of the base."""

    name: str
    path: str | Path | None
    base: str
    blocks: int
    augment: str | None
    images: tuple[int, int, int]
    epochs: int
    seed: int


def measure(
    *,
    seed: int,
    path: str | Path | None = None,
    task: str,
    arm: str,
    base: str,
    blocks: int,
    augment: str | None,
    images: Sequence[int],
    epochs: int,
) -> dict[str, Any]:
    """One arm: same network, images, augmentation and seed; ``images`` train, validate and test.

    *scratch* initialises all weights and trains three times ``epochs`` with a cosine schedule; *frozen* trains only the
    head; *top 1*, *top 2*, *all* continue from it at 0.3 of the rate with that many blocks unfrozen.
    """
    from weightsmith.networks import scores

    train, validate, test = images
    chosen = _Task(task, path, base, blocks, augment, (train, validate, test), epochs, seed)
    tried = _tried(chosen, arm)
    tested = _data(chosen).split("test")
    right = (scores(tried.network, tested.x).argmax(1) == tested.y).double().mean()
    return {"test_accuracy": float(right)}


def _tried(task: _Task, arm: str) -> Tried:
    from weightsmith.training.stages import ReusedPart

    if arm == "frozen":
        return _frozen(task)
    if arm == "scratch":
        recipe = _recipe(task, f"cosine:{_SCRATCH}", (3 * task.epochs, 1))
        cut = ReusedPart(task.blocks, task.blocks)
        return recipe.stage(recipe.graft(cut), cut, 0)
    recipe = _recipe(task, f"constant:{_RATE}", (task.epochs, task.epochs))
    first = _frozen(task)
    return recipe.stage(first.network, ReusedPart(task.blocks), _TOP.get(arm, task.blocks), (first,))


@functools.lru_cache(maxsize=2)
def _frozen(task: _Task) -> Tried:
    from weightsmith.training.stages import ReusedPart

    recipe, cut = _recipe(task, f"constant:{_RATE}", (task.epochs, task.epochs)), ReusedPart(task.blocks)
    return recipe.stage(recipe.graft(cut), cut, 0)


def _recipe(task: _Task, rate: str, epochs: tuple[int, int]) -> TransferRecipe:
    from weightsmith.training.schedules import Schedule
    from weightsmith.training.stages import TransferRecipe

    base, options = network_of(task.base, task.path), {"augment": task.augment, "diagnose": False}
    return TransferRecipe(base, _data(task), {}, None, Schedule.parse(rate), _FINER, epochs, task.seed, None, options)


@functools.lru_cache(maxsize=2)
def _drawn(name: str, path: str | Path | None, images: tuple[int, int, int]) -> Data:
    """A fixed stratified draw of training, validation and test images; of CIFAR-100 every fifth class."""
    from weightsmith.data.splits import stratified_split

    data = training_data(name, path)
    if name == "cifar100":
        parts = {split: _fifth(data.split(split)) for split in ("train", "test")}
        data = dataclasses.replace(data, classes=data.classes[::_EVERY], **parts)  # type: ignore[arg-type]
    train, test = data.split("train"), data.split("test")
    rest = len(train) - images[0] - images[1]
    first, second, _ = stratified_split(train.y, (*images[:2], rest), seed=0)
    few = (
        stratified_split(test.y, (images[2], len(test) - images[2]), seed=0)[0]
        if len(test) > images[2]
        else slice(None)
    )
    return dataclasses.replace(data, train=train.take(first), validation=train.take(second), test=test.take(few))


def _data(task: _Task) -> Data:
    return _drawn(task.name, task.path, task.images)


def _fifth(split: Split) -> Split:
    from weightsmith.data.tensors import Split as Rows

    taken = split.take(np.flatnonzero(split.y.numpy() % _EVERY == 0))
    return Rows(taken.x, taken.y // _EVERY)


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Paired over seeds, separately for each data set."""
    tasks = list(dict.fromkeys(row["task"] for row in table.rows))

    def finding(claim: str, arm: str, other: str, about: str) -> Finding:
        compared = {
            task: paired(
                values(table, "test_accuracy", task=task, arm=arm),
                values(table, "test_accuracy", task=task, arm=other),
            )
            for task in tasks
        }
        text = ", ".join(f"{task} {worded(found)}" for task, found in compared.items())
        return combined(
            claim, [by_interval(claim, found, "") for found in compared.values()], f"{about}: {text}", ours=text
        )

    return [
        finding("less-data", "top 2", "scratch", "two blocks unfrozen against the same network from scratch"),
        finding("unfreeze", "top 2", "frozen", "two blocks unfrozen at a reduced rate against the head alone"),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy of every arm, a panel for each data set."""
    return draw_lines(
        table,
        x="arm",
        y="test_accuracy",
        line="task",
        panel="task",
        names=("", "test accuracy, %"),
        scale=100,
        joined=False,
    )


EXPERIMENT = Experiment(
    name="transfer",
    document="training",
    says="Reuse the lower layers of a network trained on similar data, train a new head with them frozen, then "
    "unfreeze one or two top layers at a reduced rate. This is said to need far less data.",
    claims=(
        Claim(
            "less-data",
            "transfer learning",
            "Transfer learning requires significantly less training data.",
            "above training from scratch on the same 1,000 images, beyond the interval over seeds, on both data sets",
        ),
        Claim(
            "unfreeze",
            "transfer learning",
            "Unfreeze one or two top layers at a reduced rate after the head.",
            "above the head alone, beyond the interval, on both data sets",
        ),
    ),
    measure=measure,
    full=Settings(
        grid(task=("cifar100", "fashion-mnist"), arm=_ARMS),
        data="weights",
        all={
            "base": "akamaster_resnet20",
            "blocks": 10,
            "augment": "crop-flip",
            "images": (1_000, 250, 2_000),
            "epochs": 10,
        },
    ),
    quick=Settings(
        grid(task=("digits",), arm=_ARMS[:4]),
        seeds=(0, 1),
        data="weights",
        all={"base": "mlp:30,30", "blocks": 2, "augment": None, "images": (150, 50, 200), "epochs": 2},
    ),
    judge=_judge,
    shows=("test_accuracy",),
    draw=_draw,
    how="Means over seeds with standard deviation; left twenty classes of CIFAR-100, right Fashion-MNIST.",
    notes=(
        "rates were chosen beforehand on validation images with another seed (0.03 from scratch, 0.05 for the head, "
        "0.3 of it when unfrozen)",
        "the rows were measured by an earlier script of the same stages, and taken over",
        "the training images are one fixed draw: how much another draw would change is not measured",
    ),
    minutes=40.0,
)
