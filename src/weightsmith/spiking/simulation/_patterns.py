"""Convolutions of spikes by patterns: the rows of eight inputs are added as one, looked up in a table of their sums.

Eight spikes of a position are one byte, the pattern. The sum of the rows of weights of the inputs that fired was
computed before, for each of the 256 patterns, so that one addition does the work of eight. (Wei et al., "T-MAC",
EuroSys 2025, do so for weights of few bits.) Spikes −1 have bytes of their own, whose sums are subtracted.

Bits are (maps, padded height, padded width, groups of eight channels), in two planes for spikes of both signs, which
the type tells: uint8 for one plane, int8 for two. The table is (tiles, kernel positions · groups, LINES, tile).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from weightsmith.spiking.simulation import _firing, _rows
from weightsmith.spiking.simulation.packing import LINES

__all__ = ["convolve_patterns", "look_up", "pack"]

_INT64 = ir.IntType(64)
_LOW_BITS = np.uint64(0x0101010101010101)
_GATHER = np.uint64(0x0102040810204080)  # times eight bytes 0 or 1: their bits in the highest byte
_SIGN, _TOP = np.uint64(7), np.uint64(56)
fire_row: Any = _firing.fire_row


@njit(cache=True, nogil=True)
def pack(spikes: Any, maps: int, sizes: Any, bits: Any) -> None:
    """Spikes (maps, height, width, channels) as bits, all zero before.

    sizes: height, width, channels, padding (×2).
    """
    height, width, channels, py, px = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    groups = (channels + 7) // 8
    plane = maps * (height + 2 * py) * (width + 2 * px) * groups
    for number in range(maps):
        for y in range(height):
            at = (number * height + y) * width * channels
            out = ((number * (height + 2 * py) + y + py) * (width + 2 * px) + px) * groups
            if channels % 8 == 0:
                for word in spikes[at : at + width * channels].view(np.uint64):
                    negative = (word >> _SIGN) & _LOW_BITS
                    bits[out] = ((word & ~negative & _LOW_BITS) * _GATHER) >> _TOP
                    if bits.size > plane:
                        bits[plane + out] = (negative * _GATHER) >> _TOP
                    out += 1
            else:
                for k in range(width * channels):
                    spike, group = spikes[at + k], out + k // channels * groups + k % channels // 8
                    bits[group + (plane if spike < 0 else 0)] |= (spike != 0) << (k % channels % 8)


@intrinsic
def look_up(
    _context: Any, bias: Any, sums: Any, at: Any, forward: Any, table: Any, offset: Any, bits: Any, first: Any,
    beside: Any, runs: Any, apart: Any, length: Any, registers: Any, together: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Σ of table rows for ``together`` positions, into sums[at + p · forward :], begun with the bias of the tile.

    The bytes of position p are bits[first + p · beside + j · apart :][: length] for each run j; byte b of number q in
    all runs adds row LINES · q + b of the tile, which begins at ``offset``.
    """
    if not isinstance(registers, types.IntegerLiteral) or not isinstance(together, types.IntegerLiteral):
        raise TypingError("the numbers of registers and positions must be known when this is compiled")
    kind, size = _rows.ELEMENTS[table.dtype], table.dtype.bitwidth // 8
    merged = _rows.vectors_together(registers.literal_value)
    count, number = registers.literal_value // merged, merged * _rows.lanes(np.dtype(table.dtype.name))
    vector = ir.VectorType(kind, number)
    whole = types.int64
    signature = types.void(
        bias, sums, whole, whole, table, whole, bits, whole, whole, whole, whole, whole, registers, together
    )  # fmt: skip

    def generate(context: Any, build: Any, sig: Any, given: Any) -> Any:
        def pointer(argument: int, start: Any, kind: Any = None) -> Any:
            data = context.make_array(sig.args[argument])(context, build, given[argument]).data
            moved = build.gep(data, [start])
            return moved if kind is None else build.bitcast(moved, kind.as_pointer())

        def load(base: Any, index: int) -> Any:
            value = build.load(build.gep(base, [_INT64(index)]))
            value.align = size
            return value

        at, forward, offset, first, beside, runs, apart, length = (given[n] for n in (2, 3, 5, 7, 8, 9, 10, 11))
        positions = range(together.literal_value)
        bias_at, table_at = pointer(0, _INT64(0), vector), pointer(4, offset, vector)
        sums_at = [pointer(1, build.add(at, build.mul(forward, _INT64(p))), vector) for p in positions]
        planes = [pointer(6, first)]
        if bits.dtype == types.int8:
            size_of = context.make_array(sig.args[6])(context, build, given[6]).nitems
            planes.append(build.gep(planes[0], [build.sdiv(size_of, _INT64(2))]))
        # Sums live in stack slots, which LLVM turns into registers.
        reserve: Any = cgutils.alloca_once_value
        slots = [[reserve(build, load(bias_at, index)) for index in range(count)] for _ in positions]
        with cgutils.for_range(build, runs, intp=_INT64) as run:
            begin = build.mul(run.index, apart)
            groups_at = build.gep(table_at, [build.mul(build.mul(run.index, length), _INT64(LINES * count))])
            with cgutils.for_range(build, length, intp=_INT64) as group:
                rows_at = build.gep(groups_at, [build.mul(group.index, _INT64(LINES * count))])
                for p in positions:
                    where = build.add(build.add(begin, group.index), build.mul(beside, _INT64(p)))
                    for plane, combine in zip(planes, (build.fadd, build.fsub), strict=False):
                        byte = build.zext(build.load(build.gep(plane, [where])), _INT64)
                        row = build.gep(rows_at, [build.mul(byte, _INT64(count))])
                        for index, slot in enumerate(slots[p]):
                            build.store(combine(build.load(slot), load(row, index)), slot)
        for p in positions:
            for index, slot in enumerate(slots[p]):
                build.store(build.load(slot), build.gep(sums_at[p], [_INT64(index)])).align = size
        return context.get_dummy_value()

    return signature, generate


_look_up: Any = look_up


@njit(cache=True, nogil=True, inline="always")
def _some(
    bias: Any, sums: Any, at: int, forward: int, table: Any, offset: int, bits: Any, first: int, beside: int, runs: int,
    apart: int, length: int, registers: int, several: bool,
) -> None:  # fmt: skip
    """The sums of one position, or of as many as together fill eight registers."""
    if registers == 16:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 16, 1)
    elif registers == 8:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 8, 1)
    elif registers == 4 and several:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 4, 2)
    elif registers == 4:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 4, 1)
    elif registers == 2 and several:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 2, 4)
    elif registers == 2:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 2, 1)
    elif several:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 1, 4)
    else:
        _look_up(bias, sums, at, forward, table, offset, bits, first, beside, runs, apart, length, 1, 1)


@njit(cache=True, nogil=True)
def convolve_patterns(
    bits: Any, table: Any, registers: int, bias: Any, images: int, steps: int, sizes: Any, added: Any, factor: Any,
    membranes: Any, sent: Any, thresholds: Any, leaks: Any, soft: bool, delay: bool, spikes: Any, currents: Any,
) -> None:  # fmt: skip
    """Spikes through a convolution, plus ``added`` · ``factor``, into neurons or, if not empty, into ``currents``.

    sizes: padded height, padded width, groups, output channels, height, width, kernel, stride (×2 each), dilation of
    rows. ``bias`` is (1, tiles, width of a tile). A row of neurons is one row of the output: membranes and sent are
    (images · rows, 1, its width), thresholds and leaks (rows or 1, 1, width), added, spikes and currents
    (images · steps · rows, 1, width); added may be empty. All steps of a row are done before the next row.
    """
    height, width, groups, channels, rows, columns, ky, kx, sy, sx, dy = (
        sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[8], sizes[9], sizes[10],
    )  # fmt: skip
    tiles, tile = bias.shape[1], bias.shape[2]
    together = 4 if registers <= 2 else 2 if registers == 4 else 1
    period = 1 if len(thresholds) > 1 else 0
    line = np.empty(columns * channels + tile, bias.dtype)
    sums = line[: columns * channels]
    for image in range(images):
        for row in range(rows):
            for now in range(steps):
                map_at = (image * steps + now) * height
                # The last tile writes beyond its channels: into the first ones of the next position, which come later.
                for number in range(tiles - 1, -1, -1):
                    column = 0
                    while column < columns:
                        several = together if column + together <= columns else 1
                        first = ((map_at + row * sy) * width + column * sx) * groups
                        _some(
                            bias[0, number], line, column * channels + number * tile, channels, table,
                            number * (table.size // tiles), bits, first, sx * groups, ky, dy * width * groups,
                            kx * groups, registers, several > 1,
                        )  # fmt: skip
                        column += several
                leaving = (image * steps + now) * rows + row
                if added.size > 0:
                    for k in range(sums.size):
                        sums[k] += factor[k] * added[leaving, 0, k]
                if currents.size > 0:
                    for k in range(sums.size):
                        currents[leaving, 0, k] = sums[k]
                else:
                    fire_row(
                        membranes, sent, image * rows + row, sums, thresholds, leaks, row * period, 0, soft, delay,
                        spikes, leaving,
                    )  # fmt: skip
