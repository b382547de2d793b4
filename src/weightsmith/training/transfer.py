"""Transfer learning, the slides' recipe (seed 002) as one call.

1. Reuse the lower blocks of a trained network, fit the inputs to it, put a new head on top
   (:mod:`weightsmith.networks.editing.grafting`).
2. Freeze what is reused and train the head.
3. Unfreeze the top one or two reused blocks and go on at a reduced rate (:mod:`weightsmith.training.stages`).
4. If that did not help: drop or replace top blocks, by the amount of data, and repeat
   (:mod:`weightsmith.training.stages`; only if asked for, otherwise it is advised in words).

The stages are compared on the same validation images, pair by pair, and the network of the best one is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from weightsmith.core.display import Displayed
from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin, Record, write_record
from weightsmith.data.normalise import Normalisation
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.grafting import graft, reused
from weightsmith.networks.files import load, save
from weightsmith.training.freezing import unfreeze as unfreeze_all
from weightsmith.training.optimisers import Momentum, Optimiser
from weightsmith.training.plan import data_of
from weightsmith.training.schedules import Schedule, as_schedule
from weightsmith.training.stages import ByData, Remedy, ReusedPart, TransferRecipe, TransferStage, Tried

__all__ = ["TransferRecord", "TransferRun", "transfer"]

_VALIDATION = 0.2  # share of the training rows, where the data have no validation split
_LEVEL = 0.05  # of McNemar's test, below which a gain is not called chance
_OPTIONS = (
    *("augment", "batch", "clip", "device", "diagnose", "hooks", "loss", "optimiser", "penalties", "progress"),
    *("stop", "threads"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class TransferRecord(Record):
    """All stages, the number of the best one (from 0), and advice in words."""

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


def transfer(
    base: nn.Module | str | Path,
    data: Any,
    *,
    reuse: int | None = None,
    head: Sequence[int] = (),
    dropout: float = 0.0,
    pool: Literal["mean", "flatten"] = "mean",
    unfreeze: int | Literal["all"] = 2,
    rate: Schedule | float | str | None = None,
    finer: float = 0.1,
    epochs: int | tuple[int, int] = 10,
    remedy: Remedy | str | None = None,
    accuracy: float | None = None,
    validation: float | None = None,
    normalise: str | Normalisation | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    **options: Any,
) -> TransferRun:
    """Make a network for ``data`` out of the trained network ``base`` (a module or a file).

    ``reuse`` blocks of the base are taken over (without it all but its output layer); ``head`` are the widths of new
    hidden layers on top, ``dropout`` their rate, and feature maps are averaged or flattened by ``pool``. In the second
    stage the top ``unfreeze`` blocks are free (0: there is no second stage) at ``finer`` times the ``rate``. ``epochs``
    are those of the frozen and of the unfrozen stage. A ``remedy`` (``drop``, ``replace``, ``by-data``) is tried when
    the second stage did not help or, if an ``accuracy`` is asked for, while no stage has reached it. Without a
    validation split, ``validation`` (0.2) of the training rows become one. Inputs are normalised as the base's card
    says, unless ``normalise`` is given. Further options are those of ``train``. With ``out``, a folder, the same
    call goes on where it was stopped, and what was frozen stays frozen.

    >>> import weightsmith as ws
    >>> base = ws.networks.mlp(64, 32, 16, 10)
    >>> run = transfer(base, ws.data.load("digits"), epochs=(1, 1), rate=0.05, unfreeze=1)
    >>> [(stage.name, stage.frozen) for stage in run.stages]
    [('frozen', ('base.dense1.weight', 'base.dense1.bias', 'base.dense2.weight', 'base.dense2.bias')),
     ('top 1 unfrozen', ('base.dense1.weight', 'base.dense1.bias'))]
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise UnknownName("option of transfer", unknown[0], [*_OPTIONS, "rate (in place of schedule)"])
    optimiser = Optimiser.of(options.get("optimiser", Momentum()))
    if not 0 < finer <= 1:
        raise OptionError(f"finer must be > 0 and ≤ 1: it reduces the rate, not {finer}")
    recipe = TransferRecipe(
        base=_base(base, normalise),
        data=_ready(data_of(data), validation, seed),
        top={"hidden": tuple(head), "dropout": dropout, "pool": pool},
        unfreeze=None if unfreeze == "all" else unfreeze,
        schedule=as_schedule(rate, optimiser.usual_rate),
        finer=finer,
        epochs=(epochs[0], epochs[1]) if isinstance(epochs, tuple | list) else (epochs, epochs),
        seed=seed,
        out=None if out is None else Path(out),
        options={**options, "optimiser": optimiser},
    )
    chosen = None if remedy is None else Remedy.of(remedy)
    settings = _settings(recipe) | {
        "reuse": reuse,
        "remedy": None if chosen is None else str(chosen),
        "accuracy": accuracy,
    }
    watched = {name: part.digest() for name, part in recipe.data.splits.items() if name != "test"}
    origin = Origin(recipe.seed, {"base": weights_digest(recipe.base), **watched})
    with contextlib.ExitStack() as stack:
        if recipe.out is not None:  # refuses the folder of another call, and a second process in this one
            call = {"settings": settings, **origin.to_dict()}
            stack.enter_context(Journal(recipe.out / "journal.jsonl", call))
        tried, advice = _follow(recipe, _first_cut(recipe, reuse), chosen, accuracy)
        return _finished(recipe, tried, advice, settings, origin)


def _base(base: nn.Module | str | Path, normalise: str | Normalisation | None) -> nn.Module:
    network = load(base) if isinstance(base, str | Path) else base
    if normalise is None:
        return network
    chosen = Normalisation.parse(normalise) if isinstance(normalise, str) else normalise
    network = copied(network)
    return with_card(network, dataclasses.replace(card_of(network), normalisation=chosen))


def _ready(data: Data, fraction: float | None, seed: int) -> Data:
    """The data with names for their classes and with a validation split, the same for all stages."""
    if not data.classes:
        count = 1 + max(int(part.y.max()) for part in data.splits.values())
        data = dataclasses.replace(data, classes=tuple(map(str, range(count))))
    if data.validation is None:
        return data.with_validation(_VALIDATION if fraction is None else fraction, seed)
    if fraction is not None:
        raise UsageError(f"{data.name} has a validation split already; leave validation={fraction:g} out")
    return data


def _first_cut(recipe: TransferRecipe, reuse: int | None) -> ReusedPart:
    """All there is to reuse, or as many blocks as asked for; with fewer than are to be freed, all are freed."""
    network = graft(recipe.base, recipe.data.input_shape, recipe.data.classes, reuse=reuse, **recipe.top)
    cut = ReusedPart(len(reused(network)))
    if recipe.unfreeze is not None and recipe.unfreeze < 0:
        raise UsageError(f"unfreeze must be a number of blocks or 'all', not {recipe.unfreeze}")
    return cut


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
            advice.append(f"the best validation accuracy, {best:.1%}, is below the {accuracy:.1%} asked for")
        following = (remedy or ByData()).after(cut, images)
        advice.append(_step(cut, following, images, taken=left > 0))
        if following is None:
            break
        cut = following
    return tried, advice


def _best(tried: Sequence[Tried]) -> int:
    """The index of the best stage; of equal ones the first, which changed the base least."""
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
