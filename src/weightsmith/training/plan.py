"""The plan of a training run: network, data and settings, resolved and checked before the first step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.data.catalogue import CATALOGUE
from weightsmith.data.coerce import NAMELESS, as_data
from weightsmith.data.datasets import load_all
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.sources import Source
from weightsmith.data.targets import Kind
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import Card, card_of, weights_digest
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.files import load
from weightsmith.networks.held import held_network
from weightsmith.networks.models.architecture import Architecture, architecture_of
from weightsmith.networks.models.building import build
from weightsmith.networks.models.factories import check_class_named
from weightsmith.networks.precision import input_type
from weightsmith.networks.readers.detect import WEIGHT_SUFFIXES
from weightsmith.networks.wrappers import check_open
from weightsmith.training.feeding import Layout
from weightsmith.training.freezing import frozen, train_mode
from weightsmith.training.layouts import plain_layout, trained_layout
from weightsmith.training.losses import LossFunction, by_row, usual_loss
from weightsmith.training.metrics import with_monitors
from weightsmith.training.schedules import Span
from weightsmith.training.schedules.check import check_schedule
from weightsmith.training.settings import Settings
from weightsmith.training.starting import starting
from weightsmith.training.suitability import (
    check_finite,
    check_labels,
    check_loss,
    check_state,
    doubts,
    doubts_of_scores,
    scores_of,
)
from weightsmith.training.targets import imbalance, learnt, outputs_for, weighted
from weightsmith.training.watching import Monitor

__all__ = ["TrainingPlan", "TrainingWarning", "data_of", "make_plan"]

_VALIDATION = 0.1  # share of the training rows, if validation is monitored and the data have none


class TrainingWarning(UserWarning):
    """A problem in the settings or the data that will probably spoil a run, and its remedy."""


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """A run, ready to start. ``network`` is our own copy; ``card`` will be its card when it is trained."""

    network: nn.Module
    train: Split
    validation: Split | None
    settings: Settings
    card: Card
    layout: Layout
    span: Span
    left_out: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    written: dict[str, Any]
    inputs: dict[str, str]

    @property
    def loss(self) -> LossFunction:
        """The given loss, or the usual one for the targets."""
        assert self.settings.loss is not None
        return self.settings.loss

    @property
    def normalisation(self) -> Normalisation:
        """The normalisation of the inputs."""
        return self.card.normalisation

    def card_after(self, epoch: int) -> Card:
        """The card of the network after ``epoch``; before training it is unchanged."""
        if epoch == 0:
            return self.card
        settings = self.written
        length = f"epoch {epoch} of {settings['epochs']}"
        operation = f"trained on {settings['data']} ({settings['optimiser']}, {settings['schedule']}, {length})"
        return dataclasses.replace(self.card, lineage=self.card.lineage.then(operation, self.inputs["network"]))

    @property
    def monitor(self) -> Monitor:
        """The column that determines the best epoch."""
        if self.settings.stop is not None:
            return self.settings.stop.monitor
        return "train_loss" if self.validation is None else "validation_loss"


@torch.inference_mode(False)
@torch.enable_grad()
def make_plan(
    network: nn.Module | Architecture | str | Path,
    data: Any,
    settings: Settings,
    processes: int = 1,
    begun: Mapping[str, Any] | None = None,
) -> TrainingPlan:
    """Build, read or copy the network, split the data, and refuse or warn about what will not work.

    ``begun`` are the settings of a run that is resumed: its choices are kept.
    """
    known, notes = _with_validation(data_of(data), settings)
    module, brings = _network(network, known, settings.seed)
    reason: tuple[str, ...] = ()
    if settings.left_open:
        settings, reason = _chosen(settings, module, known, begun, trained=brings)
    check_open(module)
    check_state(module)
    card = card_of(module)
    normalisation, of_inputs = _normalisation(module, known, settings, brings=brings)
    notes += of_inputs + reason
    layout = plain_layout(module, card, settings.device)
    check_finite(known)
    scores = scores_of(module, known.split("train"), normalisation, layout)
    inputs = _digests(module, known)
    known, scale = learnt(known, outputs := scores.shape[1], card.outputs if brings else NONE)
    check_labels(known, outputs)
    part = weighted(known, settings.class_weights)
    loss = settings.loss or usual_loss(part.y)
    settings = dataclasses.replace(settings, loss=loss)
    check_loss(loss, scores, part.y[:2])
    if part.weights is not None:
        by_row(loss)  # refuses a loss that weights cannot be applied to
    else:
        notes += imbalance(known)
    notes += _of_targets(known, scale)
    settings = with_monitors(settings, known.kind, validated=known.validation is not None)
    left_out = _left_out(module, len(part), settings.batch, processes)
    layout = trained_layout(module, part, normalisation, layout)
    span = Span(-(-(len(part) - left_out) // settings.batch), settings.epochs)
    if left_out:
        notes += (
            f"{len(part)} rows in batches of {settings.batch} leave {left_out} over, too few for batch norm: every "
            f"epoch leaves out {left_out}, different ones each time",
        )
    return TrainingPlan(
        network=module,
        train=part,
        validation=known.validation,
        settings=settings,
        card=dataclasses.replace(_fitting(card, known, outputs), normalisation=normalisation, outputs=scale),
        layout=layout,
        span=span,
        left_out=left_out,
        warnings=(
            *check_schedule(settings.schedule, span),
            *doubts(known, settings.batch, normalisation, tokens=input_type(module) == torch.int64),
            *(doubts_of_scores(scores, loss, len(known.classes)) if known.kind is Kind.CLASSES else ()),
        ),
        notes=(*known.notes, *notes),
        written={
            "network": _name(module),
            "data": known.name,
            **settings.written(),
            "normalise": str(normalisation),
            "frozen": list(frozen(module)),
        },
        inputs=inputs,
    )


def _normalisation(
    module: nn.Module, data: Data, settings: Settings, *, brings: bool
) -> tuple[Normalisation, tuple[str, ...]]:
    """The normalisation of the inputs, and a note if it was chosen here; a loaded or trained network has its own."""
    chosen = settings.normalise or (card_of(module).normalisation if brings else data.normalisation)
    if input_type(module) == torch.int64:
        if settings.normalise is not None and settings.normalise.mean:
            raise UsageError(f"the network begins with an embedding: its tokens cannot be normalised by {chosen}")
        return NONE, ()
    if not chosen.unfitted:
        return chosen, ()
    note = "inputs are standardised by means and deviations of the training rows (normalise none: as they are)"
    return chosen.fitted(data.split("train").x), (note,) if settings.normalise is None else ()


def _of_targets(data: Data, scale: Normalisation) -> tuple[str, ...]:
    """A note on the targets, if they are not classes."""
    names = ", ".join(data.classes[:5]) + (" …" if len(data.classes) > 5 else "")
    if data.kind is Kind.LABELS:
        return (f"one output for each of {len(data.classes)} labels ({names}): above 0 means on",)
    if data.kind is Kind.VALUES:
        return (
            f"regression: {names}, standardised for training (mean {scale.mean[0]:.4g}, standard deviation "
            f"{scale.std[0]:.4g}{' of the first' if len(scale.mean) > 1 else ''}); errors are given in its own unit",
        )
    return ()


def _chosen(
    settings: Settings, network: nn.Module, data: Data, begun: Mapping[str, Any] | None, *, trained: bool
) -> tuple[Settings, tuple[str, ...]]:
    """The settings with optimiser, schedule and stop chosen, and the reason; a resumed run keeps its own."""
    span = Span(-(-len(data.split("train")) // settings.batch), settings.epochs)
    choice = starting(network, span, trained=trained, validation=data.validation is not None, kind=data.kind)
    older = starting(network, span, trained=True)  # the defaults of earlier versions
    if begun is not None and (begun["optimiser"], begun["schedule"]) == (str(older.optimiser), str(older.schedule)):
        return settings.with_choice(older), ()
    chosen = settings.with_choice(choice)
    return chosen, (f"chosen: {chosen.optimiser}, {chosen.schedule}: {choice.reason}",)


def data_of(given: Any) -> Data:
    """The data to train on: the training split of a known set, all splits of the user's own files."""
    if isinstance(given, Path | Source) or (isinstance(given, str) and given not in CATALOGUE):
        return load_all(given)
    return as_data(given, splits=("train",))


def _network(network: nn.Module | Architecture | str | Path, data: Data, seed: int) -> tuple[nn.Module, bool]:
    """A network of our own to train (read from its file, a copy, or built), and whether it brings a card."""
    network = held_network(network)
    if isinstance(network, str | Path):
        check_class_named(str(network))
    if isinstance(network, nn.Module):
        return copied(network), isinstance(getattr(network, "card", None), Card)
    if isinstance(network, Path) or (isinstance(network, str) and (Path(network).exists() or _is_file_name(network))):
        return load(network), True
    if not isinstance(network, str | Architecture):
        raise UsageError(f"a network is a module, an architecture, its text form or a file, not {network!r}")
    return build(network, input_shape=data.input_shape, classes=outputs_for(data), seed=seed), False


def _is_file_name(text: str) -> bool:
    return Path(text).suffix.lower() in WEIGHT_SUFFIXES


def _with_validation(data: Data, settings: Settings) -> tuple[Data, tuple[str, ...]]:
    """The data with a validation split, if one is requested or needed."""
    data.split("train")
    fraction = settings.validation
    if data.validation is not None:
        if fraction is not None:
            raise UsageError(f"{data.name} has a validation split already; leave validation={fraction:g} out")
        return data, ()
    if fraction is not None:
        return data.with_validation(fraction, settings.seed), ()
    if not settings.watches_validation:
        return data, ()
    reason = f"{_VALIDATION:.0%} of the training rows became the validation split, because the validation is watched"
    return data.with_validation(_VALIDATION, settings.seed), (reason,)


def _fitting(card: Card, data: Data, outputs: int) -> Card:
    """The card with the shape of the inputs and the class names of the outputs.

    The card's names stay if the data have none or agree; else the data's names are used. Labels count from the first
    output, so further outputs are numbered.
    """
    nameless = data.name == NAMELESS or not data.classes
    spare = tuple(f"output {number}" for number in range(len(data.classes), outputs))
    names = () if len(data.classes) > outputs or (spare and nameless) else (*data.classes, *spare)
    if len(card.classes) == outputs and (nameless or card.classes[: len(data.classes)] == data.classes):
        names = card.classes
    return dataclasses.replace(card, input_shape=card.input_shape or data.input_shape, classes=names)


def _left_out(network: nn.Module, rows: int, batch: int, processes: int) -> int:
    """Rows of the last batch that are left out, because batch norm needs at least two in each process."""
    train_mode(network)
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not any(norm.training for norm in norms):
        return 0
    least = 2 * processes
    if min(batch, rows) < least:
        raise UsageError(f"batch norm needs batches of at least {least} rows here, not {min(batch, rows)}")
    over = rows % batch
    return over if over < least else 0


def _name(network: nn.Module) -> str:
    architecture = architecture_of(network)
    if architecture is not None:
        return str(architecture)
    return f"{type(network).__name__} with {sum(value.numel() for value in network.parameters()):,} parameters"


def _digests(network: nn.Module, data: Data) -> dict[str, str]:
    parts = {name: part.digest() for name, part in data.splits.items() if name != "test"}
    return {"network": weights_digest(network), **parts}
