"""The spectral norm as a price: how much a layer can stretch its input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weightsmith.core.options import param
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight
from weightsmith.training.penalties.power_iteration import Leading, SpectralPenaliser

__all__ = ["SpectralNorm"]


class SpectralNorm(Penalty, name="spectral"):
    """λ·Σ‖W‖₂², gradient 2λσ·u·vᵀ with σ = ‖W‖₂ and its vectors u, v (Yoshida & Miyato 2017, who write λ/2).

    Squared like L2, of which it takes the largest part only: λ·Σw² is λ times the sum of all squared singular values.

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> SpectralNorm(0.5).on([Weight("weight", layer.weight)]).value()
    8.0
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """At work."""
        return _SpectralNormPenaliser(self.strength, self.chosen(weights))


class _SpectralNormPenaliser(SpectralPenaliser):
    def price(self, weight: Weight, top: Leading) -> float:  # noqa: ARG002 (σ says it all)
        return top.sigma**2

    def add_slope(self, weight: Weight, top: Leading, gradient: Tensor) -> None:
        gradient.add_(weight.unmatrix(torch.outer(top.left, top.right)), alpha=2 * self.strength * top.sigma)
