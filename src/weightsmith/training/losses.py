"""Losses by name, as means over the images of a batch.

``labels`` are class numbers; a row of targets per image (floating point, the shape of the scores) is taken as well.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from weightsmith.core.options import Option, param

__all__ = ["CrossEntropy", "Loss", "SquaredError"]


class Loss(Option):
    """The family of losses of a classifier's scores (the output layer before any softmax)."""

    @abstractmethod
    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss over the batch, one number that can be differentiated."""


class CrossEntropy(Loss, name="cross-entropy"):
    """−Σ_j q_j·log p_j, with p = softmax(scores) and q the true class, mixed with smoothing·(1/classes).

    q_j = (1 − s)·[j = label] + s/k for k classes and smoothing s (Szegedy et al. 2016).

    >>> CrossEntropy()(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.6931)
    """

    smoothing: float = param(default=0.0, ge=0, lt=1, doc="s, the share of the target spread over all classes")

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return F.cross_entropy(scores, labels, label_smoothing=self.smoothing)


class SquaredError(Loss, name="squared-error"):
    """Σ_j (y_j − a_j)² per image, with a = f(scores) and y one-hot: its sensitivity is −2·(y − a)·f′ (seed 002, eq. 7).

    Summed over the classes: Keras and torch take their mean, which is smaller by the number of classes.

    >>> SquaredError()(torch.tensor([[0.5, 0.0, 1.0]]), torch.tensor([0]))
    tensor(1.2500)
    """

    output: Literal["identity", "sigmoid", "softmax"] = param(
        default="identity", doc="f, the activation of the output layer; identity if the network ends with its own"
    )

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean over the images of the summed squares."""
        match self.output:
            case "sigmoid":
                answers = torch.sigmoid(scores)
            case "softmax":
                answers = torch.softmax(scores, dim=1)
            case "identity":
                answers = scores
        targets = labels if labels.is_floating_point() else F.one_hot(labels, scores.shape[1])
        return (targets.to(answers.dtype) - answers).square().sum(dim=1).mean()
