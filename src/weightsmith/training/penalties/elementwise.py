"""L1, L2 and max norm: penalties on the size of single weights and of the weights of one unit."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from weightsmith.core.options import param
from weightsmith.networks.layers.norms import entrywise
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight

__all__ = ["L1", "L2", "MaxNorm"]


class L1(Penalty, name="l1"):
    """λ·Σ|w|, gradient λ·sign(w) with sign(0) = 0, as Keras' ``L1`` (Tibshirani 1996).

    Weights come close to zero, but gradient steps overshoot it: for exact zeros use ``group-lasso``.

    >>> layer = torch.nn.Linear(2, 1)
    >>> layer.weight.data = torch.tensor([[3.0, -4.0]])
    >>> L1(0.5).on([Weight("weight", layer.weight)]).value()
    3.5
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
        return _L1Penaliser(self.strength, self.chosen(weights))


class L2(Penalty, name="l2"):
    """λ·Σw², gradient 2λ·w, as Keras' ``L2``. torch's ``weight_decay=d`` adds d·w: that is ``L2(d / 2)``.

    Adam and similar optimisers divide the gradient by its size, including this part of it; ``adamw`` decays without.

    >>> layer = torch.nn.Linear(2, 1)
    >>> layer.weight.data = torch.tensor([[3.0, -4.0]])
    >>> L2(0.5).on([Weight("weight", layer.weight)]).value()
    12.5
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
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


# Max norm: a bound on the length of each unit's input weights.


class MaxNorm(Penalty, name="max-norm"):
    """w_j ← w_j·c/‖w_j‖ after each step for every unit j with ‖w_j‖ > c (Srebro et al. 2005; Srivastava et al. 2014).

    w_j are the weights into unit j: a row of a dense layer, a filter of a convolution. Shorter units keep their bits;
    Keras' ``MaxNorm`` multiplies them by ‖w‖/(‖w‖ + 10⁻⁷) at every step. It adds nothing to the loss: its value is 0.

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> MaxNorm(1.0).on([Weight("weight", layer.weight)]).after_step(rate=0.1)
    >>> layer.weight.data
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """

    most: float = param(gt=0, doc="c, the largest norm (3 to 4 are usual beside dropout)")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
        return _MaxNormPenaliser(self.most, self.chosen(weights))


class _MaxNormPenaliser(Penaliser):
    def __init__(self, most: float, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.most = most

    @torch.no_grad()
    def after_step(self, rate: float) -> None:  # noqa: ARG002 (a projection is the same at any rate)
        for weight in self.weights:
            value, axes = weight.value, weight.across(weight.unit_axis)
            norms = torch.linalg.vector_norm(value, dim=axes, keepdim=True)
            if not bool((norms > self.most).any()):
                continue
            # Again, now safe from overflow: a norm of inf would set its unit to zero.
            norms = entrywise(value, 2, dim=axes).view_as(norms)
            value.mul_(torch.where(norms > self.most, self.most / norms, 1.0))
