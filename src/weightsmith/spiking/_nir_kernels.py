"""Kernels that do the work of a pool and a convolution at once, exactly, also at the borders.

Along one axis a pool (window k, step s, margin p) and a convolution (taps K, step S, margin P, dilation D) read

    x[(o·S − P + a·D)·s − p + b],      a < K, b < k

for output o: a convolution with (K − 1)·D·s + k taps, step S·s and margin P·s + p, whose tap a·D·s + b has the weight
w[a]/k (w[a] for a pool that sums). That is exact as long as no tap in the margin of the convolution meets a value of
the image. Where there is one output only, the kernel is made as large as the image instead, which is always exact.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from weightsmith.spiking.graph import Pool

__all__ = ["Kernel"]

Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A convolution (out, in, height, width) and the size of the images that it reads."""

    weight: Tensor
    size: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    @property
    def outputs(self) -> Pair:
        """The size of what it gives."""
        rows, columns = (self._axis(axis).outputs for axis in (0, 1))
        return rows, columns

    def behind(self, pool: Pool, size: Pair) -> Kernel | None:
        """One kernel for ``pool``, on images of ``size``, and this one after it; None if there is no exact one."""
        axes = [self._axis(axis) for axis in (0, 1)]
        windows = [
            _Window(
                pool.kernel[axis], pool.stride[axis], pool.padding[axis], 1 / pool.kernel[axis] if pool.average else 1
            )
            for axis in (0, 1)
        ]
        if self.outputs == (1, 1):
            maps = [axis.spread_over(window, length) for axis, window, length in zip(axes, windows, size, strict=True)]
            return Kernel(_mapped(self.weight, *maps), size)
        if not all(a.is_exact(window, length) for a, window, length in zip(axes, windows, size, strict=True)):
            return None
        maps = [axis.widened(window) for axis, window in zip(axes, windows, strict=True)]
        stride = (self.stride[0] * pool.stride[0], self.stride[1] * pool.stride[1])
        padding = (
            self.padding[0] * pool.stride[0] + pool.padding[0],
            self.padding[1] * pool.stride[1] + pool.padding[1],
        )
        return Kernel(_mapped(self.weight, *maps), size, stride, padding)

    def squared(self) -> Kernel | None:
        """The same with as many rows as columns (zeros around), None if there is none.

        NIR 1.0.8 takes the height of a kernel for its width when it works out sizes, and refuses the file.
        """
        if self.weight.shape[2] == self.weight.shape[3]:
            return self
        none = _Window(1, 1, 0, 1)
        maps = [self._axis(axis).widened(none) for axis in (0, 1)]
        plain = dataclasses.replace(self, weight=_mapped(self.weight, *maps), dilation=(1, 1))
        short = 0 if plain.weight.shape[2] < plain.weight.shape[3] else 1
        for before in range(abs(plain.weight.shape[2] - plain.weight.shape[3]) + 1):
            candidate = plain._lengthened(short, before)
            if candidate.outputs == self.outputs:
                return candidate
        return None

    def _lengthened(self, axis: int, before: int) -> Kernel:
        """Zeros along ``axis`` until it is as long as the other one, ``before`` of them in front."""
        more = self.weight.shape[3 - axis] - self.weight.shape[2 + axis]
        zeros = (before, more - before)
        weight = torch.nn.functional.pad(self.weight, zeros if axis == 1 else (0, 0, *zeros))
        padding, stride = list(self.padding), list(self.stride)
        padding[axis] += before
        if self.outputs[axis] == 1:  # one output stays the only one if the next lies outside
            stride[axis] = max(stride[axis], self.size[axis] + 2 * padding[axis])
        return dataclasses.replace(self, weight=weight, padding=(padding[0], padding[1]), stride=(stride[0], stride[1]))

    def _axis(self, axis: int) -> _Axis:
        taps = int(self.weight.shape[2 + axis])
        return _Axis(taps, self.stride[axis], self.padding[axis], self.dilation[axis], self.size[axis])


@dataclasses.dataclass(frozen=True)
class _Window:
    """A pool along one axis."""

    width: int
    step: int
    margin: int
    share: float


@dataclasses.dataclass(frozen=True)
class _Axis:
    """A convolution along one axis."""

    taps: int
    step: int
    margin: int
    dilation: int
    size: int

    @property
    def outputs(self) -> int:
        return (self.size + 2 * self.margin - self.dilation * (self.taps - 1) - 1) // self.step + 1

    def is_exact(self, pool: _Window, length: int) -> bool:
        """Whether the widened kernel gives as many outputs, and meets nothing where this one meets its margin."""
        widened = (self.taps - 1) * self.dilation * pool.step + pool.width
        margin = self.margin * pool.step + pool.margin
        if (length + 2 * margin - widened) // (self.step * pool.step) + 1 != self.outputs:
            return False
        read = {o * self.step - self.margin + a * self.dilation for o in range(self.outputs) for a in range(self.taps)}
        outside = [place for place in read if not 0 <= place < self.size]
        return all(not _places(pool, place, length) for place in outside)

    def widened(self, pool: _Window) -> Tensor:
        """(taps, wider taps): where the weight of each tap goes."""
        result = torch.zeros(self.taps, (self.taps - 1) * self.dilation * pool.step + pool.width, dtype=torch.float64)
        for tap in range(self.taps):
            begin = tap * self.dilation * pool.step
            result[tap, begin : begin + pool.width] = pool.share
        return result

    def spread_over(self, pool: _Window, length: int) -> Tensor:
        """(taps, length): where the weight of each tap goes for the first output, in a kernel as large as the image."""
        result = torch.zeros(self.taps, length, dtype=torch.float64)
        for tap in range(self.taps):
            place = tap * self.dilation - self.margin
            if 0 <= place < self.size:
                result[tap, _places(pool, place, length)] = pool.share
        return result


def _places(pool: _Window, place: int, length: int) -> list[int]:
    """The places of the image that the pool's output ``place`` is the average of."""
    begin = place * pool.step - pool.margin
    return [index for index in range(begin, begin + pool.width) if 0 <= index < length]


def _mapped(weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return torch.einsum("oikl,km,ln->oimn", weight.double(), rows, columns)
