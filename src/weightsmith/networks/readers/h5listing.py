"""The HDF5 subprocess: list the contents of a file, or print one packed dataset.

The HDF5 library crashes on some damaged files (measured: one in a few thousand with flipped bytes), so it never runs
in the user's process. This file is executed as a script and needs nothing but h5py:

    python h5listing.py FILE BEGIN LENGTH [DATASET SIZE]

It prints JSON, or the values of DATASET in C order. What could lead out of the file is refused here.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

__all__ = ["main"]

_MOST_OBJECTS = 200_000
_MOST_DEPTH = 64
_MOST_TEXT = 64 << 20
_MOST_EXPANSION = 200
_ALWAYS_ALLOWED = 64 << 20
_MEMORY = 4 << 30
_ATTRIBUTES = ("name", "layer_names", "weight_names", "model_config", "keras_version", "backend")


class _Refused(Exception):
    """The reason is printed and becomes a ``FileRefused`` in the parent."""


class _Window(io.RawIOBase):
    """A byte range of a file as a file object: the HDF5 member of a zip archive, read in place."""

    def __init__(self, path: str, begin: int, length: int) -> None:
        self._file = open(path, "rb")  # noqa: PTH123, SIM115 (a script of its own; closed with the process)
        self._begin, self._length, self._offset = begin, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._offset = offset + (0, self._offset, self._length)[whence]
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._length - self._offset))
        self._file.seek(self._begin + self._offset)
        content = self._file.read(count)
        buffer[: len(content)] = content
        self._offset += len(content)
        return len(content)


def _limit_memory(more: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY + more, _MEMORY + more))


def _plain(value: Any) -> Any:
    """An attribute as text or a list of texts; other types are of no interest."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value[:_MOST_TEXT]
    if hasattr(value, "tolist"):
        listed = value.tolist()
        return [_plain(item) for item in listed] if isinstance(listed, list) else _plain(listed)
    return str(value)


def _attributes(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in item.attrs:
        # Long lists are cut into name0, name1 … by Keras.
        if name.rstrip("0123456789") in _ATTRIBUTES:
            found[name] = _plain(item.attrs[name])
    return found


def _dataset(path: str, item: Any, length: int) -> dict[str, Any]:
    if item.is_virtual or item.external:
        raise _Refused(f"dataset {path!r} takes its values from another file")
    declared = item.dtype.itemsize
    for count in item.shape or ():
        declared *= count
    stored = item.id.get_storage_size()
    offset = item.id.get_offset() if stored == declared else None
    if declared and not stored:
        raise _Refused(f"dataset {path!r} claims {declared:,} bytes and has none")
    if offset is not None and offset + declared > length:
        raise _Refused(f"is cut short: dataset {path!r} ends at {offset + declared:,} of {length:,} bytes")
    if declared > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * stored):
        raise _Refused(f"dataset {path!r} expands {declared / stored:,.0f}× to {declared / 1e9:,.1f} GB")
    return {
        "path": path,
        "shape": list(item.shape or ()),
        "dtype": "bfloat16" if _plain(item.attrs.get("dtype", "")) == "bfloat16" else item.dtype.str,
        "offset": offset,
        "packed": stored,
    }


def _listing(root: Any, length: int) -> dict[str, Any]:
    import h5py

    groups: dict[str, Any] = {"": _attributes(root)}
    datasets: list[dict[str, Any]] = []
    seen: dict[Any, str] = {h5py.h5o.get_info(root.id).addr: ""}
    todo = [("", root, 0)]
    while todo:
        path, group, depth = todo.pop()
        for name in group:
            full = f"{path}/{name}" if path else name
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise _Refused(f"{full!r} is a link to somewhere else")
            item = group[name]
            if isinstance(item, h5py.Datatype):
                continue
            address = h5py.h5o.get_info(item.id).addr
            if isinstance(item, h5py.Dataset):
                datasets.append({**_dataset(full, item, length), "same": seen.setdefault(address, full)})
            elif address not in seen:
                seen[address] = full
                groups[full] = _attributes(item)
                todo.append((full, item, depth + 1))
            if depth > _MOST_DEPTH or len(seen) > _MOST_OBJECTS:
                raise _Refused("has more groups than a network can need")
    return {"groups": groups, "datasets": datasets}


def main(path: str, begin: int, length: int, dataset: str | None = None, size: str = "0") -> None:
    """List the file, or write the values of one dataset, to standard output."""
    import h5py

    _limit_memory(2 * int(size))
    out = sys.stdout.buffer
    try:
        with h5py.File(io.BufferedReader(_Window(path, begin, length), 1 << 16), "r") as file:
            if dataset is None:
                out.write(json.dumps(_listing(file, length)).encode())
            else:
                out.write(file[dataset][()].tobytes())
    except _Refused as error:
        out.write(json.dumps({"refused": str(error)}).encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
