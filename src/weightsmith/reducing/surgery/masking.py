"""Masked networks: hooks change the values that the readers receive; the network itself is unchanged.

Surgery is verified against masking, and searches evaluate their masks with it. The hooks sit on
the layers that read the units, and are removed at the end of the ``with`` block.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.networks.editing.resizing import outputs_first, set_tensors
from weightsmith.reducing.decisions import Choice
from weightsmith.reducing.surgery.sites import Port, Site, pads_with_zeros

__all__ = ["masked", "silenced", "unit_axis"]


@contextmanager
def masked(
    network: nn.Module, sites: Sequence[Site], choices: Sequence[Choice], *, borders: bool = False
) -> Iterator[nn.Module]:
    """``network`` itself, whose readers receive the replacements of the units that ``choices`` remove.

    A constant that replaces a unit in front of zero padding is added to the output of the reader at every position, as
    a cut does with the bias. With ``borders`` it replaces the unit itself, so that the padding stays 0 and the reader
    treats it like the unit. Layer norms, and group norms of one group, take their mean and variance over the kept
    units; other group norms lose whole groups, which changes no statistics.
    """
    known = {site.name: site for site in sites}
    with ExitStack() as hooks:
        for choice in choices:
            for port in known[choice.site].carriers:
                norm = network.get_submodule(port.layer)
                if isinstance(norm, nn.LayerNorm) or (isinstance(norm, nn.GroupNorm) and norm.num_groups == 1):
                    hooks.callback(norm.register_forward_hook(_OverKept(norm, port, choice)).remove)
            for port in known[choice.site].readers:
                reader = network.get_submodule(port.layer)
                pads = pads_with_zeros(reader) and not borders
                replace = _Replace(port, choice, constants=not pads)
                hooks.callback(reader.register_forward_pre_hook(replace).remove)
                if pads:
                    hooks.callback(reader.register_forward_hook(_Shift(port, choice)).remove)
        yield network


@contextmanager
def silenced(network: nn.Module, sites: Sequence[Site], on: Mapping[str, NDArray[np.bool_]]) -> Iterator[nn.Module]:
    """``network`` itself, whose readers receive zeros for the units that are off."""
    with ExitStack() as hooks:
        for site in sites:
            for port in site.readers:
                reader = network.get_submodule(port.layer)
                hooks.callback(reader.register_forward_pre_hook(_Silence(reader, port, on[site.name])).remove)
        yield network


def unit_axis(reader: nn.Module, given: Tensor) -> int:
    """The axis of a reader's input that holds the units: a convolution's channels, a dense layer's last."""
    return 1 if isinstance(reader, nn.modules.conv._ConvNd) else given.dim() - 1


class _Silence:
    """A hook that sets the units that are off to zero in the input of a reader."""

    def __init__(self, reader: nn.Module, port: Port, on: NDArray[np.bool_]) -> None:
        weight = outputs_first(reader)
        keep = torch.ones(weight.shape[1], dtype=weight.dtype, device=weight.device)
        keep[port.indices[~on].reshape(-1)] = 0
        positions = weight.dim() - 2 if isinstance(reader, nn.modules.conv._ConvNd) else 0
        self.keep = keep.reshape(-1, *[1] * positions)

    def __call__(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        first, *others = inputs
        return (first * self.keep, *others)


class _Replace:
    """A hook that replaces the removed units in the input of a reader.

    Processed in reverse order, because a unit may be merged into one that is merged later.
    """

    def __init__(self, port: Port, choice: Choice, *, constants: bool) -> None:
        self.indices = torch.from_numpy(port.indices)
        self.removals = tuple(reversed(choice.removals))
        self.constants = constants

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        first, *others = inputs
        axis = unit_axis(module, first)
        values = first.movedim(axis, 0).clone()
        for removal in self.removals:
            constant = removal.constant if self.constants else 0.0
            stand_in = torch.full_like(values[self.indices[removal.unit]], constant)
            if removal.into:
                factors = values.new_tensor(removal.factors)
                stand_in += torch.tensordot(factors, values[self.indices[list(removal.into)]], dims=1)
            values[self.indices[removal.unit]] = stand_in
        return (values.movedim(0, axis), *others)


class _OverKept:
    """A hook that applies a norm to the kept units only; its outputs for the others are 0."""

    def __init__(self, norm: nn.LayerNorm | nn.GroupNorm, port: Port, choice: Choice) -> None:
        self.kept = torch.from_numpy(np.sort(port.of(choice.kept)))
        self.smaller = copy.deepcopy(norm)
        set_tensors(self.smaller, {name: value[self.kept] for name, value in norm.named_parameters()})

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        axis = 1 if isinstance(module, nn.GroupNorm) else output.dim() - 1
        given = self.smaller(inputs[0].index_select(axis, self.kept))
        return torch.zeros_like(output).index_copy_(axis, self.kept, given)


class _Shift:
    """A hook that adds the effect of the constants to the output of a padding convolution, equal at every position."""

    def __init__(self, port: Port, choice: Choice) -> None:
        self.indices = torch.from_numpy(port.indices)
        self.constants = torch.zeros(choice.units, dtype=torch.float64)
        for removal in reversed(choice.removals):
            own = torch.tensor(removal.factors, dtype=torch.float64) @ self.constants[list(removal.into)]
            self.constants[removal.unit] = removal.constant + (own if removal.into else 0.0)

    def __call__(self, module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        weight = outputs_first(module)[:, self.indices].double().flatten(3).sum(dim=(2, 3))
        shift = (weight @ self.constants.to(weight.device)).to(output.dtype)
        return output + shift.reshape(-1, *[1] * (output.dim() - 2))
