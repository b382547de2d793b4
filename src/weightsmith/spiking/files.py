"""Save and load spiking networks as sealed ``.safetensors`` files, exactly.

Tensors are stored under ``node.field`` (``conv1.weight``, ``relu1.threshold``), weights in 8 bits as they are.
Everything else is JSON in the file's
metadata, where a plain network has its card: ``spiking`` is the version of this layout, then come the nodes in order,
the neuron, the encoding and the card of the network it was converted from, whose lineage names the parent.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.core.options import field_hints, is_union, without_none
from weightsmith.core.records import digest_of
from weightsmith.networks.card import Card, weights_digest
from weightsmith.networks.readers.ranges import read_bytes, read_json, shown
from weightsmith.networks.sealed import is_sealed, sealed_content, write_sealed
from weightsmith.networks.weights import open_weights
from weightsmith.spiking.encoding import Constant, Encode, Poisson
from weightsmith.spiking.graph import Add, Flatten, Gate, Neurons, Node, Pool, Scale, Shape, Synapses, shapes_of
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, AnyNeuron, Graded, Neuron

__all__ = ["assembled", "checked_spiking", "is_spiking", "load_spiking", "save_spiking", "spiking_digest"]


_VERSION = 1
_PARTS = ("spiking", "input_shape", "neuron", "encode", "card", "nodes")
_KINDS: dict[str, type[Node]] = {kind.__name__: kind for kind in (Synapses, Pool, Gate, Flatten, Scale, Add, Neurons)}
_MOST_HEADER = 100_000_000
_MOST_NUMBER = 1e300  # the comparison refuses NaN and infinity too


def save_spiking(network: SpikingNetwork, path: str | Path) -> Path:
    """Write ``network`` to ``path`` (``.safetensors``): atomically, sealed, the same bytes for the same network."""
    checked_spiking(network, "save_spiking")
    path = Path(path)
    if path.suffix != ".safetensors":
        raise UsageError(f"{path}: files of spiking networks end in .safetensors")
    tensors, content = _tensors(network), _content(network)
    _rebuilt(path, content, tensors)  # refuse to write what could not be read again
    return write_sealed(path, tensors, json.dumps(content, allow_nan=False, ensure_ascii=False))


def checked_spiking(given: Any, verb: str) -> SpikingNetwork:
    """``given`` if it is a spiking network; else an error that says what ``verb`` writes, and how to get it."""
    if isinstance(given, SpikingNetwork):
        return given
    name = type(given).__name__
    way = "ws.load_spiking reads it from a file" if isinstance(given, str | Path) else "ws.spike makes one"
    raise UsageError(f"{verb} writes a SpikingNetwork (the .network of a SpikeRun; {way}), not {name}")


def load_spiking(path: str | Path) -> SpikingNetwork:
    """The spiking network in a file or result folder; :class:`FileRefused` names what is wrong with it."""
    if Path(path).suffix.lower() == ".nir" and Path(path).is_file():
        raise FileRefused(path, "a NIR file: ws.import_nir reads it")
    weights = open_weights(path)
    content = _spiking_content(weights.path, sealed_content(weights.metadata)) if is_sealed(weights.metadata) else None
    if content is None:
        raise FileRefused(weights.path, "is not a spiking network: spike makes one from a plain network")
    strange = [item.name for item in weights.left_out if item.name not in weights.stored]
    strange += [name for name, entry in weights.stored.items() if not _is_stored_as(entry.dtype, name)]
    if strange:
        raise FileRefused(weights.path, f"{shown(strange[0])} is not of type float32 or float64")
    weights.check_memory("its weights", sum(entry.nbytes for entry in weights.stored.values()))
    return _rebuilt(weights.path, content, {name: weights.as_written(name) for name in weights.stored})


def _is_stored_as(dtype: str, name: str) -> bool:
    """Whether a tensor may have this type: floats, and weights in 8 bits."""
    return dtype in ("float32", "float64") or (dtype == "int8" and name.endswith(".weight"))


def is_spiking(path: str | Path) -> bool:
    """Whether a file (or the network of a result folder) is marked as a spiking network; only its header is read.

    False for unreadable files: opening them raises the error.
    """
    path = Path(path)
    path = path / "network.safetensors" if path.is_dir() else path
    if "\0" in str(path):
        return False
    try:
        length = int.from_bytes(read_bytes(path, 0, 8), "little")
        if length > _MOST_HEADER:
            return False
        header = read_json(path, read_bytes(path, 8, length), "its header")
        metadata = header.get("__metadata__") if isinstance(header, dict) else None
        if not isinstance(metadata, dict) or not is_sealed(metadata):
            return False
        return _spiking_content(path, sealed_content(metadata)) is not None
    except (FileRefused, KeyError):
        return False


def spiking_digest(network: SpikingNetwork) -> str:
    """SHA-256 of everything that determines the network's answers: nodes, weights, neuron, encoding, normalisation."""
    content = _content(network)
    facts = {**content, "card": {"normalisation": content["card"]["normalisation"]}}
    # Weights count by their values, however they are stored: files of earlier versions have 8 bits as float32.
    tensors = {name: value.float() if value.dtype == torch.int8 else value for name, value in _tensors(network).items()}
    return digest_of(json.dumps([facts, weights_digest(tensors)], sort_keys=True))


def _tensors(network: SpikingNetwork) -> dict[str, Tensor]:
    found = {}
    for node in network.nodes:
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if isinstance(value, Tensor):
                name = f"{node.name}.{field.name}"
                if not _is_stored_as(str(value.dtype).removeprefix("torch."), name):
                    raise UsageError(f"{node.name}: {field.name} is {value.dtype}; convert it to float32 or float64")
                found[name] = value
    return found


def _content(network: SpikingNetwork) -> dict[str, Any]:
    return {
        "spiking": _VERSION,
        "input_shape": list(network.input_shape),
        "neuron": _plain_neuron(network.neuron),
        "encode": network.encode.to_dict(),
        "card": network.card.to_dict(),
        "nodes": [_described(node) for node in network.nodes],
    }


def _plain_neuron(neuron: AnyNeuron) -> dict[str, Any]:
    """The options of a neuron, ``signed`` only if true: files and digests stay as before there were signed neurons."""
    return {name: value for name, value in neuron.to_dict().items() if name != "signed" or value}


def _described(node: Node) -> dict[str, Any]:
    """The kind and the fields of a node for the JSON, without its tensors."""
    facts: dict[str, Any] = {"kind": type(node).__name__}
    for name, hint in field_hints(type(node)).items():
        if not _is_tensor(hint):
            value = getattr(node, name)
            if name == "ceiling" and math.isinf(value):  # files and digests are those of versions without ceilings
                continue
            facts[name] = list(value) if isinstance(value, tuple) else value
    return facts


def _spiking_content(path: Path, text: str) -> dict[str, Any] | None:
    """The JSON of a spiking network in a file; None for a plain network."""
    content = read_json(path, text.encode(), "its description")
    return content if isinstance(content, dict) and "spiking" in content else None


def _rebuilt(path: Path, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> SpikingNetwork:
    if content["spiking"] != _VERSION:
        found = shown(content["spiking"])
        raise FileRefused(path, f"is a spiking network of version {found}; this weightsmith reads version {_VERSION}")
    for part in (*_PARTS, *content):
        if part not in content or part not in _PARTS:
            what = "lacks" if part not in content else "has an unknown part"
            raise FileRefused(path, f"its description {what} {shown(part)}")
    shape = _decoded(path, content["input_shape"], tuple[int, ...], "input_shape")
    left = dict(tensors)
    described = content["nodes"]
    if not isinstance(described, list):
        raise FileRefused(path, "its nodes are not a list")
    nodes = [_node(path, facts, left) for facts in described]
    if left:
        raise FileRefused(path, f"holds {shown(next(iter(left)))}, which belongs to no node")
    try:
        neuron, encode = Neuron.from_dict(content["neuron"]), Encode.from_dict(content["encode"])
        card = Card.from_dict(content["card"])
    except (ValueError, TypeError, RecursionError) as error:
        raise FileRefused(path, f"its neuron, encoding or card cannot be read ({error})") from error
    assert isinstance(neuron, IF | LIF | Graded)
    assert isinstance(encode, Poisson | Constant)
    return assembled(path, nodes, shape, neuron=neuron, encode=encode, card=card)


def _node(path: Path, facts: Any, tensors: dict[str, Tensor]) -> Node:
    """The node that ``facts`` describe; its tensors are taken out of ``tensors``."""
    kind = _KINDS.get(facts.get("kind", "")) if isinstance(facts, dict) and isinstance(facts.get("kind"), str) else None
    if kind is None:
        raise FileRefused(path, f"has a node of an unknown kind: {shown(facts)}")
    hints = field_hints(kind)
    name = facts.get("name")
    values: dict[str, Any] = {}
    for key, value in facts.items():
        if key == "kind":
            continue
        if key not in hints or _is_tensor(hints[key]):
            raise FileRefused(path, f"{shown(name)} ({kind.__name__}) has an unknown field {shown(key)}")
        values[key] = _decoded(path, value, hints[key], f"{shown(name)}: {key}")
    for key, hint in hints.items():
        tensor = tensors.pop(f"{name}.{key}", None) if _is_tensor(hint) else None
        if tensor is not None:
            values[key] = tensor
    for field in dataclasses.fields(kind):
        if field.name not in values and field.default is dataclasses.MISSING:
            raise FileRefused(path, f"{shown(name)} ({kind.__name__}) lacks {field.name}")
    return kind(**values)


def _is_tensor(hint: Any) -> bool:
    return hint is Tensor or (is_union(hint) and without_none(hint) == [Tensor])


def _decoded(path: Path, value: Any, hint: Any, where: str) -> Any:
    """A JSON value converted to the type of a node's field."""
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        length = None if inner[-1] is Ellipsis else len(inner)
        if isinstance(value, list) and value and length in (None, len(value)):
            return tuple(_decoded(path, item, inner[0], where) for item in value)
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER:
            return float(value)
    elif isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise FileRefused(path, f"{where} cannot be {shown(value)}")


# The final check of every spiking network from a file: sizes and values must be plausible.


_WIDEST = 1 << 20  # largest kernel, stride, dilation or padding
_MOST_UNITS = 1 << 30  # most values for one image: each takes memory


def assembled(
    path: Path,
    nodes: Sequence[Node],
    input_shape: Shape,
    *,
    neuron: AnyNeuron,
    encode: Poisson | Constant,
    card: Card,
) -> SpikingNetwork:
    """The network of these parts, or a :class:`FileRefused` that says what is wrong with the file ``path``."""
    for node in nodes:
        _check_ranges(path, node)
    if max(input_shape, default=0) > _MOST_UNITS:
        raise FileRefused(path, "describes an input larger than any image")
    try:
        shapes = shapes_of(nodes, input_shape)
        _check_sizes(path, shapes)
        return SpikingNetwork(tuple(nodes), input_shape, neuron, encode, card)
    except (UsageError, DataMismatch) as error:
        raise FileRefused(path, f"is not a spiking network that can run: {error}") from error


def _check_ranges(path: Path, node: Node) -> None:
    if not node.name.isprintable():
        raise FileRefused(path, f"the node name {shown(node.name)} has control characters")
    whole: tuple[int, ...] = ()
    margins: tuple[int, ...] = ()
    match node:
        case Synapses():
            whole, margins = (*node.stride, *node.dilation, node.groups), node.padding
        case Pool() | Gate():
            whole, margins = (*node.kernel, *node.stride), node.padding
        case Neurons():
            if not math.isfinite(node.start):
                raise FileRefused(path, f"{shown(node.name)} starts at {node.start} thresholds, which is not finite")
            if node.leak is not None and not bool(((node.leak > 0) & (node.leak <= 1)).all()):
                raise FileRefused(path, f"{shown(node.name)} has a leak that is not between 0 and 1")
    if any(not 1 <= value <= _WIDEST for value in whole) or any(not 0 <= value <= _WIDEST for value in margins):
        raise FileRefused(path, f"{shown(node.name)} has an impossible kernel, stride, dilation, groups or padding")


def _check_sizes(path: Path, shapes: dict[str, Shape]) -> None:
    for name, shape in shapes.items():
        if min(shape) < 1:
            raise FileRefused(path, f"{shown(name)} has an empty output of shape {shape}")
    units = sum(math.prod(shape) for shape in shapes.values())
    if units > _MOST_UNITS:
        raise FileRefused(path, f"describes {units:,} values for one image, more than can be computed")
