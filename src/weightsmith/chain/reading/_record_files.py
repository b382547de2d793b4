"""Files that should hold a record: looked at before they are read, read once, taken apart as JSON and nothing else."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.storage import reading

__all__ = ["contents", "values_in"]

_MOST_BYTES = 32 << 20  # the largest of ours, of a spiking ResNet, has 2 MB
_DEEPEST = 40  # lists in lists; ours reach 10


def contents(path: Path) -> bytes:
    """The bytes of an ordinary file of a size that a record may have.

    A pipe would wait for ever and a device would never end, so that neither is opened. Whoever wants the digest of the
    file takes it of these bytes: what is digested is what is read.
    """
    with reading(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(path, "is not an ordinary file")
        if status.st_size > _MOST_BYTES:
            raise _too_large(path, status.st_size)
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:  # it grew meanwhile, or its size was told wrong, as those of /proc are
        raise _too_large(path, len(content))
    return content


def values_in(path: Path, content: bytes) -> dict[str, Any]:
    """The JSON object that ``content``, the bytes of ``path``, is; infinities are not seen here."""
    try:
        values = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise FileRefused(path, "is nested too deeply to be a record") from error
    except UsageError as error:
        raise FileRefused(path, str(error)) from error
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        reason = " ".join(str(error).split())[:120]
        raise FileRefused(path, f"is no JSON ({reason}): give a result folder, or its record.json") from error
    if not isinstance(values, dict):
        raise FileRefused(path, "holds no record: a record is a JSON object")
    if _deeper_than(values, _DEEPEST):
        raise FileRefused(path, "is nested too deeply to be a record")
    return values


def _too_large(path: Path, size: int) -> FileRefused:
    return FileRefused(path, f"has {size / 1e6:,.0f} MB: a record has at most {_MOST_BYTES / 1e6:.0f}, so this is none")


def _refuse_constant(text: str) -> None:
    raise UsageError(f"holds {text}: a record holds finite numbers or null")


def _deeper_than(values: Any, most: int) -> bool:
    level = [values]
    for _ in range(most):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in inside if isinstance(inner, dict | list)]
    return bool(level)
