"""Export and import of spiking networks in the exchange format NIR (Pedersen et al., Nat. Commun. 2024).

A NIR file is read differently by every importer, so only what all of them read alike is written: convolutions and dense
layers with a bias and without groups, IF and LIF neurons with one threshold per layer. Pools and flattening go into the
convolutions that follow, thresholds per channel into the weights. The last layer has no neuron. NIR has only a hard
reset and no initial membrane: a soft reset and membranes that start above zero are noted in the metadata, and
:mod:`weightsmith.spiking.nir.handover` sets them after the import.

A test vector is written with the file: the input, and the spike counts of our own simulator.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record, digest_of
from weightsmith.core.storage import write_atomic
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.files import spiking_digest
from weightsmith.spiking.graph import INPUT, Add, Gate, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.nir._graph import DT_IF, DT_LIF, Stored, graph_of, nir_names
from weightsmith.spiking.nir._importing import network_of
from weightsmith.spiking.nir._scales import with_one_threshold
from weightsmith.spiking.nir._tree import read_tree
from weightsmith.spiking.nir._vector import Drive, Vector, run_drive, vector_path, write_vector
from weightsmith.spiking.nir._windows import as_convolutions

__all__ = ["NirExport", "NirNode", "import_nir", "nir_obstacle", "write_nir"]


@dataclasses.dataclass(frozen=True, eq=False)
class NirNode(Record):
    """A node as it was written: its name in the file, its type in NIR, and its output shape."""

    name: str
    kind: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class NirExport(Record):
    """The report of an export: the nodes written, and the spikes on the test vector.

    ``spikes`` has the counts of every population of the network in the file, ``before`` those of the given network.
    Without rounding the two are the same, unless membranes reach their thresholds exactly, which ``notes`` report.
    """

    file: str
    vector: str
    neuron: str
    reset: Literal["soft", "hard"]
    dt: float
    nodes: tuple[NirNode, ...]
    folded: tuple[str, ...]
    notes: tuple[str, ...]
    images: int
    steps: int
    spikes: dict[str, int]
    before: dict[str, int]
    sha256: str

    def __str__(self) -> str:
        """One line: the file and its test vector; then the notes."""
        line = (
            f"{self.file}: {len(self.nodes)} nodes, neuron {self.neuron}; {self.vector}: "
            f"{self.images:,} images, {self.steps} steps, {sum(self.spikes.values()):,} spikes"
        )
        return "\n".join([line, *self.notes])


def write_nir(network: SpikingNetwork, path: Path, drive: Drive, *, sumpool: bool, rounding: int | None) -> NirExport:
    """Write ``network`` and the test vector of its answers to ``drive``."""
    nodes, leaks = _leading(network), _leaks_of(network)
    plain, folded = _lowered(network, nodes, sumpool, rounding, leaks)
    names = nir_names(plain)
    dt = DT_IF if set(leaks.values()) == {1.0} else DT_LIF
    graph = graph_of(plain, network.input_shape, leaks, _stored(network, plain, names, rounding).metadata(dt))
    written = network_of(path, graph.to_dict())
    ours, theirs = run_drive(network, drive), run_drive(written, drive)
    content = _bytes(graph)
    write_atomic(path, content)
    by_name = {names[name]: counts for name, counts in theirs.spikes_per_image.items()}
    write_vector(path, Vector(drive, by_name, theirs.scores))
    spikes = theirs.spikes()
    return NirExport(
        file=path.name,
        vector=vector_path(path).name,
        neuron=str(network.neuron),
        reset=network.neuron.reset,
        dt=dt,
        nodes=_nodes(graph),
        folded=folded,
        notes=_notes(network, spikes, ours.spikes(), rounding=rounding, sumpool=sumpool),
        images=drive.images,
        steps=drive.steps,
        spikes=spikes,
        before={name: count for name, count in ours.spikes().items() if name in spikes},
        sha256=digest_of(content),
    )


def nir_obstacle(network: SpikingNetwork) -> str | None:
    """Why ``network`` cannot be written as NIR, and the way out; None if it can. Nothing is written."""
    try:
        nodes, leaks = _leading(network), _leaks_of(network)
        _lowered(network, nodes, sumpool=False, rounding=None, leaks=leaks)
    except UsageError as error:
        return str(error)
    return None


def import_nir(path: str | Path, *, dt: float | None = None) -> SpikingNetwork:
    """The spiking network in a NIR file, ours or another tool's; what cannot be read is refused by name.

    ``dt`` is the length of a step for LIF neurons, by default that of the file, else 10⁻⁴.
    """
    path = Path(path)
    if dt is not None and not dt > 0:
        raise UsageError(f"dt must be > 0, not {dt!r}")
    return network_of(path, read_tree(path), dt)


def _lowered(
    network: SpikingNetwork,
    nodes: tuple[Node, ...],
    sumpool: bool,
    rounding: int | None,
    leaks: Mapping[str, float],
) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Nodes that NIR has, and a description of what was folded."""
    spikes_enter = isinstance(network.encode, Poisson)
    leaky, hard = set(leaks.values()) != {1.0}, network.neuron.reset == "hard"
    if hard and not leaky:
        nodes = _between_steps(nodes, spikes_enter=spikes_enter)
    nodes, folded = with_one_threshold(nodes, network.input_shape)
    if rounding is not None:
        started = next((node for node in nodes if isinstance(node, Neurons) and node.start), None)
        if started is not None:
            raise UsageError(
                f"{started.name} starts at {started.start:g} thresholds, which rounding would change; export "
                "without rounding, or convert with balance percentile:half=false"
            )
        nodes = _rounded(nodes, rounding)
    nodes, more = as_convolutions(nodes, network.input_shape, sumpool=sumpool)
    if rounding is not None and (hard or leaky):
        nodes = _between_steps(nodes, spikes_enter=spikes_enter)
    return nodes, (*folded, *more)


def _stored(network: SpikingNetwork, nodes: tuple[Node, ...], names: Mapping[str, str], rounding: int | None) -> Stored:
    """The metadata that NIR has no field for."""
    lineage = network.card.lineage.then("written as NIR", spiking_digest(network))
    populations = [node for node in nodes if isinstance(node, Neurons)]
    return Stored(
        version=1,
        neuron=str(network.neuron),
        reset=network.neuron.reset,
        encode=str(network.encode),
        card=dataclasses.replace(network.card, lineage=lineage),
        names={names[node.name]: node.name for node in nodes},
        layers={names[node.name]: node.layer for node in populations},
        amplitudes={
            names[node.name]: tuple(node.amplitude.tolist()) for node in populations if node.amplitude is not None
        },
        rounding=rounding,
        starts={names[node.name]: node.start for node in populations if node.start} or None,
    )


def _bytes(graph: Any) -> bytes:
    import nir

    file = io.BytesIO()
    nir.write(file, graph)
    return file.getvalue()


def _nodes(graph: Any) -> tuple[NirNode, ...]:
    return tuple(
        NirNode(name, type(node).__name__, tuple(int(size) for size in node.output_type["output"]))
        for name, node in graph.nodes.items()
    )


def _notes(
    network: SpikingNetwork,
    spikes: Mapping[str, int],
    before: Mapping[str, int],
    *,
    rounding: int | None,
    sumpool: bool,
) -> tuple[str, ...]:
    notes = []
    if network.neuron.reset == "soft":
        notes.append(
            "NIR knows a hard reset only: the file says 'soft' in its metadata; set it after the import "
            "(weightsmith.spiking.nir.handover does, for SpikingJelly, Norse and snnTorch)"
        )
    if any(node.start for node in network.populations):
        notes.append(
            "NIR has no initial membrane: it is in the metadata, and other tools start at zero "
            "unless it is set after the import (weightsmith.spiking.nir.handover does, for SpikingJelly)"
        )
    if rounding is not None:
        notes.append(f"weights and thresholds are multiples of 2^-{rounding} before pools are folded in")
    if sumpool:
        notes.append("pools are SumPool2d, whose factor is in the weights that follow")
    if any(isinstance(node, Add) for node in network.nodes):
        notes.append("the network has shortcuts: Norse adds them one step late unless handover loads the file")
    other = [name for name, count in spikes.items() if count != before[name]]
    if other and rounding is None:
        notes.append(
            f"{', '.join(other)} fires differently than in the given network: a membrane that reaches its threshold "
            "exactly may round to either side once the threshold is folded into float32 weights"
        )
    silent = [name for name, count in spikes.items() if not count]
    if silent:
        notes.append(
            f"{', '.join(silent)} never fires on the test vector, which then tests little; give images with x="
        )
    return tuple(notes)


# Networks that NIR importers cannot represent are refused, with a suggestion.


def _leading(network: SpikingNetwork) -> tuple[Node, ...]:
    """The nodes that lead to the output, with thresholds per channel; refuses a node that cannot be written.

    Nodes come before the neuron: another neuron is the way out only where all nodes can be written.
    """
    wanted = {network.nodes[-1].name}
    for node in reversed(network.nodes):
        if node.name in wanted:
            wanted.update(node.sources)
    nodes = tuple(_checked(node, network) for node in network.nodes if node.name in wanted)
    if network.neuron.signed:
        raise UsageError(
            f"{network.neuron}: NIR has no neuron that takes spikes back or sends several sizes; save_spiking keeps "
            "the network as it is; for NIR convert with neuron if or lif (spike --for nir chooses among these)"
        )
    if network.neuron.delay:
        raise UsageError(f"{network.neuron} fires one step late, which NIR cannot express; use delay=False")
    return nodes


def _leaks_of(network: SpikingNetwork) -> dict[str, float]:
    """The leak of every population."""
    leaks = {}
    for node in network.populations:
        if node.leak is None:
            leaks[node.name] = network.neuron.leak
            continue
        leaks[node.name] = float(node.leak.flatten()[0])
        if not bool((node.leak == node.leak.flatten()[0]).all()):
            raise UsageError(
                f"{node.name} has leaks that differ, and importers read one per layer; export it without mismatch"
            )
    if 1.0 in leaks.values() and len(set(leaks.values())) > 1:
        leaky = next(name for name, leak in leaks.items() if leak < 1)
        plain = next(name for name, leak in leaks.items() if leak == 1)
        raise UsageError(f"{leaky} leaks and {plain} does not: importers need steps of different lengths for the two")
    return leaks


def _checked(node: Node, network: SpikingNetwork) -> Node:
    if isinstance(node, Gate):
        raise UsageError(f"{node.name} gates spikes (max pooling), for which NIR has no node; use average pooling")
    if isinstance(node, Add) and len(set(node.sources)) < len(node.sources):
        raise UsageError(f"{node.name} adds a node to itself, which is one edge in NIR; use a Scale of 2")
    if not isinstance(node, Neurons):
        return node
    channels = network.shapes[node.name][0]
    rows = node.threshold.reshape(channels, -1)
    if not bool((rows == rows[:, :1]).all()):
        raise UsageError(
            f"{node.name} has thresholds that differ within a channel, and importers read one per layer; "
            "export it without mismatch"
        )
    return dataclasses.replace(node, threshold=rows[:, 0])


# Weights and thresholds as multiples of a power of two, so that every order of sums gives the same spikes.
#
# Sums of such numbers are exact in float32 as long as they stay below 2²⁴ steps. The remaining problem is a membrane
# that reaches its threshold exactly: one tool fires there, the others do not, and a threshold that is folded into the
# weights may round to either side. The threshold is therefore raised by half a step, between two values that a
# membrane can have. With a hard reset and without leak this changes none of our spikes. With leak it is part of the
# rounding. With a soft reset and without leak it would not help, since the threshold is subtracted from the membrane.


_FINEST = 24
_FEW = 1000  # values that usually suffice to see that a layer is not rounded


def _rounded(nodes: Iterable[Node], digits: int) -> tuple[Node, ...]:
    """Weights, biases and thresholds rounded to multiples of 2^−digits; refuses a layer that rounds to zero."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Synapses):
            weight = _round(node.weight, digits)
            if not bool(weight.any()):
                raise UsageError(f"{node.name}: all weights are 0 when rounded to 2^-{digits}; use more digits")
            bias = None if node.bias is None else _round(node.bias, digits)
            result.append(dataclasses.replace(node, weight=weight, bias=bias))
        elif isinstance(node, Neurons):
            threshold = _round(node.threshold, digits)
            if not bool((threshold > 0).all()):
                raise UsageError(f"{node.name}: its threshold is 0 when rounded to 2^-{digits}; use more digits")
            result.append(dataclasses.replace(node, threshold=threshold))
        else:
            result.append(node)
    return tuple(result)


def _between_steps(nodes: Sequence[Node], *, spikes_enter: bool) -> tuple[Node, ...]:
    """Thresholds raised by half of the smallest change of their population's membranes, if there is one."""
    given = {node.name: node for node in nodes}
    result: list[Node] = []
    for node in nodes:
        digits = _digits(node.source, given, spikes_enter) if isinstance(node, Neurons) else None
        if isinstance(node, Neurons) and digits is not None and not node.start:
            steps = torch.floor(node.threshold * 2.0**digits)
            result.append(dataclasses.replace(node, threshold=(steps + 0.5) / 2.0**digits))
        else:
            result.append(node)
    return tuple(result)


def _round(values: Tensor, digits: int) -> Tensor:
    return torch.round(values * 2.0**digits) / 2.0**digits


def _digits(name: str, given: dict[str, Node], spikes_enter: bool) -> int | None:
    """The most binary digits after the point that values of ``name`` can have; None if unlimited."""
    node = given.get(name)
    match node:
        case None:
            return 0 if name != INPUT or spikes_enter else None
        case Neurons():
            return 0
        case Add():
            return _most(_digits(source, given, spikes_enter) for source in node.sources)
        case Scale():
            return _sum(_digits(node.source, given, spikes_enter), _digits_of(node.factor))
        case Pool() if node.average:
            share = torch.tensor([1 / (node.kernel[0] * node.kernel[1])], dtype=torch.float64)
            return _sum(_digits(node.source, given, spikes_enter), _digits_of(share))
        case Synapses():
            weights = _sum(_digits(node.source, given, spikes_enter), _digits_of(node.weight))
            return _most([weights, 0 if node.bias is None else _digits_of(node.bias)])
    return _digits(node.sources[0], given, spikes_enter)


def _digits_of(values: Tensor) -> int | None:
    exact = values.double()
    few = exact.flatten()[:_FEW]
    for digits in range(_FINEST + 1):
        if _is_whole(few * 2.0**digits) and _is_whole(exact * 2.0**digits):
            return digits
    return None


def _is_whole(values: Tensor) -> bool:
    return bool((values == values.round()).all())


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _most(values: Iterable[int | None]) -> int | None:
    found = list(values)
    return None if None in found else max(value for value in found if value is not None)
