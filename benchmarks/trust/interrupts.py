"""Ctrl-C at random moments, imports and workers included: one line, exit code 130, no traceback, nothing left running.

A process group of its own gets the signal as a terminal would send it: to the command and all its workers at once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.trust import kills

__all__ = ["interrupts"]

_COMMANDS = {
    "help (imports)": "--help",
    "train": "train digits --network mlp:16 --epochs 3000",
    "sweep, 2 workers": "sweep train digits --network mlp:8 --vary rate=0.1,0.2,0.3,0.4 --epochs 900 --workers 2",
}
# 130, or ended by the signal, for which a shell says 130 as well: Python ends so if an interrupt fell into code that an
# extension ran while it was imported, though it was caught.
_INTERRUPTED = (130, -signal.SIGINT)


def interrupts(times: int) -> dict[str, Any]:
    """Interrupt every command ``times`` times."""
    # A shell lets its background jobs ignore Ctrl-C, which their children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    moments = random.Random(0)
    tried = wrong = left = 0
    samples: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in _COMMANDS.values():
            started = time.monotonic()
            subprocess.run([*_weightsmith(), "--help"], capture_output=True, check=True, cwd=folder)
            ready = time.monotonic() - started
            for number in range(times):
                # Python itself starts for some milliseconds before any line of ours is read.
                until = ready if command == "--help" else 6 * ready
                ended, said, session = _interrupted(command, folder / str(number), moments.uniform(0.15 * ready, until))
                if ended == 0:
                    continue
                tried += 1
                lines = [line for line in said.splitlines() if line.startswith("weightsmith: ")]
                good = ended in _INTERRUPTED and lines == ["weightsmith: interrupted"] and "Traceback" not in said
                good = good and "warn" not in said.lower()
                wrong += not good
                samples += [] if good else [f"exit {ended}: {said[-600:]}"]
                left += kills.left_over(session)
    for sample in samples[:3]:
        print(sample, flush=True)
    return {
        "promises": [
            ["Ctrl-C: one line, exit code 130, no traceback", tried, wrong],
            ["Ctrl-C: no process is left over", tried, left],
        ],
        "notes": [f"Interrupts of {', '.join(_COMMANDS)}: the moments begin when Python has started."],
    }


def _weightsmith() -> list[str]:
    return [sys.executable, "-m", "weightsmith"]


def _interrupted(command: str, folder: Path, after: float) -> tuple[int, str, int]:
    """The exit code, what was said on stderr, and the session of a command interrupted ``after`` seconds."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*_weightsmith(), *command.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(after)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    return process.returncode, said, process.pid
