"""The short list of names a torch file may ask for: what ``torch.save`` writes for tensors in dictionaries."""

from __future__ import annotations

from pathlib import Path

import torch

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.ranges import shown

__all__ = ["STORAGE_TYPES", "allowed_name"]

_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "qint8", "quint8", "qint32", "complex64", "complex128"),
)
STORAGE_TYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "QInt8Storage": torch.qint8,
    "QUInt8Storage": torch.quint8,
    "QInt32Storage": torch.qint32,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}
_SCHEMES = ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric")
_ALLOWED = frozenset(
    [
        "collections.OrderedDict",
        "collections.Counter",
        "torch.Size",
        "torch.device",
        "torch.storage.UntypedStorage",
        *(f"torch._utils._rebuild_{what}" for what in ("tensor", "tensor_v2", "tensor_v3", "qtensor", "parameter")),
        *(f"torch.{name}" for name in (*_DTYPES, *STORAGE_TYPES, *_SCHEMES)),
        *(f"torch.cuda.{name}" for name in STORAGE_TYPES),
    ]
)


def allowed_name(path: Path, module: str, name: str) -> str:
    """The full name if weights may ask for it; otherwise the file is refused, with the way out where there is one."""
    full = f"{module}.{name}"
    if full in _ALLOWED:
        return full
    way_out = "load it where you trust it and save its state_dict()"
    if module.startswith(("torch.nn.modules", "torchvision.models")):
        raise FileRefused(path, f"holds a whole pickled module (asks for {shown(full)}), not only weights: {way_out}")
    if name[:1].isupper() or module.startswith("numpy"):
        raise FileRefused(path, f"asks for {shown(full)}, so it holds more than weights: {way_out}")
    raise FileRefused(path, f"asks for {shown(full)}, which weights never need")
