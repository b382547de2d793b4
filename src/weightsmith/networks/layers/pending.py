"""Layers that a walk will visit: name, form and shape, with a function that reads the weight on demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from weightsmith.networks.layers.forms import Form
from weightsmith.networks.weights import LeftOut

__all__ = ["Findings", "PendingLayer", "buffer", "layer_name", "why_not_real"]


@dataclass
class PendingLayer:
    """One layer of a walk. ``parameters`` counts its stored parameters, ``read`` gives the effective weight.

    ``part`` is the end of the name if a tensor holds several layers (``.q`` of a joint projection).
    """

    name: str
    form: Form
    shape: tuple[int, ...]
    dtype: str
    parameters: int
    read: Callable[[], Tensor]
    notes: list[str] = field(default_factory=list)
    tied_with: list[str] = field(default_factory=list)
    part: str = ""

    def tie(self, tensor: str) -> None:
        """Record that the tensor of that name shares this weight, or this part of it."""
        self.tied_with.append(layer_name(tensor) + self.part)


@dataclass
class Findings:
    """The layers of a network in order, and the tensors that are not layers."""

    plans: list[PendingLayer] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def leave(self, name: str, shape: tuple[int, ...], reason: str, parameters: int | None = None) -> None:
        """Record a tensor that is not a layer; ``parameters`` is by default the size of its shape."""
        count = math.prod(shape) if parameters is None else parameters
        self.left_out.append(LeftOut(name, shape, count, reason))


def buffer(name: str, shape: tuple[int, ...]) -> LeftOut:
    """A buffer: named, but none of its values is a parameter."""
    return LeftOut(name, shape, 0, "a buffer, not trained")


def why_not_real(dtype: str) -> str:
    """The reason why stored integers or Boolean values have no spectrum.

    >>> why_not_real("int64"), why_not_real("bool")
    ('integers (int64), no scale', 'truth values (bool): a mask, no weights')
    """
    return "truth values (bool): a mask, no weights" if dtype == "bool" else f"integers ({dtype}), no scale"


def layer_name(tensor: str) -> str:
    """The layer a tensor belongs to: its module when it is called ``weight``, else the tensor itself.

    >>> layer_name("layer1.0.conv1.weight"), layer_name("rnn.weight_ih_l0"), layer_name("weight")
    ('layer1.0.conv1', 'rnn.weight_ih_l0', 'weight')
    """
    return tensor.removesuffix(".weight")
