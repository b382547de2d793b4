"""NumPy's ``.npy`` stream: a header in a fixed grammar, then the values. Nothing is evaluated or unpickled.

    magic   93 4E 55 4D 50 59 (NUMPY), version (2 bytes), length (2 bytes in version 1, else 4), header
    header  {'descr': TYPE, 'fortran_order': True or False, 'shape': (LENGTH, …), }, in any order, padded

NumPy passes the header to Python's own parser, which raises a dozen kinds of exceptions for a damaged one. Here a
header fits the grammar or raises a ``ValueError``. A TYPE that is a list describes records, which are not read.

>>> import io
>>> file = io.BytesIO()
>>> np.lib.format.write_array(file, np.ones((2, 3), "<f4"))
>>> _ = file.seek(0)
>>> read_header(file)
Header(shape=(2, 3), dtype=dtype('float32'), fortran=False, objects=False)
"""

from __future__ import annotations

import re
from typing import IO, Any, NamedTuple

import numpy as np

__all__ = ["Header", "read_header", "read_values"]

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}
_MOST_HEADER = 10_000  # NumPy's own limit
_MOST_AXES = 32
_BLOCK = 1 << 20
_ITEMS = {
    "descr": re.compile(r"'([<>|=]?[biufcSUVOmM?]\d{0,9}(?:\[\w{1,20}\])?)'|\[.*\]"),
    "fortran_order": re.compile(r"True|False"),
    "shape": re.compile(r"\(((?:\s*\d{1,19}L?\s*,)*(?:\s*\d{1,19}L?)?)\s*\)"),  # Python 2 wrote an L
}
_KEY, _COMMA = re.compile(r"\s*'(\w+)'\s*:\s*"), re.compile(r"\s*,")
_OBJECT = re.compile(r"'[<>|=]?O\d?'")


class Header(NamedTuple):
    """Shape, type (None: records), whether columns come first, and whether the values are pickled objects."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    fortran: bool
    objects: bool


def read_header(file: IO[bytes]) -> Header:
    """The header at the beginning of a stream; ``ValueError`` for anything else."""
    start = file.read(len(_MAGIC) + 2)
    size = _LENGTH_BYTES.get(start.removeprefix(_MAGIC))
    if size is None:
        raise ValueError("it does not begin like a NumPy array")
    length = int.from_bytes(file.read(size), "little")
    if length > _MOST_HEADER:
        raise ValueError(f"it claims a header of {length:,} bytes")
    content = file.read(length)
    if len(content) < length:
        raise ValueError("it ends inside its header")
    items = _items(content.decode("latin1"))
    code, shape = items["descr"][1], _shape(items["shape"][1])
    try:
        dtype = None if code is None else np.dtype(code)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its header names the type {code}, which does not exist") from error
    objects = _OBJECT.search(items["descr"][0]) is not None
    return Header(shape, dtype, items["fortran_order"][0] == "True", objects)


def read_values(file: IO[bytes], header: Header) -> np.ndarray[Any, Any]:
    """The values after ``header``, in a new array; ``ValueError`` if there are too few, or no plain values.

    Memory for all of them is allocated at once: the caller has compared the size with that of the file.
    """
    if header.dtype is None or header.objects:
        raise ValueError("it holds no plain values")
    values = np.empty(header.shape, header.dtype, order="F" if header.fortran else "C")
    # The transpose of an array in column order is in row order.
    rows = values.T if header.fortran else values
    view = rows.reshape(-1).view(np.uint8).data if values.nbytes else memoryview(b"")
    filled = 0
    while filled < len(view):
        block = file.read(min(_BLOCK, len(view) - filled))
        if not block:
            raise ValueError("it is cut short")
        view[filled : filled + len(block)] = block
        filled += len(block)
    return values


def _items(text: str) -> dict[str, re.Match[str]]:
    """The three items of a header by name, each as a match of its pattern."""
    inside = text.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        raise ValueError("its header is not an object in braces")
    inside, place, found = inside[1:-1], 0, dict[str, re.Match[str]]()
    while key := _KEY.match(inside, place):
        pattern = _ITEMS.get(key[1])
        item = pattern.match(inside, key.end()) if pattern is not None and key[1] not in found else None
        if item is None:
            raise ValueError(f"its header has an item {key[1]!r} that cannot be read")
        found[key[1]], place = item, item.end()
        if (comma := _COMMA.match(inside, place)) is None:
            break
        place = comma.end()
    if inside[place:].strip() or len(found) < len(_ITEMS):
        raise ValueError("its header does not name type, order and shape")
    return found


def _shape(text: str) -> tuple[int, ...]:
    if text.strip() and "," not in text:
        raise ValueError(f"its header has the shape ({text}), which is a number")
    lengths = tuple(int(length.strip().removesuffix("L")) for length in text.split(",") if length.strip())
    if len(lengths) > _MOST_AXES:
        raise ValueError(f"its header names {len(lengths)} axes")
    return lengths
