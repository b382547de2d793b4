"""Checked reads of byte ranges: from a plain file, inside its size, directly into a tensor."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading

__all__ = ["AGAIN", "file_size", "inside", "read_bytes", "read_json", "read_tensor", "shown"]

AGAIN = "copy or download it again"
"""The way out for a file that is damaged or cut off."""

_MOST_JSON = 100 << 20


def file_size(path: Path) -> int:
    """The size of a plain file; anything else (a pipe would wait forever, a device never ends) is refused."""
    with reading(path):
        status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise FileRefused(path, "is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(path, "is a pipe, socket or device, not a file")
    return status.st_size


def read_bytes(path: Path, offset: int = 0, size: int | None = None) -> bytes:
    """``size`` bytes from ``offset``, all of them or none."""
    length = file_size(path)
    size = length - offset if size is None else size
    if min(offset, size) < 0 or offset + size > length:
        raise FileRefused(path, f"is cut short: bytes {offset:,} to {offset + size:,} of {length:,}")
    with reading(path), path.open("rb") as file:
        file.seek(offset)
        content = file.read(size)
    if len(content) != size:
        raise FileRefused(path, "changed while it was read")
    return content


def read_tensor(path: Path, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The little-endian values at ``offset``, read without a second copy in memory."""
    size = math.prod(shape) * dtype.itemsize
    length = file_size(path)
    if min(offset, size) < 0 or offset + size > length:
        raise FileRefused(path, f"is cut short: bytes {offset:,} to {offset + size:,} of {length:,}")
    buffer = torch.empty(size, dtype=torch.uint8)
    with reading(path), path.open("rb", buffering=0) as file:
        file.seek(offset)
        view, filled = buffer.numpy().data, 0
        while filled < size and (got := file.readinto(view[filled:])):
            filled += got
    if filled != size:
        raise FileRefused(path, "changed while it was read")
    return buffer.view(dtype).reshape(shape)


def read_json(path: Path, content: bytes | None = None, what: str = "") -> Any:
    """JSON of a file (or of ``content`` found in it); refused if too large, too deep or with repeated keys."""
    label = f"{what} " if what else ""
    if content is None:
        if file_size(path) > _MOST_JSON:
            raise FileRefused(path, f"{label}is {file_size(path) / 1e6:,.0f} MB of JSON")
        content = read_bytes(path)
    elif len(content) > _MOST_JSON:
        raise FileRefused(path, f"{label}is {len(content) / 1e6:,.0f} MB of JSON")

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            again = next(name for name in found if names.count(name) > 1)
            raise FileRefused(path, f"{label}names {shown(again)} twice")
        return found

    try:
        return json.loads(content, object_pairs_hook=without_repeats)
    except RecursionError as error:
        raise FileRefused(path, f"{label}is nested too deeply") from error
    except ValueError as error:
        raise FileRefused(path, f"{label}is not JSON") from error


def inside(folder: Path, name: str, owner: Path) -> Path:
    """The file ``name`` in ``folder``; if it leads out of the folder, ``owner`` is refused.

    A link is followed only inside the folder, or into the ``blobs`` beside the ``snapshots`` of a hub cache, where
    every file of a snapshot is such a link.
    """
    relative = Path(name)
    if not name or "\0" in name or "\\" in name or relative.is_absolute() or relative.drive or ".." in relative.parts:
        raise FileRefused(owner, f"points to {shown(name)}, outside its folder")
    try:
        root = folder.resolve()
        target = (root / relative).resolve()
    except (OSError, RuntimeError) as error:  # circular links
        raise FileRefused(owner, f"points to {shown(name)}, which cannot be resolved") from error
    allowed = [root]
    if "snapshots" in root.parts:
        depth = len(root.parts) - 1 - root.parts[::-1].index("snapshots")
        allowed.append(Path(*root.parts[:depth], "blobs"))
    if not any(target.is_relative_to(parent) for parent in allowed):
        raise FileRefused(owner, f"points to {shown(name)}, a link that leads outside its folder")
    return root / relative


def shown(name: object) -> str:
    """A name from a file, safe for a message: one line, no control characters, not too long."""
    text = repr(name) if not isinstance(name, str) or not name.isprintable() else f"'{name}'"
    return text if len(text) <= 120 else f"{text[:100]}…'"
