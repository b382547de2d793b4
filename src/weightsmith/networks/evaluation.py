"""The evaluation of a network: accuracy with intervals, loss, recall per class, confusion matrix."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Origin, Record
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.statistics import Interval, wilson
from weightsmith.data.judging import Rows
from weightsmith.data.streams.rows import slices_of
from weightsmith.data.targets import Kind, kind_of
from weightsmith.data.tensors import Data
from weightsmith.networks.card import Card, card_of, weights_digest
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.networks.precision import input_type, like_of
from weightsmith.networks.running import memory_format_of, outputs_of, undisturbed
from weightsmith.networks.wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weightsmith.networks.target_evaluation import RegressionEvaluation

__all__ = ["Evaluation", "batches_for", "evaluated", "inputs_of", "labels_for", "scores", "targets_for"]


_SAMPLE, _LARGE = 64, 20.0  # rows that are checked, and the value beyond which inputs are probably not scaled


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation(Record):
    """Accuracy with its Wilson interval, top-5, mean cross-entropy, recall per class, and the confusion matrix.

    ``confusion[i][j]`` counts images of class i that were classified as j. A class without images has no recall. An
    image for which the network gives NaN or infinity has no predicted class: it counts in ``not_finite`` and as wrong,
    and there is no loss.
    """

    data: str
    split: str
    images: int
    correct: int
    not_finite: int
    accuracy: Interval
    top5: Interval | None
    loss: float | None
    classes: tuple[str, ...]
    recall: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]
    normalisation: str
    notes: tuple[str, ...]
    origin: Origin

    def __str__(self) -> str:
        """One line: data, split, accuracy with its interval, loss."""
        found = self.accuracy
        loss = "" if self.loss is None else f", loss {self.loss:.3g}"
        strange = f", {self.not_finite:,} rows without a finite answer" if self.not_finite else ""
        return (
            f"{self.data}: {self.split} accuracy {found.value:.2%} [{found.low:.2%}, {found.high:.2%}], "
            f"{self.correct:,} of {self.images:,} rows{loss}{strange}"
        )

    @property
    def score(self) -> Interval:
        """The number by which networks are compared: the accuracy, for a regression R²."""
        return self.accuracy


def evaluated(
    network: nn.Module, rows: Rows, *, seed: int | None = None, **running: Any
) -> Evaluation | RegressionEvaluation:
    """The evaluation of ``network`` on ``rows``, drawn by ``seed``; ``running`` are keywords of :func:`scores`."""
    from weightsmith.networks.target_evaluation import label_evaluation, regression_evaluation

    data, split, part = rows.data, rows.split, rows.part
    card, architecture = card_of(network), architecture_of(network)
    if data.kind is Kind.CLASSES and architecture is not None and (architecture.classes or 1) > 1:
        _class_names(data, card, architecture.classes or 1)  # before the work, not after it
    answers = scores(network, part.x, **running)
    names, targets = targets_for(card, data, part.y, answers.shape[1])
    told = {
        "data": data.name,
        "split": split,
        "normalisation": str(card.normalisation),
        "notes": (
            *card.notes,
            *data.notes,
            *_by_order(card, data, answers.shape[1]),
            *_doubts(network, card, part.x, training_rows=list(data.splits) == ["train"]),
        ),
        "origin": Origin(seed=seed, inputs={"network": weights_digest(network), "data": part.digest()}),
    }
    match kind_of(targets):
        case Kind.LABELS:
            return label_evaluation(answers, targets, names, **told)
        case Kind.VALUES:
            return regression_evaluation(answers, targets, names, card.outputs, **told)
        case Kind.CLASSES:
            return _class_evaluation(answers, targets, names, **told)


def _class_evaluation(answers: Tensor, labels: Tensor, names: tuple[str, ...], **told: Any) -> Evaluation:
    count, total = answers.shape[1], len(labels)
    finite = answers.isfinite().all(dim=1)
    called = answers.argmax(dim=1)
    pairs = (labels * count + called)[finite]
    confusion = torch.bincount(pairs, minlength=count * count).reshape(count, count)
    correct = int(confusion.diagonal().sum())
    loss = float(nn.functional.cross_entropy(answers.double(), labels))
    sizes = torch.bincount(labels, minlength=count).tolist()
    return Evaluation(
        images=total,
        correct=correct,
        not_finite=int((~finite).sum()),
        accuracy=wilson(correct, total),
        top5=wilson(_among_best(answers[finite], labels[finite], 5), total) if count > 5 else None,
        loss=loss if bool(finite.all()) else None,
        classes=names,
        recall=tuple(
            hit / size if size else None for hit, size in zip(confusion.diagonal().tolist(), sizes, strict=True)
        ),
        confusion=tuple(map(tuple, confusion.tolist())),
        **told,
    )


def _by_order(card: Card, data: Data, count: int) -> list[str]:
    """A note if network and data name their classes differently, so that these are matched by order."""
    strange = [name for name in data.classes if name not in card.classes]
    if len(card.classes) != count or not strange or count == 1:
        return []
    return [
        f"the data have the class {strange[0]!r}, which the network does not know: classes are matched by their order "
        f"({card.classes[0]} is {data.classes[0]} …), which is right only if both are sorted alike"
    ]


def _doubts(network: nn.Module, card: Card, x: Tensor, *, training_rows: bool) -> list[str]:
    """Notes on what makes an accuracy doubtful: possible training rows, inputs that are not scaled."""
    found = []
    if training_rows:
        found.append(
            "there are only training rows here, which the network may have memorised: hold some back in training "
            "(test=0.2 after the path, or --test 0.2) and evaluate on those"
        )
    largest = float(card.normalisation.apply(x[:_SAMPLE]).abs().max())
    if largest > _LARGE and input_type(network) != torch.int64:
        found.append(
            f"inputs reach {largest:.3g} (normalisation {card.normalisation}): a network trained on scaled inputs "
            "fails on these; give the scaling of its training (normalise=…)"
        )
    return found


@torch.no_grad()
def scores(
    network: nn.Module,
    x: Tensor,
    *,
    batch: int = 64,
    threads: int = 1,
    device: str = "cpu",
    progress: StepCallback | None = None,
) -> Tensor:
    """The network's outputs for inputs ``x`` (normalised by its card), batch by batch.

    The network itself is not moved or changed: on another ``device`` a copy runs, and every module keeps its mode.
    """
    if batch < 1 or len(x) == 0:
        raise UsageError(f"batches of {batch} from {len(x)} inputs: both must be at least 1")
    try:
        target = torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"torch does not know the device {device!r}") from error
    running = unwrapped(network)
    card, like = card_of(running), like_of(running, target)
    if like.device != target:
        running = copy.deepcopy(running).to(target)
    modes = [(module, module.training) for module in running.modules()]
    running.eval()
    results = []
    try:
        with pinned_threads(threads), undisturbed(running):
            known = memory_format_of(running, inputs_of(running, x[:2]).to(target))
            for done, inputs in batches_for(card, x, batch, input_type(running), known):
                results.append(outputs_of(running, inputs.to(target)).cpu())
                if progress is not None:
                    progress(done, len(x))
    finally:
        for module, training in modes:
            module.training = training
    return torch.cat(results)


def inputs_of(network: nn.Module, x: Tensor) -> Tensor:
    """All of ``x`` as inputs of ``network`` in the plain memory format: normalised, reshaped, converted to its type."""
    ((_, inputs),) = batches_for(card_of(network), x, len(x), input_type(network), torch.contiguous_format)
    return inputs


def batches_for(
    card: Card,
    x: Tensor,
    batch: int,
    dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Iterator[tuple[int, Tensor]]:
    """Batches of ``x``, normalised and shaped as the card says, each with the number of inputs up to its end.

    Images come in ``memory_format``; :func:`memory_format_of` finds the format for a module. Our own layers take
    channels last.
    """
    _check_shape(tuple(x.shape[1:]), card.input_shape)
    done = 0
    for rows in slices_of(x, batch):
        inputs = _shaped(card.normalisation.apply(rows), card.input_shape).to(dtype)
        images = inputs.dim() == 4
        done += len(rows)
        yield done, inputs.contiguous(memory_format=memory_format) if images else inputs


def targets_for(card: Card, data: Data, targets: Tensor, count: int) -> tuple[tuple[str, ...], Tensor]:
    """The names of the network's ``count`` outputs, and the targets in the form of its outputs.

    Classes become indices of outputs (:func:`labels_for`), or one binary label for a network with a single output;
    labels and values are matched by the names of their columns, and values are scaled as the card says.
    """
    kind = kind_of(targets)
    if kind is Kind.CLASSES and (count != 1 or len(data.classes) != 2):
        return labels_for(card, data, targets, count)
    if kind is not Kind.VALUES and card.outputs.mean:
        raise DataMismatch(f"the network predicts values ({', '.join(card.classes)}), and {data.name} has classes")
    if kind is Kind.CLASSES:
        positive = card.classes[0] if len(card.classes) == 1 and card.classes[0] in data.classes else data.classes[1]
        return (positive,), (targets == data.classes.index(positive))[:, None]
    if targets.shape[1] != count:
        what = "values" if kind is Kind.VALUES else "labels"
        raise DataMismatch(f"{data.name} has {targets.shape[1]} {what} a row, the network {count} outputs")
    names = data.classes
    if len(card.classes) == count and set(card.classes) == set(names):
        targets = targets[:, [names.index(name) for name in card.classes]]
        names = card.classes
    return names, card.outputs.apply(targets) if kind is Kind.VALUES else targets


def labels_for(card: Card, data: Data, labels: Tensor, count: int) -> tuple[tuple[str, ...], Tensor]:
    """The names of the network's ``count`` outputs, and ``labels`` of the data as indices of those outputs.

    Classes are matched by name if network and data have the same names, otherwise by order. Targets of another kind are
    refused.
    """
    if (kind := kind_of(labels)) is not Kind.CLASSES:
        raise DataMismatch(
            f"{data.name} is {'a regression' if kind is Kind.VALUES else 'multi-label'}, and rows of one class each "
            "are needed here; train, evaluate, grade, reduce and report accept it"
        )
    names = _class_names(data, card, count)
    if int(labels.max()) >= max(count, len(data.classes)):
        raise DataMismatch(f"{data.name} has a label {int(labels.max())}, the network has {count} outputs{_one(count)}")
    if data.classes and set(data.classes) <= set(names):
        labels = torch.tensor([names.index(name) for name in data.classes])[labels]
    return names, labels


def _check_shape(given: tuple[int, ...], taken: tuple[int, ...]) -> None:
    """Rows must have the same number of values; images the same channels, but any size (networks may pool).

    Sequences (steps, features) must have the same features, but any number of steps; (channels, length) fit a network
    for images of height 1.
    """
    rows = 1 in (len(given), len(taken)) and math.prod(given) == math.prod(taken)
    images = len(given) == len(taken) == 3 and given[0] == taken[0]
    sequences = len(given) == 2 and (taken[1:] == given[1:] or taken == (given[0], 1, given[1]))
    if taken and not (rows or images or sequences):
        raise DataMismatch(f"the network takes inputs of shape {taken}, the data have {given}")


def _shaped(inputs: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Rows as images or images as rows, if the network takes the other (28×28 images for 784 inputs)."""
    other = 1 in (len(shape), inputs.dim() - 1) or (inputs.dim() == 3 and len(shape) == 3)
    return inputs.reshape(-1, *shape) if shape and other else inputs


def _one(outputs: int) -> str:
    return "" if outputs > 1 else "; one score per class is needed (a single output separates two classes)"


def _class_names(data: Data, card: Card, count: int) -> tuple[str, ...]:
    """The names of the network's outputs; data with other class names must have as many classes, in the same order."""
    names = card.classes if len(card.classes) == count else tuple(map(str, range(count)))
    if set(data.classes) <= set(names):
        return names
    if len(data.classes) == count:
        return data.classes
    strange = next(name for name in data.classes if name not in names)
    raise DataMismatch(
        f"{data.name} has {len(data.classes)} classes, the network {count} outputs, none of them called {strange!r}"
    )


def _among_best(answers: Tensor, labels: Tensor, count: int) -> int:
    return int((answers.topk(count, dim=1).indices == labels[:, None]).any(dim=1).sum())
