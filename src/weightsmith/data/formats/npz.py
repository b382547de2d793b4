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
    """The arrays ``x`` (rows or images; uint8 or float32) and ``y`` (one whole number or text per row)."""
    x, y = read_arrays(path, ("x", "y"))
    if y.ndim != 1 or len(x) != len(y) or y.dtype.kind not in "iuU" or not len(y):
        raise FileRefused(path, f"y must be one whole number or text per row of x {x.shape}, not {y.dtype} {y.shape}")
    if x.ndim not in (2, 4):
        raise FileRefused(path, f"x must be rows (n, features) or images (n, channels, height, width), not {x.shape}")
    if x.dtype == np.uint8:
        return x, y
    if x.dtype.kind not in "iufb":
        raise FileRefused(path, f"x must be numbers, not {x.dtype}")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused below
        numbers = x.astype(np.float32)
    if np.isinf(numbers).any():
        raise FileRefused(path, f"row {int(np.argwhere(np.isinf(numbers))[0][0])} of x holds an infinite number")
    return numbers, y


def read_arrays(path: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """The arrays called ``names``, in this order; whatever else the archive holds is not looked at."""
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
        # Room is taken for what the header says before it is read: it must not say more than there is.
        if size is None or header.objects or size > member.file_size:
            kind = "records" if header.dtype is None else header.dtype
            raise FileRefused(
                path, f"array {name!r} claims {kind} {header.shape}, which its {member.file_size:,} bytes cannot hold"
            )
        return read_values(file, header)
