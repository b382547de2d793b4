"""Check whether data and network fit each other: errors for what cannot be trained, warnings for what is doubtful."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.augment import Augment, NoAugment
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.streams.rows import StreamedRows, slices_of
from weightsmith.data.targets import Kind
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.running import outputs_of, undisturbed
from weightsmith.training.feeding import Layout
from weightsmith.training.losses import CrossEntropy, LossFunction

__all__ = [
    "LARGE_INPUTS",
    "augmentation_advice",
    "check_finite",
    "check_labels",
    "check_loss",
    "check_state",
    "doubts",
    "doubts_of_scores",
    "scores_of",
]

LARGE_INPUTS = "inputs reach"
_PHOTOGRAPH = 16  # pixels a side; smaller images are symbols or features
_LARGE, _SAMPLE, _PIECE = 20.0, 1000, 50  # inputs beyond this spoil the first steps at usual rates; rows checked


def check_finite(data: Data) -> None:
    """Refuse NaN and infinity in the training and validation rows, naming the row."""
    for name, part in data.splits.items():
        if name == "test" or not part.x.is_floating_point() or isinstance(part.x, StreamedRows):
            continue  # streamed rows are checked as they are read
        if not math.isfinite(_largest(part.x)):
            row = int((~torch.isfinite(part.x)).nonzero()[0, 0])
            raise DataMismatch(f"{data.name}: row {row} of the {name} split holds nan or infinity")


def check_labels(data: Data, outputs: int) -> None:
    """Refuse targets that the network has no outputs for."""
    if data.kind is not Kind.CLASSES:
        if len(data.classes) != outputs:
            what = "values" if data.kind is Kind.VALUES else "labels"
            raise DataMismatch(f"{data.name} has {len(data.classes)} {what} a row, but the network {outputs} outputs")
        return
    for name, part in data.splits.items():
        highest = int(part.y.max())
        if name != "test" and highest >= outputs:
            raise DataMismatch(
                f"{data.name}: the {name} split has the label {highest}, but the network has {outputs} outputs"
                + ("; one score per class is needed" if outputs == 1 else f" (labels 0 to {outputs - 1})")
            )


def check_state(network: nn.Module) -> None:
    """Refuse a network that keeps state which is not a tensor: our files cannot hold it."""
    strange = [name for name, value in network.state_dict().items() if not isinstance(value, Tensor)]
    if strange:
        raise UsageError(f"{strange[0]}: the network keeps state that is not a tensor, which no file of ours can hold")


@torch.no_grad()
def scores_of(network: nn.Module, part: Split, normalisation: Normalisation, layout: Layout) -> Tensor:
    """The outputs of the network for the first two rows, one score per class; every module keeps its mode."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with undisturbed(network):
            return outputs_of(network, layout.arrange(normalisation.apply(part.x[:2])))
    finally:
        for module, training in modes:
            module.training = training


def check_loss(loss: LossFunction, scores: Tensor, labels: Tensor) -> None:
    """Refuse a loss that is not one number, or does not depend on the scores."""
    leaf = scores.detach().clone().requires_grad_()
    name = getattr(loss, "__name__", type(loss).__name__)
    try:
        value = loss(leaf, labels.to(scores.device))
    except (RuntimeError, ValueError, TypeError) as error:
        raise UsageError(f"loss {name} cannot be computed from scores and labels ({error})") from error
    if not isinstance(value, Tensor):
        raise UsageError(f"loss {name} gives a {type(value).__name__}, not a tensor with one number")
    if value.dim():
        raise UsageError(f"loss {name} gives a tensor of shape {tuple(value.shape)}, not one number; take its mean")
    if not value.requires_grad:
        raise UsageError(f"loss {name} does not depend on the scores: there is no gradient to follow")


def doubts(data: Data, batch: int, normalisation: Normalisation = NONE, *, tokens: bool = False) -> tuple[str, ...]:
    """Warnings about what is allowed but probably not intended, a sentence each; ``tokens`` have no size."""
    part, found = data.split("train"), []
    if batch > len(part):
        found.append(f"batch {batch} is larger than the {len(part)} training rows: every epoch is a single step")
    counts = torch.bincount(part.y, minlength=len(data.classes)).tolist() if data.kind is Kind.CLASSES else []
    empty = [name for name, count in zip(data.classes, counts, strict=False) if not count]
    if empty:
        shown = ", ".join(empty[:5]) + (" …" if len(empty) > 5 else "")
        found.append(f"{len(empty)} of {len(data.classes)} classes have no training row ({shown}): none can be learnt")
    if sum(count > 0 for count in counts) == 1:
        found.append("all training rows belong to one class: there is nothing to distinguish")
    sample = slices_of(part.take(slice(0, _SAMPLE)).x, _PIECE)  # as floats, 1000 large images would fill the memory
    if not tokens and (largest := max(_largest(normalisation.apply(rows)) for rows in sample)) > _LARGE:
        found.append(
            f"{LARGE_INPUTS} {largest:.3g}: bring them to about 1 (normalise=standard; float images: divide by 255, or "
            "pass them as uint8), else the first steps are far too long"
        )
    return tuple(found)


def augmentation_advice(network: nn.Module, part: Split, augment: Augment) -> str | None:
    """Advice to augment natural images (in colour, for a convolutional network), if they are not augmented yet."""
    natural = part.x.dim() == 4 and part.x.shape[1] == 3 and min(part.x.shape[2:]) >= _PHOTOGRAPH
    convolves = any(isinstance(module, nn.Conv2d) for module in network.modules())
    if not (natural and convolves and isinstance(augment, NoAugment)):
        return None
    return "natural images: --augment crop-flip:4 (shifts and mirrors) lets a network train longer before it overfits"


def doubts_of_scores(scores: Tensor, loss: LossFunction, classes: int = 0) -> tuple[str, ...]:
    """Warnings if the outputs look like probabilities instead of scores, or outnumber the classes of the data."""
    if classes and classes < scores.shape[1]:
        return (
            f"the data have {classes} classes, the network {scores.shape[1]} outputs: it will unlearn the others; "
            "ws.transfer puts a new head on a trained network",
        )
    sums = scores.sum(1)
    if (
        not isinstance(loss, CrossEntropy)
        or bool((scores < 0).any())
        or not torch.allclose(sums, torch.ones_like(sums))
    ):
        return ()
    return (
        "the outputs of the network are probabilities (they add up to 1), but cross-entropy takes the softmax itself: "
        "remove the last Softmax, or little will be learnt",
    )


def _largest(x: Tensor) -> float:
    """max |x|, or NaN or infinity if there is one; no copy of the data is made."""
    least, most = torch.aminmax(x)
    return math.nan if math.isnan(float(least)) else max(-float(least), float(most))
