"""L1 and L2: a price on the size of every single weight."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from weightsmith.core.options import param
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight

__all__ = ["L1", "L2"]


class L1(Penalty, name="l1"):
    """λ·Σ|w|, gradient λ·sign(w) with sign(0) = 0, as Keras' ``L1`` (Tibshirani 1996).

    Weights come close to zero, but a gradient step passes over it: for exact zeros take ``group-lasso``.

    >>> layer = torch.nn.Linear(2, 1)
    >>> layer.weight.data = torch.tensor([[3.0, -4.0]])
    >>> L1(0.5).on([Weight("weight", layer.weight)]).value()
    3.5
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """At work."""
        return _L1Penaliser(self.strength, self.chosen(weights))


class L2(Penalty, name="l2"):
    """λ·Σw², gradient 2λ·w, as Keras' ``L2``. torch's ``weight_decay=d`` adds d·w: that is ``L2(d / 2)``.

    With Adam and its like the gradient is divided by its own size, this part of it too; decay that is not: ``adamw``.

    >>> layer = torch.nn.Linear(2, 1)
    >>> layer.weight.data = torch.tensor([[3.0, -4.0]])
    >>> L2(0.5).on([Weight("weight", layer.weight)]).value()
    12.5
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """At work."""
        return _L2Penaliser(self.strength, self.chosen(weights))


class _L1Penaliser(Penaliser):
    def __init__(self, strength: float, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.strength = strength

    @torch.no_grad()
    def value(self) -> float:
        return self.strength * sum(weight.value.abs().sum().item() for weight in self.weights)

    @torch.no_grad()
    def add_gradient(self) -> None:
        for weight, gradient in self.with_gradients():
            gradient.add_(weight.value.sign(), alpha=self.strength)


class _L2Penaliser(Penaliser):
    def __init__(self, strength: float, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.strength = strength

    @torch.no_grad()
    def value(self) -> float:
        return self.strength * sum(weight.value.square().sum().item() for weight in self.weights)

    @torch.no_grad()
    def add_gradient(self) -> None:
        for weight, gradient in self.with_gradients():
            gradient.add_(weight.value, alpha=2 * self.strength)
