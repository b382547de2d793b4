"""The one way speed is measured here.

A case names several ways (its *arms*) to do the same work; ours stands first. The arms run interleaved, in turned
order every other round, in one process with one thread; each timing follows an untimed run of the same arm, so that
no arm pays for what another left behind. The figure of an arm is its best CPU time, because other load on a machine
can only add to it. Before anything is timed every arm runs once and its output is compared with
ours: a case whose arms do unequal work is an error, not a result.

Peers are imported by the module that makes the cases, so that their thread pools exist before they are pinned.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weightsmith.core.records import Record, versions
from weightsmith.core.seeds import pinned_threads

__all__ = ["Case", "Measurement", "Results", "Unavailable", "UnequalWork", "machine", "measure"]


class UnequalWork(Exception):
    """Two arms of a case gave different outputs."""


class Unavailable(Exception):
    """A benchmark cannot run here, for want of data for instance; the message says what is missing."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Equal work done in several ways: the arms by name, ours first, and how their outputs are compared with ours."""

    name: str
    work: str
    arms: Mapping[str, Callable[[], Any]]
    same: Callable[[Any, Any], bool]
    packages: tuple[str, ...] = ()
    children: bool = False
    repeats: int = 7
    long: bool = False
    """Minutes per run: warming up changes nothing and costs too much, so the run that is checked is timed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Measurement(Record):
    """A measured case. ``ratios``: how many times our CPU seconds each other arm takes, so above 1 ours is faster."""

    name: str
    work: str
    seconds: dict[str, float]
    ratios: dict[str, float]
    repeats: int
    children: bool
    versions: dict[str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class Results(Record):
    """What one benchmark file gave, by which command and on what kind of machine."""

    bench: str
    command: str
    machine: str
    measurements: tuple[Measurement, ...]


def measure(case: Case) -> Measurement:
    """Check that the arms do equal work, then time them.

    >>> case = Case("sum", "add 0 to 9", {"ours": lambda: sum(range(10)), "theirs": lambda: 45}, int.__eq__, repeats=1)
    >>> measurement = measure(case)
    >>> sorted(measurement.seconds), sorted(measurement.ratios)
    (['ours', 'theirs'], ['theirs'])
    """
    clock = _family_seconds if case.children else time.process_time
    # The system counts a child's time in hundredths of a second.
    least = 0.5 if case.children else 0.02
    if case.long:
        with pinned_threads():
            return _measured(case, _timed_once(case, clock), repeats=1)
    with pinned_threads():
        _check(case)
        counts = {name: _count_for(run, clock, least) for name, run in case.arms.items()}
        best = dict.fromkeys(case.arms, math.inf)
        for turn in range(case.repeats):
            for name in list(case.arms)[:: 1 if turn % 2 == 0 else -1]:
                best[name] = min(best[name], _seconds(case.arms[name], counts[name], clock))
    return _measured(case, best, case.repeats)


def _measured(case: Case, best: dict[str, float], repeats: int) -> Measurement:
    ours, *others = best
    return Measurement(
        case.name,
        case.work,
        best,
        {name: best[name] / best[ours] for name in others},
        repeats,
        case.children,
        versions(*case.packages),
    )


def _timed_once(case: Case, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of one run of each arm, the outputs compared as they come."""
    seconds: dict[str, float] = {}
    expected: Any = None
    for name, run in case.arms.items():
        with _no_collection():
            start = clock()
            given = run()
            seconds[name] = clock() - start
        if len(seconds) == 1:
            expected = given
        elif not case.same(expected, given):
            raise UnequalWork(f"{case.name}: {name!r} and {next(iter(case.arms))!r} gave different outputs")
    return seconds


def machine() -> str:
    """The kind of machine, without its name: what a reader needs to know, nothing that leads to it."""
    return f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, {platform.system()}"


def _check(case: Case) -> None:
    (ours, run), *others = case.arms.items()
    expected = run()
    for name, other in others:
        if not case.same(expected, other()):
            raise UnequalWork(f"{case.name}: {name!r} and {ours!r} gave different outputs; nothing was timed")


def _count_for(run: Callable[[], Any], clock: Callable[[], float], least: float) -> int:
    """How often to run in a row so that the clock can tell: until the whole takes ``least`` seconds."""
    count = 1
    while (each := _seconds(run, count, clock)) * count < least:
        # Aim a little beyond, but do not trust a single short timing with more than a factor of 100.
        count = min(100 * count, max(2 * count, math.ceil(1.2 * least / each) if each > 0 else 100 * count))
    return count


def _seconds(run: Callable[[], Any], count: int, clock: Callable[[], float]) -> float:
    run()
    with _no_collection():
        start = clock()
        for _ in range(count):
            run()
        return (clock() - start) / count


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage now, and not while the block runs."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _family_seconds() -> float:
    """CPU seconds of this process, of the children it has seen end, and of those still alive with theirs."""
    import psutil

    own = os.times()
    total = time.process_time() + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.NoSuchProcess:  # ended since it was listed; then it is in our own children's time
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total
