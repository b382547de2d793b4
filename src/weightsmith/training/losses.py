"""Losses by name, as means over the rows of a batch.

Targets are class numbers, rows of labels (truth values) or rows of values; :func:`usual_loss` gives the loss for each
kind. Cross-entropy also takes a row of probabilities per image (floating point, the shape of the scores).
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option, param
from weightsmith.data.targets import Kind, kind_of

__all__ = [
    "AbsoluteError",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Huber",
    "Loss",
    "LossFunction",
    "SquaredError",
    "by_row",
    "usual_loss",
]

LossFunction = Callable[[Tensor, Tensor], Tensor]


class Loss(Option):
    """The family of losses of a network's scores (the output layer before any softmax)."""

    @abstractmethod
    def rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row, which can be differentiated."""

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss over the batch."""
        return self.rows(scores, labels).mean()


class CrossEntropy(Loss, name="cross-entropy"):
    """−Σ_j q_j·log p_j, with p = softmax(scores) and q the true class, mixed with smoothing·(1/classes).

    q_j = (1 − s)·[j = label] + s/k for k classes and smoothing s (Szegedy et al. 2016).

    >>> CrossEntropy()(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.6931)
    """

    smoothing: float = param(default=0.0, ge=0, lt=1, doc="s, the share of the target spread over all classes")

    def rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of each row."""
        return F.cross_entropy(scores, labels, label_smoothing=self.smoothing, reduction="none")

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return F.cross_entropy(scores, labels, label_smoothing=self.smoothing)


class BinaryCrossEntropy(Loss, name="binary-cross-entropy"):
    """−q·log p − (1 − q)·log(1 − p) with p = sigmoid(score), summed over the labels of a row.

    q is 1 if the label is on, else 0; with smoothing s it is (1 − s)·q + s/2.

    >>> BinaryCrossEntropy()(torch.tensor([[0.0, 0.0]]), torch.tensor([[True, False]]))
    tensor(1.3863)
    """

    smoothing: float = param(default=0.0, ge=0, lt=1, doc="s, the share of the target moved to one half")

    def rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Sum over the labels of each row."""
        targets = labels.to(scores.dtype) * (1 - self.smoothing) + self.smoothing / 2
        return F.binary_cross_entropy_with_logits(scores, targets, reduction="none").sum(dim=1)


class SquaredError(Loss, name="squared-error"):
    """Σ_j (y_j − a_j)² per image, with a = f(scores) and y one-hot: its sensitivity is −2·(y − a)·f′ (seed 002, eq. 7).

    Summed over the classes: Keras and torch take their mean, which is smaller by the number of classes.

    >>> SquaredError()(torch.tensor([[0.5, 0.0, 1.0]]), torch.tensor([0]))
    tensor(1.2500)
    """

    output: Literal["identity", "sigmoid", "softmax"] = param(
        default="identity", doc="f, the activation of the output layer; identity if the network ends with its own"
    )

    def rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The summed squares of each row."""
        match self.output:
            case "sigmoid":
                answers = torch.sigmoid(scores)
            case "softmax":
                answers = torch.softmax(scores, dim=1)
            case "identity":
                answers = scores
        targets = labels if labels.dim() > 1 else F.one_hot(labels, scores.shape[1])
        return (targets.to(answers.dtype) - answers).square().sum(dim=1)


class AbsoluteError(Loss, name="absolute-error"):
    """Σ_j |y_j − a_j| per row: large errors count less than in squares, and the median is predicted, not the mean."""

    def rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The summed errors of each row."""
        return (scores - labels).abs().sum(dim=1)


class Huber(Loss, name="huber"):
    """Σ_j of e²/2 where |e| ≤ δ, else δ·(|e| − δ/2), with e = y_j − a_j (Huber 1964): squares for small errors only."""

    delta: float = param(default=1.0, gt=0, doc="δ, in deviations of the target")

    def rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The summed losses of each row."""
        return F.huber_loss(scores, labels, reduction="none", delta=self.delta).sum(dim=1)


def usual_loss(targets: Tensor) -> Loss:
    """The loss of targets of this kind: cross-entropy of classes and labels, squared error of values."""
    match kind_of(targets):
        case Kind.CLASSES:
            return CrossEntropy()
        case Kind.LABELS:
            return BinaryCrossEntropy()
        case Kind.VALUES:
            return SquaredError()


def by_row(loss: LossFunction) -> LossFunction:
    """``loss`` of each row, as weights need it: one of ours, or a loss of torch, without its mean over the batch.

    >>> by_row(torch.nn.MSELoss())(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
    tensor([1., 2.])
    """
    if isinstance(loss, Loss):
        return loss.rows
    if not isinstance(loss, nn.Module) or getattr(loss, "reduction", None) != "mean":
        name = getattr(loss, "__name__", type(loss).__name__)
        raise UsageError(
            f"loss {name} gives only a mean, but weights need the loss of each row; use {', '.join(Loss.members)}, or "
            "a loss module of torch"
        )
    single = copy.deepcopy(loss)
    single.reduction = "none"  # type: ignore[assignment]  # torch types every attribute as a tensor or module

    def rows(scores: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = single(scores, labels)
        return found.flatten(1).mean(dim=1) if found.dim() > 1 else found

    return rows
