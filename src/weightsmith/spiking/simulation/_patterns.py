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
from numba.extending import intrinsic

from weightsmith.spiking.simulation import _firing, _rows
from weightsmith.spiking.simulation._kernels import GATHER, LOW_BITS, TOP
from weightsmith.spiking.simulation.packing import LINES, WIDE_REGISTERS

__all__ = ["convolve_patterns", "look_up", "pack"]

_INT64 = ir.IntType(64)
_SIGN = np.uint64(7)
fire_row: Any = _firing.fire_row
rule_of: Any = _firing.rule_of


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
                    negative = (word >> _SIGN) & LOW_BITS
                    bits[out] = ((word & ~negative & LOW_BITS) * GATHER) >> TOP
                    if bits.size > plane:
                        bits[plane + out] = (negative * GATHER) >> TOP
                    out += 1
            else:
                for k in range(width * channels):
                    spike, group = spikes[at + k], out + k // channels * groups + k % channels // 8
                    bits[group + (plane if spike < 0 else 0)] |= (spike != 0) << (k % channels % 8)


def _positions(registers: int) -> int:
    """How many positions are computed at once: as many as fill eight registers, at most four."""
    return max(1, min(4, 8 // registers))


_together: Any = njit(cache=True, nogil=True)(_positions)


@intrinsic
def look_up(
    _context: Any, bias: Any, begun: Any, sums: Any, at: Any, forward: Any, table: Any, offset: Any, bits: Any,
    first: Any, beside: Any, runs: Any, apart: Any, length: Any, registers: Any, together: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Σ of table rows for ``together`` positions, into sums[at + p · forward :], begun with bias[begun :].

    The bytes of position p are bits[first + p · beside + j · apart :][: length] for each run j; byte b of number q in
    all runs adds row LINES · q + b of the tile, which begins at ``offset``. There is one position, or as many
    as :func:`_positions` says.
    """
    kind, whole = _rows.ELEMENTS[table.dtype], types.int64
    signature = types.void(bias, whole, sums, whole, whole, table, whole, bits, *[whole] * 7)

    def generate(context: Any, build: Any, sig: Any, given: Any) -> Any:
        def pointer(argument: int, start: Any) -> Any:
            return build.gep(context.make_array(sig.args[argument])(context, build, given[argument]).data, [start])

        planes = [pointer(7, given[8])]
        if bits.dtype == types.int8:
            size_of = context.make_array(sig.args[7])(context, build, given[7]).nitems
            planes.append(build.gep(planes[0], [build.sdiv(size_of, _INT64(2))]))
        places = pointer(0, given[1]), pointer(2, given[3]), pointer(5, given[6]), planes
        registers, together = given[13:]
        for count in WIDE_REGISTERS:
            merged = _rows.vectors_together(count)
            vector = ir.VectorType(kind, merged * _rows.lanes(np.dtype(table.dtype.name)))
            for positions in {1, _positions(count)}:
                these = build.and_(
                    build.icmp_signed("==", registers, _INT64(count)),
                    build.icmp_signed("==", together, _INT64(positions)),
                )
                with build.if_then(these):
                    form = count // merged, positions, vector
                    _sum_up(build, places, (given[4], given[9]), given[10:13], form, table.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return signature, generate


def _sum_up(build: Any, places: Any, strides: Any, runs: Any, form: tuple[int, int, Any], size: int) -> None:
    """The instructions for so many positions at once; ``form``: vectors in a row, positions, the type of a vector."""
    bias_at, sums_at, table_at, planes = places
    forward, beside = strides
    runs, apart, length = runs
    count, positions, vector = form[0], range(form[1]), form[2]
    bias_at, table_at = (build.bitcast(at, vector.as_pointer()) for at in (bias_at, table_at))

    def load(base: Any, index: int) -> Any:
        return build.load(build.gep(base, [_INT64(index)]), align=size)

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
        out = build.bitcast(build.gep(sums_at, [build.mul(forward, _INT64(p))]), vector.as_pointer())
        for index, slot in enumerate(slots[p]):
            build.store(build.load(slot), build.gep(out, [_INT64(index)]), align=size)


_look_up: Any = look_up


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
    together = _together(registers)
    period, rule = 1 if len(thresholds) > 1 else 0, rule_of(sent, soft, delay)
    across = columns * channels
    sums = np.empty(across + tile, bias.dtype)
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
                        _look_up(
                            bias, number * tile, sums, column * channels + number * tile, channels, table,
                            number * (table.size // tiles), bits, first, sx * groups, ky, dy * width * groups,
                            kx * groups, registers, several,
                        )  # fmt: skip
                        column += several
                leaving = (image * steps + now) * rows + row
                if added.size > 0:
                    for k in range(across):
                        sums[k] += factor[k] * added[leaving, 0, k]
                if currents.size > 0:
                    for k in range(across):
                        currents[leaving, 0, k] = sums[k]
                else:
                    fire_row(
                        membranes, sent, (image * rows + row) * across, sums, 0, across, thresholds, leaks,
                        row * period * across, spikes, leaving * across, rule,
                    )  # fmt: skip
