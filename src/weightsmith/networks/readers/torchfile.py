"""torch files, zip and legacy, with three safety checks.

1. The pickle is read as a description (:mod:`weightsmith.networks.readers.pickles`): a file with a name that weights
   never need is refused.
2. The sizes it declares are compared with the contents of the file.
3. The values are read only with ``torch.load(weights_only=True)``.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.pickles import Storage, StoredTensor, describe
from weightsmith.networks.readers.ranges import file_size, read_bytes, shown
from weightsmith.networks.readers.zips import Member, read_directory, read_member
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["LegacyTorchWeights", "TorchFile", "TorchWeights", "check_storage", "choose"]


_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_MOST_PICKLE = 64 << 20
# Pages of a mapped file stay in memory once touched; after this many bytes the file is mapped again.
_MAPPED_BYTES = 256 << 20
# Different views of one storage are fine (a tied transpose), but not if they add up to many times the file.
_MOST_OVERLAP = 4

_DAMAGED = (
    pickle.UnpicklingError,
    struct.error,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


class TorchFile(Weights):
    """The common part of all kinds of torch files."""

    def __init__(self, path: Path) -> None:
        chosen = choose(self._described(path), path)
        self._keys = {name: keys for name, (keys, _) in chosen.tensors.items()}
        self._check_overlap(path, [tensor for _, tensor in chosen.tensors.values()])
        stored, left_out, aliases = [], list(chosen.left_out), {}
        first: dict[object, str] = {}
        for name, (_, tensor) in chosen.tensors.items():
            dtype = str(tensor.dtype).removeprefix("torch.")
            if tensor.dtype.is_complex or dtype.startswith(("qint", "quint")):
                reason = "complex numbers" if tensor.dtype.is_complex else f"quantised by torch ({dtype})"
                left_out.append(LeftOut(name, tensor.shape, tensor.count, reason))
                continue
            stored.append(Entry(name, tensor.shape, dtype))
            begin = tensor.storage.begin + tensor.offset
            view = (tensor.storage.key, tensor.dtype, begin, tensor.shape, tensor.stride)
            if tensor.count and first.setdefault(view, name) != name:
                aliases[name] = first[view]
        super().__init__(path, stored, left_out=left_out, aliases=aliases)
        self._loaded: Any = None
        self._touched = 0

    @abstractmethod
    def _described(self, path: Path) -> Any:
        """The description of the pickled object, its storages checked against the file."""

    @property
    @abstractmethod
    def _mapped(self) -> bool:
        """Whether torch can map the file instead of reading all of it."""

    def _read(self, name: str) -> Tensor:
        entry = self.stored[name]
        try:
            if self._loaded is None:
                with reading(self.path):
                    self._loaded = torch.load(self.path, "cpu", weights_only=True, mmap=self._mapped)
            value = self._loaded
            for key in self._keys[name]:
                value = value[key]
        except _DAMAGED as error:
            raise FileRefused(self.path, "is damaged, or not readable with torch.load(weights_only=True)") from error
        if not isinstance(value, Tensor) or tuple(value.shape) != entry.shape or value.dtype != entry.torch_dtype:
            raise FileRefused(self.path, f"tensor {shown(name)} is not what its pickle describes")
        own = value.detach().clone(memory_format=torch.contiguous_format)
        self._touched += entry.nbytes
        if self._mapped and self._touched > _MAPPED_BYTES:
            self._loaded, self._touched = None, 0
        return own

    @staticmethod
    def _check_overlap(path: Path, tensors: list[StoredTensor]) -> None:
        views = {(t.storage.key, t.storage.begin + t.offset, t.shape, t.stride): t for t in tensors}
        total = sum(tensor.count * tensor.dtype.itemsize for tensor in views.values())
        length = file_size(path)
        if total > _MOST_OVERLAP * length:
            raise FileRefused(path, f"its tensors are views of each other: {total:,} bytes out of {length:,}")


class TorchWeights(TorchFile):
    """The zip files ``torch.save`` writes; values are mapped and copied out one tensor at a time."""

    format = "torch"
    _mapped = True

    def _described(self, path: Path) -> Any:
        members = read_directory(path)
        packed = {member.size / max(1, member.packed): member.name for member in members.values() if not member.stored}
        if packed:
            times = max(packed)
            reason = f"{shown(packed[times])} is compressed (expands {times:,.0f}×), which torch never does"
            raise FileRefused(path, reason)
        folders = [name.removesuffix("data.pkl") for name in members if name.split("/")[-1] == "data.pkl"]
        if len(folders) != 1 or any(not name.startswith(folders[0]) for name in members):
            raise FileRefused(path, "is not laid out as torch.save does: one folder with one data.pkl")
        content = read_member(path, members[folders[0] + "data.pkl"], _MOST_PICKLE)
        described, storages = describe(io.BytesIO(content), path)
        for storage in storages.values():
            check_storage(path, storage, members.get(f"{folders[0]}data/{storage.key}"))
        return described


def check_storage(path: Path, storage: Storage, data: Member | None) -> None:
    """Refuse a storage whose member is missing or has another size."""
    claimed = storage.count * storage.dtype.itemsize
    if data is None or data.size != claimed:
        has = "is missing" if data is None else f"has {data.size:,}"
        raise FileRefused(path, f"storage {shown(storage.key)} claims {claimed:,} bytes and {has}")


class LegacyTorchWeights(TorchFile):
    """Files of torch before 1.6: five pickles, then the storages. torch reads them in one piece."""

    format = "torch (legacy)"
    _mapped = False

    def _described(self, path: Path) -> Any:
        length = file_size(path)
        head = io.BytesIO(read_bytes(path, 0, min(length, _MOST_PICKLE)))
        magic, _ = describe(head, path)
        if magic != _MAGIC:
            raise FileRefused(path, "is a pickle, but not one that torch.save wrote")
        protocol, _ = describe(head, path)
        system, _ = describe(head, path)
        described, storages = describe(head, path)
        keys, _ = describe(head, path)
        if protocol != _PROTOCOL or type(system) is not dict or type(keys) is not list:
            raise FileRefused(path, "is not laid out as torch.save did before version 1.6")
        if system.get("little_endian", True) is not True:
            raise FileRefused(path, "was written on a big-endian machine")
        _check_storages(path, storages, keys, head.tell(), length)
        return described


def _check_storages(path: Path, storages: dict[str, Storage], keys: list[Any], begin: int, length: int) -> None:
    """Check the storages after the pickles: each begins with its count and must end inside the file."""
    if any(type(key) is not str for key in keys) or sorted(keys) != sorted(storages):
        raise FileRefused(path, "lists other storages than its tensors use")
    for key in keys:
        storage = storages[key]
        size = storage.count * storage.dtype.itemsize
        if begin + 8 + size > length:
            raise FileRefused(path, f"is cut short: storage {shown(key)} claims {size:,} bytes")
        if int.from_bytes(read_bytes(path, begin, 8), "little") != storage.count:
            raise FileRefused(path, f"storage {shown(key)} has another size than its tensors say")
        begin += 8 + size


# Find the weights in a checkpoint: the state dict itself, or an entry under a usual name.
#
# Every other entry with tensors gets one line (an optimiser has a hundred of them); other numbers and texts (epoch,
# accuracy) are ignored.


_NAMES = ("state_dict", "model_state_dict", "model", "module", "network", "net", "weights", "params")
_DEPTH = 3
_TRAINING = re.compile(r"optimi[sz]er|scheduler|(?:^|[_.])(?:optim|sched|scaler|amp|rng|callbacks)(?:$|[_.])", re.I)


@dataclass
class _Chosen:
    """Tensors by name, each with the keys that lead to it, and the skipped entries."""

    tensors: dict[str, tuple[tuple[Any, ...], StoredTensor]] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


def choose(root: Any, path: Path) -> _Chosen:
    """The weights in a described checkpoint."""
    if type(root) is not dict:
        what = "a single tensor" if isinstance(root, StoredTensor) else f"a {type(root).__name__.strip('_').lower()}"
        raise FileRefused(path, f"holds {what} without a name, not a state dict")
    chosen = _Chosen()
    prefix: tuple[Any, ...] = ()
    weights = root
    for _ in range(_DEPTH):
        name = _wrapped(weights)
        if name is None:
            break
        _note_others(chosen, weights, name)
        prefix, weights = (*prefix, name), weights[name]
    for key, value in weights.items():
        _take(chosen, str(key), (*prefix, key), value, path)
    if not chosen.tensors:
        raise FileRefused(path, "holds no tensors")
    return chosen


def _wrapped(candidate: dict[Any, Any]) -> str | None:
    """The key that holds the weights, None if ``candidate`` holds them directly."""
    for name in _NAMES:
        inner = candidate.get(name)
        if type(inner) is dict and any(True for _ in _tensors(inner)):
            return name
    if any(isinstance(value, StoredTensor) for value in candidate.values()):
        return None
    holders = [key for key, value in candidate.items() if type(value) is dict and any(True for _ in _tensors(value))]
    holders = [key for key in holders if not _is_training_state(key)]
    return holders[0] if len(holders) == 1 and isinstance(holders[0], str) else None


def _note_others(chosen: _Chosen, candidate: dict[Any, Any], name: str) -> None:
    for key, value in candidate.items():
        if key != name:
            _note(chosen, str(key), value, f"outside {name!r}")


def _note(chosen: _Chosen, name: str, value: Any, where: str) -> None:
    """One line for all tensors under a name, not counted: they are not weights of the network."""
    found = list(_tensors(value))
    if found:
        what = "training state" if _is_training_state(name) else where
        count = sum(tensor.count for tensor in found)
        chosen.left_out.append(LeftOut(name, (), 0, f"{what}: {len(found)} tensors, {count:,} values, not weights"))


def _take(chosen: _Chosen, name: str, keys: tuple[Any, ...], value: Any, path: Path) -> None:
    """One value of the state dict; a dictionary inside it gives its tensors under dotted names."""
    if isinstance(value, StoredTensor):
        if name in chosen.tensors:
            raise FileRefused(path, f"two tensors are called {name[:80]!r}")
        chosen.tensors[name] = (keys, value)
    elif _is_training_state(name):
        _note(chosen, name, value, "beside the weights")
    elif type(value) is dict and any(isinstance(item, StoredTensor) for item in value.values()):
        for key, item in value.items():
            if isinstance(item, StoredTensor):
                _take(chosen, f"{name}.{key}", (*keys, key), item, path)
            else:
                _note(chosen, f"{name}.{key}", item, "nested too deeply")
    elif quantised := list(_tensors(value)):
        count = sum(tensor.count for tensor in quantised)
        reason = f"a {type(value).__name__} of {len(quantised)} tensors, not a tensor"
        chosen.left_out.append(LeftOut(name, (), count, reason))


def _is_training_state(key: Any) -> bool:
    return _TRAINING.search(str(key)) is not None


def _tensors(value: Any) -> Iterator[StoredTensor]:
    """All tensors below ``value``, each container once: a pickle can contain the same list a million times."""
    seen: set[int] = set()
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, StoredTensor):
            yield item
        elif type(item) in (dict, list, tuple) and id(item) not in seen:
            seen.add(id(item))
            todo.extend(item.values() if type(item) is dict else item)
