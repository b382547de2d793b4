"""A journal: finished results in an append-only file, so that a killed run resumes where it stopped.

Each line is a JSON object that ends with a digest chained over the one before it:

    {"journal": 1, "call": {…}, "digest": "…"}                      the call whose results these are
    {"key": "…", "value": …, "seconds": 1.2, "digest": "…"}         one line per finished result

    digest = SHA-256(digest of the line before + this line without its digest)

A line counts once it is on disk with its line end. The unfinished last line of a killed process is cut off, and its
unfinished files in the folder are removed; any other change of what was written is damage and refused. Durations are
stored only here.
"""

from __future__ import annotations

import json
import os
import reprlib
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import digest_of
from weightsmith.core.storage import reading, remove_leftovers, write_atomic

__all__ = ["Journal", "JournalContent", "claimed", "read_journal"]


_FORMAT = 1
_SHOWN, _TAIL = 80, 12  # characters shown of two texts that differ: around the first difference, and the end
_LONGEST = 1 << 26  # bytes in a line: far more than any result has, so that a foreign file cannot fill the memory


@dataclass(frozen=True)
class JournalContent:
    """The content of a journal file: the call, results and durations by key, and the end of the valid part."""

    call: dict[str, Any]
    values: dict[str, Any]
    seconds: dict[str, float]
    digest: str
    end: int


class Journal(Mapping[str, Any]):
    """The finished results of one call, by key; :meth:`append` adds one and returns when it is safe on disk.

    ``call`` describes the call as JSON values (function, settings, seed, versions). A journal that exists is read and
    checked; one that belongs to another call, or that another process has open, is a :class:`UsageError`.

        with Journal("runs/journal.jsonl", {"function": "train", "seed": 0}) as journal:
            if "a" not in journal:
                journal.append("a", compute(), seconds=1.2)
    """

    def __init__(self, path: str | Path, call: Mapping[str, Any]) -> None:
        self.path = Path(path)
        wanted = _plain(call, f"{self.path}: the call")
        with ExitStack() as undo:
            self._lock = _Lock(self.path)
            undo.callback(self._lock.release)
            remove_leftovers(self.path.parent)
            if not self.path.exists():
                write_atomic(self.path, _line("", {"journal": _FORMAT, "call": wanted})[0])
            found = read_journal(self.path)
            _check_same_call(self.path, found.call, wanted)
            self._values, self._seconds = found.values, found.seconds
            self._digest, self._end = found.digest, found.end
            with reading(self.path):
                self._file = self.path.open("r+b", buffering=0)
                self._file.truncate(self._end)
            undo.pop_all()

    def append(self, key: str, value: Any, seconds: float) -> None:
        """Add the result ``value`` (JSON values) of ``key``, which took ``seconds``; returns when it is on disk."""
        if self._file.closed:
            raise UsageError(f"{self.path}: the journal is closed")
        if key in self._values:
            raise UsageError(f"{self.path}: {key!r} is in the journal already")
        row = _plain({"key": key, "value": value, "seconds": float(seconds)}, f"{self.path}: {key!r}")
        line, digest = _line(self._digest, row)
        try:
            self._file.seek(self._end)
            written = 0
            while written < len(line):
                written += self._file.write(line[written:])
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):  # otherwise the next write overwrites it, or the next opening cuts it off
                self._file.truncate(self._end)
            raise FileRefused(self.path, f"cannot be written ({error.strerror or error})") from error
        self._digest, self._end = digest, self._end + len(line)
        self._values[key], self._seconds[key] = row["value"], row["seconds"]

    def seconds(self, key: str) -> float:
        """How long the result of ``key`` took to compute."""
        return self._seconds[key]

    def close(self) -> None:
        """Close the file and release its lock; a second call does nothing."""
        self._file.close()
        self._lock.release()

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: str | Path) -> JournalContent:
    """Read and check a journal without opening it for writing; an unfinished last line is left out."""
    path = Path(path)
    content: JournalContent | None = None
    with reading(path), path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), start=1):
            if line.endswith(b"\n"):
                content = _with_line(path, number, line, content)
            elif len(line) == _LONGEST or content is None:
                raise FileRefused(path, f"line {number} is not a line of a journal")
            elif _is_whole(line[:-1] + b"\n", content):
                raise FileRefused(path, f"line {number} is damaged: its line end was changed")
    if content is None:
        raise FileRefused(path, "is empty, not a journal")
    return content


def _with_line(path: Path, number: int, line: bytes, before: JournalContent | None) -> JournalContent:
    """The content so far with one more line, checked; the lists of results are shared, not copied."""
    row = _parsed(path, number, line)
    digest = row.pop("digest")
    if not _is_line(line, before.digest if before else "", row, digest):
        raise FileRefused(path, f"line {number} is damaged: it does not match its digest")
    if before is None:
        if set(row) != {"journal", "call"} or row["journal"] != _FORMAT:
            raise FileRefused(path, f"is not a journal of format {_FORMAT}, the one this version reads")
        return JournalContent(row["call"], {}, {}, digest, len(line))
    if set(row) != {"key", "value", "seconds"} or not isinstance(row["key"], str) or row["key"] in before.values:
        raise FileRefused(path, f"line {number} is not a new result")
    before.values[row["key"]], before.seconds[row["key"]] = row["value"], row["seconds"]
    return replace(before, digest=digest, end=before.end + len(line))


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileRefused(path, f"line {number} is damaged: it is not JSON") from error
    if not isinstance(row, dict) or "digest" not in row:
        raise FileRefused(path, f"line {number} is not a line of a journal")
    return row


def _is_whole(line: bytes, before: JournalContent) -> bool:
    """Whether ``line`` is complete: a killed process leaves part of a line, never a different line end."""
    try:
        row = json.loads(line)
        digest = row.pop("digest") if isinstance(row, dict) else None
        return digest is not None and _is_line(line, before.digest, row, digest)
    except (ValueError, KeyError, RecursionError):
        return False


def _is_line(line: bytes, digest_before: str, row: dict[str, Any], digest: Any) -> bool:
    """Whether ``row``, written again, gives ``line`` byte for byte, so that no change of spelling goes unnoticed."""
    try:
        return _line(digest_before, row) == (line, digest)
    except ValueError:  # NaN or infinity, which json.loads accepts
        return False


def _line(digest_before: str, row: Mapping[str, Any]) -> tuple[bytes, str]:
    """A row as written to the file, and its digest."""
    body = json.dumps(row, allow_nan=False)[:-1]
    digest = digest_of(digest_before + body)
    return f'{body}, "digest": "{digest}"}}\n'.encode(), digest


def _plain(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """``value`` after a round trip through JSON, so that a fresh result and a resumed one are equal."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where} cannot be written as JSON ({error})") from error
    return plain


def _check_same_call(path: Path, written: dict[str, Any], wanted: dict[str, Any]) -> None:
    difference = _difference(written, wanted, "")
    if difference:
        raise UsageError(
            f"{path} belongs to another call ({difference}); use another folder, or delete the file to start over"
        )


def _difference(written: Any, wanted: Any, where: str) -> str | None:
    """The first difference of two JSON values, in words."""
    if isinstance(written, dict) and isinstance(wanted, dict):
        for key in [*written, *(key for key in wanted if key not in written)]:
            inner = f"{where}.{key}" if where else key
            if key not in wanted or key not in written:
                return f"{inner} is only in {'the journal' if key in written else 'this call'}"
            if found := _difference(written[key], wanted[key], inner):
                return found
        return None
    if isinstance(written, list) and isinstance(wanted, list):
        if len(written) != len(wanted):
            return f"{where} has {len(written)} values in the journal and {len(wanted)} in this call"
        pairs = enumerate(zip(written, wanted, strict=True))
        return next((found for i, (a, b) in pairs if (found := _difference(a, b, f"{where}[{i}]"))), None)
    if type(written) is type(wanted) and written == wanted:
        return None
    first, second = _short(written, wanted), _short(wanted, written)
    return f"{where} is {first} in the journal and {second} in this call"


def _short(value: Any, other: Any) -> str:
    """A short form of a value; for a long text, the part around its first difference from ``other``, and its end.

    >>> _short("x" * 200 + "30,generations=60", "x" * 200 + "40,generations=60").partition("30")
    ("'…xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", '30', ",generations=60'")
    """
    if not isinstance(value, str) or not isinstance(other, str) or len(value) <= _SHOWN:
        return reprlib.repr(value)
    same = next((index for index, pair in enumerate(zip(value, other, strict=False)) if len(set(pair)) > 1), _SHOWN)
    start = min(max(0, same - _SHOWN // 2), len(value) - _SHOWN)
    end = start + _SHOWN
    rest = "" if end == len(value) else f"…{value[-_TAIL:]}"
    return repr(f"{'…' * (start > 0)}{value[start:end]}{rest}")


@contextmanager
def claimed(folder: str | Path, file: str = "journal.jsonl") -> Iterator[None]:
    """Lock a folder, or one file in it, while results are made without a journal: a second process is refused.

    A folder that was created for the lock and is still empty is removed again.
    """
    there, lock = Path(folder).exists(), _Lock(Path(folder) / file)
    try:
        yield
    finally:
        lock.release()
        if not there:
            with suppress(OSError):  # it is not empty
                Path(folder).rmdir()


# A file lock that the operating system releases when its process ends.


class _Lock:
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
        """Release the lock; a second call does nothing."""
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
