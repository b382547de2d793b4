"""Keras models (on any backend) and ONNX models in memory, read like their files. Keras is never imported here.

Keras 3 addresses variables by the attributes that lead to them (``layers/conv2d_1/vars/0``) and asks each layer for
its own (``save_own_variables``). The same traversal of the same attributes gives the same tree, which is then read like
a file: a model and its ``.keras`` file have the same layers under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.networks.readers.hdf5 import Dataset, Hdf5File
from weightsmith.networks.readers.kerasfile import KerasWeights
from weightsmith.networks.readers.kerasnames import snake_case
from weightsmith.networks.readers.onnxfile import OnnxWeights

__all__ = ["KerasModelWeights", "OnnxModelWeights"]


# A model also holds training state, which is not part of its layers.
_PASSED_BY = ("Optimizer", "Metric", "Loss")
_SKIPPED = {"Functional": {"operations", "_operations"}, "Sequential": {"_functional"}}
_DEPENDENCIES = "_self_unconditional_dependency_names"


class KerasModelWeights(KerasWeights):
    """The variables of a Keras model in memory, in torch's orientation and under torch's names."""

    format = "keras model"

    def __init__(self, model: Any) -> None:
        name = str(getattr(model, "name", type(model).__name__))
        layer = _layer_class(model)
        if layer is None or not _is_saveable(model):
            raise UsageError(f"{name}: a model of Keras 2 cannot be read from memory; save it (.h5) and give the file")
        tree = _Tree(model, layer)
        if not tree.datasets:
            raise UsageError(f"{name}: the Keras model has no weights yet; build it, or call it once on an example")
        self._open(Path(f"{name} (Keras model)"), tree, _configuration(model), {})


class _Tree(Hdf5File):
    """The contents of a file of the model: variables by path, and the names of the layers that own them."""

    def __init__(self, model: Any, layer: type[Any]) -> None:
        self.path = Path(str(getattr(model, "name", "model")))
        self.datasets: dict[str, Dataset] = {}
        self._values: dict[str, Any] = {}
        self._names: dict[str, dict[str, Any]] = {}
        self.groups = self._names
        self._visited: set[int] = set()
        # Attributes that every layer has are skipped, as Keras does it: a plain layer is the reference.
        self._common = {*dir(layer(name="reference")), _DEPENDENCIES}
        self._enter(model, "")

    def read(self, dataset: Dataset) -> Tensor:
        """The values of a variable, without a copy if its backend is torch."""
        value = self._values[dataset.path]
        inner = getattr(value, "value", value)
        if isinstance(inner, Tensor):
            return inner.detach().cpu()
        array = np.asarray(value)
        plain = array.dtype.kind in "fiub" and array.dtype.name != "bfloat16"
        # Types that NumPy only knows through an extension (bfloat16, float8) become float32, which is exact.
        return torch.from_numpy(np.array(array, dtype=None if plain else np.float32, order="C"))

    def _enter(self, owner: Any, path: str) -> None:
        """Record the variables of ``owner`` and visit its children, each object once."""
        if id(owner) in self._visited:
            return
        self._visited.add(id(owner))
        own: dict[str, Any] = {}
        owner.save_own_variables(own)
        group = f"{path}/vars".lstrip("/")
        if own and isinstance(getattr(owner, "name", None), str):
            self._names[group] = {"name": owner.name}
        for key, value in own.items():
            variable = f"{group}/{key}"
            self._values[variable] = value
            self.datasets[variable] = Dataset(
                variable, tuple(map(int, value.shape)), _type_name(value), None, str(id(value))
            )
        for attribute, child in self._children(owner):
            self._pass(child, f"{path}/{attribute}".lstrip("/"), set())

    def _pass(self, child: Any, path: str, containers: set[int]) -> None:
        """Enter a layer, or the members of a list or dict under numbered class names."""
        if _is_saveable(child):
            if child._obj_type() not in _PASSED_BY:
                self._enter(child, path)
        elif isinstance(child, list | dict | tuple) and id(child) not in containers:
            containers.add(id(child))
            members = list(child.values()) if isinstance(child, dict) else list(child)
            for name, member in _numbered(members):
                self._pass(member, f"{path}/{name}", containers)

    def _children(self, owner: Any) -> Iterator[tuple[str, Any]]:
        kind = owner._obj_type()
        skipped = self._common | _SKIPPED.get(kind, set())
        if kind in _SKIPPED:
            yield "layers", owner.layers
        for attribute in sorted(dir(owner), key=lambda name: f"~{name}" if name.startswith("_") else name):
            if attribute.startswith("__") or attribute in skipped:
                continue
            try:
                child = getattr(owner, attribute)
            except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
                continue  # properties that have no value yet; Keras skips them in the same way
            yield attribute, child


def _numbered(members: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Each member under its class in snake case, numbered from the second of a class on; lists count as a class."""
    used: dict[str, int] = {}
    for member in members:
        if not _is_saveable(member) and not isinstance(member, list | dict | tuple):
            continue
        name = snake_case(type(member).__name__) if _is_saveable(member) else "container"
        used[name] = used.get(name, -1) + 1
        yield (f"{name}_{used[name]}" if used[name] else name), member


def _layer_class(model: object) -> type[Any] | None:
    """The base class ``Layer`` of Keras that ``model`` inherits from."""
    bases = (base for base in type(model).__mro__ if base.__name__ == "Layer")
    return next((base for base in bases if base.__module__.partition(".")[0] == "keras"), None)


def _is_saveable(value: object) -> bool:
    kind = type(value)
    return callable(getattr(kind, "_obj_type", None)) and callable(getattr(kind, "save_own_variables", None))


def _type_name(value: Any) -> str:
    name = str(getattr(value.dtype, "name", value.dtype)).removeprefix("torch.")
    if name.startswith("float8"):
        return "float32"
    return name if isinstance(getattr(torch, name, None), torch.dtype) else "object"


def _configuration(model: Any) -> dict[str, Any]:
    """The configuration of the model's layers; a subclassed model need not have one."""
    try:
        return {"config": model.get_config()}
    except (NotImplementedError, TypeError, ValueError):
        return {}


# ONNX models in memory (``onnx.ModelProto``), read like their files. The package is only needed for these.


_EXTERNAL = 1


class OnnxModelWeights(OnnxWeights):
    """The initialisers of a model in memory; they are held twice, because checking the graph needs its own copy."""

    format = "onnx model"

    def __init__(self, model: Any) -> None:
        outside = next((t.name for t in model.graph.initializer if t.data_location == _EXTERNAL), None)
        if outside is not None:
            raise UsageError(f"the values of {outside} are not in the ONNX model but in a file: give the model's path")
        if not model.graph.node and not model.graph.initializer:
            raise UsageError("the ONNX model has no graph")
        copied = type(model)()
        copied.CopyFrom(model)
        self._open(Path(model.graph.name or "onnx model"), copied)
