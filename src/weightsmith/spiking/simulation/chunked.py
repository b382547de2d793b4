"""The compiled engine: all steps of a chunk through one layer before the next, each layer by its faster path.

A layer whose input spikes are sparse is run event by event (:mod:`weightsmith.spiking.simulation._kernels`), adding the
row of weights of every spike and updating its neurons at once; a layer with dense input as one convolution or matrix
product over all images and steps of the chunk, followed by the neurons. The number of events in the chunk decides
(:mod:`weightsmith.spiking.simulation.path_costs`). A constant input flows through its layer once per image.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion.quantise import floating_nodes
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.monitors.observing import Observer
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.packing import Form, dense_product, in_tiles, table_of, tiles_of
from weightsmith.spiking.simulation.path_costs import Work, prefers_events
from weightsmith.spiking.simulation.precision import kinds_of
from weightsmith.spiking.simulation.sources import Currents, Source, entering
from weightsmith.spiking.simulation.tally import INPUTS
from weightsmith.spiking.simulation.values import Chunk, NeuronRows, Values, largest_sums, readers_of, span_of

__all__ = ["ChunkEngine"]

_BUDGET = 160_000_000  # bytes for the values of a chunk
_CHUNK = 16
_NEAR = 2_000_000  # currents computed together before their neurons fire
_NONE: NDArray[Any] = np.empty(0, np.float32)


class ChunkEngine:
    """Runs blocks of images chunk by chunk on the CPU, on one thread; :meth:`begin` resets the state.

    ``shared`` may be set to the name of the first synapses and their currents for all steps of a block, computed by
    another engine (:meth:`currents`): networks that differ only in neurons and thresholds share these.
    """

    def __init__(
        self,
        network: SpikingNetwork,
        source: Source,
        precision: Precision,
        steps: int,
        path: Literal["auto", "events", "dense"] = "auto",
    ) -> None:
        self._network, self._source, self._path = network, source, path
        self._whole, self._floating = precision == "int8", floating_nodes(network)
        self._kinds = kinds_of(network, precision, steps)
        self._readers = readers_of(network.nodes)
        self._spike_kind = np.int8 if network.neuron.signed else np.uint8
        self._graded = isinstance(network.neuron, Graded)
        if self._graded and path == "events":
            raise UsageError(f"{network.neuron}: spikes of several sizes run on the dense path; use path='auto'")
        self._neurons = {
            node.name: NeuronRows.of(node, network, self._kinds[node.name]) for node in network.populations
        }
        self._paths: dict[str, set[str]] = {}
        self.shared: tuple[str, NDArray[Any]] | None = None
        self._images = np.empty(0, np.int64)
        self._membranes: dict[str, NDArray[Any]] = {}
        self._sent: dict[str, NDArray[Any]] = {}
        self._counts: dict[str, NDArray[Any]] = {}
        self.chunk = min(_CHUNK, steps)
        size = sum(math.prod(shape) for shape in network.shapes.values())
        self.block = max(1, min(len(source), _BUDGET // (self.chunk * size * 2)))

    def begin(self, rows: NDArray[np.int64]) -> None:
        """A new block with clean membranes."""
        self._images = rows
        self._membranes, self._sent = {}, {}
        self._counts = {
            node.name: np.zeros((len(rows), math.prod(self._network.shapes[node.source])), self._counter(node))
            for node in self._network.nodes
            if isinstance(node, Gate)
        }

    def keep(self, going: NDArray[np.bool_]) -> None:
        """Continue with these rows of the block only."""
        self._images = self._images[going]
        self._membranes = {name: value[going] for name, value in self._membranes.items()}
        if self._network.neuron.signed:
            self._sent = {name: value[going] for name, value in self._sent.items()}
        self._counts = {name: value[going] for name, value in self._counts.items()}
        if self.shared is not None:
            self.shared = self.shared[0], self.shared[1][going]

    def paths(self) -> dict[str, str]:
        """How each layer was computed: events, dense, once (constant input), or several of these."""
        return {name: " and ".join(sorted(kinds)) for name, kinds in self._paths.items()}

    def advance(
        self, step: int, count: int, observers: Sequence[Observer]
    ) -> tuple[NDArray[np.floating], dict[str, NDArray[np.int64]]]:
        """The next ``count`` steps: outputs (rows, steps, classes), and spikes (rows, steps) per population."""
        chunk = Chunk(step, count, observers)
        if self.shared is None:
            chunk.values[INPUT] = self._entering(step, count)
        else:
            name, currents = self.shared
            constant = currents.shape[1] == 1
            part = currents if constant else np.ascontiguousarray(currents[:, step : step + count])
            chunk.values[name] = Values(part, constant=constant)
        chunk.remaining = dict(self._readers)
        if self.shared is None and chunk.values[INPUT].discrete:
            self._notify(chunk, INPUTS, chunk.values[INPUT].data)
            for observer in observers:
                if observer.inputs:
                    observer.see(INPUT, self._images, step, chunk.values[INPUT].data, None)
        for node in self._nodes():
            if node.name not in chunk.values:
                chunk.values[node.name] = self._value(node, chunk)
            if isinstance(node, Neurons):
                self._notify(chunk, node.name, chunk.values[node.name].data)
                for observer in observers:
                    tested = chunk.tested.get(node.name) if observer.membranes else None
                    observer.see(node.name, self._images, step, chunk.values[node.name].data, tested)
            chunk.forget(node)
        last = chunk.values[self._network.nodes[-1].name]
        outputs = last.floats(self._kinds[self._network.nodes[-1].name]).reshape(
            len(self._images), -1, self._network.classes
        )
        return np.broadcast_to(outputs, (len(self._images), count, self._network.classes)), chunk.counts

    def _nodes(self) -> Sequence[Node]:
        """The nodes that are computed: all, or those from the shared synapses on."""
        if self.shared is None:
            return self._network.nodes
        names = [node.name for node in self._network.nodes]
        return self._network.nodes[names.index(self.shared[0]) :]

    def compute(self, name: str, step: int, count: int, given: Mapping[str, NDArray[Any]]) -> Values:
        """The output of the node ``name`` in the next ``count`` steps for the spikes ``given`` of populations.

        Spikes (or currents, of other nodes) are (rows, steps, positions, channels). Nodes before them are not computed.
        """
        needed = {name}
        for node in reversed(self._network.nodes):
            if node.name in needed and node.name not in given:
                needed.update(node.sources)
        # Otherwise currents whose neurons are not computed would not be stored.
        chunk = Chunk(step, count, (), wants_membranes=name not in self._neurons)
        chunk.values.update({each: self._spikes(data) for each, data in given.items()})
        if INPUT in needed:
            chunk.values[INPUT] = self._entering(step, count)
        for node in self._network.nodes:
            if node.name in needed and node.name not in chunk.values:
                chunk.values[node.name] = self._value(node, chunk)
        return chunk.values[name]

    def currents(self, name: str, steps: int) -> NDArray[Any]:
        """The currents (images, steps, positions, channels) of the synapses ``name``, without neurons before them.

        Constant currents have one step, which holds for all.
        """
        found = np.empty(0)
        for step in range(0, steps, self.chunk):
            values = self.compute(name, step, min(self.chunk, steps - step), {})
            part = values.floats(self._kinds[name])
            if values.constant:
                return part
            if step == 0:
                found = np.empty((len(part), steps, *part.shape[2:]), part.dtype)
            found[:, step : step + part.shape[1]] = part
        return found

    def _entering(self, step: int, count: int) -> Values:
        """The input of a chunk, positions first."""
        kind, shape = self._kinds[INPUT], self._network.input_shape
        found = entering(self._source, self._images, shape, step, count, kind=kind, once=self._graded)
        return Values(found, constant=isinstance(self._source, Currents) and not self._graded)

    def _notify(self, chunk: Chunk, name: str, spikes: NDArray[Any]) -> None:
        from weightsmith.spiking.simulation._kernels import count

        chunk.counts[name] = np.empty(spikes.shape[:2], np.int64)
        count(spikes.reshape(-1), spikes.shape[0] * spikes.shape[1], chunk.counts[name].reshape(-1))

    def _value(self, node: Node, chunk: Chunk) -> Values:
        kind = self._kinds[node.name]
        match node:
            case Synapses():
                return self._conduct(node, chunk)
            case Neurons():
                return self._fire(node, chunk)
            case Pool() | Gate():
                return self._pooled(node, chunk)
            case Flatten():
                before = chunk.values[node.source]
                readers = [other for other in self._network.nodes if node.name in other.sources]
                dense = bool(readers) and all(isinstance(reader, Synapses) for reader in readers)
                return before if dense else before.by_channel()  # dense layers reorder their weights instead
            case Scale():
                before = chunk.values[node.source]
                return Values(before.floats(kind) * node.factor.numpy().astype(kind), constant=before.constant)
            case Add():
                parts = [chunk.values[name] for name in node.sources]
                total = parts[0].floats(kind)
                for part in parts[1:]:
                    total = total + part.floats(kind)
                return Values(total, constant=all(part.constant for part in parts))

    def _conduct(self, node: Synapses, chunk: Chunk) -> Values:
        before = chunk.values[node.source]
        shape = self._network.shapes[node.name]
        events = before.in_parts() if node.dense and before.discrete else before
        by_events = self._by_events(node, events)
        self._paths.setdefault(node.name, set()).add("events" if by_events else "once" if before.constant else "dense")
        if by_events and node.dense:
            images, steps = before.data.shape[:2]
            return Values(self._project(node, events, before.data.shape[2]).reshape(images, steps, 1, shape[0]))
        readers = [other for other in self._network.nodes if node.name in other.sources]
        target = readers[0] if len(readers) == 1 and isinstance(readers[0], Neurons) else None
        if target is None or chunk.wants_membranes or node.dense or before.constant:
            if by_events:
                return Values(self._convolve(node, before, None))
            return Values(self._dense_product(node, before, chunk.step), constant=before.constant)
        fired = self._convolve(node, before, target) if by_events else self._dense_firing(node, before, target, chunk)
        chunk.values[target.name] = self._spikes(fired)
        return Values(_NONE)  # no node reads the currents

    def _dense_firing(self, node: Synapses, before: Values, target: Neurons, chunk: Chunk) -> NDArray[Any]:
        """The spikes of ``target``, a few images at a time, so that currents stay in the cache."""
        shape = self._network.shapes[node.name]
        images, steps = before.data.shape[:2]
        spikes = np.empty((images, steps, math.prod(shape[1:]), shape[0]), self._spike_kind)
        several = max(1, _NEAR // (steps * math.prod(shape)))
        for begin in range(0, images, several):
            rows = slice(begin, begin + several)
            part = dataclasses.replace(before, data=before.data[rows], events=None)
            self._step(target, self._dense_product(node, part, chunk.step), rows, spikes[rows], spikes[:0])
        return spikes

    def _by_events(self, node: Synapses, before: Values) -> bool:
        if not before.discrete or node.groups != 1 or self._path == "dense" or self._graded:
            return False
        if self._path == "events":
            return True
        images, steps, parts, channels = before.data.shape
        form = self._form(node, before, parts)
        shapes = self._network.shapes
        work = Work(
            node,
            images * steps,
            (parts, channels),
            shapes[node.name],
            before.total,
            parts,
            np.dtype(form.state),
            form.kind,
        )
        return prefers_events(work)

    def _form(self, node: Synapses, before: Values, positions: int) -> Form:
        whole = self._whole and node.name not in self._floating
        return Form(positions, before.data.shape[3], before.signed, before.unit, self._kinds[node.name], whole)

    def _convolve(self, node: Synapses, before: Values, target: Neurons | None) -> NDArray[Any]:
        """The spikes of ``target``, or the currents if it is None."""
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
        nothing = np.empty((0, 1, 1), self._kinds[target.name if target else node.name])
        membranes = sent = thresholds = leaks = nothing
        if target is not None:
            neurons = self._neurons[target.name]
            membranes, sent = (
                in_tiles(state.reshape(-1, channels), tiles, tile, 0) for state in self._state(target.name)
            )
            thresholds, leaks = in_tiles(neurons.threshold, tiles, tile, np.inf), in_tiles(neurons.leak, tiles, tile, 0)
        neuron = self._network.neuron
        convolve(
            *before.listed(width), table.rows, tiles, table.registers, table.most, table.bias, images, steps, sizes,
            membranes, sent, thresholds, leaks, neuron.reset == "soft", neuron.delay,
            out if target else nothing.astype(self._spike_kind), nothing if target else out,
        )  # fmt: skip
        padded = tiles * tile != channels
        if target is not None and padded:
            for state, tiled in zip(self._state(target.name), (membranes, sent), strict=True):
                state[:] = tiled.reshape(len(tiled), tiles * tile)[:, :channels].reshape(state.shape)
        listed = out.reshape(-1, tiles * tile)
        whole = np.ascontiguousarray(listed[:, :channels]) if padded else listed
        return whole.reshape(images, steps, rows * columns, channels)

    def _project(self, node: Synapses, before: Values, positions: int) -> NDArray[Any]:
        from weightsmith.spiking.simulation._kernels import project

        form = self._form(node, before, positions)
        table, rows = table_of(node, form), before.data.shape[0] * before.data.shape[1]
        currents = np.empty((rows, len(node.weight)), self._kinds[node.name])
        listed, parts, out = before.listed(None), before.data.shape[2], currents.reshape(-1)
        for number, (weights, bias) in enumerate(zip(tiles_of(node, form), table.bias[0], strict=True)):
            project(*listed, weights, table.registers, table.most, bias, rows, parts, number * len(bias), out)
        return currents

    def _dense_product(self, node: Synapses, before: Values, step: int) -> NDArray[Any]:
        values = before.floats(self._kinds[node.name])
        shape, space = self._network.shapes[node.name], self._network.shapes[node.source][1:]
        if not self._graded:
            return dense_product(node, values, space, shape, node.bias)
        found = dense_product(node, values, space, shape, None)
        if node.bias is not None and step == 0:
            found[:, 0] += node.bias.numpy().astype(found.dtype)
        return found

    def _fire(self, node: Neurons, chunk: Chunk) -> Values:
        before = chunk.values[node.source]
        kind = self._kinds[node.name]
        # Currents may have a smaller type than membranes; they need not be converted.
        currents = np.ascontiguousarray(before.floats(kind) if before.discrete else before.data)
        images, _, positions, channels = currents.shape
        spikes = np.empty((images, chunk.steps, positions, channels), self._spike_kind)
        tested = np.empty(spikes.shape if chunk.wants_membranes else 0, kind)
        self._step(node, currents, slice(None), spikes, tested)
        if chunk.wants_membranes:
            chunk.tested[node.name] = tested
        return self._spikes(spikes)

    def _step(
        self, node: Neurons, currents: NDArray[Any], rows: slice, spikes: NDArray[Any], tested: NDArray[Any]
    ) -> None:
        """The neurons of these rows over all steps of the chunk, into ``spikes`` and, if not empty, ``tested``."""
        from weightsmith.spiking.simulation._firing import fire, fire_graded

        images, given, positions, channels = currents.shape
        span, neuron = span_of(positions, channels), self._network.neuron
        width = span * channels
        currents = currents.reshape(images, given, -1, width)
        membranes, sent, out, shown = (
            each.reshape(-1, 1, width) for each in (*(state[rows] for state in self._state(node.name)), spikes, tested)
        )
        thresholds, leaks = self._neurons[node.name].over(span)
        if self._graded:
            fire_graded(currents, membranes, sent, thresholds, neuron.largest, out, shown)
        else:
            soft = neuron.reset == "soft"
            fire(currents, spikes.shape[1], membranes, sent, thresholds, leaks, soft, neuron.delay, out, shown)

    def _state(self, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Membranes of a population and, for signed spikes, the sums it has sent; created on first use."""
        if name not in self._membranes:
            self._membranes[name] = self._neurons[name].begin(len(self._images), self._network.shapes[name])
            known = self._membranes[name]
            self._sent[name] = np.zeros_like(known) if self._network.neuron.signed else known[:0]
        return self._membranes[name], self._sent[name]

    def _counter(self, gate: Gate) -> type[Any]:
        """The type of the sums that a gate holds."""
        return np.int32 if self._network.gates_spikes(gate) else self._kinds[gate.name]

    def _spikes(self, data: NDArray[Any]) -> Values:
        """Spikes of neurons, or plain values if they are not bytes."""
        largest = self._network.neuron.largest
        return Values(data, unit=1 / largest, most=largest) if data.dtype == self._spike_kind else Values(data)

    def _pooled(self, node: Pool | Gate, chunk: Chunk) -> Values:
        from weightsmith.spiking.simulation._kernels import gate, pool

        before = chunk.values[node.source]
        images, steps, _, channels = before.data.shape
        _, height, width = self._network.shapes[node.source]
        _, rows, columns = self._network.shapes[node.name]
        sizes = np.array([height, width, channels, rows, columns, *node.kernel, *node.stride, *node.padding])
        if isinstance(node, Gate):
            if not self._network.gates_spikes(node):
                values, sums = before.floats(self._kinds[node.name]), self._counts[node.name]
                largest = largest_sums(node, values, (height, width), None if before.constant else sums)
                return Values(largest, constant=before.constant)
            out = np.empty((images, steps, rows * columns, channels), self._spike_kind)
            signed, counted = self._network.neuron.signed, self._counts[node.name].reshape(-1)
            gate(before.data.reshape(-1), images, steps, sizes, counted, signed, out.reshape(-1))
            return Values(out)
        window, kind = math.prod(node.kernel), self._kinds[node.name]
        share = 1 / window if node.average else 1.0
        counts = before.discrete and before.unit == 1 and before.most * window < 128
        values = before.data if counts else before.floats(kind)
        out = np.empty((images, steps, rows * columns, channels), values.dtype)
        pool(np.ascontiguousarray(values).reshape(-1), images * steps, sizes, out.reshape(-1))
        if counts:
            return Values(out, unit=share, most=before.most * window)
        return Values(out * kind(share), constant=before.constant)
