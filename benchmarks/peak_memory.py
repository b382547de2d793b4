"""The peak memory of one call in a process of its own: ``python -m benchmarks.peak_memory MODULE:FUNCTION JSON``.

Not by ``getrusage``: on Linux a child starts with the peak of the process that started it, so that every child of a
large process looks large. The kernel's own high-water mark begins anew with the new program.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Unavailable
from benchmarks.peers.settings import child_environment

__all__ = ["peak_bytes"]

_ROOT = Path(__file__).resolve().parents[1]
_STATUS = Path("/proc/self/status")


def peak_bytes(function: str, *arguments: Any) -> int:
    """The most memory that was resident while a new process called ``"module:function"`` with these arguments.

    Interpreter and imports are counted too; arguments go through JSON, and what the function gives is dropped.
    """
    if not _STATUS.exists():
        raise Unavailable("peak memory is read from /proc, which this system does not have")
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak_memory", function, json.dumps(arguments)],
        cwd=_ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(f"{function} failed in its process:\n{run.stderr}")
    return int(run.stdout.splitlines()[-1])


def _main(function: str, arguments: str) -> None:
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(*json.loads(arguments))
    found = re.search(r"^VmHWM:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    assert found is not None
    print(1024 * int(found[1]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
