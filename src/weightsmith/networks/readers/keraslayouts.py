"""Keras variables in torch's orientation: out before in, channels before positions, torch's names and gate order.

| Keras | shape | here |
|---|---|---|
| Dense ``kernel`` | in × out | ``weight`` out × in |
| Conv ``kernel`` | k… × in × out | ``weight`` out × in × k… |
| ConvTranspose ``kernel`` | k… × out × in | ``weight`` in × out × k… |
| depthwise ``kernel`` | k… × in × m | ``weight`` in·m × 1 × k…, groups = in |
| ``embeddings`` | rows × columns | ``weight`` |
| EinsumDense ``kernel`` | by its equation | ``weight`` out × in |
| LSTM ``kernel``, ``recurrent_kernel`` | in × 4·h | ``weight_ih_l0``, ``weight_hh_l0`` 4·h × in |
| ``gamma beta moving_mean moving_variance`` | | ``weight bias running_mean running_var`` |

GRU gates are stored as z, r, h and become torch's r, z, n.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from weightsmith.networks.layers.forms import GATES, Form

__all__ = ["LayerFacts", "Layout", "is_recurrent", "layout_of", "roles_of"]

_RENAMED = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
_ROLES = {
    "embedding": ("embeddings",),
    "separable_conv1d": ("depthwise_kernel", "pointwise_kernel", "bias"),
    "separable_conv2d": ("depthwise_kernel", "pointwise_kernel", "bias"),
    "layer_normalization": ("gamma", "beta"),
    "group_normalization": ("gamma", "beta"),
}


@dataclass(frozen=True)
class LayerFacts:
    """Facts about a Keras layer: its class in snake case, groups and equation from its configuration."""

    kind: str = ""
    groups: int = 1
    equation: str = ""
    backward: bool = False
    output: bool = False  # the projection after an attention: its kernel contracts two axes


@dataclass(frozen=True)
class Layout:
    """A variable in torch's layout: the end of its name, its kind if it is a matrix, and how to permute it."""

    name: str
    form: Form | None
    turn: Callable[[Tensor], Tensor]


def roles_of(kind: str, shapes: list[tuple[int, ...]], cell: bool) -> list[str]:
    """The names of a layer's variables, which Keras 3 stores by number, from its class and their shapes."""
    if kind == "batch_normalization":
        scale = {4: ["gamma", "beta"], 3: ["gamma"]}.get(len(shapes), [])
        return [*scale, "moving_mean", "moving_variance"][: len(shapes)]
    named = ["kernel", "recurrent_kernel", "bias"] if cell else list(_ROLES.get(kind, ("kernel", "bias")))
    if not shapes or (kind not in _ROLES and len(shapes[0]) < 2):
        named = []
    return named[: len(shapes)] + [str(number) for number in range(len(named), len(shapes))]


def is_recurrent(shapes: list[tuple[int, ...]]) -> bool:
    """Whether the first two variables are the input and the recurrent kernel of a cell: in × g·h and h × g·h."""
    if len(shapes) < 2 or any(len(shape) != 2 for shape in shapes[:2]):
        return False
    (_, width), (hidden, same) = shapes[:2]
    return width == same and hidden > 0 and same % hidden == 0 and same // hidden in GATES


def layout_of(role: str, shape: tuple[int, ...], facts: LayerFacts, gates: int = 0) -> Layout:
    """The layout of the variable ``role`` of a layer; an unknown variable stays unchanged."""
    dimensions = len(shape) - 2
    if gates and role in ("kernel", "recurrent_kernel") and len(shape) == 2:
        end = "weight_ih_l0" if role == "kernel" else "weight_hh_l0"
        name = end + ("_reverse" if facts.backward else "")
        return Layout(name, Form(GATES[gates], gates=gates), functools.partial(_gates, gates=gates))
    if role in _RENAMED:
        return Layout(_RENAMED[role], None, _same)
    if role == "embeddings" and len(shape) == 2:
        return Layout("weight", Form("Embedding"), _same)
    if role == "depthwise_kernel" or (role == "kernel" and facts.kind.startswith("depthwise_conv")):
        name = "depthwise.weight" if role == "depthwise_kernel" else "weight"
        return Layout(name, Form(f"Conv{dimensions}d", groups=shape[-2]), _depthwise)
    if role == "kernel" and facts.kind == "einsum_dense" and len(shape) > 1:
        return Layout("weight", Form("Linear"), functools.partial(_einsum, facts=facts))
    if role in ("kernel", "pointwise_kernel", "recurrent_kernel") and len(shape) == 2:
        return Layout("weight", Form("Linear"), _turned)
    if role in ("kernel", "pointwise_kernel", "recurrent_kernel") and 3 <= len(shape) <= 5:
        name = {"kernel": "weight", "pointwise_kernel": "pointwise.weight"}.get(role, "weight_hh")
        if facts.kind.endswith("_transpose"):
            return Layout(name, Form(f"ConvTranspose{dimensions}d"), _convolution)
        return Layout(name, Form(f"Conv{dimensions}d", groups=facts.groups), _convolution)
    return Layout(role, None, _same)


def _same(values: Tensor) -> Tensor:
    return values


def _turned(values: Tensor) -> Tensor:
    return values.t()


def _gates(values: Tensor, gates: int) -> Tensor:
    turned = values.t()
    if gates != 3:
        return turned
    update, reset, new = turned.chunk(3)
    return torch.cat((reset, update, new))


def _convolution(values: Tensor) -> Tensor:
    """k… × a × b → b × a × k…; for a transposed convolution a is out and b is in, as in torch."""
    positions = range(values.ndim - 2)
    return values.permute(values.ndim - 1, values.ndim - 2, *positions)


def _depthwise(values: Tensor) -> Tensor:
    positions = range(values.ndim - 2)
    turned = values.permute(values.ndim - 2, values.ndim - 1, *positions)
    return turned.flatten(0, 1).unsqueeze(1)


def _einsum(values: Tensor, facts: LayerFacts) -> Tensor:
    """Out × in by the equation ``input,kernel->output``: the kernel's letters that reach the output are out."""
    left, _, output = facts.equation.replace(" ", "").partition("->")
    letters = left.partition(",")[2]
    if len(letters) == values.ndim and len(set(letters)) == values.ndim:
        out = [axis for axis, letter in enumerate(letters) if letter in output]
        inputs = [axis for axis, letter in enumerate(letters) if letter not in output]
    else:
        split = values.ndim - 1 if facts.output else 1
        inputs, out = list(range(split)), list(range(split, values.ndim))
    turned = values.permute(*out, *inputs)
    rows = 1
    for size in turned.shape[: len(out)]:
        rows *= size
    return turned.reshape(rows, -1)
