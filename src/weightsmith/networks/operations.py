"""Multiply–accumulate operations (MACs) of a network for one input.

They are counted in a forward pass, so that a layer used twice counts twice and an unused layer counts nothing:

    Linear                   outputs · inputs
    Conv                     output positions · output channels · (input channels / groups) · kernel size
    transposed Conv          input positions · input channels · (output channels / groups) · kernel size

Biases, norms, activations and pools are left out, as is usual: they are additions, or few. Padding at the border of an
image counts like a value, as is usual; with ``zeros=False`` neither padding nor weights of 0 count.

>>> operations(nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 10)), torch.zeros(1, 784))
238200
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.int8 import Int8Layer
from weightsmith.networks.precision import input_type, like_of
from weightsmith.networks.running import FAILURES, cannot_take

__all__ = ["Operations", "count_operations", "operations"]

_Layer = nn.Linear | _ConvNd | Int8Layer


@dataclasses.dataclass(frozen=True, eq=False)
class Operations(Record):
    """MACs of one input per layer, in the order of the network.

    ``uncounted`` names modules with weights (parameters of two or more dimensions) that were not counted: layers of
    other kinds, and layers that were not called themselves.
    """

    layers: dict[str, int]
    uncounted: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All layers together."""
        return sum(self.layers.values())


def operations(network: nn.Module, example: Tensor) -> int:
    """The MACs of all Linear and Conv layers for the first row of ``example`` (a batch)."""
    return count_operations(network, example).total


@torch.no_grad()
def count_operations(network: nn.Module, example: Tensor, *, zeros: bool = True) -> Operations:
    """The MACs of each Linear and Conv layer for the first row of ``example``; ``network`` itself is not changed.

    With ``zeros=False``, MACs with padding (of plain convolutions) or with a weight of 0 are left out. This counts the
    connections of the network, as the synaptic operations of spikes are counted.
    """
    if example.dim() < 2 or len(example) == 0:
        raise UsageError(f"the example must be a batch of at least one input, not of shape {tuple(example.shape)}")
    running = copied(network).eval()
    like = like_of(running)
    counts: dict[nn.Module, int] = {}

    def note(layer: _Layer, inputs: tuple[Any, ...], output: Tensor) -> None:
        if not inputs:
            raise UsageError(f"a {type(layer).__name__} gets its input as a keyword (input=…); pass it by position")
        found = _of_layer(layer, inputs[0], output) if zeros else _connected(layer, inputs[0], output)
        counts[layer] = counts.get(layer, 0) + found

    with contextlib.ExitStack() as hooks:
        for layer in running.modules():
            if isinstance(layer, _Layer):
                hooks.callback(layer.register_forward_hook(note).remove)
        try:
            running(example[:1].to(device=like.device, dtype=input_type(running)))
        except FAILURES as error:
            raise cannot_take(running, example[:1], error) from error
    names = {name: layer for name, layer in running.named_modules() if layer in counts}
    return Operations({name: counts[layer] for name, layer in names.items()}, _uncounted(running, counts))


def _of_layer(layer: _Layer, entering: Tensor, leaving: Tensor) -> int:
    if isinstance(layer, Int8Layer):
        return leaving.numel() * math.prod(layer.weight.shape[1:])
    if isinstance(layer, nn.Linear):
        return leaving.numel() * layer.in_features
    kernel = math.prod(layer.kernel_size)
    if isinstance(layer, _ConvTransposeNd):
        # Every input value is spread over a kernel of every output channel of its group.
        return entering.numel() * (layer.out_channels // layer.groups) * kernel
    return leaving.numel() * (layer.in_channels // layer.groups) * kernel


def _connected(layer: _Layer, entering: Tensor, leaving: Tensor) -> int:
    """The MACs with non-zero weights and values inside the image only."""
    kept = layer.weight != 0
    if isinstance(layer, Int8Layer):
        return int(layer.summed(torch.ones_like(entering, dtype=torch.float64), kept.double()).sum())
    if isinstance(layer, nn.Linear | _ConvTransposeNd):
        return round(_of_layer(layer, entering, leaving) * float(kept.double().mean()))
    # In float64: a sum of ones is exact.
    counted = layer._conv_forward(torch.ones_like(entering, dtype=torch.float64), kept.double(), None)
    return int(counted.sum())


def _uncounted(network: nn.Module, counts: dict[nn.Module, int]) -> tuple[str, ...]:
    """Modules with weights of their own that are not in ``counts``, nor part of a layer that is."""
    inside = {part for layer in counts for part in layer.modules()}
    return tuple(
        f"{name or 'the network itself'} ({type(module).__name__})"
        for name, module in network.named_modules()
        if module not in inside
        and not isinstance(module, nn.LayerNorm)
        and any(value.dim() > 1 for value in module.parameters(recurse=False))
    )
