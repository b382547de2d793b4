"""Every error weightsmith raises on purpose, drawn as one tree.

    WeightsmithError                exit code
    ├── UsageError                  2   the call cannot be carried out as written
    │   ├── OptionError             2   an option's value or text form is wrong
    │   ├── UnknownName             2   a name that is not in a list; suggests the nearest
    │   └── MissingExtra            2   an optional package is not installed
    ├── DataMismatch                2   data and network (or two arrays) do not fit each other
    ├── FileRefused                 3   a file that cannot be read, or must not be
    │   └── DataMissing             3   a known data set whose files were not found
    └── WorkerLost                  1   a task that ended its worker process each time it was tried

Each message names the thing, its value and the way out. The command line prints it as one line and ends with
the exit code; ``--debug`` shows the traceback. Anything else that surfaces is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from os import PathLike, fspath

__all__ = [
    "DataMismatch",
    "DataMissing",
    "FileRefused",
    "MissingExtra",
    "OptionError",
    "UnknownName",
    "UsageError",
    "WeightsmithError",
    "WorkerLost",
    "brief",
    "how_to_install",
]


class WeightsmithError(Exception):
    """The base of all errors; ``exit_code`` is the exit code of the command line."""

    exit_code = 1


class UsageError(WeightsmithError, ValueError):
    """The call cannot be carried out as written."""

    exit_code = 2


class OptionError(UsageError):
    """An option's value is out of its range, or its text form cannot be read."""


def brief(value: object, longest: int = 120) -> str:
    """The ``repr`` of a foreign value for one line of a message, without its middle if it is long.

    >>> brief("a" * 5000, 20)
    "'aaaaaaaaa…aaaaaaaa'"
    """
    return _cut(repr(value), longest)


def _cut(text: str, longest: int) -> str:
    """The text without its middle, if it is long."""
    return text if len(text) <= longest else f"{text[: longest // 2]}…{text[len(text) - (longest - 1) // 2 :]}"


class UnknownName(UsageError, LookupError):
    """A name that is not in a list.

    >>> raise UnknownName("data set", "cifar11", ["cifar10"])
    Traceback (most recent call last):
    weightsmith.core.errors.UnknownName: unknown data set 'cifar11'; did you mean 'cifar10'? (known: cifar10)
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what, self.name, self.known = what, name, tuple(sorted(known))
        near = difflib.get_close_matches(name.lower(), self.known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {what} {brief(name)}{hint} (known: {', '.join(self.known)})")

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.what, self.name, self.known)


def how_to_install(extra: str) -> str:
    """The command that installs an extra. It runs in a clone, because the project is on no package index."""
    return f"pip install '.[{extra}]' in your clone of weightsmith"


class MissingExtra(UsageError, ImportError):
    """A needed optional package is not installed; names the extra that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs an optional package: {how_to_install(extra)}")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.what, self.extra)


class DataMismatch(WeightsmithError, ValueError):
    """Data and network (or two arrays) do not fit each other."""

    exit_code = 2


class FileRefused(WeightsmithError):
    """A file that cannot be read, or must not be; names the file and the reason, in one line of bounded length.

    >>> raise FileRefused("model.pt", "it asks for os.system")
    Traceback (most recent call last):
    weightsmith.core.errors.FileRefused: model.pt: it asks for os.system
    """

    exit_code = 3

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        self.path, self.reason = fspath(path), reason
        super().__init__(f"{_cut(self.path, 400)}: {_cut(' '.join(reason.split()), 500)}")

    def __reduce__(self) -> tuple[type[FileRefused], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class DataMissing(FileRefused):
    """The files of a known data set were not found; the message lists the folders searched and how to get it."""


class WorkerLost(WeightsmithError):
    """A task ended its worker process each time it was tried (out of memory, a crash in native code)."""
