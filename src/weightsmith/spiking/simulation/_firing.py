"""The compiled steps of neurons (:mod:`weightsmith.spiking.neurons` has the formulas).

Arrays are (rows, tiles, width), so that the compiler need not check for negative indices. ``sent`` holds the sums of
the signed spikes sent, in the type of the membranes; for unsigned spikes it has no rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["fire", "fire_graded", "fire_row"]


@njit(cache=True, nogil=True, inline="always")
def fire_row(
    membranes: Any, sent: Any, at: int, currents: Any, thresholds: Any, leaks: Any, of: int, tile: int, soft: bool,
    delay: bool, spikes: Any, leaving: int,
) -> None:  # fmt: skip
    """One step of a tile of neurons."""
    if len(sent) > 0:
        for k in range(currents.size):
            membrane = leaks[of, tile, k] * membranes[at, tile, k] + currents[k]
            up = membrane > thresholds[of, tile, k]
            down = (membrane < 0) & (sent[at, tile, k] > 0)
            sign = np.int8(up) - np.int8(down)
            spikes[leaving, tile, k] = sign
            sent[at, tile, k] += sign
            taken = membrane - thresholds[of, tile, k] if up else membrane
            membranes[at, tile, k] = membrane + thresholds[of, tile, k] if down else taken
    elif delay:
        for k in range(currents.size):
            before = membranes[at, tile, k]
            fires = before > thresholds[of, tile, k]
            spikes[leaving, tile, k] = fires
            if soft:
                taken = thresholds[of, tile, k] if fires else thresholds[of, tile, k] - thresholds[of, tile, k]
                membranes[at, tile, k] = leaks[of, tile, k] * before + currents[k] - taken
            else:
                kept = before - before if fires else before
                membranes[at, tile, k] = leaks[of, tile, k] * kept + currents[k]
    elif soft:
        for k in range(currents.size):
            membrane = leaks[of, tile, k] * membranes[at, tile, k] + currents[k]
            fires = membrane > thresholds[of, tile, k]
            spikes[leaving, tile, k] = fires
            membranes[at, tile, k] = membrane - thresholds[of, tile, k] if fires else membrane
    else:
        for k in range(currents.size):
            membrane = leaks[of, tile, k] * membranes[at, tile, k] + currents[k]
            fires = membrane > thresholds[of, tile, k]
            spikes[leaving, tile, k] = fires
            membranes[at, tile, k] = membrane - membrane if fires else membrane


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
    look = tested.size > 0
    for image in range(images):
        for position in range(positions):
            at, of = image * positions + position, position * period
            for now in range(steps):
                leaving = (image * steps + now) * positions + position
                current = currents[image, now if given > 1 else 0, position]
                if look:
                    for k in range(channels):
                        before = membranes[at, 0, k]
                        tested[leaving, 0, k] = before if delay else leaks[of, 0, k] * before + current[k]
                fire_row(membranes, sent, at, current, thresholds, leaks, of, 0, soft, delay, spikes, leaving)


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
