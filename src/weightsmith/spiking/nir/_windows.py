"""Lowering to NIR, second pass: only plain convolutions (or dense layers), neurons and sums.

Importers silently drop pools, do not support groups, and fail at Flatten with batches. So features become images of one
pixel, a dense layer a convolution as large as the image it reads, groups are written out, and pools go into the kernels
that follow. A pool without a following kernel, or with borders that do not allow it, becomes a separate convolution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Node, Pool, Shape, Synapses, shapes_of
from weightsmith.spiking.nir._scales import diagonal, free_name

__all__ = ["Kernel", "as_convolutions"]


def as_convolutions(
    nodes: Iterable[Node], input_shape: Shape, *, sumpool: bool = False
) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Equivalent nodes, and a description of what was folded.

    With ``sumpool``, pools without padding stay as sums, each read by synapses only. The last node is a
    :class:`Flatten` if the output is an image of one pixel. Networks of features stay as they are, except for nodes
    that NIR does not have.
    """
    lowering = _Lowering(tuple(nodes), input_shape, sumpool)
    lowering.run()
    return tuple(lowering.made), tuple(lowering.folded)


class _Lowering:
    def __init__(self, nodes: tuple[Node, ...], input_shape: Shape, sumpool: bool) -> None:
        self._nodes = nodes
        self._given = {node.name: node for node in nodes}
        self._images = len(input_shape) == 3
        self._sumpool = sumpool
        self._shapes = shapes_of(nodes, input_shape)
        # The layout of each node's values in the new network: features are images of one pixel, flattening has no
        # effect.
        self._forms: dict[str, Shape] = {INPUT: input_shape}
        self._written_pools: dict[str, str] = {}
        self.made: list[Node] = []
        self.folded: list[str] = []

    def run(self) -> None:
        for node in self._nodes:
            self._forms[node.name] = self._form(node)
            match node:
                case Synapses():
                    self.made.append(self._synapses(node))
                case Add():
                    self._check_forms(node)
                    self.made.append(Add(node.name, tuple(self._value(source) for source in node.sources)))
                case Neurons():
                    self.made.append(self._neurons(node))
        self._end()

    def _end(self) -> None:
        """The output must come from one node, since importers do not add up the edges into an output."""
        last = self._resolved(self._nodes[-1].name)
        name = self._value(last)
        if not isinstance(self.made[-1], Synapses) or self.made[-1].name != name:
            name = self._passed_on(name, self._forms[last])
        if self._images:
            self.made.append(Flatten(self._free("scores"), name))

    def _neurons(self, node: Neurons) -> Node:
        """A population with one threshold; its channels may differ if it came after a Flatten."""
        channels = self._forms[node.name][0]
        threshold = torch.full((channels,), float(node.threshold.flatten()[0]), dtype=torch.float64)
        amplitude = node.amplitude if node.amplitude is not None and len(node.amplitude) == channels else None
        source = self._value(node.source)
        return dataclasses.replace(node, source=source, threshold=threshold, amplitude=amplitude, leak=None)

    def _check_forms(self, node: Add) -> None:
        forms = {self._forms[source] for source in node.sources}
        if len(forms) > 1:
            raise UsageError(f"{node.name} adds features to a flattened image, which NIR cannot express exactly")

    def _form(self, node: Node) -> Shape:
        shape = self._shapes[node.name]
        if isinstance(node, Flatten | Neurons | Add):
            return self._forms[node.sources[0]]
        return (*shape, 1, 1) if self._images and len(shape) == 1 else shape

    def _resolved(self, name: str) -> str:
        """The node that ``name`` takes its values from, ignoring nodes that only flatten."""
        while isinstance(node := self._given.get(name), Flatten):
            name = node.source
        return name

    def _value(self, name: str) -> str:
        """The node of the new network with the values of ``name``."""
        name = self._resolved(name)
        pool = self._given.get(name)
        return self._written_pool(pool) if isinstance(pool, Pool) else name

    def _synapses(self, node: Synapses) -> Node:
        source = self._resolved(node.source)
        weight = _without_groups(node)
        if not self._images:
            return dataclasses.replace(node, weight=weight, source=self._value(source))
        form = self._forms[source]
        if node.dense:
            kernel = Kernel(weight.reshape(len(weight), *form), (form[1], form[2]))
        else:
            kernel = Kernel(weight, (form[1], form[2]), node.stride, node.padding, node.dilation)
        while isinstance(pool := self._given.get(source), Pool) and not self._keeps(pool):
            before = self._resolved(pool.source)
            size = self._forms[before][1:]
            folded = kernel.behind(pool, (size[0], size[1]))
            if folded is None:
                break
            kernel, source = folded, before
            self.folded.append(f"pool {pool.name} into {node.name}")
        pool = self._given.get(source)
        if isinstance(pool, Pool) and self._keeps(pool):
            kernel = dataclasses.replace(kernel, weight=kernel.weight * _share(pool))
            return self._written(node.name, self._sum_pool(pool), kernel, node.bias)
        return self._written(node.name, self._value(source), kernel, node.bias)

    def _keeps(self, pool: Pool) -> bool:
        """Whether a pool stays a pool. One importer ignores padding, so pools with padding do not."""
        return self._sumpool and pool.padding == (0, 0)

    def _sum_pool(self, pool: Pool) -> str:
        """The pool itself, as a sum that synapses read."""
        if all(node.name != pool.name for node in self.made):
            self.made.append(dataclasses.replace(pool, source=self._value(pool.source), average=False))
        return pool.name

    def _written_pool(self, pool: Pool) -> str:
        """A pool that is read by other nodes than synapses, as a separate convolution."""
        if pool.name not in self._written_pools:
            form = self._forms[self._resolved(pool.source)]
            window = torch.full(pool.kernel, _share(pool), dtype=torch.float64)
            weight = diagonal("", "", torch.ones(form[0]), window).weight
            kernel = Kernel(weight, (form[1], form[2]), pool.stride, pool.padding)
            name = self._free(f"{pool.name}_averaged")
            self.made.append(self._written(name, self._value(pool.source), kernel, None))
            self.folded.append(f"pool {pool.name} becomes a separate convolution ({name})")
            self._written_pools[pool.name] = name
        return self._written_pools[pool.name]

    def _passed_on(self, name: str, form: Shape) -> str:
        """Identity synapses, after a node that importers do not accept as the last."""
        ones = torch.ones(1, 1) if self._images else None
        self.made.append(diagonal(self._free("readout"), name, torch.ones(form[0]), ones))
        return self.made[-1].name

    def _written(self, name: str, source: str, kernel: Kernel, bias: Tensor | None) -> Synapses:
        square = kernel.squared()
        if square is None:
            raise UsageError(
                f"{name}: its kernel of {tuple(kernel.weight.shape[2:])} cannot be made square without changing the "
                "output, and nir reads only square kernels; use a square kernel"
            )
        if square is not kernel:
            self.folded.append(f"zeros around the kernel of {name}, which nir reads only if it is square")
        return Synapses(name, source, square.weight, bias, square.stride, square.padding, square.dilation)

    def _free(self, wanted: str) -> str:
        return free_name(wanted, [*self._given, *(node.name for node in self.made)])


def _share(pool: Pool) -> float:
    """The weight of each value of a window."""
    return 1 / (pool.kernel[0] * pool.kernel[1]) if pool.average else 1.0


def _without_groups(node: Synapses) -> Tensor:
    """The weights without groups, with zeros between different groups."""
    if node.groups == 1:
        return node.weight
    outputs, inputs = node.weight.shape[0] // node.groups, node.weight.shape[1]
    full = node.weight.new_zeros(node.weight.shape[0], inputs * node.groups, *node.weight.shape[2:])
    for group in range(node.groups):
        rows = slice(group * outputs, (group + 1) * outputs)
        full[rows, group * inputs : (group + 1) * inputs] = node.weight[rows]
    return full


# Merge a pool and the following convolution into one kernel, exact also at the borders.
#
# Along one axis a pool (window k, step s, margin p) and a convolution (taps K, step S, margin P, dilation D) read
#
#     x[(o·S − P + a·D)·s − p + b],      a < K, b < k
#
# for output o: a convolution with (K − 1)·D·s + k taps, step S·s and margin P·s + p, whose tap a·D·s + b has the
# weight w[a]/k (w[a] for a pool that sums). That is exact as long as no tap in the margin of the convolution meets a
# value of the image. Where there is one output only, the kernel is made as large as the image instead, which is
# always exact.


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
        """The output size."""
        rows, columns = (self._axis(axis).outputs for axis in (0, 1))
        return rows, columns

    def behind(self, pool: Pool, size: Pair) -> Kernel | None:
        """One kernel for ``pool``, on images of ``size``, and this one after it; None if no exact kernel exists."""
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
        """The same kernel padded with zeros to a square; None if that is not possible.

        NIR 1.0.8 uses the height of a kernel as its width when it computes sizes, and refuses the file.
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
        if self.outputs[axis] == 1:  # with one output, only the next must lie outside
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
        """Whether the widened kernel gives as many outputs, and reads only zeros where this one reads its padding."""
        widened = (self.taps - 1) * self.dilation * pool.step + pool.width
        margin = self.margin * pool.step + pool.margin
        if (length + 2 * margin - widened) // (self.step * pool.step) + 1 != self.outputs:
            return False
        read = {o * self.step - self.margin + a * self.dilation for o in range(self.outputs) for a in range(self.taps)}
        outside = [position for position in read if not 0 <= position < self.size]
        return all(not _pooled_indices(pool, position, length) for position in outside)

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
            position = tap * self.dilation - self.margin
            if 0 <= position < self.size:
                result[tap, _pooled_indices(pool, position, length)] = pool.share
        return result


def _pooled_indices(pool: _Window, output: int, length: int) -> list[int]:
    """The positions of the image that the pool averages for its output number ``output``."""
    begin = output * pool.step - pool.margin
    return [index for index in range(begin, begin + pool.width) if 0 <= index < length]


def _mapped(weight: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return torch.einsum("oikl,km,ln->oimn", weight.double(), rows, columns)
