"""The inner loop of the event-driven kernels: add a contiguous row of weights for every spike, the sum in registers.

A compiler that does not know that arrays never overlap stores and reloads the sum after every row. So the loop is
written here as an intrinsic for Numba: ``registers`` vectors of 256 bits are loaded once, the rows of all spikes in the
given ranges are added to them, and they are stored once. Two such vectors are one of 512 bits where the processor has
them. Rows are added in the order of the spikes, so the result does not depend on how a run is divided into parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from weightsmith.spiking.simulation.packing import WIDE_REGISTERS

__all__ = ["ELEMENTS", "add_rows", "lanes", "trailing_zeros", "transpose", "vectors_together", "write_eight"]

_VECTOR_BYTES = 32
ELEMENTS: dict[Any, ir.Type] = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.int16: ir.IntType(16),
}
_STORED: dict[Any, ir.Type] = {**ELEMENTS, types.int8: ir.IntType(8)}
_INT64 = ir.IntType(64)


def lanes(dtype: np.dtype[Any]) -> int:
    """Values of this type in one vector."""
    return _VECTOR_BYTES // dtype.itemsize


def vectors_together(registers: int) -> int:
    """How many of ``registers`` vectors are used as one: two, if Numba compiles for a processor with 512 bits."""
    host = getattr(config, "CPU_NAME", None) in (None, "host")
    return 2 if registers % 2 == 0 and host and binding.get_host_cpu_features().get("avx512f") else 1


@intrinsic
def add_rows(
    _context: Any, sums: Any, at: Any, table: Any, offset: Any, codes: Any, ranges: Any, count: Any, registers: Any,
    most: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """sums[at :][: width] += Σ table[offset + (base + codes[e]) · width :][: width] over the events of ranges.

    ``ranges`` holds begin, end and base (a number of rows) of ``count`` ranges, one after the other. The width of a row
    is registers · lanes of the table. Sums are floats, the table is of the same type or int16: then at most ``most``
    rows are added as 16-bit integers, so that they do not overflow, and their sums are added as floats. All arrays are
    flat and contiguous.
    """
    kind, total = ELEMENTS.get(table.dtype), ELEMENTS.get(sums.dtype)
    whole = isinstance(kind, ir.IntType)
    if kind is None or isinstance(total, ir.IntType | None) or not (whole or kind is total):
        raise TypingError(f"rows of {table.dtype} cannot be added to sums of {sums.dtype}")
    signature = types.void(
        sums, types.int64, table, types.int64, codes, ranges, types.int64, types.int64, types.int64
    )  # fmt: skip
    size, wide = table.dtype.bitwidth // 8, sums.dtype.bitwidth // 8

    def generate(context: Any, build: Any, sig: Any, given: Any) -> Any:
        def pointer(argument: int, start: Any = None) -> Any:
            data = context.make_array(sig.args[argument])(context, build, given[argument]).data
            return data if start is None else build.gep(data, [start])

        places = pointer(0, given[1]), pointer(2, given[3]), pointer(4), pointer(5)
        for number in WIDE_REGISTERS:
            with build.if_then(build.icmp_signed("==", given[7], _INT64(number))):
                together = vectors_together(number)
                lanes = together * _VECTOR_BYTES // size
                vectors = ir.VectorType(kind, lanes), ir.VectorType(total, lanes)
                _add(build, places, given[6], given[8], (number // together, *vectors), (size, wide))
        return context.get_dummy_value()

    return signature, generate


def _add(build: Any, places: Any, count: Any, most: Any, form: tuple[int, Any, Any], sizes: tuple[int, int]) -> None:
    """The instructions that add the rows; ``form``: vectors in a row, their type, and the type of the sums."""
    number, vector, answer = form
    whole, zero = vector != answer, ir.Constant(vector, [0] * vector.count)
    sums_at, rows_at = (
        build.bitcast(at, kind.as_pointer()) for at, kind in zip(places, (answer, vector), strict=False)
    )
    codes_at, ranges_at = places[2:]

    def load(base: Any, index: int, size: int) -> Any:
        return build.load(build.gep(base, [_INT64(index)]), align=size)

    def add_events(first: Any, last: Any, base: Any) -> None:
        with cgutils.for_range_slice(build, first, last, _INT64(1), _INT64) as (event, _):
            code = build.sext(build.load(build.gep(codes_at, [event])), _INT64)
            row = build.gep(rows_at, [build.mul(build.add(code, base), _INT64(number))])
            for index, slot in enumerate(slots):
                add = build.add if whole else build.fadd
                build.store(add(build.load(slot), load(row, index, sizes[0])), slot)

    def add_to_sums() -> None:
        for index, slot in enumerate(slots):
            value = build.load(slot)
            if whole:
                value = build.fadd(load(sums_at, index, sizes[1]), build.sitofp(value, answer))
                build.store(zero, slot)
            build.store(value, build.gep(sums_at, [_INT64(index)]), align=sizes[1])

    # Sums live in stack slots, which LLVM turns into registers.
    reserve: Any = cgutils.alloca_once_value
    slots = [reserve(build, zero if whole else load(sums_at, index, sizes[1])) for index in range(number)]
    left = reserve(build, most)  # rows that can be added before 16 bits may overflow

    def add_in_pieces(begin: Any, end: Any, base: Any) -> None:
        with cgutils.for_range_slice(build, begin, end, most, _INT64) as (first, _):
            last = build.add(first, most)
            last = build.select(build.icmp_signed("<", last, end), last, end)
            rows = build.sub(last, first)
            with build.if_then(build.icmp_signed(">", rows, build.load(left))):
                add_to_sums()
                build.store(most, left)
            build.store(build.sub(build.load(left), rows), left)
            add_events(first, last, base)

    with cgutils.for_range_slice(build, _INT64(0), count, _INT64(1), _INT64) as (which, _):
        triple = build.gep(ranges_at, [build.mul(which, _INT64(3))])
        begin, end, base = (build.load(build.gep(triple, [_INT64(part)])) for part in range(3))
        (add_in_pieces if whole else add_events)(begin, end, base)
    add_to_sums()


@intrinsic
def transpose(
    _context: Any, weight: Any, at: Any, stride: Any, order: Any, column: Any, unit: Any, table: Any, offset: Any,
    tile: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """table[offset + order[column + i] · tile + j] = weight[at + j · stride + column + i] · unit, for i, j < lanes.

    The block is as wide as a vector of the table and transposed in registers: loads and stores of single values would
    all hit the same few cache lines, because strides are powers of two. Floats are multiplied in double precision,
    integers not at all. All arrays are flat and contiguous.
    """
    kind, stored = ELEMENTS[table.dtype], _STORED[weight.dtype]
    number = _VECTOR_BYTES // (table.dtype.bitwidth // 8)
    vector, given_vector, double = (ir.VectorType(each, number) for each in (kind, stored, ir.DoubleType()))
    whole = isinstance(kind, ir.IntType)
    signature = types.void(
        weight, types.int64, types.int64, order, types.int64, types.float64, table, types.int64, types.int64
    )  # fmt: skip

    def converted(build: Any, value: Any, unit: Any) -> Any:
        if whole:
            return build.sext(value, vector) if isinstance(stored, ir.IntType) else build.fptosi(value, vector)
        if isinstance(stored, ir.IntType):
            value = build.sitofp(value, double)
        elif stored is not ir.DoubleType():
            value = build.fpext(value, double)
        product = build.fmul(value, unit)
        return product if isinstance(kind, ir.DoubleType) else build.fptrunc(product, vector)

    def generate(context: Any, build: Any, sig: Any, given: Any) -> Any:
        source, places, target = (
            context.make_array(sig.args[which])(context, build, given[which]).data for which in (0, 3, 6)
        )
        unit = ir.Constant(double, ir.Undefined)
        for lane in range(number):
            unit = build.insert_element(unit, given[5], ir.IntType(32)(lane))
        rows = []
        for lane in range(number):
            where = build.add(build.add(given[1], given[4]), build.mul(given[2], _INT64(lane)))
            loaded = build.load(build.bitcast(build.gep(source, [where]), given_vector.as_pointer()))
            loaded.align = weight.dtype.bitwidth // 8
            rows.append(converted(build, loaded, unit))
        low, high = _interleaving(number)
        for _ in range(number.bit_length() - 1):
            half = list(zip(rows[: number // 2], rows[number // 2 :], strict=True))
            rows = [build.shuffle_vector(one, two, mask) for one, two in half for mask in (low, high)]
        for lane, row in enumerate(rows):
            place = build.sext(build.load(build.gep(places, [build.add(given[4], _INT64(lane))])), _INT64)
            where = build.add(given[7], build.mul(place, given[8]))
            stored_at = build.bitcast(build.gep(target, [where]), vector.as_pointer())
            build.store(row, stored_at).align = table.dtype.bitwidth // 8
        return context.get_dummy_value()

    return signature, generate


def _interleaving(number: int) -> tuple[Any, Any]:
    """The masks that interleave the first, and the second, halves of two vectors."""
    mask = ir.VectorType(ir.IntType(32), number)
    cards = [(lane // 2) + (number if lane % 2 else 0) for lane in range(2 * number)]
    return ir.Constant(mask, cards[:number]), ir.Constant(mask, cards[number:])


@intrinsic
def write_eight(
    _context: Any, codes: Any, at: Any, places: Any, row: Any, code: Any
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """codes[at :][: 8] = code + places[8 · row :][: 8], all of 32 bits."""
    signature = types.void(codes, types.int64, places, types.int64, types.int64)
    eight = ir.VectorType(ir.IntType(32), 8)

    def generate(context: Any, build: Any, sig: Any, given: Any) -> Any:
        def place(argument: int, start: Any) -> Any:
            data = context.make_array(sig.args[argument])(context, build, given[argument]).data
            return build.bitcast(build.gep(data, [start]), eight.as_pointer())

        one = build.trunc(given[4], ir.IntType(32))
        first = build.insert_element(ir.Constant(eight, ir.Undefined), one, _INT64(0))
        same = build.shuffle_vector(first, first, ir.Constant(eight, [0] * 8))
        offsets = build.load(place(2, build.mul(given[3], _INT64(8))), align=4)
        build.store(build.add(offsets, same), place(0, given[1]), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def trailing_zeros(_context: Any, word: Any) -> tuple[Any, Callable[..., Any]]:
    """The number of trailing zeros of a 64-bit word that is not zero."""

    def generate(_context: Any, build: Any, _sig: Any, given: Any) -> Any:
        return build.cttz(given[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate
