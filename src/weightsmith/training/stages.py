"""The stages of transfer learning on one cut of the base (frozen, then with its top blocks free), and the remedies.

The frozen layers follow from the cut and the stage alone and are set whenever a stage begins, so a resumed run freezes
the same layers.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.records import Record
from weightsmith.core.seeds import torch_stream
from weightsmith.core.statistics import Comparison, Interval, mcnemar, wilson
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.grafting import graft, reused
from weightsmith.networks.evaluation import scores
from weightsmith.networks.models.activations import Activation, Relu
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.networks.models.initialisers import initialise
from weightsmith.training.freezing import freeze, frozen, unfreeze
from weightsmith.training.loop import train
from weightsmith.training.run import TrainRecord
from weightsmith.training.schedules import Schedule

__all__ = ["ByData", "Drop", "Remedy", "Replace", "ReusedPart", "TransferRecipe", "TransferStage", "Tried", "scaled"]


@dataclasses.dataclass(frozen=True, eq=False)
class TransferStage(Record):
    """One training of the recipe: the frozen parameters, and the result on the validation images.

    ``accuracy`` has a Wilson interval; ``gain`` compares, image by image (McNemar), with the best stage before.
    """

    name: str
    reuse: int
    fresh: int
    unfrozen: int
    frozen: tuple[str, ...]
    accuracy: Interval
    gain: Comparison | None
    training: TrainRecord


@dataclasses.dataclass(frozen=True)
class Tried:
    """A stage with its network and the validation images it gets right."""

    stage: TransferStage
    network: nn.Module
    right: NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class TransferRecipe:
    """The settings common to all stages; ``unfreeze`` None frees every block of the base."""

    base: nn.Module
    data: Data
    top: Mapping[str, Any]
    unfreeze: int | None
    schedule: Schedule
    finer: float
    epochs: tuple[int, int]
    seed: int
    out: Path | None
    options: Mapping[str, Any]

    def graft(self, cut: ReusedPart) -> nn.Module:
        """The cut base with its new head, its fresh blocks initialised."""
        network = graft(
            self.base, self.data.input_shape, self.data.classes, reuse=cut.reuse, seed=self.seed, **self.top
        )
        generator = torch_stream(self.seed, "fresh blocks", cut.fresh)
        architecture = architecture_of(network)
        activation: Activation = Relu() if architecture is None else architecture.activation_option
        for block in reused(network)[cut.taken :]:
            for layer in block.layers:
                initialise(network.get_submodule(layer), activation.initialiser, generator)
        return network

    def stages(self, cut: ReusedPart, before: tuple[Tried, ...] = ()) -> Iterator[Tried]:
        """Train with the base frozen, then with its top blocks free; ``before`` are the results of other cuts."""
        first = self.stage(self.graft(cut), cut, 0, before)
        yield first
        count = cut.taken if self.unfreeze is None else min(self.unfreeze, cut.taken)
        if count:
            yield self.stage(first.network, cut, count, (*before, first))

    def stage(self, network: nn.Module, cut: ReusedPart, unfrozen: int, before: tuple[Tried, ...] = ()) -> Tried:
        """Train a copy of ``network`` with the top ``unfrozen`` blocks of the base free and the lower ones frozen."""
        freeze(network, "base")
        for block in reused(network)[cut.taken - unfrozen :]:
            unfreeze(network, block.layers)
        frozen_names = frozen(network)
        number, kind = len(before) + 1, "unfrozen" if unfrozen else "frozen"
        run = train(
            network,
            self.data,
            schedule=scaled(self.schedule, self.finer) if unfrozen else self.schedule,
            epochs=self.epochs[bool(unfrozen)],
            normalise=card_of(network).normalisation,
            seed=self.seed,
            out=None if self.out is None else self.out / f"{number}-{kind}",
            **self.options,
        )
        right = self._right(run.network)
        best = max(before, key=lambda tried: int(tried.right.sum()), default=None)
        stage = TransferStage(
            name=_name(cut, unfrozen),
            reuse=cut.reuse,
            fresh=cut.fresh,
            unfrozen=unfrozen,
            frozen=frozen_names,
            accuracy=wilson(int(right.sum()), len(right)),
            gain=None if best is None else mcnemar(right, best.right),
            training=run.record,
        )
        return Tried(stage, run.network, right)

    def _right(self, network: nn.Module) -> NDArray[np.bool_]:
        part = self.data.split("validation")
        chosen = {name: self.options[name] for name in ("device", "threads") if name in self.options}
        answers = scores(network, part.x, **chosen)
        # An output that is not finite is wrong, even if its largest value is right.
        right: NDArray[np.bool_] = ((answers.argmax(1) == part.y) & answers.isfinite().all(1)).numpy()
        return right


def scaled(schedule: Schedule, factor: float) -> Schedule:
    """The schedule with all its rates multiplied.

    >>> str(scaled(Schedule.parse("warm-up:100,cosine:0.5"), 0.1))
    'warm-up:100,cosine:0.05'
    """
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(schedule):
        value = getattr(schedule, field.name)
        if field.name in ("rate", "least"):
            changes[field.name] = value * factor
        elif field.name == "rates":
            changes[field.name] = tuple(rate * factor for rate in value)
        elif field.name == "then":
            changes[field.name] = str(scaled(Schedule.parse(value), factor))
    if not changes:
        raise UsageError(f"the schedule {schedule} has no rate that could be reduced for the unfrozen stage")
    return dataclasses.replace(schedule, **changes)


def _name(cut: ReusedPart, unfrozen: int) -> str:
    words = [f"{cut.fresh} fresh"] if cut.fresh else []
    return ", ".join([f"top {unfrozen} unfrozen" if unfrozen else "frozen", *words])


# Remedies when transfer did not help: drop or reinitialise the top blocks of the base.
#
# The slides (seed 002): if freezing and unfreezing "do not produce an accurate DNN", then with too little data drop
# the top hidden layers and repeat; otherwise replace them rather than drop them. A dropped block is removed; a replaced
# one stays in place, but its weights are re-initialised and trained together with the head.
#
# >>> Drop().after(ReusedPart(10), images=100), Replace(layers=2).after(ReusedPart(10), images=5000)
# (ReusedPart(reuse=9, fresh=0), ReusedPart(reuse=10, fresh=2))
# >>> [ByData(enough=500).after(ReusedPart(10), images) for images in (100, 5000)]
# [ReusedPart(reuse=9, fresh=0), ReusedPart(reuse=10, fresh=1)]


@dataclass(frozen=True)
class ReusedPart:
    """The reused part of the base: ``reuse`` blocks, the top ``fresh`` of them re-initialised."""

    reuse: int
    fresh: int = 0

    @property
    def taken(self) -> int:
        """The blocks whose weights come from the base."""
        return self.reuse - self.fresh


class Remedy(Option):
    """The family of remedies."""

    layers: int = param(default=1, ge=1, doc="top blocks that are dropped or replaced each time", kw_only=True)
    rounds: int = param(default=1, ge=1, doc="number of rounds at most", kw_only=True)

    @abstractmethod
    def drops(self, images: float) -> bool:
        """Whether blocks are dropped (else replaced) with that many training images per class."""

    def after(self, cut: ReusedPart, images: float) -> ReusedPart | None:
        """The part to try after ``cut``; None if no block of the base would be left."""
        if cut.taken <= self.layers:
            return None
        return (
            ReusedPart(cut.reuse - self.layers, 0)
            if self.drops(images)
            else ReusedPart(cut.reuse, cut.fresh + self.layers)
        )


class Drop(Remedy, name="drop"):
    """Drop the top blocks: fewer weights, for little data."""

    def drops(self, images: float) -> bool:
        """Always."""
        del images
        return True


class Replace(Remedy, name="replace"):
    """Replace the weights of the top blocks: as many weights as before, for enough data."""

    def drops(self, images: float) -> bool:
        """Never."""
        del images
        return False


class ByData(Remedy, name="by-data"):
    """Drop with fewer than ``enough`` training images per class, else replace.

    The slides do not say how much data is sufficient; 500 images per class is what CIFAR-100 has.
    """

    enough: float = param(default=500.0, gt=0, doc="training images per class from which blocks are replaced")

    def drops(self, images: float) -> bool:
        """With fewer than ``enough``."""
        return images < self.enough
