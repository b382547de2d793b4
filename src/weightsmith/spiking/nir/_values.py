"""The NIR subprocess: print all values of an HDF5 file.

    python _values.py FILE MEMORY

The HDF5 library crashes on some damaged files, so it never runs in the user's process. The file has been listed before
(``networks/readers/h5listing.py``): no links, no values from other files, no sizes beyond what it can hold. Printed are
eight bytes of length, JSON with the type, shape and offset of every dataset (or its text), then the values.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["main"]


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _text(value: Any) -> Any:
    """Text, or lists of it; anything else has no form here."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
        if not isinstance(value, list):
            return _text(value)
    if isinstance(value, list):
        return [_text(item) for item in value]
    raise TypeError(f"a value of type {type(value).__name__}")


def main(path: str, memory: str) -> None:
    """Print everything that the file holds."""
    import h5py
    import numpy as np

    _limit_memory(int(memory))
    index: dict[str, Any] = {}
    arrays: list[Any] = []
    offset = 0

    def take(name: str, item: Any) -> None:
        nonlocal offset
        value = item[()]
        if item.dtype.kind in "fiub":
            array = np.ascontiguousarray(value)
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            index[name] = {"dtype": array.dtype.str, "shape": list(item.shape), "offset": offset}
            arrays.append(array)
            offset += array.nbytes
        else:
            index[name] = {"text": _text(value)}

    with h5py.File(path, "r") as file:
        _walk(file, "", take, set())
    head = json.dumps(index).encode()
    out = sys.stdout.buffer
    out.write(len(head).to_bytes(8, "little") + head)
    for array in arrays:
        out.write(array.tobytes())


def _walk(group: Any, path: str, take: Any, seen: set[Any]) -> None:
    """Every dataset, groups in their order; a group with two names could contain itself."""
    import h5py

    address = h5py.h5o.get_info(group.id).addr
    if address in seen:
        raise ValueError(f"the group {path} has two names")
    seen.add(address)
    for name in group:
        inner = f"{path}/{name}" if path else name
        item = group[name]
        if isinstance(item, h5py.Group):
            _walk(item, inner, take, seen)
        elif isinstance(item, h5py.Dataset):
            take(inner, item)


if __name__ == "__main__":
    main(*sys.argv[1:])
