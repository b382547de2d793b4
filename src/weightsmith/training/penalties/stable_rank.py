"""The stable rank as a price, which seed 004 proposes as the way to train for small α-hat."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weightsmith.core.options import param
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight
from weightsmith.training.penalties.power_iteration import Leading, SpectralPenaliser

__all__ = ["StableRank"]


class StableRank(Penalty, name="stable-rank"):
    """λ·Σ r, r = ‖W‖_F² / ‖W‖₂², between 1 and the rank of W (seed 004, eq. 6 and the sentence after it).

    With σ = ‖W‖₂ and its vectors u, v the gradient is 2λ/σ·(W/σ − r·u·vᵀ). It is orthogonal to W: the scale of the
    weights plays no part, small singular values shrink while the largest grows.

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> StableRank(1.0).on([Weight("weight", layer.weight)]).value()
    1.5625
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """At work."""
        return _StableRankPenaliser(self.strength, self.chosen(weights))


class _StableRankPenaliser(SpectralPenaliser):
    def price(self, weight: Weight, top: Leading) -> float:
        whole: float = torch.linalg.vector_norm(weight.value).item()
        return (whole / top.sigma) ** 2

    def add_slope(self, weight: Weight, top: Leading, gradient: Tensor) -> None:
        pull = 2 * self.strength / top.sigma
        gradient.add_(weight.value, alpha=pull / top.sigma)
        outer = weight.unmatrix(torch.outer(top.left, top.right))
        gradient.add_(outer, alpha=-pull * self.price(weight, top))
