"""NumPy's ``.npz``: a zip archive of ``.npy`` files. Pickled objects are refused, sizes checked against the archive."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.npy import Header, read_header, read_values
from weightsmith.core.storage import DAMAGED_ZIP, reading
from weightsmith.networks.readers.ranges import shown
from weightsmith.networks.readers.zips import Member, read_directory
from weightsmith.networks.weights import Entry, LeftOut, Weights

__all__ = ["NpzWeights"]


class NpzWeights(Weights):
    """A ``.npz`` file, arrays by their names; torch's layout (out × in × kernel) is assumed."""

    format = "npz"

    def __init__(self, path: Path) -> None:
        self._members: dict[str, Member] = {}
        stored, left_out = [], []
        members = read_directory(path)
        with reading(path), zipfile.ZipFile(path) as archive:
            for member in members.values():
                name = member.name.removesuffix(".npy")
                header = _header(path, archive, member)
                kind = _torch_name(header.dtype)
                if kind is None:
                    held = "records" if header.dtype is None else header.dtype
                    left_out.append(LeftOut(name, header.shape, 0, f"an array of {held}, not real numbers"))
                    continue
                self._members[name] = member
                stored.append(Entry(name, header.shape, kind))
        super().__init__(path, stored, left_out=left_out)

    def _read(self, name: str) -> Tensor:
        entry, member = self.stored[name], self._members[name]
        with reading(self.path):
            try:
                with zipfile.ZipFile(self.path) as archive, archive.open(member.name) as file:
                    header = read_header(file)
                    if header.shape != entry.shape or _torch_name(header.dtype) != entry.dtype:
                        raise FileRefused(self.path, "changed while it was read")
                    values = read_values(file, header)
            except DAMAGED_ZIP as error:
                raise FileRefused(self.path, f"array {shown(name)} is damaged or cut short") from error
        return torch.from_numpy(values.astype(values.dtype.newbyteorder("="), copy=False)).contiguous()


def _header(path: Path, archive: zipfile.ZipFile, member: Member) -> Header:
    try:
        with archive.open(member.name) as file:
            header = read_header(file)
            begin = file.tell()
    except DAMAGED_ZIP as error:
        raise FileRefused(path, f"{shown(member.name)} is not a NumPy array, or damaged") from error
    if header.objects:
        raise FileRefused(path, f"array {shown(member.name)} holds pickled Python objects, which can run code")
    size = None if header.dtype is None else math.prod(header.shape) * header.dtype.itemsize
    if size is not None and begin + size != member.size:
        raise FileRefused(path, f"array {shown(member.name)} claims {size:,} bytes and has {member.size - begin:,}")
    return header


def _torch_name(dtype: np.dtype[Any] | None) -> str | None:
    """The name of a type that both libraries have, None for text, records, dates and complex numbers."""
    if dtype is None:
        return None
    name = dtype.newbyteorder("=").name
    known = dtype.kind in "fiub" and isinstance(getattr(torch, name, None), torch.dtype)
    return name if known else None
