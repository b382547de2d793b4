"""Rows of a layer: what it multiplies by its weight (dense: its inputs, convolution: its patches), and its outputs.

A convolution at output position t is the product of its flattened weight with the patch of the *padded* input under
the kernel at t, so that a regression on patches includes the zeros of the border:

    y[n, :, t] = W.flatten(1) @ patch[n, t]        patch[n, t] = (channel, kernel position)

A transposed convolution is a plain one of its input with stride − 1 zeros between the values and a flipped kernel; W is
then (outputs, inputs, kernel position) too.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from weightsmith.reducing.surgery.sites import has_own_forward

__all__ = ["at_least_float", "columns_of", "drawn_places", "input_rows", "is_supported", "output_rows", "taps"]

_CONV = nn.modules.conv._ConvNd
_TRANSPOSED = nn.modules.conv._ConvTransposeNd
Places = tuple[Tensor, ...] | None


def is_supported(module: nn.Module) -> bool:
    """Whether the layer is one product of its weight with rows: dense, or a convolution in one group."""
    if has_own_forward(module):
        return False
    return isinstance(module, nn.Linear) or (isinstance(module, _CONV) and module.groups == 1)


def at_least_float(values: Tensor) -> Tensor:
    """The values in float32, or unchanged if they are in float64."""
    return values if values.dtype == torch.float64 else values.float()


def taps(module: nn.Module) -> int:
    """Kernel positions of a layer; 1 for a dense one."""
    return math.prod(module.kernel_size) if isinstance(module, _CONV) else 1


def columns_of(module: nn.Module, inputs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The columns of :func:`input_rows` that belong to these inputs (or channels), in order.

    >>> columns_of(nn.Conv1d(4, 2, 3), np.array([2, 0])).tolist()
    [6, 7, 8, 0, 1, 2]
    """
    size = taps(module)
    found: NDArray[np.int64] = (inputs.reshape(-1, 1) * size + np.arange(size)).reshape(-1)
    return found


def drawn_places(module: nn.Module, output: Tensor, most: int, generator: np.random.Generator) -> Places:
    """At most ``most`` output positions of a convolution, drawn without replacement; None: all (dense layers)."""
    if not isinstance(module, _CONV):
        return None
    shape = tuple(output.shape[2:])
    total = math.prod(shape)
    chosen = np.arange(total) if total <= most else np.sort(generator.choice(total, most, replace=False))
    return tuple(torch.from_numpy(index).to(output.device) for index in np.unravel_index(chosen, shape))


def input_rows(module: nn.Module, given: Tensor, places: Places) -> Tensor:
    """What the layer multiplies by its weight, as rows: (input and place, columns)."""
    if not isinstance(module, _CONV):
        return given.reshape(-1, given.shape[-1])
    turned = isinstance(module, _TRANSPOSED)
    windows = _stuffed(module, given) if isinstance(module, _TRANSPOSED) else _padded(module, given)
    sizes = zip(module.kernel_size, module.stride, module.dilation, strict=True)
    for axis, (kernel, stride, dilation) in enumerate(sizes, start=2):
        windows = windows.unfold(axis, (kernel - 1) * dilation + 1, 1 if turned else stride)[..., ::dilation]
    assert places is not None
    patches = _at(windows, places)
    if turned:
        patches = patches.flip(tuple(range(3, patches.dim())))
    return patches.reshape(patches.shape[0] * patches.shape[1], -1)


def output_rows(module: nn.Module, output: Tensor, places: Places) -> Tensor:
    """The outputs of the layer as rows: (input and place, outputs)."""
    if not isinstance(module, _CONV):
        return output.reshape(-1, output.shape[-1])
    assert places is not None
    return _at(output, places).reshape(-1, output.shape[1])


def _at(values: Tensor, places: tuple[Tensor, ...]) -> Tensor:
    """(inputs, places, channels, …) of values with the channels second and the positions behind them."""
    # The channels moved first: indices are gathered into their final order, at half the time of a copy afterwards.
    index: tuple[slice | Tensor, ...] = (slice(None), *places)
    return values.movedim(1, len(places) + 1)[index]


def _stuffed(module: nn.modules.conv._ConvTransposeNd, given: Tensor) -> Tensor:
    """The input with zeros between its values and around them, over which the flipped kernel moves with stride 1."""
    spread = [(size - 1) * stride + 1 for size, stride in zip(given.shape[2:], module.stride, strict=True)]
    stuffed = given.new_zeros((*given.shape[:2], *spread))
    between = tuple(slice(None, None, stride) for stride in module.stride)
    stuffed[(slice(None), slice(None), *between)] = given
    around = []
    for axis in reversed(range(len(spread))):
        before = module.dilation[axis] * (module.kernel_size[axis] - 1) - int(module.padding[axis])
        around += [before, before + module.output_padding[axis]]
    return functional.pad(stuffed, around)  # negative padding crops


def _padded(module: nn.modules.conv._ConvNd, given: Tensor) -> Tensor:
    if isinstance(module.padding, str):
        if module.padding == "valid":
            return given
        around = list(module._reversed_padding_repeated_twice)
    else:
        around = [size for size in reversed(module.padding) for _ in range(2)]
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    return functional.pad(given, around, mode=mode) if any(around) else given
