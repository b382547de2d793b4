"""Record files: size checks before reading, one read, and plain JSON parsing."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import unsealed
from weightsmith.core.storage import reading

__all__ = ["contents", "values_in"]

_MOST_BYTES = 32 << 20  # our largest, of a spiking ResNet, has 2 MB
_DEEPEST = 40  # nesting depth; ours reach 10


def contents(path: Path) -> bytes:
    """The bytes of an ordinary file of plausible size for a record.

    Pipes and devices, which may block or never end, are not opened. Compute digests from these bytes, so that
    the digest is that of the content read.
    """
    with reading(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(path, "is not an ordinary file")
        if status.st_size > _MOST_BYTES:
            raise _too_large(path, status.st_size)
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:  # it grew meanwhile, or the reported size was wrong, as in /proc
        raise _too_large(path, len(content))
    return content


def values_in(path: Path, content: bytes) -> dict[str, Any]:
    """The JSON object in ``content``, the bytes of ``path``; infinities are not checked here."""
    try:
        values = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise FileRefused(path, "is nested too deeply to be a record") from error
    except UsageError as error:
        raise FileRefused(path, str(error)) from error
    except ValueError as error:  # not UTF-8, not JSON, or a number with thousands of digits
        reason = " ".join(str(error).split())[:120]
        raise FileRefused(path, f"is not JSON ({reason}): give a result folder, or its record.json") from error
    if not isinstance(values, dict):
        raise FileRefused(path, "holds no record: a record is a JSON object")
    if _deeper_than(values, _DEEPEST):
        raise FileRefused(path, "is nested too deeply to be a record")
    try:
        return unsealed(values)  # type: ignore[no-any-return]  # an object in, an object out
    except UsageError as error:
        raise FileRefused(path, str(error)) from error


def _too_large(path: Path, size: int) -> FileRefused:
    return FileRefused(path, f"has {size / 1e6:,.0f} MB, too large for a record (at most {_MOST_BYTES / 1e6:.0f} MB)")


def _refuse_constant(text: str) -> None:
    raise UsageError(f"holds {text}: a record holds finite numbers or null")


def _deeper_than(values: Any, most: int) -> bool:
    level = [values]
    for _ in range(most):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in inside if isinstance(inner, dict | list)]
    return bool(level)
