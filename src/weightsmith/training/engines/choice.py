"""The gradient of one batch: by autograd for any network, by the dense engine for plain dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch
from weightsmith.training.engines.dense import DenseEngine
from weightsmith.training.engines.flat import Flat

__all__ = ["AutogradEngine", "Engine", "LossFunction", "Outcome", "engine_for"]

LossFunction = Callable[[Tensor, Tensor], Tensor]


class Outcome(NamedTuple):
    """The result of a batch: the loss (mean over its images) and the scores (image × class), detached."""

    loss: Tensor
    scores: Tensor


class Engine(Protocol):
    """Called with inputs and labels, it leaves the gradient of the mean loss in the flat gradient."""

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and the scores."""


class AutogradEngine:
    """Any network, any loss: torch's autograd."""

    def __init__(self, network: nn.Module, loss: LossFunction, flat: Flat) -> None:
        self._network, self._loss, self._flat = network, loss, flat

    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Forward, backward; the gradients are added up into the flat vector, which is cleared first."""
        self._flat.gradient.zero_()
        scores = self._network(x)
        if not isinstance(scores, Tensor) or scores.dim() != 2:
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise DataMismatch(f"the network gives {shape}, not one score per class (images × classes)")
        loss = self._loss(scores, y)
        torch.autograd.backward(loss)
        return Outcome(loss.detach(), scores.detach())


def engine_for(network: nn.Module, loss: LossFunction, flat: Flat) -> Engine:
    """The dense engine where it applies (its results are those of autograd, faster), else autograd."""
    return DenseEngine.of(network, loss, flat) or AutogradEngine(network, loss, flat)
