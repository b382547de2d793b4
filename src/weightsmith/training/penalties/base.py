"""The base of all penalties: the weights they act on, the option family, and the object that acts during training.

A penalty acts on weights only: parameters of two or more dimensions. Biases and the scales of norms are left alone.
"""

from __future__ import annotations

import fnmatch
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.options import Option, param

__all__ = ["Penaliser", "Penalty", "Weight", "weights_of"]


@dataclass(frozen=True, eq=False)
class Weight:
    """A trainable parameter of two or more dimensions, as (out, in) or (out, in, k, …).

    ``unit_axis`` is the axis of the output units: 0, but 1 in transposed convolutions, stored as (in, out, k, …).
    """

    name: str
    value: nn.Parameter
    unit_axis: int = 0

    @property
    def layer(self) -> str:
        """The name of the layer that holds it."""
        return self.name.rpartition(".")[0]

    def across(self, axis: int) -> tuple[int, ...]:
        """All axes but ``axis``: summing over them gives one number per position along it."""
        return tuple(other for other in range(self.value.dim()) if other != axis)

    def matrix(self) -> Tensor:
        """The weight as the matrix (out, in·k·…): one row per unit. A copy, if the memory layout differs."""
        return self.value.detach().movedim(self.unit_axis, 0).flatten(1)

    def unmatrix(self, matrix: Tensor) -> Tensor:
        """A matrix of the form of :meth:`matrix` in the shape of the weight."""
        moved = self.value.movedim(self.unit_axis, 0).shape
        return matrix.view(moved).movedim(0, self.unit_axis)


def weights_of(network: nn.Module) -> tuple[Weight, ...]:
    """The trainable weights of a network in order; tied ones once, frozen ones not at all.

    >>> network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    >>> [weight.name for weight in weights_of(network)]
    ['0.weight', '3.weight']
    """
    transposed = {
        id(module.weight)
        for module in network.modules()
        if isinstance(module, _ConvTransposeNd) and isinstance(module.weight, nn.Parameter)
    }
    return tuple(
        Weight(name, value, unit_axis=int(id(value) in transposed))
        for name, value in network.named_parameters()
        if value.requires_grad and value.dim() > 1
    )


class Penaliser:
    """A penalty applied to chosen weights. Everything is done in place on each ``value`` and its ``value.grad``.

    The loop calls :meth:`start_epoch` before the first step of every epoch; in each step :meth:`add_gradient` between
    the backward pass and the clipping, and :meth:`after_step` once the weights have moved. All do nothing by default.
    """

    def __init__(self, weights: Sequence[Weight]) -> None:
        self.weights = tuple(weights)

    def start_epoch(self) -> None:
        """Reset the state that checkpoints do not hold, so that a resumed run gives the same bytes."""

    def value(self) -> float:
        """The penalty on the present weights."""
        return 0.0

    def add_gradient(self) -> None:
        """Add the penalty's gradient to that of the loss."""

    def after_step(self, rate: float) -> None:
        """Proximal step or projection; ``rate`` is the learning rate times the optimiser's ``gain``."""

    def removed(self) -> tuple[str, ...]:
        """The parts that the penalty has set to zero, one sentence per weight."""
        return ()

    def with_gradients(self) -> Iterator[tuple[Weight, Tensor]]:
        """The weights that have a gradient in this step, with their gradients."""
        for weight in self.weights:
            if weight.value.grad is not None:
                yield weight, weight.value.grad


class Penalty(Option):
    """The family of penalties on weights."""

    layers: str = param(default="*", kw_only=True, doc="glob over names of weights or layers")

    @abstractmethod
    def on(self, weights: Sequence[Weight]) -> Penaliser:
        """The penaliser of those of ``weights`` that ``layers`` matches."""

    def chosen(self, weights: Sequence[Weight]) -> tuple[Weight, ...]:
        """Those of ``weights`` that ``layers`` matches by their own or their layer's name; at least one."""
        live = [weight for weight in weights if weight.value.requires_grad]
        if not live:
            raise OptionError(f"{self}: the network has no trainable weight of two or more dimensions to act on")
        found = tuple(
            weight
            for weight in live
            if fnmatch.fnmatchcase(weight.name, self.layers) or fnmatch.fnmatchcase(weight.layer, self.layers)
        )
        if not found:
            raise UnknownName("trainable weight", self.layers, [weight.name for weight in live])
        return found
