"""Damaged files: mutants of every format, single-bit flips of our own files, and files built to harm.

Each is read in a child process that reads many of them and may take twice the file and 256 MB more than it had before.
Counted are crashes of the child, answers after more than five seconds, exceptions that are not ours, refusals with
another exit code than 3, messages of more than one line or 1,000 characters, events that only running code causes, and
own files with a flipped bit that were read.
"""

from __future__ import annotations

import multiprocessing
import queue as queues
import resource
import runpy
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trust.samples import Sample
from weightsmith.core.errors import WeightsmithError

__all__ = ["Found", "flipped", "hostile", "mutant", "tried"]

_SLOW = 5.0  # seconds
_MORE = 256 << 20  # bytes besides twice the file
_LONGEST = 1_000  # characters of a message without the path
_BATCH = 500  # files for each child
_HUGE = (0x7F, 0xFF, 0x80, 0x00, 0x01)
_REFUSED = 3  # exit code
_RUNNING = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "socket.bind",
            "ctypes.dlopen", "shutil.rmtree", "os.chmod", "os.symlink")  # fmt: skip


@dataclass
class Found:
    """What happened to the files of one kind."""

    name: str
    tried: int = 0
    read: int = 0
    refused: int = 0
    crashes: int = 0
    slow: int = 0
    ran_code: int = 0
    accepted: int = 0  # own files read as something else than they were
    other_codes: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    long_messages: int = 0


def mutant(content: bytes, number: int) -> bytes:
    """One of eight kinds of damage, drawn by the number."""
    random = np.random.default_rng(number)
    data = bytearray(content)
    place = int(random.integers(len(data)))
    match number % 8:
        case 0:
            data[place] ^= 1 << int(random.integers(8))
        case 1:
            for _ in range(int(random.integers(2, 20))):
                data[int(random.integers(len(data)))] = int(random.integers(256))
        case 2:
            del data[place:]
        case 3:
            data[place : place + int(random.integers(1, 64))] = b""
        case 4:
            data[place:place] = bytes(random.integers(0, 256, int(random.integers(1, 64)), dtype=np.uint8))
        case 5:  # a length field of the header, or of the directory at the end
            start = place % min(len(data), 64) if number % 16 < 8 else max(0, len(data) - 64 + place % 64)
            for offset in range(min(8, len(data) - start)):
                data[start + offset] = _HUGE[int(random.integers(len(_HUGE)))]
        case 6:
            low, high = sorted((place, int(random.integers(len(data)))))
            data[low:low] = data[low:high]
        case _:
            data[place : place + 1] = (b"[", b"{", b"(", b"<a>")[number // 8 % 4] * int(random.integers(100, 5_000))
    return bytes(data)


def flipped(content: bytes, number: int) -> bytes:
    """The content with one bit turned; numbers below 8 × its length give all bits once."""
    data = bytearray(content)
    bit = number * 7919 % (8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def tried(name: str, sample: Sample, change: Callable[[bytes, int], bytes], numbers: Sequence[int]) -> Found:
    """Read the sample as ``change`` leaves it for every number."""
    path, reader = sample
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / path.name
        if path.name.endswith(".index.json"):
            (Path(folder) / "one.safetensors").write_bytes((path.parent / "one.safetensors").read_bytes())

        def build(number: int) -> Path:
            place.write_bytes(change(content, number))
            return place

        content = path.read_bytes()
        return _read_all(name, build, reader, numbers, path)


def hostile(reader: Callable[[Path], object], valid: Path) -> Found:
    """The files of tests/networks/hostile.py: payloads, bombs, links, paths that lead out, sizes beyond counting."""
    script = Path(__file__).resolve().parents[2] / "tests" / "networks" / "hostile.py"
    made = runpy.run_path(str(script))
    builders = list(made["HOSTILE"].values())
    with tempfile.TemporaryDirectory() as folder:

        def build(number: int) -> Path:
            own = Path(folder) / str(number) / "inner"
            own.mkdir(parents=True)
            path: Path = builders[number].build(own)
            return path

        found = _read_all("built to harm", build, reader, range(len(builders)), valid)
        found.ran_code += sum(1 for _ in Path(folder).rglob(made["CANARY"]))
    return found


def _read_all(
    name: str, build: Callable[[int], Path], reader: Callable[[Path], object], numbers: Sequence[int], valid: Path
) -> Found:
    found = Found(name)
    context = multiprocessing.get_context("fork")
    left = list(numbers)
    while left:
        batch, left = left[:_BATCH], left[_BATCH:]
        answers: Any = context.Queue()
        child = context.Process(target=_child, args=(build, reader, batch, valid, answers))
        child.start()
        for done in range(len(batch)):
            message = _next(answers, child)
            if message is None:
                found.crashes += 1
                found.tried += 1
                left = batch[done + 1 :] + left
                child.kill()
                break
            _count(found, *message)
        child.join()
    return found


def _next(answers: Any, child: Any) -> tuple[str, Any, float, int] | None:
    """The next answer of the child; None if it died or said nothing for a minute."""
    for _ in range(60):
        try:
            message: tuple[str, Any, float, int] = answers.get(timeout=1)
        except queues.Empty:
            if not child.is_alive() and answers.empty():
                return None
        else:
            return message
    return None


def _child(
    build: Callable[[int], Path], reader: Callable[[Path], object], numbers: Sequence[int], valid: Path, answers: Any
) -> None:
    want = repr(reader(valid))  # and what is imported once is not counted
    seen: list[str] = []
    sys.addaudithook(lambda event, _: seen.append(event) if event in _RUNNING else None)
    for number in numbers:
        path = build(number)
        _limit_memory(2 * path.stat().st_size if path.is_file() else 0)
        seen.clear()
        started = time.monotonic()
        kind, detail = _outcome(reader, path, want)
        answers.put((kind, detail, time.monotonic() - started, len(seen)))


def _limit_memory(more: int) -> None:
    taken = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + more + _MORE, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _outcome(reader: Callable[[Path], object], path: Path, want: str) -> tuple[str, Any]:
    try:
        found = repr(reader(path))
    except WeightsmithError as error:
        text = str(error).replace(str(path), "")
        long = len(text.splitlines()) > 1 or len(text) > _LONGEST
        if error.exit_code == _REFUSED:
            return "refused", long
        return "other", f"{type(error).__name__}: {text[:60]!r}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 (that is what is looked for)
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "foreign", f"{type(error).__name__} at {Path(last.filename).name}:{last.name}"
    return "read", found != want


def _count(found: Found, kind: str, detail: Any, seconds: float, events: int) -> None:
    found.tried += 1
    found.slow += seconds > _SLOW
    found.ran_code += events > 0
    if kind == "read":
        found.read += 1
        found.accepted += bool(detail)
    elif kind == "refused":
        found.refused += 1
        found.long_messages += bool(detail)
    else:
        counts = found.other_codes if kind == "other" else found.foreign
        counts[detail] = counts.get(detail, 0) + 1
