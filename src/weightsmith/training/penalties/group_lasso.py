"""Group lasso: whole filters, channels or layers go to exactly zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from weightsmith.core.options import param
from weightsmith.training.penalties.base import Penaliser, Penalty, Weight

__all__ = ["GroupLasso"]


class GroupLasso(Penalty, name="group-lasso"):
    """λ·Σ_G c_G·‖w_G‖₂ over groups G of weights (Yuan & Lin 2006; for networks Wen et al. 2016).

    Groups are the ``filters`` (all weights into one output unit), the ``channels`` (all weights out of one input) or
    the whole weight of each of the ``layers``: what distiller calls 3D, Channels and 4D, and used for the networks of
    seed 004, figure 4. Removing layers makes sense where a shortcut leads around them. c_G is 1 as in distiller, or
    with ``weighting="size"`` the root of the group's size, so that one λ suits groups of all sizes (Yuan & Lin).

    The norm has no gradient at zero, where it matters; distiller smooths it and cuts by a threshold. Here each step
    ends with the proximal operator, which solves the problem and gives exact zeros (η: the rate):

        w_G ← max(0, 1 − η·λ·c_G / ‖w_G‖)·w_G

    This is exact for ``sgd``, and for momentum with the rate times its gain. Adam and similar optimisers scale each
    number differently; there the result is sparse as well, but λ is relative to the size of the gradients.

    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> penaliser = GroupLasso(5.0).on([Weight("weight", layer.weight)])
    >>> penaliser.after_step(rate=0.5)
    >>> layer.weight.data
    tensor([[1.5000, 2.0000],
            [0.0000, 0.0000]])
    >>> penaliser.removed()
    ('weight: 1 of 2 filters is zero (1)',)
    """

    strength: float = param(ge=0, doc="λ")
    groups: Literal["filters", "channels", "layers"] = param(default="filters", doc="what goes to zero together")
    weighting: Literal["none", "size"] = param(default="none", doc="c_G: 1, or the root of the group's size")

    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser for the matching weights."""
        return _GroupLassoPenaliser(self, self.chosen(weights))


class _GroupLassoPenaliser(Penaliser):
    def __init__(self, option: GroupLasso, weights: Sequence[Weight]) -> None:
        super().__init__(weights)
        self.option = option

    @torch.no_grad()
    def value(self) -> float:
        return sum(self._price(weight) * self._norms(weight).sum().item() for weight in self.weights)

    @torch.no_grad()
    def after_step(self, rate: float) -> None:
        for weight in self.weights:
            norms = self._norms(weight)
            left = (norms - rate * self._price(weight)).clamp_(min=0)
            # The least positive number replaces a norm of zero: 0 divided by it is 0, and norm / norm is exactly 1.
            weight.value.mul_(left / norms.clamp_(min=torch.finfo(norms.dtype).tiny))

    @torch.no_grad()
    def removed(self) -> tuple[str, ...]:
        kind, found = self.option.groups, []
        for weight in self.weights:
            live = torch.any(weight.value != 0, dim=self._axes(weight))
            zero = (~live).reshape(-1).nonzero().flatten().tolist()
            if kind == "layers" and zero:
                found.append(f"{weight.name}: the whole layer is zero")
            elif zero:
                count = weight.value.shape[self._axis(weight)]
                verb = "is" if len(zero) == 1 else "are"
                found.append(f"{weight.name}: {len(zero)} of {count} {kind} {verb} zero ({_listed(zero)})")
        return tuple(found)

    def _axis(self, weight: Weight) -> int:
        """The axis along which the groups are counted."""
        return weight.unit_axis if self.option.groups == "filters" else 1 - weight.unit_axis

    def _axes(self, weight: Weight) -> tuple[int, ...]:
        """The axes that lie within a group."""
        return tuple(range(weight.value.dim())) if self.option.groups == "layers" else weight.across(self._axis(weight))

    def _norms(self, weight: Weight) -> Tensor:
        """The norm of each group, in a shape that can be multiplied with the weight."""
        if self.option.groups == "channels":  # across rows torch's norm is many times slower than its sum
            return weight.value.square().sum(self._axes(weight), keepdim=True).sqrt_()
        norms: Tensor = torch.linalg.vector_norm(weight.value, dim=self._axes(weight), keepdim=True)
        return norms

    def _price(self, weight: Weight) -> float:
        """λ·c_G, the same for all groups of one weight."""
        if self.option.weighting == "none":
            return self.option.strength
        return self.option.strength * math.sqrt(math.prod(weight.value.shape[axis] for axis in self._axes(weight)))


def _listed(numbers: Sequence[int]) -> str:
    """Numbers as text: up to twenty of them, then how many more."""
    shown = ", ".join(map(str, numbers[:20]))
    return shown if len(numbers) <= 20 else f"{shown} and {len(numbers) - 20} more"
