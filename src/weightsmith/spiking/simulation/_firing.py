"""The compiled steps of neurons (:mod:`weightsmith.spiking.neurons` has the formulas).

Arrays are (rows, tiles, width). ``sent`` holds the sums of the signed spikes sent, in the type of the membranes; for
unsigned spikes it has no rows.

The step of a row of neurons is an intrinsic for Numba. In loops over so many arrays, Numba counts references to each of
them in every row, which takes longer than the neurons do, and the compiler must allow for arrays that overlap.
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

from weightsmith.spiking.simulation import _rows

__all__ = ["fire", "fire_graded", "fire_row", "rule_of"]

_INT8, _INT64 = ir.IntType(8), ir.IntType(64)
_HARD, _SOFT, _SIGNED, _DELAYED_HARD, _DELAYED_SOFT = range(5)


@njit(cache=True, nogil=True)
def rule_of(sent: Any, soft: bool, delay: bool) -> int:
    """The number of the rule by which :func:`fire_row` steps neurons."""
    if len(sent) > 0:
        return _SIGNED
    if delay:
        return _DELAYED_SOFT if soft else _DELAYED_HARD
    return _SOFT if soft else _HARD


@intrinsic
def fire_row(
    _context: Any, membranes: Any, sent: Any, at: Any, currents: Any, begin: Any, width: Any, thresholds: Any,
    leaks: Any, of: Any, spikes: Any, leaving: Any, rule: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """One step of ``width`` neurons by the rule of that number.

    ``at``, ``begin``, ``of`` and ``leaving`` are the places of the first one in membranes (and sums sent), currents,
    thresholds (and leaks), and spikes. Whole vectors of neurons come first, those that are left one by one.
    """
    kind, given = _rows.ELEMENTS.get(membranes.dtype), _rows.ELEMENTS.get(currents.dtype)
    if isinstance(kind, ir.IntType | None) or isinstance(given, ir.IntType | None):
        raise TypingError(f"neurons with membranes of {membranes.dtype} cannot take currents of {currents.dtype}")
    wide = _rows.vectors_together(2) * _rows.lanes(np.dtype(membranes.dtype.name))
    whole = types.int64
    signature = types.void(
        membranes, sent, whole, currents, whole, whole, thresholds, leaks, whole, spikes, whole, whole
    )  # fmt: skip

    def generate(context: Any, build: Any, sig: Any, values: Any) -> Any:
        def pointer(argument: int, start: Any) -> Any:
            return build.gep(context.make_array(sig.args[argument])(context, build, values[argument]).data, [start])

        at, begin, width, of, leaving, rule = (values[argument] for argument in (2, 4, 5, 8, 10, 11))
        arrays = [pointer(*pair) for pair in ((0, at), (1, at), (3, begin), (6, of), (7, of), (9, leaving))]
        vectors = build.mul(build.sdiv(width, _INT64(wide)), _INT64(wide))
        for number in range(5):
            with build.if_then(build.icmp_signed("==", rule, _INT64(number))):
                for first, last, lanes in ((_INT64(0), vectors, wide), (vectors, width, 1)):
                    with cgutils.for_range_slice(build, first, last, _INT64(lanes), _INT64) as (index, _):
                        _step(build, arrays, index, number, (kind, given, lanes))
        return context.get_dummy_value()

    return signature, generate


def _step(build: Any, arrays: list[Any], index: Any, rule: int, form: tuple[Any, Any, int]) -> None:
    """The instructions for one step of some neurons: as many as there are lanes."""
    kind, given, lanes = form
    held, spent, entering, limits, factors, out = arrays
    vector = ir.VectorType(kind, lanes)

    def place(base: Any, kind: Any) -> Any:
        return build.bitcast(build.gep(base, [index]), ir.VectorType(kind, lanes).as_pointer())

    def load(base: Any, kind: Any = kind) -> Any:
        return build.load(place(base, kind), align=1)

    def store(value: Any, base: Any, kind: Any = kind) -> None:
        build.store(value, place(base, kind), align=1)

    def flags(found: Any) -> Any:
        return build.zext(found, ir.VectorType(_INT8, lanes))

    zero = ir.Constant(vector, [0.0] * lanes)
    current = load(entering, given)
    current = current if given is kind else build.fpext(current, vector)
    before, leak, threshold = load(held), load(factors), load(limits)
    if rule in (_DELAYED_HARD, _DELAYED_SOFT):
        up = build.fcmp_ordered(">", before, threshold)
        if rule == _DELAYED_SOFT:
            left = build.fadd(build.fmul(leak, before), current)
            left = build.fsub(left, build.select(up, threshold, build.fsub(threshold, threshold)))
        else:
            left = build.fadd(build.fmul(leak, build.select(up, build.fsub(before, before), before)), current)
        spike = flags(up)
    else:
        membrane = build.fadd(build.fmul(leak, before), current)
        up = build.fcmp_ordered(">", membrane, threshold)
        left = build.select(up, build.fsub(membrane, membrane if rule == _HARD else threshold), membrane)
        spike = flags(up)
        if rule == _SIGNED:
            sums = load(spent)
            down = build.and_(build.fcmp_ordered("<", membrane, zero), build.fcmp_ordered(">", sums, zero))
            left = build.select(down, build.fadd(membrane, threshold), left)
            spike = build.sub(spike, flags(down))
            store(build.fadd(sums, build.sitofp(spike, vector)), spent)
    store(left, held)
    store(spike, out, _INT8)


_fire_row: Any = fire_row


@njit(cache=True, nogil=True)
def fire(
    currents: Any, steps: int, membranes: Any, sent: Any, thresholds: Any, leaks: Any, soft: bool, delay: bool,
    spikes: Any, tested: Any,
) -> None:  # fmt: skip
    """Neurons over a chunk of currents (images, steps or 1, positions, channels), the same at every step for 1.

    Membranes (and sums sent) are (images · positions, 1, channels), thresholds and leaks (positions or 1, 1, channels),
    spikes (images · steps · positions, 1, channels). ``tested``, shaped like spikes or empty, receives every membrane
    just before its threshold test.
    """
    images, given, positions, channels = currents.shape
    period = 1 if len(thresholds) > 1 else 0
    look, rule = tested.size > 0, rule_of(sent, soft, delay)
    for image in range(images):
        for position in range(positions):
            at, of = image * positions + position, position * period
            for now in range(steps):
                leaving, entering = (image * steps + now) * positions + position, now if given > 1 else 0
                if look:
                    for k in range(channels):
                        before = membranes[at, 0, k]
                        current = currents[image, entering, position, k]
                        tested[leaving, 0, k] = before if delay else leaks[of, 0, k] * before + current
                begin = ((image * given + entering) * positions + position) * channels
                _fire_row(
                    membranes, sent, at * channels, currents, begin, channels, thresholds, leaks, of * channels,
                    spikes, leaving * channels, rule,
                )  # fmt: skip


@njit(cache=True, nogil=True)
def fire_graded(currents: Any, totals: Any, sent: Any, thresholds: Any, largest: int, spikes: Any, tested: Any) -> None:
    """Graded neurons over a chunk of currents (images, steps, positions, channels), arrays as in :func:`fire`.

    ``totals`` replaces membranes: the sum of all inputs received.
    """
    images, steps, positions, channels = currents.shape
    kind = thresholds.dtype.type
    top, none, half, one, two, three, four = kind(largest), kind(0), kind(0.5), kind(1), kind(2), kind(3), kind(4)
    period = 1 if len(thresholds) > 1 else 0
    look = tested.size > 0
    row = np.empty(channels, thresholds.dtype)  # loops over few arrays each, which the compiler turns into vectors
    for image in range(images):
        for position in range(positions):
            at, of = image * positions + position, position * period
            for now in range(steps):
                leaving = (image * steps + now) * positions + position
                for k in range(channels):
                    totals[at, 0, k] += currents[image, now, position, k]
                for k in range(channels):
                    row[k] = max(totals[at, 0, k], none) / thresholds[of, 0, k] * top
                for k in range(channels):
                    missing = row[k] - sent[at, 0, k]
                    size = min(abs(missing), top)
                    # Sizes 1, 2, 4 … 64 begin at ½, 1½, 3 … 48; computed as a sum, so the loop needs no branch.
                    sized = one if size >= half else none
                    sized += one if size >= three * half else none
                    sized += two if size >= three else none
                    sized += four if size >= two * three else none
                    sized += two * four if size >= four * three else none
                    sized += four * four if size >= two * four * three else none
                    sized += two * four * four if size >= four * four * three else none
                    row[k] = sized if missing > none else -sized
                for k in range(channels):
                    spikes[leaving, 0, k] = row[k]
                for k in range(channels):
                    sent[at, 0, k] += row[k]
                if look:
                    for k in range(channels):
                        tested[leaving, 0, k] = totals[at, 0, k]
