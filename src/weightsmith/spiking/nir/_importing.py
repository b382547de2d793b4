"""Build a spiking network from a NIR graph given as nested dictionaries.

Conv2d, Affine, Linear, IF, LIF, SumPool2d, AvgPool2d, Flatten and Scale are read; several edges into a node are added
up. Anything else is refused by name. Settings without a NIR field (reset, names, encoding, card) are in the metadata of
our own files; for other files the reset is hard, as NIR defines it, and inputs are spikes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.networks.readers.ranges import shown
from weightsmith.spiking.files import assembled
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Node, Scale, Shape, shapes_of
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.nir._fields import Fields
from weightsmith.spiking.nir._graph import Facts
from weightsmith.spiking.nir._scales import free_name

__all__ = ["network_of"]


_MOST_NODES = 10_000


def network_of(path: Path, tree: Mapping[str, Any], dt: float | None = None) -> SpikingNetwork:
    """The spiking network of a graph; ``path`` is named in refusals.

    ``dt`` is the length of a step: by default that of the file, else 10⁻⁴, as in most tools.
    """
    kinds, order, sources = _graph(path, tree)
    facts = Facts.read(path, tree.get("metadata"), dt)
    network = _Import(path, facts, kinds)
    for name in order:
        network.add(name, Fields(path, name, tree["nodes"][name]), sources[name])
    return network.finished()


def _graph(path: Path, tree: Mapping[str, Any]) -> tuple[dict[str, str], list[str], dict[str, list[str]]]:
    """The type of every node, the names in topological order, and the sources of each."""
    nodes, edges = tree.get("nodes"), tree.get("edges")
    if tree.get("type") != "NIRGraph" or not isinstance(nodes, dict):
        raise FileRefused(path, "does not hold a NIR graph")
    kinds: dict[str, str] = {}
    for name, node in nodes.items():
        kind = node.get("type") if isinstance(node, dict) else None
        if not isinstance(kind, str):
            raise FileRefused(path, f"the node {shown(name)} has no type")
        kinds[name] = kind
    sources = _sources(path, kinds, edges)
    try:
        order = list(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise FileRefused(path, f"{shown(error.args[1][0])} feeds itself; recurrent networks are not read") from error
    _check_ends(path, kinds, order, sources)
    return kinds, order, sources


def _sources(path: Path, kinds: Mapping[str, str], edges: Any) -> dict[str, list[str]]:
    sources: dict[str, list[str]] = {name: [] for name in kinds}
    if not isinstance(edges, list) or len(kinds) > _MOST_NODES:
        raise FileRefused(path, "has no list of edges" if len(kinds) <= _MOST_NODES else "has too many nodes")
    for edge in edges:
        ends = [name for name in edge if isinstance(name, str)] if isinstance(edge, list | tuple) else []
        if len(ends) != 2 or any(name not in kinds for name in ends):
            raise FileRefused(path, f"has an edge between unknown nodes: {shown(edge)}")
        if edge[0] in sources[edge[1]]:
            raise FileRefused(path, f"has the edge {shown(edge)} twice")
        sources[edge[1]].append(edge[0])
    return sources


def _check_ends(path: Path, kinds: Mapping[str, str], order: list[str], sources: Mapping[str, list[str]]) -> None:
    for end in ("Input", "Output"):
        count = sum(kind == end for kind in kinds.values())
        if count != 1:
            raise FileRefused(path, f"has {count} nodes of type {end}; there must be one")
    leading: set[str] = set()
    for name in reversed(order):
        if kinds[name] == "Output" or name in leading:
            leading |= {name, *sources[name]}
    for name, kind in kinds.items():
        if name not in leading or (not sources[name]) != (kind == "Input"):
            raise FileRefused(path, f"{shown(name)} ({kind}) is not on a path from input to output")


class _Import:
    """Our nodes so far, and the node that corresponds to each of the file."""

    def __init__(self, path: Path, facts: Facts, kinds: Mapping[str, str]) -> None:
        self._path, self._facts, self._kinds = path, facts, kinds
        self._nodes: list[Node] = []
        self._stands_for: dict[str, str] = {}
        self._membranes: dict[str, _Membrane] = {}
        self._input_shape: Shape = ()
        self._taken = {facts.names.get(name, name) for name in kinds}

    def add(self, name: str, fields: Fields, sources: list[str]) -> None:
        """Add one node of the file, whose sources have been added."""
        kind = self._kinds[name]
        if kind == "Input":
            self._input_shape = fields.shape("shape")
            self._stands_for[name] = INPUT
            return
        source = self._summed(name, [self._stands_for[other] for other in sources])
        own = self._free(self._facts.names.get(name, name), anew=False)
        match kind:
            case "Output":
                self._end(source)
                return
            case "Conv2d":
                self._nodes.append(fields.convolution(own, source))
            case "Affine" | "Linear":
                self._nodes.append(fields.dense(own, source, biased=kind == "Affine"))
            case "AvgPool2d" | "SumPool2d":
                self._nodes.append(fields.pool(own, source, average=kind == "AvgPool2d"))
            case "Flatten":
                fields.check_flatten()
                self._nodes.append(Flatten(own, source))
            case "Scale":
                factor = fields.per_unit("scale", self._shape(source))
                self._nodes.append(Scale(own, source, fields.per_channel("scale", factor)))
            case "IF" | "LIF":
                self._membranes[own] = _membrane_of(kind, fields, self._shape(source), self._facts.dt)
                self._nodes.append(self._neurons(name, own, source))
            case _:
                raise FileRefused(self._path, f"{shown(name)} is of type {shown(kind)}, which is not read")
        self._stands_for[name] = own

    def finished(self) -> SpikingNetwork:
        """The whole network, with the neuron common to all populations."""
        neuron = _neuron_for(self._membranes.values(), self._facts)
        nodes = [
            self._membranes[node.name].given_to(node, neuron) if isinstance(node, Neurons) else node
            for node in self._nodes
        ]
        encode, card = self._facts.encode, self._facts.card
        return assembled(self._path, nodes, self._input_shape, neuron=neuron, encode=encode, card=card)

    def _summed(self, name: str, sources: list[str]) -> str:
        if len(sources) == 1:
            return sources[0]
        self._nodes.append(Add(self._free(f"{name}_sum"), tuple(sources)))
        return self._nodes[-1].name

    def _neurons(self, name: str, own: str, source: str) -> Neurons:
        channels = self._shape(source)[0]
        amplitude = self._facts.amplitudes.get(name)
        layer = self._facts.layers.get(name, "")
        values = None if amplitude is None else torch.tensor(amplitude)
        start = self._facts.starts.get(name, 0.0)
        return Neurons(own, source, torch.ones(channels), start, amplitude=values, layer=layer)

    def _end(self, source: str) -> None:
        """Scores without firing, one per class; if the network ends with neurons, the scores are their spikes."""
        if any(isinstance(node, Neurons) and node.name == source for node in self._nodes):
            self._nodes.append(Scale(self._free("readout"), source, torch.ones(self._shape(source)[0])))
            source = self._nodes[-1].name
        if len(self._shape(source)) == 3:
            self._nodes.append(Flatten(self._free("scores"), source))

    def _free(self, wanted: str, *, anew: bool = True) -> str:
        """A name for a node; names of the file (``anew=False``) are reserved."""
        taken = {node.name for node in self._nodes}
        return free_name(wanted, taken | self._taken if anew else taken)

    def _shape(self, name: str) -> Shape:
        try:
            return shapes_of(self._nodes, self._input_shape)[name]
        except (UsageError, DataMismatch) as error:
            raise FileRefused(self._path, f"its sizes do not fit: {error}") from error


# NIR's IF and LIF as our neurons: one step of length dt.
#
# IF      v ← v + I                          r = 1 or r = 1/dt, both are read as this by all tools
# LIF     v ← (1 − dt/τ)·v + (r·dt/τ)·I       one Euler step; v divided by its gain r·dt/τ is ours


_CLOSE = 1e-6  # τ is float32 in most files


@dataclasses.dataclass(frozen=True, eq=False)
class _Membrane:
    """Threshold, leak and gain of every unit, computed from the file."""

    threshold: NDArray[np.float64]
    leak: NDArray[np.float64]
    resistance: NDArray[np.float64]

    def given_to(self, node: Neurons, neuron: IF | LIF) -> Neurons:
        """``node`` with the threshold, and with its own leaks if they differ from the neuron's."""
        own = bool((np.abs(self.leak - neuron.leak) > _CLOSE).any())
        leak = self.leak if own else np.full_like(self.leak, neuron.leak)
        gain = np.where(leak < 1, self.resistance * (1 - leak), 1.0)
        threshold = _compact(self.threshold / gain)
        return dataclasses.replace(node, threshold=threshold, leak=_compact(leak) if own else None)


def _membrane_of(kind: str, fields: Fields, shape: Shape, dt: float) -> _Membrane:
    """The membrane parameters of an IF or LIF; a reset or leak to another potential than 0 is refused."""
    threshold, resistance = fields.per_unit("v_threshold", shape), fields.per_unit("r", shape)
    for key in ("v_reset", "v_leak") if kind == "LIF" else ("v_reset",):
        if fields.has(key) and fields.per_unit(key, shape).any():
            fields.refuse(f"has a {key} that is not 0")
    if (threshold <= 0).any() or (resistance <= 0).any():
        fields.refuse("has a threshold or a resistance that is not positive")
    if kind == "IF":
        if not any(np.allclose(resistance, value, rtol=_CLOSE, atol=0) for value in (1, 1 / dt)):
            fields.refuse(f"has a resistance that is neither 1 nor 1/dt (dt = {dt:g})")
        return _Membrane(threshold, np.ones(shape), resistance)
    tau = fields.per_unit("tau", shape)
    if (tau <= dt).any():
        fields.refuse(f"has a time constant of {tau.min():g}, not above the step dt = {dt:g}")
    return _Membrane(threshold, 1 - dt / tau, resistance)


def _neuron_for(membranes: Iterable[_Membrane], facts: Facts) -> IF | LIF:
    """The neuron that our own file names, or the one with the leak of the first population that leaks."""
    reset = facts.reset
    if facts.neuron is not None and facts.neuron.reset == reset:
        return facts.neuron
    leaks = [float(membrane.leak.reshape(-1)[0]) for membrane in membranes]
    leaky = next((leak for leak in leaks if leak < 1), None)
    return IF(reset=reset) if leaky is None else LIF(leaky, reset=reset)


def _compact(values: NDArray[np.float64]) -> torch.Tensor:
    """One value per channel if the values do not differ within channels."""
    rows = values.reshape(len(values), -1)
    return torch.tensor(rows[:, 0] if (rows == rows[:, :1]).all() else values)
