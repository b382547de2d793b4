"""Penalties on singular values: the spectral norm and the stable rank, both by power iteration."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weightsmith.core.options import param
from weightsmith.core.seeds import torch_stream
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight

__all__ = ["SpectralNorm", "StableRank", "leading"]


# The largest singular value of a weight and its two vectors, followed from step to step by power iteration.
#
# A convolution (out, in, k, …) counts as the matrix (out, in·k·…), as in Yoshida & Miyato (2017). Its largest singular
# value is not quite that of the convolution as a map of images, which also depends on the image size and the stride.
#
#     u ← W·v / ‖W·v‖,    σ ← ‖Wᵀ·u‖,    v ← Wᵀ·u / σ
#
# σ never falls from one turn to the next and converges to ‖W‖₂. Weights move little in a step, so within an epoch one
# turn from the last v is enough; every epoch starts from a fixed random v and iterates to convergence, because a
# resumed run does not know the last v.


_MOST_TURNS = 100


@dataclass(frozen=True, eq=False)
class _Leading:
    """The largest singular value σ of a matrix with its left vector u and right vector v."""

    left: Tensor
    sigma: float
    right: Tensor


def leading(matrix: Tensor, right: Tensor | None = None, turns: int = _MOST_TURNS) -> _Leading | None:
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
            # The start may be orthogonal to all rows, as after inputs were cut off: try the random start.
            return None if right is None else leading(matrix)
        vector = image / sigma
        if sigma - before <= limits.eps * sigma:
            break
    return _Leading(left, sigma, vector)


def _start(matrix: Tensor) -> Tensor:
    """The same Gaussian vector for all matrices of the same width."""
    columns = matrix.shape[1]
    drawn = torch.randn(columns, generator=torch_stream(0, "power iteration", columns), dtype=torch.float64)
    return drawn.to(matrix)


class _SpectralPenaliser(Penaliser, ABC):
    """λ times a function of each weight and its :class:`_Leading`; weights of zeros are skipped."""

    def __init__(self, strength: float, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.strength = strength
        self._rights: dict[str, Tensor] = {}

    @abstractmethod
    def price(self, weight: Weight, top: _Leading) -> float:
        """The function for one weight, without λ."""

    @abstractmethod
    def add_slope(self, weight: Weight, top: _Leading, gradient: Tensor) -> None:
        """Add λ times the function's gradient."""

    def start_epoch(self) -> None:
        """Reset the vectors; the next step starts afresh."""
        self._rights.clear()

    @torch.no_grad()
    def value(self) -> float:
        """λ·Σ over the weights, with σ converged. The vectors in use are not changed."""
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


class SpectralNorm(Penalty, name="spectral"):
    """λ·Σ‖W‖₂², gradient 2λσ·u·vᵀ with σ = ‖W‖₂ and its vectors u, v (Yoshida & Miyato 2017, who write λ/2).

    Squared like L2, but only for the largest singular value: λ·Σw² is λ times the sum of all squared singular values.

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> SpectralNorm(0.5).on([Weight("weight", layer.weight)]).value()
    8.0
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
        return _SpectralNormPenaliser(self.strength, self.chosen(weights))


class _SpectralNormPenaliser(_SpectralPenaliser):
    def price(self, weight: Weight, top: _Leading) -> float:  # noqa: ARG002 (σ is enough)
        return top.sigma**2

    def add_slope(self, weight: Weight, top: _Leading, gradient: Tensor) -> None:
        gradient.add_(weight.unmatrix(torch.outer(top.left, top.right)), alpha=2 * self.strength * top.sigma)


# The stable rank as a penalty, which seed 004 proposes as the way to train for small α-hat.


class StableRank(Penalty, name="stable-rank"):
    """λ·Σ r, r = ‖W‖_F² / ‖W‖₂², between 1 and the rank of W (seed 004, eq. 6 and the sentence after it).

    With σ = ‖W‖₂ and its vectors u, v the gradient is 2λ/σ·(W/σ − r·u·vᵀ). It is orthogonal to W: the scale of the
    weights has no effect; small singular values shrink while the largest grows.

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 0.0], [0.0, 4.0]])
    >>> StableRank(1.0).on([Weight("weight", layer.weight)]).value()
    1.5625
    """

    strength: float = param(ge=0, doc="λ")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
        return _StableRankPenaliser(self.strength, self.chosen(weights))


class _StableRankPenaliser(_SpectralPenaliser):
    def price(self, weight: Weight, top: _Leading) -> float:
        whole: float = torch.linalg.vector_norm(weight.value).item()
        return (whole / top.sigma) ** 2

    def add_slope(self, weight: Weight, top: _Leading, gradient: Tensor) -> None:
        pull = 2 * self.strength / top.sigma
        gradient.add_(weight.value, alpha=pull / top.sigma)
        outer = weight.unmatrix(torch.outer(top.left, top.right))
        gradient.add_(outer, alpha=-pull * self.price(weight, top))
