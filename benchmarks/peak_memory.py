"""The peak memory of one call in a process of its own: ``python -m benchmarks.peak_memory MODULE:FUNCTION JSON``.

Not by ``getrusage``: on Linux a child starts with the peak of the process that started it, so that every child of a
large process looks large. The kernel's own high-water mark begins anew with the new program.

That mark counts pages of files too: libraries, which the system can drop when memory is short, and share between
processes. The peak without them (*private*) has no mark; it is the most that was seen, a thousand times a second.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Unavailable
from benchmarks.peers.settings import child_environment

__all__ = ["Peak", "peak_of"]

_ROOT = Path(__file__).resolve().parents[1]
_STATUS = "/proc/{}/status"


class Peak(NamedTuple):
    """The most memory that was resident at a time, in bytes: of all kinds, and without pages of files."""

    resident: int
    private: int

    def __str__(self) -> str:
        return f"{self.resident / 1e6:.0f} ({self.private / 1e6:.0f})"


def peak_of(function: str, *arguments: Any) -> Peak:
    """The most memory that was resident while a new process called ``"module:function"`` with these arguments.

    Interpreter and imports are counted too; arguments go through JSON, and what the function gives is dropped.
    """
    if not Path(_STATUS.format("self")).exists():
        raise Unavailable("peak memory is read from /proc, which this system does not have")
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peak_memory", function, json.dumps(arguments)],
        cwd=_ROOT,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    private = 0
    while child.poll() is None:
        private = max(private, _read(child.pid, "RssAnon"))
        time.sleep(1e-3)
    output, errors = child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"{function} failed in its process:\n{errors}")
    return Peak(int(output.splitlines()[-1]), private)


def _read(process: int | str, field: str) -> int:
    """Bytes of a field of a process's status; 0 if it has ended."""
    try:
        text = Path(_STATUS.format(process)).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(rf"^{field}:\s*(\d+) kB$", text, re.MULTILINE)
    return 0 if found is None else 1024 * int(found[1])


def _main(function: str, arguments: str) -> None:
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(*json.loads(arguments))
    print(_read("self", "VmHWM"))


if __name__ == "__main__":
    _main(*sys.argv[1:])
