"""L4 balance: units of the first layer with equal L4 norms, so that a spiking network needs no adjustment."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from weightsmith.core.options import param
from weightsmith.networks.layers.norms import entrywise
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight

__all__ = ["L4Balance"]


class L4Balance(Penalty, name="l4-balance"):
    """λ·mean_j((n_j − m)²) / m², with n_j = (Σ w⁴)^¼ over the weights into unit j and m the mean of the n_j.

    The L4 adjustment (seed 000, eq. 6) moves the threshold of unit j by n_j/m: if all n_j are equal, it changes
    nothing. The squared coefficient of variation measures the deviation from that at any scale of the weights, so
    shrinking the weights does not reduce it: its gradient is orthogonal to them. For k units

        ∂/∂w = 2λ/(k·m²)·(n_j − mean(n²)/m)·(w/n_j)³

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[1.0, 0.0], [0.0, -3.0]])
    >>> L4Balance(1.0).on([Weight("weight", layer.weight)]).value()
    0.25
    """

    strength: float = param(ge=0, doc="λ")
    layers: str = param(default="", kw_only=True, doc="glob over names of weights or layers; empty: the first weight")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
        chosen = self.chosen(weights) if self.layers else dataclasses.replace(self, layers="*").chosen(weights)[:1]
        return _L4BalancePenaliser(self.strength, chosen)


class _L4BalancePenaliser(Penaliser):
    def __init__(self, strength: float, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.strength = strength

    @torch.no_grad()
    def value(self) -> float:
        total = 0.0
        for weight in self.weights:
            norms = _l4_norms(weight)
            mean = norms.mean()
            if mean > 0:
                total += (norms / mean - 1).square().mean().item()
        return self.strength * total

    @torch.no_grad()
    def add_gradient(self) -> None:
        for weight, gradient in self.with_gradients():
            norms = _l4_norms(weight)
            mean = norms.mean()
            if not mean > 0:
                continue
            relative = norms / mean
            slope = (relative - relative.square().mean()) * (2 * self.strength / norms.numel()) / mean
            # A unit of zeros has no direction to grow in; a norm of 1 instead of 0 gives it no gradient.
            unit = weight.value / torch.where(norms > 0, norms, 1.0).view(_along(weight))
            gradient.add_(unit.pow_(3).mul_(slope.view(_along(weight))))


def _l4_norms(weight: Weight) -> Tensor:
    """One L4 norm per unit as ‖w²‖₂^½, many times faster than by fourth powers."""
    return entrywise(weight.value.square(), 2, dim=weight.across(weight.unit_axis)).sqrt()


def _along(weight: Weight) -> list[int]:
    """The shape that lays one number per unit along the weight's axis of units."""
    return [-1 if axis == weight.unit_axis else 1 for axis in range(weight.value.dim())]
