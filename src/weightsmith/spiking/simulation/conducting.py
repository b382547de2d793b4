"""Synapses in the compiled engine: every layer takes the path that costs least (:mod:`.path_costs`).

``events``    the row of weights of every spike is added: for sparse spikes
``patterns``  convolutions of spikes, eight inputs at a time, whose sums of rows are looked up in a table
``dense``     one convolution or matrix product over all images and steps: for everything else
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.spiking.conversion.quantise import floating_nodes
from weightsmith.spiking.graph import Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.packing import (
    Form,
    dense_product,
    in_tiles,
    pattern_bytes,
    patterns_of,
    table_of,
    tiles_of,
)
from weightsmith.spiking.simulation.path_costs import Work
from weightsmith.spiking.simulation.values import NeuronRows, Pending, Values

__all__ = ["Conductor", "Population", "Route"]

Route = Literal["events", "patterns", "dense"]
_LARGEST = 20_000_000  # bytes of a table of patterns


@dataclasses.dataclass(frozen=True)
class Population:
    """The neurons behind a layer: their parameters, and membranes and sums sent of the images of a block."""

    rows: NeuronRows
    membranes: NDArray[Any]
    sent: NDArray[Any]


class Conductor:
    """Computes the currents of layers, or at once the spikes of the neurons behind them."""

    def __init__(
        self, network: SpikingNetwork, kinds: dict[str, type[Any]], whole: bool, route: Route | Literal["auto"]
    ) -> None:
        self._network, self._kinds, self._whole, self._route = network, kinds, whole, route
        self._floating = floating_nodes(network)
        self._graded = isinstance(network.neuron, Graded)
        self._spike_kind = np.int8 if network.neuron.signed else np.uint8

    def halves(self, node: Synapses) -> bool:
        """Whether the rows of a layer are 16-bit integers on the path of events."""
        return self._whole and node.name not in self._floating

    def route(self, node: Synapses, before: Values) -> Route:
        """The path of a layer for these inputs, which are cut into parts if the layer is dense."""
        if not before.discrete or node.groups != 1 or self._graded:
            return "dense"
        kind = np.dtype(self._kinds[node.name])
        small = not node.dense and node.dilation[1] == 1 and pattern_bytes(node, kind) <= _LARGEST
        known: list[Route] = ["dense", "events"]
        if small and before.most == 1:
            known.append("patterns")
        if self._route != "auto":
            return self._route if self._route in known else "dense"
        images, steps, parts, channels = before.data.shape
        work = Work(
            node,
            images * steps,
            (parts, channels),
            self._network.shapes[node.name],
            before.total,
            parts,
            kind,
            self._form(node, before, parts).kind,
            before.signed,
        )
        return work.cheapest(known)

    def dense(self, node: Synapses, before: Values, step: int) -> NDArray[Any]:
        """The currents by one product; the bias of graded neurons is added at the first step only."""
        values = before.floats(self._kinds[node.name])
        shape, space = self._network.shapes[node.name], self._network.shapes[node.source][1:]
        if not self._graded:
            return dense_product(node, values, space, shape, node.bias)
        found = dense_product(node, values, space, shape, None)
        if node.bias is not None and step == 0:
            found[:, 0] += node.bias.numpy().astype(found.dtype)
        return found

    def project(self, node: Synapses, before: Values, positions: int, target: Population | None) -> NDArray[Any]:
        """The spikes of ``target`` by events of inputs in parts, or the currents if it is None: (rows, outputs).

        Only the currents of one tile of outputs are held until its neurons have fired.
        """
        from weightsmith.spiking.simulation._kernels import project

        form = self._form(node, before, positions)
        table, (images, steps) = table_of(node, form), before.data.shape[:2]
        rows, outputs, kind = images * steps, len(node.weight), self._kinds[node.name]
        found = np.empty((rows, outputs), self._spike_kind if target else kind)
        listed, parts, tile = before.listed(None), before.data.shape[2], table.bias.shape[2]
        for number, (weights, bias) in enumerate(zip(tiles_of(node, form), table.bias[0], strict=True)):
            some = slice(number * tile, min((number + 1) * tile, outputs))
            currents = np.empty((rows, some.stop - some.start), kind)
            project(*listed, weights, table.registers, table.most, bias, rows, parts, currents.reshape(-1))
            found[:, some] = (
                currents if target is None else self._fire(target, some, currents.reshape(images, steps, -1))
            )
        return found

    def _fire(self, target: Population, some: slice, currents: NDArray[Any]) -> NDArray[Any]:
        """The spikes (rows, neurons) of some neurons of a dense layer for their currents (images, steps, neurons)."""
        from weightsmith.spiking.simulation._firing import fire

        images, steps, count = currents.shape
        neuron, states = self._network.neuron, (target.membranes, target.sent)
        membranes, sent, thresholds, leaks = (
            np.ascontiguousarray(each[:, None, some]) for each in (*states, target.rows.threshold, target.rows.leak)
        )
        spikes = np.empty((images * steps, 1, count), self._spike_kind)
        fire(
            currents[:, :, None], steps, membranes, sent, thresholds, leaks, neuron.reset == "soft", neuron.delay,
            spikes, spikes[:0].astype(currents.dtype),
        )  # fmt: skip
        for state, part in zip(states, (membranes, sent), strict=True):
            state[:, some] = part[:, 0]
        return spikes[:, 0]

    def convolve(self, node: Synapses, before: Values, target: Population | None) -> NDArray[Any]:
        """The spikes of ``target`` by events, or the currents if it is None."""
        from weightsmith.spiking.simulation._kernels import convolve

        table = table_of(node, self._form(node, before, before.data.shape[2]))
        height, width = self._network.shapes[node.source][1:]
        channels, rows, columns = self._network.shapes[node.name]
        kernel = tuple(node.weight.shape[2:])
        sizes = np.array(
            [height, width, table.depth, rows, columns, *kernel, *node.stride, *node.padding, *node.dilation]
        )
        images, steps = before.data.shape[:2]
        _, tiles, tile = table.bias.shape
        kind = self._spike_kind if target else self._kinds[node.name]
        out = np.empty((images * steps * rows * columns, tiles, tile), kind)
        membranes = sent = thresholds = leaks = nothing = self._nothing(node, target)
        if target is not None:
            membranes, sent = (
                in_tiles(state.reshape(-1, channels), tiles, tile, 0) for state in (target.membranes, target.sent)
            )
            thresholds, leaks = (
                in_tiles(values, tiles, tile, fill)
                for values, fill in ((target.rows.threshold, np.inf), (target.rows.leak, 0))
            )
        neuron = self._network.neuron
        convolve(
            *before.listed(width), table.rows, tiles, table.registers, table.most, table.bias, images, steps, sizes,
            membranes, sent, thresholds, leaks, neuron.reset == "soft", neuron.delay,
            out if target else nothing.astype(self._spike_kind), nothing if target else out,
        )  # fmt: skip
        padded = tiles * tile != channels
        if target is not None and padded:
            for state, tiled in zip((target.membranes, target.sent), (membranes, sent), strict=True):
                state[:] = tiled.reshape(len(tiled), tiles * tile)[:, :channels].reshape(state.shape)
        listed = out.reshape(-1, tiles * tile)
        whole = np.ascontiguousarray(listed[:, :channels]) if padded else listed
        return whole.reshape(images, steps, rows * columns, channels)

    def look_up(self, pending: Pending, target: Population | None) -> NDArray[Any]:
        """The spikes of ``target`` by patterns, or the currents if it is None."""
        from weightsmith.spiking.simulation._patterns import convolve_patterns

        node, before, added = pending.node, pending.before, pending.added
        table = patterns_of(node, self._form(node, before, before.data.shape[2]))
        channels, rows, columns = self._network.shapes[node.name]
        images, steps = before.data.shape[:2]
        bits, padded = self._bits(node, before)
        sizes = np.array(
            [*padded, table.depth, channels, rows, columns, *node.weight.shape[2:], *node.stride, node.dilation[0]]
        )
        width, kind = columns * channels, self._kinds[node.name]
        out = np.empty((images * steps * rows, 1, width), self._spike_kind if target else kind)
        membranes = sent = thresholds = leaks = nothing = self._nothing(node, target)
        if target is not None:
            membranes, sent = (state.reshape(-1, 1, width) for state in (target.membranes, target.sent))
            thresholds, leaks = target.rows.over(columns)
        more = np.empty((0, 1, 1), kind) if added is None else added.data.reshape(-1, 1, width)
        factor = np.ones(channels, kind) if added is None else added.factors(channels, kind)
        neuron = self._network.neuron
        convolve_patterns(
            bits, table.rows, table.registers, table.bias, images, steps, sizes, more, np.tile(factor, columns),
            membranes, sent, thresholds, leaks, neuron.reset == "soft", neuron.delay,
            out if target else nothing.astype(self._spike_kind), nothing if target else out,
        )  # fmt: skip
        return out.reshape(images, steps, rows * columns, channels)

    def _bits(self, node: Synapses, before: Values) -> tuple[NDArray[Any], tuple[int, int]]:
        """The spikes as bits, and height and width with the padding."""
        from weightsmith.spiking.simulation._patterns import pack

        _, height, width = self._network.shapes[node.source]
        images, steps, _, channels = before.data.shape
        padded = height + 2 * node.padding[0], width + 2 * node.padding[1]
        planes, kind = (2, np.int8) if before.signed else (1, np.uint8)
        bits = np.zeros(planes * images * steps * padded[0] * padded[1] * -(-channels // 8), np.uint8)
        sizes = np.array([height, width, channels, *node.padding])
        pack(np.ascontiguousarray(before.data).reshape(-1), images * steps, sizes, bits)
        return bits.view(kind), padded

    def _nothing(self, node: Synapses, target: Population | None) -> NDArray[Any]:
        """An empty array in place of state and outputs that a kernel does not use."""
        return np.empty((0, 1, 1), self._kinds[node.name] if target is None else target.membranes.dtype)

    def _form(self, node: Synapses, before: Values, positions: int) -> Form:
        kind, whole = self._kinds[node.name], self.halves(node)
        return Form(positions, before.data.shape[3], before.signed, before.unit, kind, whole)
