"""Atomic file writes: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import secrets
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weightsmith.core.errors import FileRefused

__all__ = ["DAMAGED_ZIP", "file_digest", "reading", "remove_leftovers", "write_atomic"]

_BLOCK = 1 << 20
_LEFTOVER = re.compile(r"\..+\.([0-9]+)-[0-9a-f]{8}\.part")
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    KeyError,
    MemoryError,  # a length in a header that exceeds the memory
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""What zipfile raises on damaged archives. The command line would take an uncaught EOFError for an interrupt."""


def write_atomic(path: str | Path, content: str | bytes | Iterable[bytes]) -> Path:
    """Write ``content`` beside ``path``, force it to the disk, then rename it into place.

    Content may be an iterable of blocks, so that large files need no copy in memory. The folder is made if needed.
    """
    path = Path(path)
    blocks = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise FileRefused(path, f"cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):  # already renamed on success; on failure the clean-up must not mask the error
            temporary.unlink()
    return path


def remove_leftovers(folder: str | Path) -> None:
    """Remove the unfinished files that :func:`write_atomic` in killed processes of this machine left in ``folder``."""
    for path in Path(folder).glob(".*.part"):
        if (found := _LEFTOVER.fullmatch(path.name)) and not _runs(int(found[1])):
            with suppress(OSError):  # removed by another process, or not ours to remove
                path.unlink()


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file in hex, read block by block."""
    digest = hashlib.sha256()
    with reading(path), Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn an OSError inside the block into a :class:`FileRefused` that names ``path``."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileRefused(path, "no such file") from error
    except IsADirectoryError as error:
        raise FileRefused(path, "is a folder, not a file") from error
    except PermissionError as error:
        raise FileRefused(path, "no permission to read it") from error
    except OSError as error:
        reason = " ".join((error.strerror or str(error)).split())  # Parquet's has several lines
        raise FileRefused(path, f"cannot be read ({reason})") from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; Windows cannot open a folder and does not need it."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _runs(process: int) -> bool:
    """Whether a process with that number runs; on Windows, where the check would end it, always true."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it runs under another user
    return True
