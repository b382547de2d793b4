"""A disk that fails: the n-th fsync or rename, or all from there on, files that may not grow, a read-only folder.

Every command runs in a fork in which the calls of the operating system fail as asked; files that may not grow are a
limit of the process (RLIMIT_FSIZE). It must end with a complete result, or with one line and an exit code; what is left
must be readable, and the same command on a sound disk must end with the bytes of an undisturbed run. In one folder, a
second process is refused while the first is at work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.trust import kills
from weightsmith.core.journal import Journal, claimed, read_journal

__all__ = ["faults", "folders"]

_READ_ONLY = "/proc/weightsmith"  # nobody may write there, not even root
_TRIED = ("train", "genetic", "spike-sweep", "pipeline", "tailor")
_WITHOUT_JOURNAL = {
    "grade of two networks": "grade base base",
    "angles": "angles base --data digits",
    "evaluate": "evaluate base --data digits",
    "report": "report base",
    "export, NIR": "export spiking net.nir",
    "export, ONNX": "export base net.onnx --to onnx",
}
_FILES = {"report": "page.html", "export, NIR": "net.nir", "export, ONNX": "net.onnx"}
_MOST_CALLS = {"fsync": 40, "replace": 20}
_SIZES = (0, 100, 1_000, 4_000, 20_000)


def faults(times: int) -> dict[str, Any]:
    """Let the disk fail ``times`` times in each way for every command."""
    draws = random.Random(0)
    tried = unclear = unreadable = different = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kills.prepare(folder)
        for each in _TRIED:
            command = kills.COMMANDS[each]
            kills.ended(kills.begin(command, folder, "whole"))
            want = kills.contents(folder / "whole")
            for fault in [fault for _ in range(times) for fault in _drawn(draws)]:
                tried += 1
                code = kills.ended(kills.begin(command, folder, "out", before=fault))
                complete = code == 0 and kills.contents(folder / "out") == want
                if not complete and not _is_clear(code, (folder / "out.log").read_text()):
                    unclear += 1
                    print(each, code, (folder / "out.log").read_text()[-400:], flush=True)
                unreadable += len(kills.unreadable(folder / "out"))
                code = kills.ended(kills.begin(command, folder, "out"))
                if code or kills.contents(folder / "out") != want:
                    different += 1
                    print(each, code, (folder / "out.log").read_text()[-400:], flush=True)
                shutil.rmtree(folder / "out", ignore_errors=True)
            tried += 1
            code = kills.ended(kills.begin(command, folder, "out", to=_READ_ONLY))
            unclear += not _is_clear(code, (folder / "out.log").read_text())
            shutil.rmtree(folder / "whole")
            print(each, tried, unclear, unreadable, different, flush=True)
    return {
        "promises": [
            ["a failing disk: a complete result, or one line and an exit code", tried, unclear],
            ["a failing disk: every file that is left can be read", tried, unreadable],
            ["a failing disk: afterwards the same command ends with the same bytes", tried, different],
        ],
        "notes": [f"A failing disk (fsync, rename, full, read-only) under {', '.join(_TRIED)}."],
    }


def folders() -> dict[str, Any]:
    """Start every command in a folder that another process, this one, is at work in: it is refused."""
    refused = tried = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kills.prepare(folder)
        kills.ended(kills.begin("spike base --data digits --neuron if --steps 2", folder, "spiking"))
        commands = {**kills.COMMANDS, **_WITHOUT_JOURNAL}
        for each, command in commands.items():
            out = _FILES.get(each, "out")
            kills.ended(kills.begin(command, folder, "out", to=out))
            journals = sorted((folder / "out").glob("*journal.jsonl"))
            with contextlib.ExitStack() as held:
                for path in journals:  # as the first process holds them while it is at work
                    held.enter_context(Journal(path, read_journal(path).call))
                if not journals:
                    place = folder / out
                    held.enter_context(claimed(place) if out == "out" else claimed(folder, out))
                second = kills.ended(kills.begin(command, folder, "out", to=out))
            said = (folder / "out.log").read_text()
            tried += 1
            good = second == 2 and "in use by another process" in said and _is_clear(second, said)
            refused += good
            if not good:
                print(each, second, said[-400:], flush=True)
            shutil.rmtree(folder / "out", ignore_errors=True)
    return {
        "promises": [["two processes in one folder: the second is refused", tried, tried - refused]],
        "notes": [f"Two processes in one folder, or one file: {', '.join(commands)}."],
    }


def _drawn(draws: random.Random) -> list[Callable[[], None]]:
    """One fault of each kind, at a random call."""
    calls = [(name, most, lasting) for name, most in _MOST_CALLS.items() for lasting in (False, True)]
    made = [_failing(name, draws.randrange(most), lasting=lasting) for name, most, lasting in calls]
    return [*made, _full(draws.choice(_SIZES))]


def _failing(name: str, number: int, *, lasting: bool) -> Callable[[], None]:
    """In the fork: call ``number`` of ``os.name`` fails, and with ``lasting`` all after it."""

    def patch() -> None:
        real, calls = getattr(os, name), [0]

        def failing(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == number + 1 or (lasting and calls[0] > number):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        setattr(os, name, failing)

    return patch


def _full(size: int) -> Callable[[], None]:
    """In the fork: no file may grow beyond ``size`` bytes; nor may the log, so that only the exit code tells."""

    def limit() -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return limit


def _is_clear(code: int, said: str) -> bool:
    """Whether a command ended with one line and an exit code of ours; a log that could not grow has no line."""
    lines = [line for line in said.splitlines() if line.startswith("weightsmith: ")]
    return code in (1, 2, 3) and len(lines) <= 1 and "Traceback" not in said
