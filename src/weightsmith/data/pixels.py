"""Decoded pixels, kept in the cache so that a data set is decoded once.

A file ``decoded/<digest of the source>-<digest of this file>.npz`` is found by its first half and proved by its
second: a damaged one is removed and the pixels are decoded again. A cache that cannot be written is no error.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weightsmith.core.errors import FileRefused
from weightsmith.core.records import digest_of
from weightsmith.core.storage import file_digest, write_atomic
from weightsmith.data.places import cache_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Pixels", "cached_pixels"]


class Pixels(NamedTuple):
    """Images ``(n, c, h, w)`` and how many of them were stored with loss."""

    pixels: NDArray[np.uint8]
    lossy: int


def cached_pixels(source: str, decode: Callable[[], Pixels]) -> Pixels:
    """The pixels of the file with digest ``source``: from the cache, or decoded and put there."""
    folder = cache_folder() / "decoded"
    for path in sorted(folder.glob(f"{source}-*.npz")):
        found = _read(path)
        if found is not None:
            return found
        with suppress(OSError):  # another process may have removed it, or the folder may be read-only
            path.unlink()
    decoded = decode()
    _write(folder, source, decoded)
    return decoded


def _read(path: Path) -> Pixels | None:
    """What the file holds, or None if it is not what was written."""
    try:
        if file_digest(path) != path.stem.partition("-")[2]:
            return None
    except FileRefused:
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return Pixels(arrays["pixels"], int(arrays["lossy"]))


def _write(folder: Path, source: str, decoded: Pixels) -> None:
    file = io.BytesIO()
    np.savez(file, pixels=decoded.pixels, lossy=np.int64(decoded.lossy))
    content = file.getvalue()
    with suppress(FileRefused):
        write_atomic(folder / f"{source}-{digest_of(content)}.npz", content)
