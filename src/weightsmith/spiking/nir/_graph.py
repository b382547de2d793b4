"""Write lowered nodes as a graph of the ``nir`` package, with the fields that NIR lacks in the metadata.

    IF     v ← v + I                     r = 1, dt = 1
    LIF    τ·dv/dt = −v + r·I            τ = dt/(1 − leak), r = 1, dt = 10⁻⁴, threshold θ·(1 − leak)

Importers take one Euler step per dt, in which v/(1 − leak) follows v ← leak·v + I. All numbers are float32, as
importers use them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import FileRefused, MissingExtra, OptionError
from weightsmith.core.records import Lineage, Record
from weightsmith.networks.card import Card
from weightsmith.networks.readers.ranges import read_json, shown
from weightsmith.spiking.encoding import Constant, Encode, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Node, Pool, Shape, Synapses, shapes_of
from weightsmith.spiking.neurons import IF, LIF, Neuron
from weightsmith.spiking.nir._scales import free_name

if TYPE_CHECKING:
    import nir

__all__ = ["DT_IF", "DT_LIF", "Facts", "Stored", "graph_of", "nir_names"]


DT_IF, DT_LIF = 1.0, 1e-4
OUTPUT = "output"


@functools.cache
def _reserved() -> frozenset[str]:
    """Names that importers cannot use for a module, or use themselves."""
    own = (OUTPUT, "state", "is_none", "initialized_state")
    return frozenset([*own, *keyword.kwlist, *dir(nn.ModuleDict()), *dir(nn.Module())])


def nir_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Our names mapped to names that every importer accepts: letters, digits and underscores."""
    names: dict[str, str] = {}
    for node in nodes:
        plain = re.sub(r"\W", "_", node.name, flags=re.ASCII)
        wanted = f"layer_{plain}" if not plain or plain[0].isdigit() or plain[0] == "_" else plain
        names[node.name] = free_name(wanted, [*_reserved(), *names.values()])
    return {INPUT: INPUT, **names}


def graph_of(
    nodes: Sequence[Node], input_shape: Shape, leaks: Mapping[str, float], metadata: Mapping[str, Any]
) -> nir.NIRGraph:
    """The graph; ``leaks`` has the leak of every population, 1 in all of them or in none."""
    try:
        import nir
    except ImportError as error:
        raise MissingExtra("writing NIR files", "nir") from error
    shapes, names = shapes_of(nodes, input_shape), nir_names(nodes)
    given = {node.name: node for node in nodes}
    made: dict[str, Any] = {INPUT: nir.Input({"input": np.array(input_shape)})}
    edges: list[tuple[str, str]] = []
    for node in nodes:
        if isinstance(node, Add | Flatten):  # a sum is several edges; only the answer is still flattened
            continue
        made[names[node.name]] = _nir_node(nir, node, shapes, leaks)
        edges += [(names[source], names[node.name]) for source in _read(node.sources[0], given)]
    last = nodes[-1].sources[0] if isinstance(nodes[-1], Flatten) else nodes[-1].name
    made[OUTPUT] = nir.Output({"output": np.array(shapes[last])})
    edges.append((names[last], OUTPUT))
    return nir.NIRGraph(made, edges, metadata=dict(metadata))


def _read(source: str, given: Mapping[str, Node]) -> list[str]:
    """The nodes whose sum is the output of ``source``."""
    node = given.get(source)
    return [name for part in node.sources for name in _read(part, given)] if isinstance(node, Add) else [source]


def _nir_node(nir: Any, node: Node, shapes: Mapping[str, Shape], leaks: Mapping[str, float]) -> Any:
    if isinstance(node, Neurons):
        return _neuron(nir, node, shapes[node.name], leaks[node.name])
    if isinstance(node, Pool):
        window = (np.array(node.kernel), np.array(node.stride), np.array(node.padding))
        return nir.SumPool2d(*window)
    assert isinstance(node, Synapses)
    bias = torch.zeros(len(node.weight)) if node.bias is None else node.bias
    values = (_float32(node.weight), _float32(bias))
    if node.dense:
        return nir.Affine(*values)
    return nir.Conv2d(
        input_shape=shapes[node.source][1:],
        weight=values[0],
        stride=node.stride,
        padding=node.padding,
        dilation=node.dilation,
        groups=1,
        bias=values[1],
    )


def _neuron(nir: Any, node: Neurons, shape: Shape, leak: float) -> Any:
    def all_units(value: float) -> NDArray[np.float32]:
        return np.full(shape, value, np.float32)

    threshold, zero = float(node.threshold[0]), all_units(0)
    if leak == 1:
        return nir.IF(r=all_units(1), v_threshold=all_units(threshold), v_reset=zero)
    return nir.LIF(
        tau=all_units(DT_LIF / (1 - leak)),
        r=all_units(1),
        v_leak=zero,
        v_threshold=all_units(threshold * (1 - leak)),
        v_reset=zero,
    )


def _float32(values: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values.float().contiguous().numpy()
    return array


# The metadata of our NIR files, as JSON: reset, names, encoding, card.


Reset = Literal["soft", "hard"]
_KEY = "weightsmith"
_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Stored(Record):
    """Our JSON. Names, layers, amplitudes and first membranes (in thresholds) are listed by the names in the file."""

    version: int
    neuron: str
    reset: Reset
    encode: str
    card: Card
    names: dict[str, str]
    layers: dict[str, str]
    amplitudes: dict[str, tuple[float, ...]]
    rounding: int | None = None
    starts: dict[str, float] | None = None

    def metadata(self, dt: float) -> dict[str, Any]:
        """The metadata of the graph: the most important facts in plain fields, then the JSON."""
        return {"dt": dt, "reset": self.reset, _KEY: self.to_json()}


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """The metadata of any file, with defaults for missing fields."""

    dt: float
    reset: Reset
    neuron: IF | LIF | None
    encode: Poisson | Constant
    card: Card
    names: Mapping[str, str]
    layers: Mapping[str, str]
    amplitudes: Mapping[str, tuple[float, ...]]
    rounding: int | None = None
    starts: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, metadata: Any, dt: float | None) -> Facts:
        """From the metadata of a graph, which may be missing; ``dt`` overrides the value there."""
        values = metadata if isinstance(metadata, Mapping) else {}
        reset = _reset(path, values.get("reset", "hard"))
        step = _number(path, values.get("dt", DT_LIF)) if dt is None else dt
        if not step > 0:
            raise FileRefused(path, f"its dt is {step}")
        text = values.get(_KEY)
        if text is None:
            card = Card(lineage=Lineage(f"read from {path.name} (NIR)"))
            return cls(step, reset, None, Poisson(), card, {}, {}, {})
        stored = _stored(path, text)
        try:
            neuron, encode = Neuron.parse(stored.neuron), Encode.parse(stored.encode)
        except (OptionError, LookupError) as error:
            raise FileRefused(path, f"its metadata of weightsmith cannot be read ({error})") from error
        if not isinstance(neuron, IF | LIF) or neuron.signed:
            raise FileRefused(path, f"its metadata of weightsmith name the neuron {neuron}, which NIR cannot express")
        assert isinstance(encode, Poisson | Constant)
        names, layers, amplitudes = stored.names, stored.layers, stored.amplitudes
        starts = stored.starts or {}
        return cls(step, reset, neuron, encode, stored.card, names, layers, amplitudes, stored.rounding, starts)


def _stored(path: Path, text: Any) -> Stored:
    content = read_json(path, text.encode() if isinstance(text, str) else b"", "its metadata of weightsmith")
    version = content.get("version") if isinstance(content, dict) else None
    if version != _VERSION:
        raise FileRefused(path, f"its metadata of weightsmith have version {shown(version)}, not {_VERSION}")
    try:
        return Stored.from_json(json.dumps(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise FileRefused(path, f"its metadata of weightsmith cannot be read ({error})") from error


def _reset(path: Path, value: Any) -> Reset:
    if isinstance(value, str) and value == "soft":
        return "soft"
    if isinstance(value, str) and value == "hard":
        return "hard"
    raise FileRefused(path, f"its reset is {shown(value)}, neither soft nor hard")


def _number(path: Path, value: Any) -> float:
    found = np.asarray(value)
    if found.dtype.kind not in "fiu" or found.size != 1 or not np.isfinite(found).all():
        raise FileRefused(path, f"its dt is {shown(value)}, not a number")
    return float(found.reshape(-1)[0])
