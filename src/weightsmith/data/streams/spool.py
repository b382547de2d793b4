"""Rows that come only once and in one order, kept in a temporary file, so that they can be read again in any order.

The rows of an iterable data set cannot be shuffled, divided or read a second time. They are read once; rows that do not
fit into memory go to a file in the temporary folder (TMPDIR sets another), which is removed when nothing refers to it
any more.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.memory import bytes_text
from weightsmith.core.storage import file_digest
from weightsmith.data.streams.rows import Rows, in_threads

__all__ = ["Spool", "SpooledRows", "TemporaryFile"]

_LEFT = 1 << 30  # bytes that stay free on the disk
_CHECK = 1 << 28  # bytes written between two checks of the disk


class TemporaryFile:
    """A file in the temporary folder that is removed with this object; a copy in another process only reads it."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="weightsmith-rows-")
        os.close(handle)
        self.path = Path(name)
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __getstate__(self) -> Path:
        return self.path

    def __setstate__(self, path: Path) -> None:
        self.path = path


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked process
        with suppress(OSError):
            path.unlink()


class Spool:
    """Blocks of bytes written one after another; refused with the needed size before the disk is full."""

    def __init__(self, what: str) -> None:
        self.file = TemporaryFile()
        self._what, self._written, self._checked = what, 0, 0
        self._out = self.file.path.open("wb")

    def write(self, content: memoryview | bytes, expected: int = 0) -> int:
        """Append a block; returns where it begins. ``expected`` is the total number of bytes, if known."""
        begin, size = self._written, len(content)
        if begin == 0 or begin + size - self._checked > _CHECK:
            self._checked = begin
            free = shutil.disk_usage(self.file.path.parent).free
            if free - max(expected - begin, size) < _LEFT:
                raise FileRefused(
                    self.file.path.parent,
                    f"{self._what} does not fit into memory and would be kept here "
                    f"({bytes_text(max(expected, begin + size))} so far), but {bytes_text(free)} are free; "
                    "set TMPDIR to a larger disk",
                )
        self._out.write(content)
        self._written += size
        return begin

    def close(self) -> None:
        """Close the file after the last block."""
        self._out.close()


@dataclass(frozen=True)
class SpooledRows:
    """Rows of one shape and type, one after another in a file."""

    file: TemporaryFile
    shape: tuple[int, ...]
    dtype: torch.dtype

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The rows of each batch."""
        return in_threads(self._taken, batches)

    def _taken(self, rows: Rows) -> Tensor:
        size = math.prod(self.shape[1:]) * self.dtype.itemsize
        values = torch.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        places = values.view(torch.uint8).reshape(len(rows), size).numpy() if len(rows) else np.empty((0, size))
        with self.file.path.open("rb", buffering=0) as file:
            for place, row in zip(places, rows, strict=True):
                file.seek(int(row) * size)
                file.readinto(place.data)
        return values

    def identity(self) -> str:
        """The digest of the file."""
        return file_digest(self.file.path)
