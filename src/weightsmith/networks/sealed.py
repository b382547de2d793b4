"""Sealed safetensors files: a digest over the whole file detects any flipped bit.

The file is an ordinary safetensors file that every other tool reads. Its metadata holds our content under
``weightsmith`` and, under ``weightsmith.seal``, the SHA-256 of *all* bytes of the file, with the 64 digits of the seal
itself set to zero. A file with only one of the two keys is damaged too, so a flipped bit inside a key name is also
detected. A third key, ``weightsmith.kinds``, holds what names and shapes do not show: the kinds of layers, with the
groups of convolutions. We write the header ourselves because the library orders metadata at random; so equal networks
give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.storage import reading, write_atomic

__all__ = ["KINDS", "check_seal", "is_sealed", "sealed_content", "write_sealed"]

KINDS = "weightsmith.kinds"
"""The key of the kinds of layers: JSON, the text of a :class:`weightsmith.networks.layers.forms.Form` per tensor."""

_CONTENT, _SEAL = "weightsmith", "weightsmith.seal"
_BLANK = "0" * 64
_BLOCK = 1 << 20
_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.int64: "I64", torch.int32: "I32",
    torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def write_sealed(
    path: str | Path, tensors: Mapping[str, Tensor], content: str, kinds: Mapping[str, str] | None = None
) -> Path:
    """Write ``tensors``, our ``content`` (text) and the ``kinds`` of layers by the name of their tensor.

    The file is written atomically and sealed; the same input gives the same bytes.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            raise UsageError(f"{name}: tensors of type {tensor.dtype} cannot be written; convert them first")
    # Wide types first: every tensor then starts at a multiple of its own item size.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    metadata = {_CONTENT: content, _SEAL: _BLANK, "format": "pt"}
    if kinds:
        metadata[KINDS] = json.dumps(dict(sorted(kinds.items())), ensure_ascii=False)
    header: dict[str, object] = {"__metadata__": metadata}
    start = 0
    for name in order:
        tensor, end = tensors[name], start + tensors[name].nbytes
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)

    def blocks(head: bytes) -> Iterator[bytes]:
        yield struct.pack("<Q", len(head)) + head
        for name in order:
            yield bytes(tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    digest = hashlib.sha256()
    for block in blocks(text):
        digest.update(block)
    mark = f'"{_SEAL}":"'.encode()
    return write_atomic(path, blocks(text.replace(mark + _BLANK.encode(), mark + digest.hexdigest().encode(), 1)))


def is_sealed(metadata: Mapping[str, str]) -> bool:
    """Whether a safetensors file's metadata claims to be ours."""
    return _CONTENT in metadata or _SEAL in metadata


def sealed_content(metadata: Mapping[str, str]) -> str:
    """Our content in the metadata of a file whose seal was checked."""
    return metadata[_CONTENT]


def check_seal(path: str | Path, metadata: Mapping[str, str]) -> None:
    """Read a sealed file once, in blocks; refuse it if the seal is missing or does not match."""
    seal = metadata.get(_SEAL)
    if seal is None or _CONTENT not in metadata:
        raise FileRefused(path, "is damaged: its seal or its card is missing")
    digest = hashlib.sha256()
    with reading(path), Path(path).open("rb") as file:
        prefix = file.read(8)
        head = file.read(struct.unpack("<Q", prefix)[0])
        mark = f'"{_SEAL}":"'.encode()
        digest.update(prefix + head.replace(mark + seal.encode(), mark + _BLANK.encode(), 1))
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != seal:
        raise FileRefused(path, "is damaged: its content does not fit its seal (SHA-256)")
