"""Arrays by name from a NumPy archive; sizes are checked before reading, and nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import FileRefused
from weightsmith.core.npy import read_header, read_values
from weightsmith.core.storage import DAMAGED_ZIP, reading
from weightsmith.data.arrays import checked_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_arrays", "read_npz"]


def read_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """The arrays ``x`` (rows, sequences or images; uint8, int64 or float32) and ``y``.

    A row of ``y`` is a whole number or text (its class), booleans (labels) or numbers (values to predict).
    """
    x, y = read_arrays(path, ("x", "y"))
    one = y.ndim == 1 and y.dtype.kind in "iuUbf"
    if not (one or (y.ndim == 2 and y.shape[1] and y.dtype.kind in "iubf")) or len(x) != len(y) or not len(y):
        raise FileRefused(
            path,
            f"y must be one whole number, text or a row of numbers per row of x {x.shape}, not {y.dtype} {y.shape}",
        )
    if x.ndim not in (2, 3, 4) or (x.ndim == 3 and x.dtype == np.uint8):
        shapes = "rows (n, features), sequences (n, steps, features) or images (n, channels, height, width)"
        raise FileRefused(path, f"x must be {shapes}, not {x.dtype} {x.shape}")
    if x.dtype == np.uint8:
        return x, y
    if x.dtype.kind in "iu":
        return x.astype(np.int64), y  # tokens, or a table of whole numbers
    if x.dtype.kind not in "iufb":
        raise FileRefused(path, f"x must be numbers, not {x.dtype}")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite, and is refused below
        numbers = x.astype(np.float32)
    if y.dtype.kind == "f" and (np.isinf(y) | (np.abs(y) > np.finfo(np.float32).max)).any():
        raise FileRefused(path, "y holds an infinite number, or one too large")
    if np.isinf(numbers).any():
        raise FileRefused(path, f"row {int(np.argwhere(np.isinf(numbers))[0][0])} of x holds an infinite number")
    return numbers, y


def read_arrays(path: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """The arrays called ``names``, in this order; other members of the archive are ignored."""
    with reading(path):
        try:
            with zipfile.ZipFile(path) as archive:
                return [_member(path, archive, name) for name in names]
        except DAMAGED_ZIP as error:
            raise FileRefused(path, f"is not a readable NumPy archive ({error})") from error


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    if f"{name}.npy" not in archive.namelist():
        members = ", ".join(item.removesuffix(".npy") for item in archive.namelist()[:10])
        raise FileRefused(path, f"has no array {name!r}, only {members or 'nothing'}")
    member = archive.getinfo(f"{name}.npy")
    checked_size(path, member.file_size, f"array {name!r}")
    with archive.open(member) as file:
        header = read_header(file)
        size = None if header.dtype is None else prod(header.shape) * header.dtype.itemsize
        # Memory is allocated for the size in the header before reading: it must not exceed the size of the member.
        if size is None or header.objects or size > member.file_size:
            kind = "records" if header.dtype is None else header.dtype
            raise FileRefused(
                path, f"array {name!r} claims {kind} {header.shape}, which its {member.file_size:,} bytes cannot hold"
            )
        return read_values(file, header)
