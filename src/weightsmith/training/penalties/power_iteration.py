"""The largest singular value of a weight and its two vectors, followed from step to step by power iteration.

A convolution (out, in, k, …) counts as the matrix (out, in·k·…), as in Yoshida & Miyato (2017). Its largest singular
value is not quite that of the convolution as a map of images, which also depends on the image size and the stride.

    u ← W·v / ‖W·v‖,    σ ← ‖Wᵀ·u‖,    v ← Wᵀ·u / σ

σ never falls from one turn to the next and ends at ‖W‖₂. Weights move little in a step, so within an epoch one turn
from the last v is enough; every epoch starts from a fixed random v with as many turns as it takes, because a resumed
run does not know the last v.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weightsmith.core.seeds import torch_stream
from weightsmith.training.penalties.base import Penaliser, Weight

__all__ = ["Leading", "SpectralPenaliser", "leading"]

_MOST_TURNS = 100


@dataclass(frozen=True, eq=False)
class Leading:
    """The largest singular value σ of a matrix with its left vector u and right vector v."""

    left: Tensor
    sigma: float
    right: Tensor


def leading(matrix: Tensor, right: Tensor | None = None, turns: int = _MOST_TURNS) -> Leading | None:
    """Power iteration from ``right`` (or from a fixed random start) until σ settles, ``turns`` at most.

    None for a matrix of zeros, which has no direction, and for one that is not finite.

    >>> leading(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).sigma
    4.0
    """
    vector = _start(matrix) if right is None else right
    limits, sigma = torch.finfo(matrix.dtype), 0.0
    for _ in range(turns):
        left = matrix @ vector
        left = left / left.norm()
        image = matrix.T @ left
        before, sigma = sigma, image.norm().item()
        # Below the root of the least number all squares are zero, and inverse squares infinite.
        if not math.sqrt(limits.tiny) < sigma < math.inf:
            # A start orthogonal to all rows, as after inputs were cut off: any other will do, if there is one.
            return None if right is None else leading(matrix)
        vector = image / sigma
        if sigma - before <= limits.eps * sigma:
            break
    return Leading(left, sigma, vector)


def _start(matrix: Tensor) -> Tensor:
    """The same Gaussian vector for all matrices of the same width."""
    columns = matrix.shape[1]
    drawn = torch.randn(columns, generator=torch_stream(0, "power iteration", columns), dtype=torch.float64)
    return drawn.to(matrix)


class SpectralPenaliser(Penaliser, ABC):
    """λ times a function of each weight and its :class:`Leading`; weights of zeros are passed over."""

    def __init__(self, strength: float, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.strength = strength
        self._rights: dict[str, Tensor] = {}

    @abstractmethod
    def price(self, weight: Weight, top: Leading) -> float:
        """The function for one weight, without λ."""

    @abstractmethod
    def add_slope(self, weight: Weight, top: Leading, gradient: Tensor) -> None:
        """Add λ times the function's gradient."""

    def start_epoch(self) -> None:
        """Forget the vectors; the next step starts afresh."""
        self._rights.clear()

    @torch.no_grad()
    def value(self) -> float:
        """λ·Σ of the prices, with σ settled. The vectors in use are left as they are: looking changes nothing."""
        tops = ((weight, leading(weight.matrix(), self._rights.get(weight.name))) for weight in self.weights)
        return self.strength * sum(self.price(weight, top) for weight, top in tops if top is not None)

    @torch.no_grad()
    def add_gradient(self) -> None:
        """One turn of the iteration for each weight (many in the first step of an epoch), then its gradient."""
        for weight, gradient in self.with_gradients():
            right = self._rights.get(weight.name)
            top = leading(weight.matrix(), right, _MOST_TURNS if right is None else 1)
            if top is not None:
                self._rights[weight.name] = top.right
                self.add_slope(weight, top, gradient)
