"""Weights of a TorchScript archive, without its program: ``torch.jit.load`` would compile the code in the file.

``data.pkl`` describes the tree of modules with their attributes. It is read as a description, the classes it names are
ignored, and the values are read directly from the archive. Names are those of the state dict. Constants
(``constants.pkl``) and lists of tensors belong to the program and are not weights.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.pickles import PACKED, ScriptObject, StoredTensor, describe
from weightsmith.networks.readers.ranges import read_bytes
from weightsmith.networks.readers.torchfile import TorchFile, check_storage
from weightsmith.networks.readers.zips import Member, read_directory, read_member

__all__ = ["TorchScriptWeights"]

_MOST_PICKLE = 64 << 20
_MOST_NAMES = 200_000  # a few objects that contain each other twice would have more names than fit into memory


class TorchScriptWeights(TorchFile):
    """The archives ``torch.jit.save`` writes; one tensor is in memory at a time."""

    format = "TorchScript"
    _mapped = False

    def _described(self, path: Path) -> Any:
        members = read_directory(path)
        folder = next(name.removesuffix("constants.pkl") for name in members if name.endswith("constants.pkl"))
        if f"{folder}data.pkl" not in members:
            raise FileRefused(path, "is not laid out as torch.jit.save does: there is no data.pkl")
        order = members.get(f"{folder}byteorder")
        if order is not None and read_member(path, order, 64) != b"little":
            raise FileRefused(path, "was written on a big-endian machine")
        content = read_member(path, members[f"{folder}data.pkl"], _MOST_PICKLE)
        root, storages = describe(io.BytesIO(content), path, script=True)
        self._data: dict[str, Member] = {}
        for storage in storages.values():
            data = members.get(f"{folder}data/{storage.key}")
            check_storage(path, storage, data)
            if data is None or not data.stored:
                raise FileRefused(path, f"storage {storage.key} is compressed, which torch never does")
            self._data[storage.key] = data
        found = _attributes(root, path)
        self._tensors = {name: value for name, value in found.items() if isinstance(value, StoredTensor)}
        return found

    def _read(self, name: str) -> Tensor:
        tensor = self._tensors[name]
        data, size = self._data[tensor.storage.key], tensor.dtype.itemsize
        last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride, strict=True)) if tensor.count else -1
        begin = data.offset + tensor.offset * size
        content = bytearray(read_bytes(self.path, begin, (last + 1) * size))
        if not tensor.count:
            return torch.empty(tensor.shape, dtype=tensor.dtype)
        values = torch.frombuffer(content, dtype=tensor.dtype)
        return values.as_strided(tensor.shape, tensor.stride).clone(memory_format=torch.contiguous_format)


def _attributes(root: Any, path: Path) -> dict[str, Any]:
    """All tensors that are attributes of modules, by dotted names, and the packed states of quantised layers."""
    found: dict[str, Any] = {}
    todo: list[tuple[str, Any]] = [("", root)]
    visited = 0
    while todo:
        name, value = todo.pop()
        visited += 1
        if visited > _MOST_NAMES:
            raise FileRefused(path, f"its modules have more than {_MOST_NAMES:,} names")
        if isinstance(value, StoredTensor) or name.endswith(PACKED):
            found[name] = value
        elif type(value) is ScriptObject:
            todo += [(f"{name}.{key}" if name else str(key), item) for key, item in reversed(value.items())]
    return found
