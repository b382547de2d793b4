"""``inspect_spiking``: the nodes, neurons and thresholds in the file of a spiking network."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from weightsmith.core.errors import UnknownName
from weightsmith.core.records import Record
from weightsmith.core.verbs import Doc, verb

if TYPE_CHECKING:
    from weightsmith.spiking.graph import Node
    from weightsmith.spiking.network import SpikingNetwork

__all__ = ["NodeEntry", "SpikingContents", "inspect_spiking"]


@dataclasses.dataclass(frozen=True, eq=False)
class NodeEntry(Record):
    """A node: the nodes it reads, its output shape, and the smallest and largest threshold of its neurons."""

    name: str
    kind: str
    reads: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: int
    thresholds: tuple[float, ...] | None


@dataclasses.dataclass(frozen=True, eq=False)
class SpikingContents(Record):
    """The nodes of a spiking network, and the network and settings it was converted with."""

    file: str
    format: str
    network: str
    normalisation: str
    neuron: str
    encode: str
    input_shape: tuple[int, ...]
    classes: int
    neurons: int
    parameters: int
    notes: tuple[str, ...]
    nodes: tuple[NodeEntry, ...]


@verb
def inspect_spiking(
    file: str | Path, *, layers: Annotated[str | None, Doc("only nodes whose name fits this pattern")] = None
) -> SpikingContents:
    """Neuron, encoding and nodes of the spiking network in ``file``."""
    from weightsmith.spiking.files import load_spiking

    network = load_spiking(file)
    nodes = [node for node in network.nodes if layers is None or fnmatch.fnmatchcase(node.name, layers)]
    if not nodes:
        raise UnknownName("node", str(layers), [node.name for node in network.nodes])
    card = network.card
    return SpikingContents(
        file=str(file),
        format="spiking network",
        network=str(card.architecture or card.factory or "unknown"),
        normalisation=str(card.normalisation),
        neuron=str(network.neuron),
        encode=str(network.encode),
        input_shape=tuple(network.input_shape),
        classes=network.classes,
        neurons=sum(math.prod(network.shapes[node.name]) for node in network.populations),
        parameters=sum(map(_parameters, network.nodes)),
        notes=tuple(card.notes),
        nodes=tuple(_entry(network, node) for node in nodes),
    )


def _entry(network: SpikingNetwork, node: Node) -> NodeEntry:
    from weightsmith.spiking.graph import Neurons

    ends = (float(node.threshold.min()), float(node.threshold.max())) if isinstance(node, Neurons) else None
    shape = tuple(network.shapes[node.name])
    return NodeEntry(node.name, type(node).__name__.lower(), tuple(node.sources), shape, _parameters(node), ends)


def _parameters(node: Node) -> int:
    from weightsmith.spiking.graph import Synapses

    if not isinstance(node, Synapses):
        return 0
    return node.weight.numel() + (0 if node.bias is None else node.bias.numel())
