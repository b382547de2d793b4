"""Gradient clipping: three different operations, each with its own name.

======================  ======================  =====================================
ours                    Keras                   torch
======================  ======================  =====================================
``ClipValue(c)``        ``clipvalue=c``         ``clip_grad_value_(parameters, c)``
``ClipNorm(c)``         ``clipnorm=c``          ``clip_grad_norm_`` on each parameter
``ClipGlobalNorm(c)``   ``global_clipnorm=c``   ``clip_grad_norm_(parameters, c)``
======================  ======================  =====================================

torch divides by ‖g‖ + 10⁻⁶; here and in Keras it is ‖g‖ itself. A gradient that holds infinity or NaN has no length
and is left as it is: clipping must not make a broken step look like a sound one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from weightsmith.core.options import Option, param

__all__ = ["Clip", "ClipGlobalNorm", "ClipNorm", "ClipValue"]


class Clip(Option):
    """The family of clippings; each is called once per step, between the backward pass and the update."""

    threshold: float = param(default=1.0, gt=0, doc="c, the largest value or norm that passes unchanged")

    @abstractmethod
    def __call__(self, whole: Tensor, parts: Sequence[Tensor]) -> bool:
        """Clip in place; returns whether anything was clipped.

        ``whole`` is the gradient of all parameters in one vector, ``parts`` its pieces per parameter: the same memory.
        """


class ClipValue(Clip, name="value"):
    """g ← max(−c, min(c, g)) for each number: the direction changes (seed 002, "Gradient Clipping").

    >>> gradient = torch.tensor([0.9, 100.0])
    >>> ClipValue(1.0)(gradient, [gradient]), gradient
    (True, tensor([0.9000, 1.0000]))
    """

    def __call__(self, whole: Tensor, parts: Sequence[Tensor]) -> bool:  # noqa: ARG002 (each number by itself)
        """Clip each number to [−c, c]."""
        if not whole.numel():
            return False
        least, most = (bound.item() for bound in torch.aminmax(whole))
        # Written so that NaN, for which every comparison is false, leaves the gradient unchanged.
        if not (most > self.threshold or least < -self.threshold) or math.isinf(most) or math.isinf(least):
            return False
        whole.clamp_(-self.threshold, self.threshold)
        return True


class ClipNorm(Clip, name="norm"):
    """g ← g·c/‖g‖ for each parameter (weight or bias) whose ‖g‖ > c: its direction stays (seed 002, "clipnorm").

    Each parameter is clipped separately, so the direction of the whole step may change.

    >>> gradient = torch.tensor([0.9, 100.0])
    >>> ClipNorm(1.0)(gradient, [gradient]), gradient
    (True, tensor([0.0090, 1.0000]))
    """

    def __call__(self, whole: Tensor, parts: Sequence[Tensor]) -> bool:
        """Shorten each part to length c."""
        # No part is longer than the whole: if the whole is short, one pass is enough.
        if _length(whole) <= self.threshold:
            return False
        lengths = (torch.linalg.vector_norm(part).item() for part in parts)
        shortened = [_shorten(part, length, self.threshold) for part, length in zip(parts, lengths, strict=True)]
        return any(shortened)


class ClipGlobalNorm(Clip, name="global-norm"):
    """g ← g·c/‖g‖ if ‖g‖ > c, with ‖g‖ over all parameters together (Pascanu et al. 2013): the direction stays.

    >>> gradient = torch.tensor([3.0, 4.0])
    >>> ClipGlobalNorm(1.0)(gradient, [gradient[:1], gradient[1:]]), gradient
    (True, tensor([0.6000, 0.8000]))
    """

    def __call__(self, whole: Tensor, parts: Sequence[Tensor]) -> bool:  # noqa: ARG002 (all of them together)
        """Shorten the whole to length c."""
        return _shorten(whole, _length(whole), self.threshold)


def _length(vector: Tensor) -> float:
    """‖vector‖ of a flat vector, in a single fast pass; inf if its squares exceed the range of the type."""
    return math.sqrt(torch.dot(vector, vector).item())


def _shorten(gradient: Tensor, length: float, most: float) -> bool:
    """Scale from ``length`` to ``most`` if it is longer; False for what is short enough or not finite."""
    if length == math.inf:
        largest = gradient.abs().max().item()
        if largest == math.inf:
            return False
        # Finite numbers with infinite squares: an exploding gradient, which clipping is meant for.
        relative = torch.linalg.vector_norm(gradient / largest).item()
        if relative <= most / largest:
            return False
        gradient.div_(largest).mul_(most / relative)
        return True
    if not length > most:  # also for NaN
        return False
    gradient.mul_(most / length)
    return True
