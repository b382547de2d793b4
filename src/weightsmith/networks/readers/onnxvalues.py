"""The values of ONNX tensors: inside the graph as bytes or numbers, or in a file beside it; checked, then read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.onnxgraph import Quantisation
from weightsmith.networks.readers.ranges import file_size, inside, read_tensor, shown

__all__ = ["TYPES", "OnnxValues"]

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
# Where a tensor keeps its values when not as raw bytes, by type; all others are in int32_data.
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
        """The values as stored, in memory of their own."""
        tensor, shape, dtype = self._tensors[name], self.shape(name), self.dtype(name)
        if tensor.data_location == _EXTERNAL:
            place, offset, _ = self._external(tensor, math.prod(shape) * dtype.itemsize)
            return read_tensor(place, offset, shape, dtype)
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
            place, offset, length = self._external(tensor, size)
            if length != size or offset + size > file_size(place):
                reason = f"tensor {shown(name)} claims {size:,} bytes that {shown(place.name)} does not have"
                raise FileRefused(self._path, reason)
        elif tensor.HasField("raw_data"):
            if len(tensor.raw_data) != size:
                reason = f"tensor {shown(name)} claims {size:,} bytes and has {len(tensor.raw_data):,}"
                raise FileRefused(self._path, reason)
        elif len(self._numbers(tensor)) != math.prod(shape):
            raise FileRefused(self._path, f"tensor {shown(name)} has another number of values than its shape says")

    def _external(self, tensor: Any, size: int) -> tuple[Path, int, int]:
        """File, offset and length of values kept outside; the file must be in the folder of the graph."""
        said = {item.key: item.value for item in tensor.external_data}
        place = inside(self._path.parent, said.get("location", ""), self._path)
        offset, length = said.get("offset", "0"), said.get("length", str(size))
        # Nineteen digits hold any file; int() of a very long text is slow or an error.
        if any(not (text.isascii() and text.isdigit()) or len(text) > 19 for text in (offset, length)):
            raise FileRefused(self._path, f"tensor {shown(tensor.name)} has no proper place in its external data")
        with reading(place):
            exists = place.exists()
        if not exists:
            raise FileRefused(self._path, f"its external data {shown(place.name)} are missing")
        return place, int(offset), int(length)

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
