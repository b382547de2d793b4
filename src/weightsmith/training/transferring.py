"""The work of a transfer: stages on one cut of the base after another, and advice."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from weightsmith.core.display import Displayed
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin, Record, write_record
from weightsmith.data.normalise import Normalisation
from weightsmith.data.targets import Kind
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.grafting import graft, reused
from weightsmith.networks.files import load, save
from weightsmith.training.freezing import unfreeze as unfreeze_all
from weightsmith.training.stages import ByData, Remedy, ReusedPart, TransferRecipe, TransferStage, Tried

__all__ = ["TransferRecord", "TransferRun", "base_network", "ready_data", "transferred"]

_VALIDATION = 0.2  # share of the training rows, where the data have no validation split
_LEVEL = 0.05  # p of McNemar's test below which a gain is not attributed to chance


@dataclasses.dataclass(frozen=True, eq=False)
class TransferRecord(Record):
    """All stages, the number of the best one (from 0), and advice."""

    stages: tuple[TransferStage, ...]
    best: int
    advice: tuple[str, ...]
    settings: dict[str, Any]
    network: str
    origin: Origin


@dataclasses.dataclass(frozen=True)
class TransferRun(Displayed):
    """The network of the best stage, and the record of all of them."""

    record: TransferRecord
    network: nn.Module

    @property
    def stages(self) -> tuple[TransferStage, ...]:
        """The stages in order."""
        return self.record.stages

    @property
    def best(self) -> TransferStage:
        """The stage whose network this is."""
        return self.record.stages[self.record.best]

    @property
    def advice(self) -> tuple[str, ...]:
        """The advice drawn from the stages."""
        return self.record.advice


def transferred(
    recipe: TransferRecipe, reuse: int | None, remedy: Remedy | None, accuracy: float | None
) -> TransferRun:
    """The stages of ``recipe`` on the first ``reuse`` blocks, with the ``remedy`` while ``accuracy`` is not reached."""
    settings = _settings(recipe) | {
        "reuse": reuse,
        "remedy": None if remedy is None else str(remedy),
        "accuracy": accuracy,
    }
    watched = {name: part.digest() for name, part in recipe.data.splits.items() if name != "test"}
    origin = Origin(recipe.seed, {"base": weights_digest(recipe.base), **watched})
    with contextlib.ExitStack() as stack:
        if recipe.out is not None:  # refuses the folder of another call, and a second process in this one
            call = {"settings": settings, **origin.to_dict()}
            stack.enter_context(Journal(recipe.out / "journal.jsonl", call))
        tried, advice = _follow(recipe, _first_cut(recipe, reuse), remedy, accuracy)
        return _finished(recipe, tried, advice, settings, origin)


def base_network(base: nn.Module | str | Path, normalise: str | Normalisation | None) -> nn.Module:
    """The network that is reused, with another normalisation in its card if one is given."""
    network = load(base) if isinstance(base, str | Path) else base
    if not isinstance(network, nn.Module):
        raise UsageError(f"the base is a module, a result that holds one, or a file, not {type(base).__name__}")
    if (chosen := Normalisation.of(normalise)) is None:
        return network
    network = copied(network)
    return with_card(network, dataclasses.replace(card_of(network), normalisation=chosen))


def ready_data(data: Data, fraction: float | None, seed: int) -> Data:
    """The data with names for their classes and with a validation split, the same for all stages."""
    if data.kind is not Kind.CLASSES:
        raise DataMismatch(f"{data.name} is {data.kind.value}: transfer compares right answers and needs classes")
    if not data.classes:
        count = 1 + max(int(part.y.max()) for part in data.splits.values())
        data = dataclasses.replace(data, classes=tuple(map(str, range(count))))
    if data.validation is None:
        return data.with_validation(_VALIDATION if fraction is None else fraction, seed)
    if fraction is not None:
        raise UsageError(f"{data.name} has a validation split already; leave validation={fraction:g} out")
    return data


def _first_cut(recipe: TransferRecipe, reuse: int | None) -> ReusedPart:
    """All reusable blocks, or the first ``reuse`` of them."""
    network = graft(recipe.base, recipe.data.input_shape, recipe.data.classes, reuse=reuse, **recipe.top)
    return ReusedPart(len(reused(network)))


def _follow(
    recipe: TransferRecipe, cut: ReusedPart, remedy: Remedy | None, accuracy: float | None
) -> tuple[list[Tried], list[str]]:
    """The recipe on one cut after another, until it helped or there is no remedy left."""
    tried: list[Tried] = []
    advice: list[str] = []
    images = len(recipe.data.split("train")) / len(recipe.data.classes)
    for left in range(0 if remedy is None else remedy.rounds, -1, -1):
        for one in recipe.stages(cut, tuple(tried)):
            tried.append(one)
            advice.append(_outcome(one.stage))
        gain = tried[-1].stage.gain
        helped = gain is None or gain.difference > 0
        best = tried[_best(tried)].stage.accuracy.value
        if helped if accuracy is None else best >= accuracy:
            break
        if accuracy is not None:
            advice.append(f"the best validation accuracy, {best:.1%}, is below the required {accuracy:.1%}")
        following = (remedy or ByData()).after(cut, images)
        advice.append(_step(cut, following, images, taken=left > 0))
        if following is None:
            break
        cut = following
    return tried, advice


def _best(tried: Sequence[Tried]) -> int:
    """The index of the best stage; among equal ones the first, which changed the base least."""
    return max(range(len(tried)), key=lambda index: (int(tried[index].right.sum()), -index))


def _outcome(stage: TransferStage) -> str:
    text = f"{stage.name} ({stage.reuse} blocks reused): {stage.accuracy.value:.1%} of the validation images are right"
    if stage.gain is None or stage.gain.p is None:
        return text
    points, chance = 100 * stage.gain.difference, f"p = {stage.gain.p:.2g}"
    if points <= 0:
        return f"{text}, which is no gain ({points:+.1f} points, {chance})"
    doubt = "" if stage.gain.p < _LEVEL else ", which may be chance"
    return f"{text}, {points:+.1f} points on the best before ({chance}{doubt})"


def _step(cut: ReusedPart, following: ReusedPart | None, images: float, *, taken: bool) -> str:
    """The next step, done or advised, after a cut that did not help."""
    if following is None:
        return "no block of the base would be left to drop or replace: its data may be too different from these"
    verb = "drop" if following.reuse < cut.reuse else "replace"
    count = (cut.reuse - following.reuse) or (following.fresh - cut.fresh)
    blocks = "the top block" if count == 1 else f"the top {count} blocks"
    why = f"with {images:.0f} training images per class"
    return f"{why} the remedy is to {verb} {blocks}{'' if taken else f'; remedy={verb!r} tries it'}"


def _settings(recipe: TransferRecipe) -> dict[str, Any]:
    """The settings of the transfer itself; those of training are in the record of each stage."""
    return {
        "data": recipe.data.name,
        **recipe.top,
        "hidden": list(recipe.top["hidden"]),
        "unfreeze": "all" if recipe.unfreeze is None else recipe.unfreeze,
        "rate": str(recipe.schedule),
        "finer": recipe.finer,
        "epochs": list(recipe.epochs),
    }


def _finished(
    recipe: TransferRecipe, tried: Sequence[Tried], advice: Sequence[str], settings: dict[str, Any], origin: Origin
) -> TransferRun:
    best = _best(tried)
    network = copied(tried[best].network)
    unfreeze_all(network)
    record = TransferRecord(
        stages=tuple(one.stage for one in tried),
        best=best,
        advice=tuple(advice),
        settings=settings,
        network=weights_digest(network),
        origin=origin,
    )
    if recipe.out is not None:
        save(network, recipe.out / "network.safetensors")
        write_record(recipe.out / "record.json", record)
    return TransferRun(record, network)
