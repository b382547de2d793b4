"""Conversion rules: one for each kind of call.

A rule returns the nodes that replace a call, the last of which carries its signal; none if the signal is unchanged.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from weightsmith.spiking.conversion._flow import Call
from weightsmith.spiking.conversion._kinds import kind_of
from weightsmith.spiking.graph import Add, Flatten, Gate, Neurons, Node, Pair, Pool, Scale, Synapses

__all__ = ["RULES"]


# Selection and zero padding of channels and pixels, as 1×1 synapses of weight one.
#
# Parameter-free shortcuts consist of these: every second pixel, and zero channels on both sides.


_EVERYTHING = slice(None)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """For each output channel the input channel (of ``count``) it copies, or None for zeros."""

    source: str
    count: int
    channels: list[int | None]
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)

    def synapses(self, name: str) -> list[Node]:
        weight = torch.zeros(len(self.channels), self.count, 1, 1)
        for index, channel in enumerate(self.channels):
            if channel is not None:
                weight[index, channel] = 1
        return [Synapses(name, self.source, weight, stride=self.stride, padding=self.padding)]


def _shortcut(call: Call) -> list[Node]:
    """:class:`weightsmith.networks.models.resnet.ZeroPad`."""
    extra, stride = call.module.extra, call.module.stride
    every = _every(call)
    channels = _zeros(extra // 2) + every.channels + _zeros(extra - extra // 2)
    return dataclasses.replace(every, channels=channels, stride=(stride, stride)).synapses(call.name)


def _sliced(call: Call) -> list[Node]:
    """``x[:, first:last, ::stride, ::stride]``."""
    return _slice(call).synapses(call.name)


def _padded(call: Call) -> list[Node]:
    """``pad`` with zeros, around the image or on channels; merged with a slice right before it."""
    if call.option(2, "mode", "constant") != "constant" or call.option(3, "value", 0):
        raise call.refuse("only padding with zeros converts")
    margins = list(call.module.padding if call.module is not None else call.argument(1, "pad"))
    if call.flow.sequences:
        margins[2:2] = (0, 0)
    left, right, top, bottom, front, back, *more = margins + [0] * (6 - len(margins))
    if len(call.before) != 3 or more or min(margins) < 0 or (left, top) != (right, bottom):
        raise call.refuse(f"only equal padding on both sides of an image, or zero channels, convert, not {margins}")
    inner = dataclasses.replace(call, node=call.read)
    follows = kind_of(inner.node, call.flow.modules) == "slice" and not (top or left)
    choice = _slice(inner) if follows else _every(call)
    channels = _zeros(front) + choice.channels + _zeros(back)
    return dataclasses.replace(choice, channels=channels, padding=(top, left)).synapses(call.name)


def _slice(call: Call) -> _Choice:
    given = call.argument(1, "index")
    several = given if isinstance(given, tuple) else (given,)
    index: list[slice[Any, Any, Any]] = [part for part in several if isinstance(part, slice)]
    if len(call.before) != 3 or len(index) > 4 - call.flow.sequences or len(index) != len(several):
        raise call.refuse("only slices of images such as x[:, :, ::2, ::2] convert")
    if call.flow.sequences:
        index[2:2] = (_EVERYTHING,)
    rows, channels, *space = index + [_EVERYTHING] * (4 - len(index))
    if rows != _EVERYTHING or any(part.start or part.stop is not None for part in space):
        raise call.refuse("only slices of channels, and every n-th pixel starting at the first, convert")
    every = _every(call)
    stride = (space[0].step or 1, space[1].step or 1)
    return dataclasses.replace(every, channels=every.channels[channels], stride=stride)


def _every(call: Call) -> _Choice:
    return _Choice(call.source, call.before[0], list(range(call.before[0])))


def _zeros(count: int) -> list[int | None]:
    return [None] * count


def _dense(call: Call) -> list[Node]:
    if len(call.before) != 1:
        sizes = (call.before[0], call.before[2]) if call.flow.sequences else call.before
        raise call.refuse(f"a dense layer must read rows (n, features), not (n, {', '.join(map(str, sizes))})")
    return [Synapses(call.name, call.source, *_weights(call))]


def _convolution(call: Call) -> list[Node]:
    module = call.module
    if module.padding_mode != "zeros":
        raise call.refuse(f"it pads with padding_mode={module.padding_mode!r}; only zeros convert")
    padding = module.padding
    if isinstance(padding, str):
        wide = [size * (kernel - 1) for size, kernel in zip(module.dilation, module.kernel_size, strict=True)]
        if padding == "same" and any(size % 2 for size in wide):
            raise call.refuse("padding='same' with an even kernel pads one side more than the other; use an odd kernel")
        padding = tuple(size // 2 if padding == "same" else 0 for size in wide)
    weight, bias = _weights(call)
    stride, dilation = module.stride, module.dilation
    if call.flow.sequences:
        weight, stride, padding, dilation = weight[:, :, None], (1, *stride), (0, *padding), (1, *dilation)
    return [Synapses(call.name, call.source, weight, bias, stride, padding, dilation, module.groups)]


def _weights(call: Call) -> tuple[Tensor, Tensor | None]:
    weight, bias = (
        None if value is None else value.detach().to(torch.float32, memory_format=torch.contiguous_format, copy=True)
        for value in (call.module.weight, call.module.bias)
    )
    assert weight is not None
    for value in (weight, bias):
        if value is not None and not bool(torch.isfinite(value).all()):
            raise call.refuse("its weights, with batch norm folded in, hold NaN or infinity")
    return weight, bias


def _relu(call: Call) -> list[Node]:
    ceiling = _ceiling(call)
    if isinstance(call.entering, Neurons):
        if ceiling < call.entering.ceiling:
            raise call.refuse(f"it clips the output of {call.entering.name}; use one ReLU6 in place of both")
        return []
    return [Neurons(call.name, call.source, torch.ones(call.before[0]), ceiling=ceiling)]


_SIX = 6.0


def _ceiling(call: Call) -> float:
    """The value at which activations are clipped: 6 for ReLU6, infinity for a ReLU."""
    if isinstance(call.module, nn.Hardtanh):
        if call.module.min_val != 0 or not call.module.max_val > 0:
            raise call.refuse(
                f"it clips between {call.module.min_val:g} and {call.module.max_val:g}; the lower limit must be 0"
            )
        return float(call.module.max_val)
    return _SIX if call.node.target is functional.relu6 else math.inf


def _average(call: Call) -> list[Node]:
    padding = _pair(call, call.option(3, "padding", 0), 0)
    if call.option(6, "divisor_override") is not None:
        raise call.refuse("divisor_override is not supported; scale the result instead")
    if any(padding) and not call.option(5, "count_include_pad", True):
        raise call.refuse(
            "count_include_pad=False with padding divides windows at the edge by a smaller number; set it to True"
        )
    return [Pool(call.name, call.source, *_windows(call, padding, 4))]


def _largest(call: Call) -> list[Node]:
    if _pair(call, call.option(4, "dilation", 1)) != (1, 1):
        raise call.refuse("max pooling with dilation is not supported")
    if call.option(6, "return_indices", False):
        raise call.refuse("return_indices is not supported")
    return [Gate(call.name, call.source, *_windows(call, _pair(call, call.option(3, "padding", 0), 0), 5))]


def _windows(call: Call, padding: Pair, ceil_index: int) -> tuple[Pair, Pair, Pair]:
    """Kernel, stride and padding of a pool, whose windows all lie inside the padded image."""
    size = call.option(1, "kernel_size")
    kernel, stride = _pair(call, size), _pair(call, call.option(2, "stride") or size)
    inside = [(call.before[1 + k] + 2 * padding[k] - kernel[k]) // stride[k] + 1 for k in (0, 1)]
    if call.option(ceil_index, "ceil_mode", False) and list(call.after[1:]) != inside:
        raise call.refuse("ceil_mode=True adds windows that extend beyond the edge; pad the image instead")
    return kernel, stride, padding


def _adaptive(call: Call) -> list[Node]:
    (height, width), (rows, columns) = call.before[-2:], call.after[-2:]
    if height % rows or width % columns:
        raise call.refuse(
            f"{height}×{width} does not divide into {rows}×{columns} equal windows; choose a size that divides it"
        )
    kernel = (height // rows, width // columns)
    return [] if kernel == (1, 1) else [Pool(call.name, call.source, kernel, kernel)]


def _mean(call: Call) -> list[Node]:
    axes = call.argument(1, "dim")
    listed = [axes] if isinstance(axes, int) else list(axes or ())
    space = [2] if call.flow.sequences else [2, 3]
    if len(call.before) != 3 or sorted(axis % (2 + len(space)) for axis in listed) != space:
        over = "the length, mean(2)" if call.flow.sequences else "height and width, mean((2, 3))"
        raise call.refuse(f"a mean must go over {over}, not over {axes}")
    kernel = (call.before[1], call.before[2])
    pool = Pool(call.name, call.source, kernel, kernel)
    return [pool] if len(call.after) == 3 else [pool, Flatten(f"{call.name}*flatten", pool.name)]


def _flatten(call: Call) -> list[Node]:
    if call.after == call.before:
        return []
    flat = call.after == (math.prod(call.before),)
    # squeeze(3).squeeze(2) flattens in two steps; only the result of the last is checked.
    step = all(kind_of(reader, call.flow.modules) == "flatten" for reader in call.node.users)
    if not flat and not (step and math.prod(call.after) == math.prod(call.before)):
        raise call.refuse(f"only flattening to (n, -1) converts, not {call.before} to {call.after}")
    return [] if isinstance(call.entering, Flatten) else [Flatten(call.name, call.source)]


def _join(_call: Call) -> list[Node]:
    """Kept for its size only: the signals it joins have been separated already."""
    return []


def _add(call: Call) -> list[Node]:
    first, second = call.argument(0, "input"), call.argument(1, "other")
    if not (call.is_signal(first) and call.is_signal(second)):
        constant = second if call.is_signal(first) else first
        if isinstance(constant, numbers.Real) and constant == 0:  # Python's sum() starts with it
            return []
        raise call.refuse("adds a constant; make it the bias of the layer before")
    one, other = call.flow.shapes[first], call.flow.shapes[second]
    if one != other:
        raise call.refuse(f"adds signals of shapes {one} and {other}, which must be equal")
    alpha = float(call.argument(2, "alpha", 1))
    if alpha == 1:
        return [Add(call.name, (call.signals[first], call.signals[second]))]
    scaled = _scaled(call, second, alpha, "*alpha")
    return [scaled, Add(call.name, (call.signals[first], scaled.name))]


def _multiply(call: Call) -> list[Node]:
    first, second = call.argument(0, "input"), call.argument(1, "other")
    signal, number = (first, second) if call.is_signal(first) else (second, first)
    if not call.is_signal(signal) or not isinstance(number, numbers.Real):
        raise call.refuse("only multiplication by a plain number converts")
    return [_scaled(call, signal, float(number))]


def _divide(call: Call) -> list[Node]:
    signal, number = call.argument(0, "input"), call.argument(1, "other")
    if not call.is_signal(signal) or not isinstance(number, numbers.Real) or not number:
        raise call.refuse("only division by a plain number that is not zero converts")
    if call.argument(2, "rounding_mode") is not None:
        raise call.refuse("it rounds; only plain division converts")
    return [_scaled(call, signal, 1 / float(number))]


def _dropout(call: Call) -> list[Node]:
    return [_scaled(call, call.read, 1 - call.module.rate)]


def _scaled(call: Call, signal: fx.Node, factor: float, suffix: str = "") -> Scale:
    return Scale(call.name + suffix, call.signals[signal], torch.full((call.flow.shapes[signal][0],), factor))


def _pair(call: Call, value: Any, across: int = 1) -> Pair:
    """Sizes as (height, width); for sequences the height is ``across``."""
    several = (value, value) if isinstance(value, int) else (*value, *value)
    return (across if call.flow.sequences else int(several[0])), int(several[1])


RULES: dict[str, Callable[[Call], list[Node]]] = {
    "dense": _dense,
    "convolution": _convolution,
    "relu": _relu,
    "average": _average,
    "adaptive": _adaptive,
    "largest": _largest,
    "mean": _mean,
    "flatten": _flatten,
    "join": _join,
    "add": _add,
    "multiply": _multiply,
    "divide": _divide,
    "dropout": _dropout,
    "shortcut": _shortcut,
    "pad": _padded,
    "slice": _sliced,
}
