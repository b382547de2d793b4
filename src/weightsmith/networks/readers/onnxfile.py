"""ONNX: the graph is parsed and checked by the ``onnx`` package, the values are read here, one tensor at a time.

Values kept beside the graph (external data) must lie in its folder. A file with its values inside is held in memory
once, at most two gigabytes: protobuf knows no larger ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.core.storage import reading
from weightsmith.networks.readers.onnxgraph import Use, nodes_of, uses
from weightsmith.networks.readers.onnxvalues import TYPES, OnnxValues
from weightsmith.networks.readers.quantised import APPLIED, is_quantised
from weightsmith.networks.readers.ranges import file_size, shown
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["OnnxWeights"]

_MOST_BYTES = 2 << 30
# The order of gates: ONNX keeps i, o, f, c and z, r, h; torch i, f, g, o and r, z, n.
_GATE_ORDER = {"LSTM(gates=4)": (0, 2, 3, 1), "GRU(gates=3)": (1, 0, 2)}


class OnnxWeights(Weights):
    """The initialisers of an ONNX graph (and constants used as weights), matrices as out × in."""

    format = "onnx"

    def __init__(self, path: Path) -> None:
        try:
            self._open(path, _parsed(path))
        except UnicodeDecodeError as error:  # protobuf decodes a text when it is first looked at
            raise FileRefused(path, "is not an ONNX file, or damaged: a name in it is no text") from error

    def _open(self, path: Path, model: Any) -> None:
        nodes = list(nodes_of(model.graph))
        given = {tensor.name: tensor for tensor in model.graph.initializer}
        if len(given) != len(model.graph.initializer):
            raise FileRefused(path, "two initialisers have the same name")
        _check(path, model)
        constants = dict(_constants(nodes))
        found = {**constants, **given}
        self._uses = uses(nodes, {name: len(tensor.dims) for name, tensor in found.items()})
        wanted = {n: t for n, t in found.items() if n in given or _is_weight(t, self._uses[n])}
        for part in [part for name in wanted for part in self._uses[name].parts if part in constants]:
            wanted[part] = constants[part]
        tensors = {name: tensor for name, tensor in wanted.items() if tensor.data_type in TYPES}
        self._values = OnnxValues(path, tensors)
        left_out = list(_strange(model, wanted))
        entries = self._sorted_out(list(tensors), left_out)
        kinds = {entry.name: self._uses[entry.name].kind for entry in entries}
        super().__init__(
            path,
            entries,
            metadata=_metadata(model),
            left_out=left_out,
            kinds={name: kind for name, kind in kinds.items() if kind is not None},
            scaled_by_name=False,
        )

    def is_real(self, name: str) -> bool:
        """Whether the values are real numbers, if need be after ``DequantizeLinear``."""
        return super().is_real(name) or self._uses[name].quantisation is not None

    def _read(self, name: str) -> Tensor:
        use = self._uses[name]
        scale = use.quantisation
        values = self._values.read(name) if scale is None else self._values.dequantised(name, scale)
        if use.turned and values.ndim == 2:
            values = values.t()
        order = _GATE_ORDER.get(use.kind or "")
        if order is not None and values.ndim == 3 and values.shape[1] % len(order) == 0:
            pieces = values.chunk(len(order), dim=1)
            values = torch.cat([pieces[place] for place in order], dim=1)
        return values.contiguous()

    def _sorted_out(self, names: list[str], left_out: list[LeftOut]) -> list[Entry]:
        """The entries; integers without a scale and the scales themselves go to ``left_out``."""
        scaled = {
            name: scale
            for name in names
            if (scale := self._uses[name].quantisation) is not None and self._values.can_scale(name, scale)
        }
        applied = {part for scale in scaled.values() for part in scale.parts}
        entries = []
        for name in names:
            shape, use = self._values.shape(name), self._uses[name]
            shape = shape[::-1] if use.turned and len(shape) == 2 else shape
            entry = Entry(name, shape, str(self._values.dtype(name)).removeprefix("torch."))
            reason = APPLIED if name in applied else None
            if reason is None and name not in scaled and (use.quantisation is not None or is_quantised(entry)):
                reason = f"integer-quantised ({entry.dtype}), no constant scale"
            if reason is None:
                entries.append(entry)
            else:
                left_out.append(LeftOut(name, shape, entry.parameters, reason))
        return entries


def _parsed(path: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtra("reading ONNX files", "onnx") from error
    damaged: type[Exception] = importlib.import_module("google.protobuf.message").DecodeError
    if file_size(path) > _MOST_BYTES:
        raise FileRefused(path, "is larger than 2 GB, which no ONNX file can be: its values belong in external data")
    try:
        with reading(path):
            model = onnx.load(str(path), format="protobuf", load_external_data=False)
    except (damaged, ValueError) as error:
        raise FileRefused(path, "is not an ONNX file, or damaged or cut off") from error
    if not model.graph.node and not model.graph.initializer:
        raise FileRefused(path, "is not an ONNX file, or has no graph")
    return model


def _check(path: Path, model: Any) -> None:
    """Let the package check the graph; its initialisers, checked elsewhere, are emptied first to spare memory."""
    import onnx

    tensors = list(model.graph.initializer)
    del model.graph.initializer[:]
    for tensor in tensors:
        model.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=[0])
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise FileRefused(path, f"is not a valid ONNX file ({shown(reason[:110])})") from error


def _constants(nodes: list[Any]) -> Iterator[tuple[str, Any]]:
    for node in nodes:
        if node.op_type == "Constant" and node.output:
            for item in node.attribute:
                if item.name == "value" and item.HasField("t"):
                    yield node.output[0], item.t


def _is_weight(tensor: Any, use: Use) -> bool:
    """Whether a constant is worth an entry; most are shapes, axes and small numbers."""
    return use.kind is not None or (tensor.data_type in (1, 10, 11, 16) and len(tensor.dims) > 1)


def _strange(model: Any, tensors: dict[str, Any]) -> Iterator[LeftOut]:
    """What is not read: sparse tensors, and types that are no real numbers or smaller than a byte."""
    for sparse in model.graph.sparse_initializer:
        count = sparse.values.dims[0] if sparse.values.dims else 0
        yield LeftOut(sparse.values.name, tuple(sparse.dims), count, "stored sparse, which is not read")
    for name, tensor in tensors.items():
        if tensor.data_type not in TYPES:
            yield LeftOut(name, tuple(tensor.dims), 0, f"of ONNX type {tensor.data_type}, which is not read")


def _metadata(model: Any) -> dict[str, str]:
    facts = {"producer": model.producer_name, "producer_version": model.producer_version, "graph": model.graph.name}
    facts |= {item.key: item.value for item in model.metadata_props}
    return {key: value for key, value in facts.items() if value}
