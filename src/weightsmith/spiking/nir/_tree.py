"""Read a NIR file as nested dictionaries, with the HDF5 library in a subprocess."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.readers.hdf5 import Hdf5File, ask_library
from weightsmith.networks.readers.ranges import file_size, read_bytes, read_json, shown

__all__ = ["read_tree"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MOST_EXPANSION = 200
_ALWAYS_ALLOWED = 64 << 20
_MOST_PLACES = 100_000


def read_tree(path: Path) -> dict[str, Any]:
    """The contents of ``node`` in a NIR file: groups as dictionaries, datasets as arrays, text as text."""
    length = file_size(path)
    if length < len(_SIGNATURE) or read_bytes(path, 0, len(_SIGNATURE)) != _SIGNATURE:
        raise FileRefused(path, "is not a NIR file: it is not HDF5")
    if importlib.util.find_spec("h5py") is None:
        raise MissingExtra("reading NIR files", "nir")
    total = _checked_total(path, Hdf5File(path, 0, length), length)
    content = ask_library(path, 0, length, "values", size=total)
    head = int.from_bytes(content[:8], "little")
    index = read_json(path, content[8 : 8 + head], "its list of values")
    tree: dict[str, Any] = {}
    for name, facts in index.items():
        *groups, last = name.split("/")
        inner = tree
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = facts["text"] if "text" in facts else _array(path, content, 8 + head, name, facts)
    node = tree.get("node")
    if not isinstance(node, dict):
        raise FileRefused(path, "is not a NIR file: it has no group called 'node'")
    return node


def _checked_total(path: Path, listed: Hdf5File, length: int) -> int:
    """The total bytes of all values; a file may list the same dataset or group under many names."""
    if not listed.datasets:
        raise FileRefused(path, "is not a NIR file: it is empty")
    again = [item for item in listed.datasets.values() if item.same != item.path]
    if again:
        raise FileRefused(path, f"{shown(again[0].path)} and {shown(again[0].same)} are one dataset with two names")
    total = sum(math.prod(item.shape) * np.dtype(_plain(item.dtype)).itemsize for item in listed.datasets.values())
    if total > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * length):
        raise FileRefused(path, f"expands {total / length:,.0f}× to {total / 1e9:,.1f} GB")
    if len(listed.datasets) > _MOST_PLACES:
        raise FileRefused(path, f"holds {len(listed.datasets):,} datasets, more than any network needs")
    return total


def _plain(dtype: str) -> str:
    return "<u2" if dtype == "bfloat16" else dtype


def _array(path: Path, content: bytes, begin: int, name: str, facts: dict[str, Any]) -> Any:
    """A copied array, or a number if the dataset has no dimensions."""
    shape, dtype = tuple(facts["shape"]), np.dtype(facts["dtype"])
    count = math.prod(shape)
    offset = begin + facts["offset"]
    if offset + count * dtype.itemsize > len(content):
        raise FileRefused(path, f"{shown(name)} is cut short")
    return np.frombuffer(content, dtype, count, offset).reshape(shape).copy()[()]
