"""Matrix forms of weight tensors: stacks of out × in matrices, by kind of layer.

| kind | stored | matrices (count × rows × columns) |
|---|---|---|
| Linear, Embedding, MultiheadAttention | out × in | 1 × out × in |
| Conv1d, 2d, 3d | out × in/g × kernel | g·positions × out/g × in/g |
| the same with one input and no groups | out × 1 × kernel | 1 × out × positions: a filter per row |
| ConvTranspose1d, 2d, 3d | in × out/g × kernel | g·positions × out/g × in/g |
| LSTM, GRU, RNN | gates·hidden × in | gates × hidden × in |
| Experts | experts × in × out | as stored |

Positions run row by row through the kernel; with groups, all positions of the first group come first.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from torch import Tensor

__all__ = ["GATES", "Form"]

GATES = {4: "LSTM", 3: "GRU", 1: "RNN"}

_TEXT = re.compile(r"(\w+)(?:\((groups|gates)=([1-9]\d{0,8})\))?")


@dataclass(frozen=True)
class Form:
    """A kind of layer, with its groups or gates, which the shape does not show.

    >>> import torch
    >>> Form("Conv2d", groups=2).stack(torch.zeros(8, 3, 5, 5)).shape
    torch.Size([50, 4, 3])
    """

    kind: str
    groups: int = 1
    gates: int = 1

    @classmethod
    def parse(cls, text: str) -> Form:
        """The form that a text names: ``Conv2d``, ``Conv2d(groups=32)``, ``LSTM(gates=4)``."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a kind of layer")
        kind, field, number = match.groups()
        return cls(kind, **{field: int(number)}) if field else cls(kind)

    def __str__(self) -> str:
        """The text :meth:`parse` reads."""
        if self.groups > 1:
            return f"{self.kind}(groups={self.groups})"
        return f"{self.kind}(gates={self.gates})" if self.gates > 1 else self.kind

    def has_one_input(self, shape: tuple[int, ...]) -> bool:
        """Whether it is a convolution of a single channel, with only one column at each position of its kernel."""
        return self.kind in ("Conv1d", "Conv2d", "Conv3d") and self.groups == 1 and shape[1] == 1

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape can have this form."""
        if 0 in shape:
            return False
        match self.kind:
            case "Conv1d" | "Conv2d" | "Conv3d" | "ConvTranspose1d" | "ConvTranspose2d" | "ConvTranspose3d":
                return len(shape) == int(self.kind[-2]) + 2 and shape[0] % self.groups == 0
            case "LSTM" | "GRU" | "RNN":
                return len(shape) in (2, 3) and shape[-2] % self.gates == 0
            case "Experts":
                return len(shape) == 3
            case _:
                return len(shape) == 2

    def stack(self, weight: Tensor) -> Tensor:
        """The matrices of ``weight``; a view of it wherever strides allow (always without groups)."""
        match self.kind:
            case "Conv1d" | "Conv2d" | "Conv3d":
                if self.has_one_input(tuple(weight.shape)):
                    return weight.flatten(1).unsqueeze(0)
                out, inputs = weight.shape[0] // self.groups, weight.shape[1]
                parts = weight.reshape(self.groups, out, inputs, _positions(weight))
                return _flat(parts.permute(0, 3, 1, 2))
            case "ConvTranspose1d" | "ConvTranspose2d" | "ConvTranspose3d":
                inputs, out = weight.shape[0] // self.groups, weight.shape[1]
                parts = weight.reshape(self.groups, inputs, out, _positions(weight))
                return _flat(parts.permute(0, 3, 2, 1))
            case "LSTM" | "GRU" | "RNN":
                return weight.reshape(-1, weight.shape[-2] // self.gates, weight.shape[-1])
            case "Experts":
                return weight
            case _:
                return weight.unsqueeze(0)

    def stack_shape(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """The shape of :meth:`stack` without any values."""
        match self.kind:
            case "Conv1d" | "Conv2d" | "Conv3d":
                if self.has_one_input(shape):
                    return 1, shape[0], math.prod(shape[2:])
                return self.groups * math.prod(shape[2:]), shape[0] // self.groups, shape[1]
            case "ConvTranspose1d" | "ConvTranspose2d" | "ConvTranspose3d":
                return self.groups * math.prod(shape[2:]), shape[1], shape[0] // self.groups
            case "LSTM" | "GRU" | "RNN":
                return math.prod(shape[:-1]) * self.gates // shape[-2], shape[-2] // self.gates, shape[-1]
            case "Experts":
                return shape[0], shape[1], shape[2]
            case _:
                return 1, shape[0], shape[1]


def _positions(weight: Tensor) -> int:
    return math.prod(weight.shape[2:])


def _flat(parts: Tensor) -> Tensor:
    return parts[0] if parts.shape[0] == 1 else parts.flatten(0, 1)
