"""The compiled kernels of a run. Every array is flat and contiguous; positions come before channels.

Spikes of a chunk have the shape (images, steps, positions, channels). :func:`list_events` turns them into lists: for
every image, step and position the indices of the channels that fired. :func:`convolve` then gathers, for every neuron
row, the weights of the spikes it sees (:mod:`weightsmith.spiking.simulation._rows`) and updates the neurons at once,
all steps of the chunk for one position before the next, so that membranes stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from weightsmith.spiking.simulation import _firing, _rows

__all__ = [
    "GATHER",
    "LOW_BITS",
    "TOP",
    "convolve",
    "count",
    "draw",
    "gate",
    "lay_out",
    "list_events",
    "list_parts",
    "pool",
    "project",
    "room",
]

add_rows: Any = _rows.add_rows
fire_row: Any = _firing.fire_row
rule_of: Any = _firing.rule_of
trailing_zeros: Any = _rows.trailing_zeros
transpose: Any = _rows.transpose
write_eight: Any = _rows.write_eight
# Eight bytes 0 or 1 times GATHER have their bits in the highest byte; for each such byte, its bits and how many.
LOW_BITS, GATHER, TOP = np.uint64(0x0101010101010101), np.uint64(0x0102040810204080), np.uint64(56)
_BITS = np.array([([k for k in range(8) if byte >> k & 1] + 8 * [0])[:8] for byte in range(256)], np.int32)
_COUNTS = np.array([byte.bit_count() for byte in range(256)], np.int64)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True)
def draw(x: Any, keys: Any, scale: Any, step: int, steps: int, channels: int, spikes: Any) -> None:
    """Poisson spikes −1, 0, +1 of images x (images, channels, positions) for ``steps`` steps from ``step`` on."""
    images = keys.size
    pixels = x.size // images
    positions = pixels // channels
    for image in range(images):
        for now in range(steps):
            base = keys[image] + _GOLDEN * np.uint64((step + now) * pixels + 1)
            at = (image * steps + now) * pixels
            for channel in range(channels):
                for position in range(positions):
                    pixel = channel * positions + position
                    z = base + _GOLDEN * np.uint64(pixel)
                    z = (z ^ (z >> np.uint64(30))) * _FIRST
                    z = (z ^ (z >> np.uint64(27))) * _SECOND
                    z = z ^ (z >> np.uint64(31))
                    value = x[image * pixels + pixel]
                    fires = np.float64(z >> np.uint64(40)) < np.float64(abs(value) * scale) * 16777216.0
                    sign = 1 if value > 0 else -1
                    spikes[at + position * channels + channel] = sign if fires else 0


@njit(cache=True, nogil=True)
def count(spikes: Any, parts: int, out: Any) -> None:
    """The number of spikes in each of ``parts`` equal parts."""
    size = spikes.size // parts
    for part in range(parts):
        total = 0
        for begin in range(part * size, (part + 1) * size, 128):  # as many as an 8-bit sum can hold
            some: Any = np.uint8(0)
            for spike in spikes[begin : min(begin + 128, (part + 1) * size)]:
                some += np.uint8(spike != 0)
            total += some
        out[part] = total


@njit(cache=True, nogil=True)
def room(spikes: Any) -> int:
    """The number of events: the sum of the absolute counts."""
    total = 0
    for begin in range(0, spikes.size, 256):
        some: Any = np.int32(0)
        for spike in spikes[begin : min(begin + 256, spikes.size)]:
            some += np.int32(abs(np.int32(spike)))
        total += some
    return total


@njit(cache=True, nogil=True, inline="always")
def _list_row(spikes: Any, words: Any, at: int, channels: int, code: int, codes: Any, found: int) -> int:
    """The events of ``channels`` values from ``at`` on: ``code`` + channel, n times for a count, + channels for −1.

    The eight places behind the last event may be written too.
    """
    if channels % 8 == 0:
        for eight in words[at // 8 : (at + channels) // 8]:
            word = eight
            if word & ~LOW_BITS == 0:  # spikes only: without a branch that the processor would have to guess
                byte = np.int64((word * GATHER) >> TOP)
                write_eight(codes, found, _BITS, byte, code)
                found += _COUNTS[byte]
                code += 8
                continue
            while word != 0:
                bits = trailing_zeros(word) & np.uint64(56)
                value: Any = np.int8((word >> bits) & np.uint64(255))
                word &= ~(np.uint64(255) << bits)
                event: Any = code + np.int64(bits >> np.uint64(3))
                if value < 0:
                    event += channels
                    value = -value
                for _ in range(value):
                    codes[found] = event
                    found += 1
            code += 8
        return found
    for number in spikes[at : at + channels]:
        event = code + channels if number < 0 else code
        for _ in range(abs(number)):
            codes[found] = event
            found += 1
        code += 1
    return found


@njit(cache=True, nogil=True)
def list_events(spikes: Any, channels: int, across: int, depth: int, starts: Any, codes: Any) -> int:
    """The spikes position by position, as codes: column · depth + channel, where ``across`` positions make a row.

    A count n is listed n times; −1 is written as channel + channels. ``starts`` receives the index at which the events
    of each position begin and, last, the total. Because the codes continue from column to column, all events that a
    neuron sees in one row of its window are one range.
    """
    found = 0
    words = spikes[: spikes.size // 8 * 8].view(np.uint64)
    for position in range(spikes.size // channels):
        starts[position] = found
        found = _list_row(spikes, words, position * channels, channels, (position % across) * depth, codes, found)
    starts[spikes.size // channels] = found
    return found


@njit(cache=True, nogil=True)
def list_parts(spikes: Any, channels: int, parts: int, depth: int, starts: Any, codes: Any) -> int:
    """The spikes of features, divided into parts: all rows of the first part, then all of the next.

    :func:`project` reads them in this order. Codes are part · depth + channel.
    """
    found = 0
    words = spikes[: spikes.size // 8 * 8].view(np.uint64)
    rows = spikes.size // (channels * parts)
    for part in range(parts):
        for row in range(rows):
            starts[part * rows + row] = found
            found = _list_row(spikes, words, (row * parts + part) * channels, channels, part * depth, codes, found)
    starts[parts * rows] = found
    return found


@njit(cache=True, nogil=True)
def pool(spikes: Any, maps: int, sizes: Any, out: Any) -> None:
    """Sums over windows of ``maps`` maps; sizes: height, width, channels, rows, columns; kernel, stride, padding."""
    height, width, channels, rows, columns, ky, kx, sy, sx, py, px = (
        sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[8], sizes[9], sizes[10],
    )  # fmt: skip
    for number in range(maps):
        for row in range(rows):
            for column in range(columns):
                at = ((number * rows + row) * columns + column) * channels
                sums = out[at : at + channels]
                sums[:] = 0
                for y in range(max(row * sy - py, 0), min(row * sy - py + ky, height)):
                    for x in range(max(column * sx - px, 0), min(column * sx - px + kx, width)):
                        begin = ((number * height + y) * width + x) * channels
                        some = spikes[begin : begin + channels]
                        for channel in range(channels):
                            sums[channel] += some[channel]


@njit(cache=True, nogil=True)
def gate(spikes: Any, images: int, steps: int, sizes: Any, counts: Any, signed: bool, out: Any) -> None:
    """For each window the spike of the unit that has fired most; counts (images, positions, channels) are updated.

    For ``signed`` spikes the change of the largest count (counts are never negative).
    """
    height, width, channels, rows, columns, ky, kx, sy, sx, py, px = (
        sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[8], sizes[9], sizes[10],
    )  # fmt: skip
    units = height * width * channels
    for image in range(images):
        for now in range(steps):
            before = (image * steps + now) * units
            for unit in range(units):
                counts[image * units + unit] += spikes[before + unit]
            for row in range(rows):
                for column in range(columns):
                    for channel in range(channels):
                        most: Any = np.int32(-1)
                        passed: Any = np.int32(0)
                        last: Any = np.int32(0)
                        for y in range(max(row * sy - py, 0), min(row * sy - py + ky, height)):
                            for x in range(max(column * sx - px, 0), min(column * sx - px + kx, width)):
                                unit = (y * width + x) * channels + channel
                                fired = np.int32(spikes[before + unit])
                                last = max(last, counts[image * units + unit] - fired)
                                if counts[image * units + unit] > most:
                                    most = counts[image * units + unit]
                                    passed = fired
                        at = ((image * steps + now) * rows + row) * columns + column
                        out[at * channels + channel] = max(most, 0) - last if signed else passed


@njit(cache=True, nogil=True)
def convolve(
    starts: Any, codes: Any, table: Any, tiles: int, registers: int, most: int, bias: Any, images: int, steps: int,
    sizes: Any, membranes: Any, sent: Any, thresholds: Any, leaks: Any, soft: bool, delay: bool, spikes: Any,
    currents: Any,
) -> None:  # fmt: skip
    """Events through a convolution into neurons or, if ``currents`` is not empty, into that array.

    sizes: height, width, rows of the table per kernel position, output height, width, kernel, stride, padding,
    dilation (×2 each). ``table`` is (tiles, kernel positions, rows, width of a tile); ``bias``, membranes, sent,
    thresholds, leaks, spikes and currents are (rows, tiles, width of a tile).
    """
    height, width, depth, rows, columns = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    ky, kx, sy, sx, py, px, dy, dx = (
        sizes[5], sizes[6], sizes[7], sizes[8], sizes[9], sizes[10], sizes[11], sizes[12],
    )  # fmt: skip
    tile = bias.shape[2]
    fires, rule = currents.size == 0, rule_of(sent, soft, delay)
    together = kx if dx == 1 else 1  # columns of the window whose events are one range
    positions = rows * columns
    period = 1 if len(thresholds) > 1 else 0
    sums = np.empty(tile, bias.dtype)
    ranges = np.empty(3 * ky * kx, np.int64)
    for number in range(tiles):
        offset = number * (table.size // tiles)
        for image in range(images):
            for row in range(rows):
                for column in range(columns):
                    position = row * columns + column
                    at, of = image * positions + position, position * period
                    for now in range(steps):
                        base = (image * steps + now) * height * width
                        found = 0
                        for j in range(ky):
                            y = row * sy - py + j * dy
                            if y < 0 or y >= height:
                                continue
                            for i in range(0, kx, together):
                                x = column * sx - px + i * dx
                                begin = starts[base + y * width + min(max(x, 0), width)]
                                end = starts[base + y * width + min(max(x + together, 0), width)]
                                if begin < end:
                                    ranges[found], ranges[found + 1] = begin, end
                                    ranges[found + 2] = (j * kx + i - x) * depth
                                    found += 3
                        for k in range(tile):
                            sums[k] = bias[0, number, k]
                        add_rows(sums, 0, table, offset, codes, ranges, found // 3, registers, most)
                        leaving = (image * steps + now) * positions + position
                        if fires:
                            fire_row(
                                membranes, sent, (at * tiles + number) * tile, sums, 0, tile, thresholds, leaks,
                                (of * tiles + number) * tile, spikes, (leaving * tiles + number) * tile, rule,
                            )  # fmt: skip
                        else:
                            for k in range(tile):
                                currents[leaving, number, k] = sums[k]


@njit(cache=True, nogil=True)
def lay_out(weight: Any, order: Any, unit: float, lanes: int, tile: int, table: Any) -> None:
    """Dense weights (outputs, inputs) times ``unit`` as rows of a tile of that width; ``order``: each input's row."""
    inputs = order.size
    outputs = weight.size // inputs
    whole = outputs // lanes * lanes
    for begin in range(0, inputs // lanes * lanes, lanes):
        for output in range(0, whole, lanes):
            transpose(weight, output * inputs, inputs, order, begin, unit, table, output, tile)
    for output in range(outputs):
        for column in range(inputs // lanes * lanes if output < whole else 0, inputs):
            table[order[column] * tile + output] = np.float64(weight[output * inputs + column]) * unit


@njit(cache=True, nogil=True)
def project(
    starts: Any, codes: Any, table: Any, registers: int, most: int, bias: Any, rows: int, parts: int, currents: Any
) -> None:
    """Events of ``rows`` images and steps through one tile of dense synapses into ``currents`` (rows, its outputs).

    The inputs are cut into ``parts``; one part is done for all rows before the next, so that its rows of the table stay
    in the cache. The last tile of a layer may have fewer outputs than it has room for.
    """
    tile = bias.size
    outputs = currents.size // rows
    ranges = np.zeros(3, np.int64)
    sums = np.empty(rows * tile, bias.dtype)
    for row in range(rows):
        sums[row * tile : (row + 1) * tile] = bias
    for part in range(parts):
        for row in range(rows):
            ranges[0], ranges[1] = starts[part * rows + row], starts[part * rows + row + 1]
            add_rows(sums, row * tile, table, 0, codes, ranges, 1, registers, most)
    for row in range(rows):
        currents[row * outputs : (row + 1) * outputs] = sums[row * tile : row * tile + outputs]
