"""The compiled engine: all steps of a chunk through one layer before the next, each layer by its cheapest path.

Layers run by events, by patterns or dense (:mod:`weightsmith.spiking.simulation.conducting`); the spikes of the chunk
decide. Currents by patterns are put off until it is known what is added to them and whether neurons follow, which then
fire in the same loop. A constant input flows through its layer once per image.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.monitors.observing import Observer
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.conducting import Conductor, Population, Route
from weightsmith.spiking.simulation.precision import kinds_of
from weightsmith.spiking.simulation.sources import Currents, Source, entering
from weightsmith.spiking.simulation.stages import even, stages_of
from weightsmith.spiking.simulation.values import (
    Chunk,
    NeuronRows,
    Pending,
    Values,
    largest_sums,
    readers_of,
    span_of,
)

__all__ = ["ChunkEngine"]

_BUDGET = 10_000_000  # bytes for the values of a chunk
_CHUNK = 40
_NEAR = 2_000_000  # currents computed together before their neurons fire
_NONE: NDArray[Any] = np.empty(0, np.float32)


class ChunkEngine:
    """Runs blocks of images chunk by chunk on the CPU, on one thread; :meth:`begin` resets the state.

    ``shared`` may be set to the name of the first synapses and their currents in each chunk of a block, computed by
    another engine (:meth:`currents`): networks that differ only in neurons and thresholds share these. ``chunk`` is the
    most steps of a chunk (None: 40); chunks are of one size, as far as that goes.
    """

    def __init__(
        self,
        network: SpikingNetwork,
        source: Source,
        precision: Precision,
        steps: int,
        path: Route | Literal["auto"] = "auto",
        *,
        chunk: int | None = None,
    ) -> None:
        self._network, self._source = network, source
        self._kinds = kinds_of(network, precision, steps)
        self._conductor = Conductor(network, self._kinds, precision == "int8", path)
        self._readers = readers_of(network.nodes)
        self._spike_kind = np.int8 if network.neuron.signed else np.uint8
        self._graded = isinstance(network.neuron, Graded)
        if self._graded and path in ("events", "patterns"):
            raise UsageError(f"{network.neuron}: spikes of several sizes run on the dense path; use path='auto'")
        self._neurons = {
            node.name: NeuronRows.of(node, network, self._kinds[node.name]) for node in network.populations
        }
        self._paths: dict[str, set[str]] = {}
        self.shared: tuple[str, list[NDArray[Any]]] | None = None
        self._images, self._rows = np.empty(0, np.int64), slice(None)
        self._membranes: dict[str, NDArray[Any]] = {}
        self._sent: dict[str, NDArray[Any]] = {}
        self._counts: dict[str, NDArray[Any]] = {}
        self.chunk = even(steps, chunk or _CHUNK)
        self._stages = stages_of(network, len(source), self.chunk, _BUDGET)
        self.block = self._stages.block

    def begin(self, rows: NDArray[np.int64]) -> None:
        """A new block with clean membranes."""
        self._images, self._rows = rows, slice(None)
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
            self.shared = self.shared[0], [currents[going] for currents in self.shared[1]]

    def paths(self) -> dict[str, str]:
        """How each layer was computed: events, dense, once (constant input), or several of these."""
        return {name: " and ".join(sorted(kinds)) for name, kinds in self._paths.items()}

    def advance(
        self, step: int, count: int, observers: Sequence[Observer]
    ) -> tuple[NDArray[np.floating], dict[str, NDArray[np.int64]]]:
        """The next ``count`` steps: outputs (rows, steps, classes), and spikes (rows, steps) per population."""
        chunk, given = Chunk(step, count, observers), {}
        if self.shared is not None:
            name, currents = self.shared
            now = currents[step // self.chunk if len(currents) > 1 else 0]
            given[name] = Values(now, constant=now.shape[1] == 1)
        for nodes, several in self._parts(observers):
            given = {nodes[-1].name: self._through(nodes, several, given, chunk)}
        [(name, last)] = given.items()
        outputs = last.floats(self._kinds[name]).reshape(len(self._images), -1, self._network.classes)
        return np.broadcast_to(outputs, (len(self._images), count, self._network.classes)), chunk.counts

    def _parts(self, observers: Sequence[Observer]) -> list[tuple[Sequence[Node], int]]:
        """The nodes that are computed, part by part, and the images that run together in each.

        Observers see all images of the block together.
        """
        nodes, cut, images = self._network.nodes, self._stages.front, len(self._images)
        begin = 0 if self.shared is None else [node.name for node in nodes].index(self.shared[0])
        if cut <= begin + 1 or observers:
            return [(nodes[begin:], images)]
        return [(nodes[begin:cut], self._stages.several), (nodes[cut:], images)]

    def _through(self, nodes: Sequence[Node], several: int, given: Mapping[str, Values], chunk: Chunk) -> Values:
        """The values of the last of these nodes for the images of the block, ``several`` at a time."""
        images, whole = len(self._images), None
        for first in range(0, images, several):
            self._rows = slice(first, min(first + several, images))
            part = self._last(nodes, chunk.part({name: values.images(self._rows) for name, values in given.items()}))
            if several >= images:
                whole = part
            elif whole is None:
                whole = dataclasses.replace(part, data=np.empty((images, *part.data.shape[1:]), part.data.dtype))
            if whole is not part:
                whole.data[self._rows] = part.data
        self._rows = slice(None)
        assert whole is not None
        return whole

    def _last(self, nodes: Sequence[Node], chunk: Chunk) -> Values:
        """The values of the last of these nodes for what the chunk holds, or for its input."""
        chunk.remaining = dict(self._readers)
        if not chunk.values:
            chunk.values[INPUT] = entered = self._entering(chunk.step, chunk.steps)
            if entered.discrete:
                self._show(INPUT, entered.data, chunk)
        for node in nodes:
            if node.name not in chunk.values:
                chunk.values[node.name] = self._value(node, chunk)
            if isinstance(node, Neurons):
                self._show(node.name, self._known(node.name, chunk).data, chunk)
            chunk.forget(node)
        return self._known(nodes[-1].name, chunk)

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
        return self._known(name, chunk)

    def currents(self, name: str, steps: int) -> list[NDArray[Any]]:
        """The currents (images, steps, positions, channels) of the synapses ``name`` in each chunk, without neurons.

        Constant currents are one part of one step, which holds for all.
        """
        found = []
        for step in range(0, steps, self.chunk):
            values = self.compute(name, step, min(self.chunk, steps - step), {})
            found.append(values.floats(self._kinds[name]))
            if values.constant:
                break
        return found

    def _entering(self, step: int, count: int) -> Values:
        """The input of a chunk, positions first."""
        kind, shape = self._kinds[INPUT], self._network.input_shape
        found = entering(self._source, self._images[self._rows], shape, step, count, kind=kind, once=self._graded)
        return Values(found, constant=isinstance(self._source, Currents) and not self._graded)

    def _show(self, name: str, spikes: NDArray[Any], chunk: Chunk) -> None:
        """Count spikes of a population or of the input, and show them to the observers."""
        from weightsmith.spiking.simulation._kernels import count

        if name not in chunk.counts:
            chunk.counts[name] = np.empty((len(self._images), chunk.steps), np.int64)
        count(spikes.reshape(-1), spikes.shape[0] * spikes.shape[1], chunk.counts[name][self._rows].reshape(-1))
        for observer in chunk.observers:
            if observer.inputs or name != INPUT:
                tested = chunk.tested.get(name) if observer.membranes else None
                observer.see(name, self._images[self._rows], chunk.step, spikes, tested)

    def _value(self, node: Node, chunk: Chunk) -> Values | Pending:
        kind = self._kinds[node.name]
        match node:
            case Synapses():
                return self._conduct(node, chunk)
            case Neurons():
                return self._fire(node, chunk)
            case Pool() | Gate():
                return self._pooled(node, chunk)
            case Flatten():
                before = self._known(node.source, chunk)
                readers = [other for other in self._network.nodes if node.name in other.sources]
                dense = bool(readers) and all(isinstance(reader, Synapses) for reader in readers)
                return before if dense else before.by_channel()  # dense layers reorder their weights instead
            case Scale():
                return self._known(node.source, chunk).scaled(node.factor.numpy().astype(kind))
            case Add():
                return self._sum(node, chunk)

    def _conduct(self, node: Synapses, chunk: Chunk) -> Values | Pending:
        before = self._known(node.source, chunk)
        events = before.in_parts(half=self._conductor.halves(node)) if node.dense and before.discrete else before
        route = self._conductor.route(node, events)
        self._paths.setdefault(node.name, set()).add("once" if before.constant else route)
        readers = [other for other in self._network.nodes if node.name in other.sources]
        if route == "patterns":
            pending = Pending(node, before)
            return pending if self._readers[node.name] == 1 else Values(self._conductor.look_up(pending, None))
        target = readers[0] if len(readers) == 1 and isinstance(readers[0], Neurons) else None
        if target is None or chunk.wants_membranes or before.constant or (node.dense and route == "dense"):
            if route == "events":
                return Values(self._by_events(node, before, events, None))
            return Values(self._conductor.dense(node, before, chunk.step), constant=before.constant)
        if route == "events":
            fired = self._by_events(node, before, events, self._population(target))
        else:
            fired = self._dense_firing(node, before, target, chunk)
        chunk.values[target.name] = self._spikes(fired)
        return Values(_NONE)  # no node reads the currents

    def _by_events(self, node: Synapses, before: Values, events: Values, target: Population | None) -> NDArray[Any]:
        """The spikes of ``target``, or the currents if it is None."""
        if not node.dense:
            return self._conductor.convolve(node, before, target)
        found = self._conductor.project(node, events, before.data.shape[2], target)
        return found.reshape(*before.data.shape[:2], 1, -1)

    def _known(self, name: str, chunk: Chunk) -> Values:
        """The values of a node; currents that were put off are computed now."""
        found = chunk.values[name]
        if isinstance(found, Pending):
            found = chunk.values[name] = Values(self._conductor.look_up(found, None))
        return found

    def _sum(self, node: Add, chunk: Chunk) -> Values | Pending:
        """The sum of several nodes; it is put off, for its only reader, if one of two is and the other is there."""
        kind = self._kinds[node.name]
        pairs = (node.sources, node.sources[::-1]) if len(set(node.sources)) == 2 else ()
        for name, other in pairs if self._readers[node.name] == 1 else ():
            first = chunk.values[name]
            if isinstance(first, Pending) and first.added is None and self._kinds[first.node.name] == kind:
                second = self._known(other, chunk)
                if not second.constant:
                    return dataclasses.replace(first, added=second)
        parts = [self._known(name, chunk) for name in node.sources]
        total = parts[0].floats(kind)
        for part in parts[1:]:
            total = total + part.floats(kind)
        return Values(total, constant=all(part.constant for part in parts))

    def _dense_firing(self, node: Synapses, before: Values, target: Neurons, chunk: Chunk) -> NDArray[Any]:
        """The spikes of ``target``, a few images at a time, so that currents stay in the cache."""
        shape = self._network.shapes[node.name]
        images, steps = before.data.shape[:2]
        spikes = np.empty((images, steps, math.prod(shape[1:]), shape[0]), self._spike_kind)
        several = max(1, _NEAR // (steps * math.prod(shape)))
        for begin in range(0, images, several):
            rows = slice(begin, begin + several)
            part = dataclasses.replace(before, data=before.data[rows], events=None)
            self._step(target, self._conductor.dense(node, part, chunk.step), rows, spikes[rows], spikes[:0])
        return spikes

    def _fire(self, node: Neurons, chunk: Chunk) -> Values:
        waiting = chunk.values[node.source]
        if isinstance(waiting, Pending) and not chunk.wants_membranes:
            return self._spikes(self._conductor.look_up(waiting, self._population(node)))
        before, kind = self._known(node.source, chunk), self._kinds[node.name]
        # Currents may have a smaller type than membranes; they need not be converted.
        currents = np.ascontiguousarray(before.data if before.data.dtype.kind == "f" else before.floats(kind))
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
        return self._membranes[name][self._rows], self._sent[name][self._rows]

    def _population(self, node: Neurons) -> Population:
        return Population(self._neurons[node.name], *self._state(node.name))

    def _counter(self, gate: Gate) -> type[Any]:
        """The type of the sums that a gate holds."""
        return np.int32 if self._network.gates_spikes(gate) else self._kinds[gate.name]

    def _spikes(self, data: NDArray[Any]) -> Values:
        """Spikes of neurons, or plain values if they are not bytes."""
        largest = self._network.neuron.largest
        return Values(data, unit=1 / largest, most=largest) if data.dtype == self._spike_kind else Values(data)

    def _pooled(self, node: Pool | Gate, chunk: Chunk) -> Values:
        from weightsmith.spiking.simulation._kernels import gate, pool

        before = self._known(node.source, chunk)
        images, steps, _, channels = before.data.shape
        _, height, width = self._network.shapes[node.source]
        _, rows, columns = self._network.shapes[node.name]
        sizes = np.array([height, width, channels, rows, columns, *node.kernel, *node.stride, *node.padding])
        if isinstance(node, Gate):
            if not self._network.gates_spikes(node):
                values, sums = before.floats(self._kinds[node.name]), self._counts[node.name][self._rows]
                largest = largest_sums(node, values, (height, width), None if before.constant else sums)
                return Values(largest, constant=before.constant)
            out = np.empty((images, steps, rows * columns, channels), self._spike_kind)
            signed, counted = self._network.neuron.signed, self._counts[node.name][self._rows].reshape(-1)
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
