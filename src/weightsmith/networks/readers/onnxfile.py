"""ONNX files: the ``onnx`` package parses and checks the graph, the values are read here, one tensor at a time.

Values stored beside the graph (external data) must be in its folder. A file with its values inside is held in memory
once; it has at most two gigabytes, the limit of protobuf.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.core.storage import reading
from weightsmith.networks.readers.onnxgraph import Quantisation, Use, nodes_of, uses
from weightsmith.networks.readers.quantised import APPLIED, is_quantised
from weightsmith.networks.readers.ranges import file_size, inside, read_tensor, shown
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["TYPES", "OnnxValues", "OnnxWeights"]


_MOST_BYTES = 2 << 30
# The order of gates: ONNX keeps i, o, f, c and z, r, h; torch i, f, g, o and r, z, n.
_GATE_ORDER = {"LSTM(gates=4)": (0, 2, 3, 1), "GRU(gates=3)": (1, 0, 2)}


class OnnxWeights(Weights):
    """The initialisers of an ONNX graph (and constants used as weights), matrices as out × in."""

    format = "onnx"

    def __init__(self, path: Path) -> None:
        try:
            self._open(path, _parsed(path))
        except UnicodeDecodeError as error:  # protobuf decodes a text on first access
            raise FileRefused(path, "is not an ONNX file, or damaged: a name in it is not text") from error

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
        """Whether the values are real numbers, possibly after ``DequantizeLinear``."""
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
            values = torch.cat([pieces[index] for index in order], dim=1)
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
                left_out.append(LeftOut(name, shape, 0 if reason == APPLIED else entry.parameters, reason))
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
    """Check the graph with the package; its initialisers, checked elsewhere, are emptied first to save memory."""
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
    """Whether a constant can be a weight; most are shapes, axes and small numbers."""
    return use.kind is not None or (tensor.data_type in (1, 10, 11, 16) and len(tensor.dims) > 1)


def _strange(model: Any, tensors: dict[str, Any]) -> Iterator[LeftOut]:
    """Tensors that are not read: sparse ones, and types that are not real numbers or smaller than a byte."""
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


# The values of ONNX tensors: inside the graph as bytes or numbers, or in an external file.


TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
}
_EXTERNAL = 1
# The field with the values of a tensor that are not raw bytes, by type; all others are in int32_data.
_FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data"}
_AS_BITS = (10, 16, 17, 18, 19, 20)


class OnnxValues:
    """Tensors by name, each of a known type; every claim is checked before the first value is read."""

    def __init__(self, path: Path, tensors: Mapping[str, Any]) -> None:
        self._path, self._tensors = path, tensors
        for name, tensor in tensors.items():
            self._check(name, tensor)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape as stored."""
        return tuple(self._tensors[name].dims)

    def dtype(self, name: str) -> torch.dtype:
        """The type as stored."""
        found: torch.dtype = getattr(torch, TYPES[self._tensors[name].data_type])
        return found

    def read(self, name: str) -> Tensor:
        """A copy of the values as stored."""
        tensor, shape, dtype = self._tensors[name], self.shape(name), self.dtype(name)
        if tensor.data_location == _EXTERNAL:
            file, offset, _ = self._external(tensor, math.prod(shape) * dtype.itemsize)
            return read_tensor(file, offset, shape, dtype)
        if not math.prod(shape):
            return torch.empty(shape, dtype=dtype)
        if tensor.HasField("raw_data"):
            return torch.frombuffer(bytearray(tensor.raw_data), dtype=torch.uint8).view(dtype).reshape(shape)
        numbers = list(self._numbers(tensor))
        if tensor.data_type in _AS_BITS:
            bits = torch.tensor(numbers, dtype=torch.int32).to(torch.int16 if dtype.itemsize == 2 else torch.uint8)
            return bits.view(dtype).reshape(shape)
        return torch.tensor(numbers, dtype=dtype).reshape(shape)

    def can_scale(self, name: str, quantisation: Quantisation) -> bool:
        """Whether scale and zero point are constants of this file and fit the tensor."""
        return all(
            part in self._tensors and _fits(self.shape(part), self.shape(name), quantisation)
            for part in quantisation.parts
        )

    def dequantised(self, name: str, quantisation: Quantisation) -> Tensor:
        """``(q − zero_point) · scale`` in float32."""
        result = self.read(name).to(torch.float32)
        if quantisation.zero_point is not None:
            zero = self.read(quantisation.zero_point).to(torch.float32)
            result -= _along(zero, result.shape, quantisation)
        scale = self.read(quantisation.scale).to(torch.float32)
        return result.mul_(_along(scale, result.shape, quantisation))

    def _check(self, name: str, tensor: Any) -> None:
        shape = tuple(tensor.dims)
        if len(shape) > 64 or any(size < 0 for size in shape):
            raise FileRefused(self._path, f"tensor {shown(name)} has an impossible shape")
        size = math.prod(shape) * self.dtype(name).itemsize
        if tensor.data_location == _EXTERNAL:
            file, offset, length = self._external(tensor, size)
            if length != size or offset + size > file_size(file):
                reason = f"tensor {shown(name)} claims {size:,} bytes that {shown(file.name)} does not have"
                raise FileRefused(self._path, reason)
        elif tensor.HasField("raw_data"):
            if len(tensor.raw_data) != size:
                reason = f"tensor {shown(name)} claims {size:,} bytes and has {len(tensor.raw_data):,}"
                raise FileRefused(self._path, reason)
        elif len(self._numbers(tensor)) != math.prod(shape):
            raise FileRefused(self._path, f"tensor {shown(name)} has another number of values than its shape")

    def _external(self, tensor: Any, size: int) -> tuple[Path, int, int]:
        """File, offset and length of values kept outside; the file must be in the folder of the graph."""
        location = {item.key: item.value for item in tensor.external_data}
        file = inside(self._path.parent, location.get("location", ""), self._path)
        offset, length = location.get("offset", "0"), location.get("length", str(size))
        # Nineteen digits hold any file; int() of a very long text is slow or an error.
        if any(not (text.isascii() and text.isdigit()) or len(text) > 19 for text in (offset, length)):
            raise FileRefused(
                self._path, f"tensor {shown(tensor.name)} has an invalid offset or length in its external data"
            )
        with reading(file):
            exists = file.exists()
        if not exists:
            raise FileRefused(self._path, f"its external data {shown(file.name)} are missing")
        return file, int(offset), int(length)

    @staticmethod
    def _numbers(tensor: Any) -> Any:
        return getattr(tensor, _FIELDS.get(tensor.data_type, "int32_data"))


def _fits(scale: tuple[int, ...], shape: tuple[int, ...], quantisation: Quantisation) -> bool:
    axis = quantisation.axis + len(shape) if quantisation.axis < 0 else quantisation.axis
    if math.prod(scale) == 1:
        return True
    if not 0 <= axis < len(shape):
        return False
    if len(scale) == 1:
        return scale[0] == shape[axis]
    block = quantisation.block
    return block > 0 and list(scale) == [-(-n // block) if i == axis else n for i, n in enumerate(shape)]


def _along(scale: Tensor, shape: torch.Size, quantisation: Quantisation) -> Tensor:
    """The scale in a shape that broadcasts along its axis."""
    if scale.numel() == 1:
        return scale.reshape(())
    axis = quantisation.axis % len(shape)
    if scale.ndim == 1:
        return scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return scale.repeat_interleave(quantisation.block, axis).narrow(axis, 0, shape[axis])
