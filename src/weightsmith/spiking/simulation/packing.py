"""The memory layout of weights for the kernels: a contiguous row of outputs for every input, in tiles of whole vectors.

Weights in that order are a second copy. A large dense layer has no such copy: its tiles are laid out one at a time, in
the same buffer, whenever events pass through it.

Inputs come position by position, channels last, while a dense layer's weights count a flattened image channel by
channel: its columns are reordered here. Spikes −1 are separate events (channel + channels) with negated rows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.spiking.graph import Shape, Synapses
from weightsmith.spiking.simulation.reference import convolved

__all__ = [
    "LINES",
    "WIDE_REGISTERS",
    "Form",
    "Table",
    "columns_last",
    "dense_product",
    "in_tiles",
    "pattern_bytes",
    "patterns_of",
    "plain_of",
    "table_of",
    "tiles_of",
    "tiling",
    "writes",
]

_REGISTERS = (8, 4, 2, 1)  # vectors of 256 bits that a tile may fill
WIDE_REGISTERS = (16, *_REGISTERS)  # where registers have 512 bits, and so hold two each
_LINE = 64  # bytes
_VECTOR = 32  # bytes
_SAFE = 256  # rows of |w| ≤ 127 whose sum fits 16 bits
_ANY = 2**62
_PATTERN = 8  # inputs
LINES = 257  # rows for each eight inputs in a table of patterns; with 256 all would share a few sets of the cache
_KEPT = 2**22  # most weights of a dense layer for which a second copy in another order is kept
_OUTPUTS = 256  # outputs of a larger one that are reordered together
_OVERHEAD = 3  # cost of starting a tile, in registers


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Rows of weights (tiles, kernel positions · depth, tile), flat; biases (1, tiles, tile).

    A large dense layer has no rows here (:func:`tiles_of`). At most ``most`` rows may be added at a time, or their
    sum could overflow.
    """

    rows: NDArray[Any]
    registers: int
    depth: int
    bias: NDArray[Any]
    most: int


def columns_last(weight: Tensor, positions: int) -> Tensor:
    """Dense weights (out, positions · channels) for inputs that come position by position."""
    if positions == 1:
        return weight
    return weight.reshape(len(weight), -1, positions).transpose(1, 2).reshape(len(weight), -1)


@dataclasses.dataclass(frozen=True)
class Form:
    """The parameters of a layer's table besides its weights.

    Events are worth ``unit`` and come from ``positions`` positions; the inputs of a dense layer are cut into parts of
    ``part``, within which the negated rows follow the others. ``state`` is the type of sums and membranes, ``whole``
    says that weights are integers, stored in 16 bits.
    """

    positions: int
    part: int
    signed: bool
    unit: float
    state: type[Any]
    whole: bool

    @property
    def kind(self) -> np.dtype[Any]:
        """The type of the weights in the table."""
        return np.dtype(np.int16 if self.whole else self.state)


def tiling(outputs: int, kind: np.dtype[Any], *, wide: bool | None = None) -> tuple[int, int]:
    """The vector registers that a tile fills, and the number of tiles, for a number of outputs of a type.

    ``wide`` says whether the processor has registers of 512 bits (None: whether this one has).

    >>> tiling(128, np.dtype(np.float32), wide=False), tiling(10, np.dtype(np.float32), wide=False)
    ((8, 2), (2, 1))
    >>> tiling(128, np.dtype(np.float32), wide=True)
    (16, 1)
    """
    lanes = _VECTOR // kind.itemsize
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512" if wide is None else wide
    registers = min(
        WIDE_REGISTERS if wide else _REGISTERS,
        key=lambda count: (-(-outputs // (count * lanes)) * (count + _OVERHEAD), -count),
    )
    return registers, -(-outputs // (registers * lanes))


# Tables live as long as their layers: networks that differ in thresholds or neurons share them. Each is stored with the
# version of its weights, so that weights changed in place are laid out again.
_TABLES: WeakKeyDictionary[Synapses, dict[Form, tuple[Table, tuple[int, int]]]] = WeakKeyDictionary()

_PATTERNS: WeakKeyDictionary[Synapses, dict[Form, tuple[Table, tuple[int, int]]]] = WeakKeyDictionary()

_PLAIN: WeakKeyDictionary[Synapses, dict[tuple[int, torch.dtype], tuple[Tensor, int]]] = WeakKeyDictionary()


def table_of(node: Synapses, form: Form) -> Table:
    """The table of ``node``, laid out once."""
    tables, written = _TABLES.setdefault(node, {}), (writes(node.weight), writes(node.bias))
    if form not in tables or tables[form][1] != written:
        tables[form] = _lay_out(node, form), written
    return tables[form][0]


def patterns_of(node: Synapses, form: Form) -> Table:
    """The table of sums of a convolution's rows for every pattern of eight inputs, computed once."""
    tables, written = _PATTERNS.setdefault(node, {}), (writes(node.weight), writes(node.bias))
    if form not in tables or tables[form][1] != written:
        tables[form] = _sum_patterns(node, form), written
    return tables[form][0]


def pattern_bytes(node: Synapses, kind: np.dtype[Any]) -> int:
    """The size of :func:`patterns_of` for sums of this type."""
    outputs, inputs, *kernel = node.weight.shape
    registers, tiles = tiling(outputs, kind)
    return math.prod(kernel) * -(-inputs // _PATTERN) * LINES * tiles * registers * _VECTOR


def _sum_patterns(node: Synapses, form: Form) -> Table:
    kind, (outputs, inputs) = np.dtype(form.state), node.weight.shape[:2]
    registers, tiles = tiling(outputs, kind)
    tile, groups = registers * _VECTOR // kind.itemsize, -(-inputs // _PATTERN)
    kernel = math.prod(node.weight.shape[2:])
    weights = np.zeros((kernel, groups * _PATTERN, tiles * tile), kind)
    weights[:, :inputs, :outputs] = node.weight.permute(2, 3, 1, 0).flatten(0, 1).double().numpy() * form.unit
    rows = weights.reshape(kernel * groups, _PATTERN, tiles, tile).transpose(2, 0, 1, 3)
    sums = _aligned((tiles, kernel * groups, LINES, tile), kind)
    for bit in range(_PATTERN):  # sums of the patterns that have this bit and no higher one
        sums[:, :, 1 << bit : 2 << bit] = sums[:, :, : 1 << bit] + rows[:, :, bit : bit + 1]
    bias = np.zeros(tiles * tile, kind)
    if node.bias is not None:
        bias[:outputs] = node.bias.numpy()
    return Table(sums.reshape(-1), registers, groups, bias.reshape(1, tiles, tile), _ANY)


def tiles_of(node: Synapses, form: Form) -> Iterator[NDArray[Any]]:
    """The rows of a dense layer, tile by tile; each may be overwritten by the next."""
    table = table_of(node, form)
    _, tiles, tile = table.bias.shape
    if table.rows.size:
        yield from table.rows.reshape(tiles, -1)
        return
    rows = _aligned((node.weight.shape[1] // form.part, table.depth, tile), form.kind)
    for number in range(tiles):
        _lay_out_tile(node.weight[number * tile : (number + 1) * tile], form, rows)
        yield rows.reshape(-1)


def plain_of(node: Synapses, positions: int, kind: torch.dtype) -> Tensor:
    """The weights for dense products, reordered once: columns by position, or channels last."""
    kept, written = _PLAIN.setdefault(node, {}), writes(node.weight)
    if (positions, kind) not in kept or kept[positions, kind][1] != written:
        if node.dense:
            ordered = columns_last(node.weight, positions).to(kind)
        else:
            ordered = node.weight.to(kind).contiguous(memory_format=torch.channels_last)
        kept[positions, kind] = ordered, written
    return kept[positions, kind][0]


def dense_product(
    node: Synapses, values: NDArray[Any], space: Shape, shape: Shape, bias: Tensor | None
) -> NDArray[Any]:
    """All values (images, steps, positions, channels) of maps of size ``space`` through a layer at once."""
    images, steps, positions, channels = values.shape
    kind = torch.float64 if values.dtype == np.float64 else torch.float32
    if node.dense:
        products = _projected(node, values.reshape(images * steps, -1), positions, kind)
        if bias is not None:
            products += bias.to(kind).numpy()
        return products.reshape(images, steps, 1, shape[0])
    maps = torch.from_numpy(values).view(images * steps, *space, channels).permute(0, 3, 1, 2)
    found = convolved(node, maps, plain_of(node, 1, kind), None if bias is None else bias.to(kind))
    last = found.permute(0, 2, 3, 1).contiguous()
    return last.numpy().reshape(images, steps, math.prod(shape[1:]), shape[0])


def _projected(node: Synapses, rows: NDArray[Any], positions: int, kind: torch.dtype) -> NDArray[Any]:
    """Rows through dense weights; large ones are reordered a few outputs at a time, without a full second copy."""
    as_they_are = positions == 1 and node.weight.dtype == kind
    if as_they_are or node.weight.numel() <= _KEPT:
        found: NDArray[Any] = rows @ plain_of(node, positions, kind).numpy().T
        return found
    products = np.empty((len(rows), len(node.weight)), rows.dtype)
    begin = 0
    for part in torch.split(node.weight, _OUTPUTS):
        products[:, begin : begin + len(part)] = rows @ columns_last(part, positions).to(kind).numpy().T
        begin += len(part)
    return products


def writes(values: Tensor | None) -> int:
    """The number of in-place writes to a tensor; torch does not count them for inference tensors."""
    return 0 if values is None or values.is_inference() else values._version


def _lay_out(node: Synapses, form: Form) -> Table:
    kind, outputs = form.kind, len(node.weight)
    registers, tiles = tiling(outputs, kind)
    tile = registers * _VECTOR // kind.itemsize
    channels = form.part if node.dense else node.weight.shape[1]
    depth = 2 * channels if form.signed else channels
    kept = tiles if not node.dense or node.weight.numel() <= _KEPT else 0
    rows = _aligned((kept, node.weight[0].numel() // channels, depth, tile), kind)
    for number in range(kept):
        _lay_out_tile(node.weight[number * tile : (number + 1) * tile], form, rows[number])
    bias = np.zeros(tiles * tile, form.state)
    if node.bias is not None:
        bias[:outputs] = node.bias.numpy()
    most = _SAFE if form.whole else _ANY
    return Table(rows.reshape(-1), registers, depth, bias.reshape(1, tiles, tile), most)


def _lay_out_tile(weight: Tensor, form: Form, rows: NDArray[Any]) -> None:
    """Weights of some outputs into ``rows`` (kernel positions or parts, depth, tile), times the value of an event."""
    depth, tile = rows.shape[1:]
    channels = depth // 2 if form.signed else depth
    if weight.dim() == 2:
        from weightsmith.spiking.simulation._kernels import lay_out

        order = _order(weight.shape[1], form.positions, channels, depth)
        lanes, flat = _VECTOR // rows.itemsize, weight.contiguous().numpy().reshape(-1)
        lay_out(flat, order, form.unit, lanes, tile, rows.reshape(-1))
    else:
        ordered = weight.permute(2, 3, 1, 0).flatten(0, 1)
        rows[:, :channels, : len(weight)] = ordered if form.unit == 1 else ordered.double() * form.unit
    if form.signed:
        rows[:, channels:] = -rows[:, :channels]


@functools.lru_cache(maxsize=16)
def _order(inputs: int, positions: int, part: int, depth: int) -> NDArray[np.int64]:
    """The row of each input of a dense layer, whose weights count it channel by channel."""
    features = np.arange(inputs).reshape(positions, -1).T.reshape(-1)
    return features // part * depth + features % part


def _aligned(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Zeros aligned to cache lines, so that no vector crosses one."""
    count = math.prod(shape) * kind.itemsize
    room = np.zeros(count + _LINE, np.uint8)
    begin = -room.ctypes.data % _LINE
    return room[begin : begin + count].view(kind).reshape(shape)


def in_tiles(values: NDArray[Any], tiles: int, tile: int, fill: float) -> NDArray[Any]:
    """Values (…, channels) as (rows, tiles, tile): a view if the channels fill the tiles, else a padded copy."""
    rows = values.reshape(-1, values.shape[-1])
    if rows.shape[1] == tiles * tile:
        return rows.reshape(len(rows), tiles, tile)
    padded = np.full((len(rows), tiles * tile), fill, values.dtype)
    padded[:, : rows.shape[1]] = rows
    return padded.reshape(len(rows), tiles, tile)
