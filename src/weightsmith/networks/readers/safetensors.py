"""safetensors: a length, a JSON header, then the values. The library checks the header against the file.

Values are then read from their offset in the file directly into a tensor, not through the library's mapping: mapped
pages stay in memory once touched, and reopening the mapping for every tensor costs more than reading the values of
small networks. A file with our seal is read once from end to end to check it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.memory import bytes_text, free_memory
from weightsmith.core.storage import reading
from weightsmith.networks.layers.forms import Form
from weightsmith.networks.readers.ranges import AGAIN, file_size, read_bytes, read_json, read_tensor, shown
from weightsmith.networks.sealed import KINDS, check_seal, is_sealed
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["SafetensorsWeights"]

_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
# What weightsmith writes into a result folder, sealed, beside a record or a journal.
_RESULT = re.compile(r"(network|checkpoint|epoch-\d+)\.safetensors")
# The library's own limit; stated here because the header is parsed before anything else is known.
_MOST_HEADER = 100_000_000


def _is_result(path: Path) -> bool:
    beside = (path.parent / name for name in ("record.json", "journal.jsonl"))
    return _RESULT.fullmatch(path.name) is not None and any(file.is_file() for file in beside)


class SafetensorsWeights(Weights):
    """A single ``.safetensors`` file."""

    format = "safetensors"

    def __init__(self, path: Path) -> None:
        begin = 8 + _header_length(path)
        stored, left_out = [], []
        with _opened(path) as file:
            for name in file.offset_keys():
                piece = file.get_slice(name)
                shape, code = tuple(piece.get_shape()), str(piece.get_dtype())
                entry = Entry(name, shape, _TYPES.get(code, "uint8"))
                if code in _TYPES:
                    stored.append(entry)
                else:
                    left_out.append(LeftOut(name, shape, entry.parameters, f"stored as {code}, which is not read"))
            metadata = file.metadata() or {}
        header = read_json(path, read_bytes(path, 8, begin - 8), "its header")
        self._offsets = {entry.name: begin + header[entry.name]["data_offsets"][0] for entry in stored}
        self._length = file_size(path)
        kinds: dict[str, str] = {}
        if is_sealed(metadata):
            check_seal(path, metadata)
            kinds = _kinds(path, metadata.get(KINDS, "{}"))
        elif _is_result(path):
            raise FileRefused(
                path,
                "is in a result folder without the seal of weightsmith's networks: the file was replaced or its seal "
                "removed; move it out of the folder to read it as the file of another tool",
            )
        super().__init__(path, stored, metadata=metadata, left_out=left_out, kinds=kinds)

    def _read(self, name: str) -> Tensor:
        if file_size(self.path) != self._length:
            raise FileRefused(self.path, "changed while it was read")
        entry = self.stored[name]
        return read_tensor(self.path, self._offsets[name], entry.shape, entry.torch_dtype)


def _kinds(path: Path, text: str) -> dict[str, str]:
    """The kinds of layers that a network file of ours states."""
    found = read_json(path, text.encode(), "its kinds of layers")
    try:
        return {name: str(Form.parse(kind)) for name, kind in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise FileRefused(path, f"states kinds of layers that do not exist ({shown(error)})") from error


def _header_length(path: Path) -> int:
    """The length in the first eight bytes, checked here because the library's own message is less precise."""
    length = file_size(path)
    if length < 8:
        raise FileRefused(path, f"is too short for a safetensors file ({length} bytes)")
    header = int.from_bytes(read_bytes(path, 0, 8), "little")
    if header > _MOST_HEADER:
        raise FileRefused(path, f"is not a safetensors file: it claims a header of {header:,} bytes")
    if 8 + header > length:
        raise FileRefused(path, f"is cut short: a header of {header:,} bytes in a file of {length:,}; {AGAIN}")
    return header


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with reading(path), safe_open(path, framework="pt") as file:
            yield file
    except MemoryError as error:
        size, free = bytes_text(file_size(path)), bytes_text(free_memory())
        raise FileRefused(path, f"needs {size} of memory to be mapped, but {free} are free") from error
    except SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        raise FileRefused(path, f"is a damaged or cut-off safetensors file ({shown(reason)}); {AGAIN}") from error
