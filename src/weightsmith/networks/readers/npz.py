"""NumPy's ``.npz``: a zip archive of ``.npy`` files. Pickled objects are refused, sizes checked against the archive."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.ranges import shown
from weightsmith.networks.readers.zips import DAMAGED_ZIP, Member, read_directory
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["NpzWeights"]

# What NumPy raises on a header that is not one; the last two come from its use of Python's own parser.
_DAMAGED_HEADER = (*DAMAGED_ZIP, SyntaxError, TypeError, KeyError, RecursionError, MemoryError)


class NpzWeights(Weights):
    """A ``.npz`` file, arrays by their names; layouts are taken as torch's (out × in × kernel)."""

    format = "npz"

    def __init__(self, path: Path) -> None:
        self._members: dict[str, Member] = {}
        stored, left_out = [], []
        members = read_directory(path)
        with reading(path), zipfile.ZipFile(path) as archive:
            for member in members.values():
                name = member.name.removesuffix(".npy")
                shape, dtype = _header(path, archive, member)
                kind = _torch_name(dtype)
                if kind is None:
                    left_out.append(LeftOut(name, shape, 0, f"an array of {dtype}, not real numbers"))
                    continue
                self._members[name] = member
                stored.append(Entry(name, shape, kind))
        super().__init__(path, stored, left_out=left_out)

    def _read(self, name: str) -> Tensor:
        member = self._members[name]
        with reading(self.path), zipfile.ZipFile(self.path) as archive:
            try:
                with archive.open(member.name) as file:
                    shape, dtype, fortran = _parsed(file)
                    values = np.empty(shape[::-1] if fortran else shape, dtype)
                    _fill(file, values)
            except (*_DAMAGED_HEADER, EOFError) as error:
                raise FileRefused(self.path, f"array {shown(name)} is damaged or cut short") from error
        if shape != self.stored[name].shape:
            raise FileRefused(self.path, "changed while it was read")
        native = values.astype(dtype.newbyteorder("="), copy=False)
        result = torch.from_numpy(native)
        return result.permute(*range(result.ndim)[::-1]).contiguous() if fortran else result


def _header(path: Path, archive: zipfile.ZipFile, member: Member) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    try:
        with archive.open(member.name) as file:
            shape, dtype, _ = _parsed(file)
            begin = file.tell()
    except _DAMAGED_HEADER as error:
        raise FileRefused(path, f"{shown(member.name)} is not a NumPy array, or damaged") from error
    if dtype.hasobject:
        raise FileRefused(path, f"array {shown(member.name)} holds pickled Python objects, which can run code")
    size = dtype.itemsize
    for count in shape:
        size *= count
    if begin + size != member.size:
        raise FileRefused(path, f"array {shown(member.name)} claims {size:,} bytes and has {member.size - begin:,}")
    return shape, dtype


def _parsed(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic], bool]:
    """Shape, type and Fortran order from the head of a ``.npy`` stream; NumPy limits its length itself."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"version {version} of the format")
    if any(count < 0 for count in shape):
        raise ValueError("a negative length")
    return tuple(shape), dtype, bool(fortran)


def _fill(file: IO[bytes], values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    view = values.reshape(-1).view(np.uint8).data if values.size else memoryview(b"")
    filled = 0
    while filled < len(view):
        block = file.read(min(1 << 20, len(view) - filled))
        if not block:
            raise EOFError
        view[filled : filled + len(block)] = block
        filled += len(block)


def _torch_name(dtype: np.dtype[np.generic]) -> str | None:
    """The name of a type that both libraries have, None for text, records, dates and complex numbers."""
    name = dtype.newbyteorder("=").name
    known = dtype.kind in "fiub" and isinstance(getattr(torch, name, None), torch.dtype)
    return name if known else None
