"""The variables in the tree of a Keras file, with their layer, role and readable name.

Keras 3 addresses layers by class and number (``layers/conv2d_1/vars/0``); their own names are in attributes or in the
configuration. The older format has names everywhere (``model_weights/head/head/kernel:0``). The configuration is only
read, never executed: a lambda layer in it stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weightsmith.core.text import natural
from weightsmith.networks.readers.hdf5 import Dataset, Hdf5File
from weightsmith.networks.readers.keraslayouts import LayerFacts, is_recurrent, roles_of

__all__ = ["TRAINING", "Configuration", "Variable", "snake_case", "variables"]

# Groups beside the layers that belong to the training run.
TRAINING = ("optimizer", "_optimizer", "optimizer_weights", "metrics", "_metrics", "loss", "compile_metrics")

_CONTAINERS = ("layers", "_layer_checkpoint_dependencies", "vars")
_SILENT = ("cell", "forward_layer", "backward_layer", "layer")
_ATTENTION = {"query_dense": "query", "key_dense": "key", "value_dense": "value", "output_dense": "attention_output"}
_MOST_DEPTH = 32
_NUMBERED = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Variable:
    """One variable of a layer: its path, its role, and the number of gates of its layer (0: not recurrent)."""

    layer: str
    role: str
    dataset: Dataset
    facts: LayerFacts
    gates: int = 0


class Configuration:
    """Facts about layers from the saved configuration, by path in the file and by name."""

    def __init__(self, config: object) -> None:
        self.by_path: dict[str, LayerFacts] = {}
        self.by_name: dict[str, LayerFacts] = {}
        self.names: dict[str, str] = {}
        self.order: dict[str, int] = {}
        self._visit(config, "")

    def _visit(self, node: object, path: str) -> None:
        if path.count("/") > 2 * _MOST_DEPTH:
            return
        inner = node.get("config") if isinstance(node, Mapping) else None
        layers = inner.get("layers") if isinstance(inner, Mapping) else inner
        if not isinstance(layers, list):
            return
        used: dict[str, int] = {}
        for layer in layers:
            if not isinstance(layer, Mapping) or not isinstance(layer.get("class_name"), str):
                continue
            kind = snake_case(layer["class_name"])
            used[kind] = used.get(kind, -1) + 1
            layer_path = f"{path}layers/{kind}" + (f"_{used[kind]}" if used[kind] else "")
            self._note(layer_path, kind, layer.get("config"))
            self._visit(layer, f"{layer_path}/")

    def _note(self, path: str, kind: str, config: object) -> None:
        config = config if isinstance(config, Mapping) else {}
        groups, equation, name = config.get("groups"), config.get("equation"), config.get("name")
        facts = LayerFacts(
            kind,
            groups if type(groups) is int and groups > 0 else 1,
            equation if isinstance(equation, str) else "",
        )
        self.order[path] = len(self.order)
        self.by_path[path] = facts
        if isinstance(name, str):
            self.names[path] = name
            self.by_name[name] = facts


def variables(file: Hdf5File, configuration: Configuration) -> Iterator[Variable]:
    """All variables of the network in ``file``, whichever of the two formats it has."""
    for root in ("model_weights", ""):
        layer_names = file.texts(root, "layer_names")
        if layer_names:
            return _named(file, configuration, root, layer_names)
    return _numbered(file, configuration)


def snake_case(name: str) -> str:
    """A class name as Keras writes it into paths.

    >>> [snake_case(n) for n in ("Conv2DTranspose", "LSTMCell", "SimpleRNN", "DepthwiseConv2D")]
    ['conv2d_transpose', 'lstm_cell', 'simple_rnn', 'depthwise_conv2d']
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _numbered(file: Hdf5File, configuration: Configuration) -> Iterator[Variable]:
    """Keras 3: variables by number in groups called ``vars``."""
    groups: dict[str, list[Dataset]] = {}
    for dataset in file.datasets.values():
        group, _, _ = dataset.path.rpartition("/")
        if dataset.path.split("/", 1)[0] not in TRAINING:
            groups.setdefault(group, []).append(dataset)
    for group in sorted(groups, key=lambda group: _file_order(group, configuration)):
        datasets = sorted(groups[group], key=lambda dataset: natural(dataset.path))
        shapes = [dataset.shape for dataset in datasets]
        owner = group.removesuffix("/vars") if group != "vars" else ""
        facts = _facts(owner, configuration)
        layer = ".".join(_readable(owner, file, configuration))
        gates = shapes[1][1] // shapes[1][0] if is_recurrent(shapes) and _is_cell(owner) else 0
        for dataset, role in zip(datasets, roles_of(facts.kind, shapes, _is_cell(owner)), strict=True):
            yield Variable(layer, role, dataset, facts, gates)


def _named(file: Hdf5File, configuration: Configuration, root: str, layer_names: list[str]) -> Iterator[Variable]:
    """The older format: ``layer_names`` in order, each with its ``weight_names``."""
    for layer in [*layer_names, "top_level_model_weights"]:
        group = f"{root}/{layer}" if root else layer
        found = [(name, f"{group}/{name}") for name in file.texts(group, "weight_names")]
        by_owner: dict[tuple[str, ...], list[tuple[str, Dataset]]] = {}
        for name, path in found:
            if path in file.datasets:
                *parents, last = name.split("/")
                by_owner.setdefault(tuple(parents), []).append((last.partition(":")[0], file.datasets[path]))
        for owner, members in by_owner.items():
            inner = list(owner[owner.index(layer) + 1 :]) if layer in owner else list(owner)
            kept = [part for part in inner if not _is_cell(part) and not part.startswith(("forward_", "backward_"))]
            facts = _facts_by_name([layer, *inner], configuration)
            backward = any(part.startswith("backward_") for part in inner)
            shapes = {role: dataset.shape for role, dataset in members}
            pair = [shapes.get("kernel", ()), shapes.get("recurrent_kernel", ())]
            gates = pair[1][1] // pair[1][0] if is_recurrent(pair) else 0
            for role, dataset in members:
                yield Variable(".".join([layer, *kept]), role, dataset, replace(facts, backward=backward), gates)


def _facts(owner: str, configuration: Configuration) -> LayerFacts:
    if owner in configuration.by_path:
        return configuration.by_path[owner]
    parts = owner.split("/")
    last = parts[-1]
    backward = "backward_layer" in parts
    if last in _ATTENTION:
        return LayerFacts("einsum_dense", output=last == "output_dense", backward=backward)
    return LayerFacts(_NUMBERED.sub("", last), backward=backward)


def _facts_by_name(parts: list[str], configuration: Configuration) -> LayerFacts:
    for part in reversed(parts):
        if part in configuration.by_name:
            return configuration.by_name[part]
    last = parts[-1]
    if last in _ATTENTION.values():
        return LayerFacts("einsum_dense", output=last == "attention_output")
    return LayerFacts(_NUMBERED.sub("", last))


def _readable(owner: str, file: Hdf5File, configuration: Configuration) -> list[str]:
    """The names given by the user, if the file has them; ``layers`` and inner parts of one layer are left out."""
    names: list[str] = []
    parts = owner.split("/") if owner else []
    for index, part in enumerate(parts):
        path = "/".join(parts[: index + 1])
        if part in _CONTAINERS or (part in _SILENT and names):
            continue
        given = configuration.names.get(path) or file.text(f"{path}/vars", "name") or _ATTENTION.get(part) or part
        names.append(given.rpartition("/")[2] or part)
    return names


def _is_cell(path: str) -> bool:
    last = _NUMBERED.sub("", path.rpartition("/")[2])
    return last == "cell" or last.endswith("_cell") or last in ("lstm", "gru", "simple_rnn")


def _file_order(group: str, configuration: Configuration) -> tuple[Any, ...]:
    """The sort key: the order of the configuration if there is one, else the name with numbers by value."""
    parts = group.split("/")
    known = [configuration.order.get("/".join(parts[:length]), -1) for length in range(1, len(parts) + 1)]
    return max(known, default=-1), natural(group)
