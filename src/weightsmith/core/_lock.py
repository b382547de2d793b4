"""A lock that one process at a time can hold, and that ends with its holder, however that ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from weightsmith.core.errors import FileRefused, UsageError

__all__ = ["Lock"]


class Lock:
    """Hold ``.NAME.lock`` beside ``path`` until :meth:`release`; a :class:`UsageError` if someone else holds it.

    The lock is a file of its own because ``path`` itself may be replaced. On Windows nothing is locked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f".{path.name}.lock")
        self._handle: int | None = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            while self._handle is None:
                self._handle = _locked(self._path)
        except BlockingIOError as error:
            raise UsageError(f"{path} is in use by another process; wait for it, or use another folder") from error
        except OSError as error:
            raise FileRefused(path, f"cannot be locked ({error.strerror or error})") from error

    def release(self) -> None:
        """Let the next one have it; again is harmless."""
        if self._handle is not None:
            if sys.platform != "win32":
                self._path.unlink(missing_ok=True)  # while it is still held: see _locked
            os.close(self._handle)
            self._handle = None


def _locked(path: Path) -> int | None:
    """The handle of the locked file, or None if its last holder removed it between opening and locking."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform == "win32":
            return handle
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:
            return handle
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None
