"""Progress of work with several stages: one bar with the stage on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from weightsmith.cli.terminal import every_tenth
from weightsmith.core.progress import ProgressCallback, StepCallback, progress_bar

__all__ = ["chain_progress", "stages"]


@contextmanager
def stages(what: str, quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield ``f(stage, done, total)``; ``what`` precedes the name of every stage. None when quiet."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with progress_bar(what) as report:
            yield report
    else:
        lines: dict[str, StepCallback] = {}

        def line(stage: str, done: int, total: int) -> None:
            lines.setdefault(stage, every_tenth(f"{what}: {stage}"))(done, total)

        yield line


@contextmanager
def chain_progress(what: str, quiet: bool) -> Iterator[ProgressCallback | None]:
    """A bar with the stage and its progress on a terminal; elsewhere a line when a stage begins."""
    if quiet or sys.stderr.isatty():
        with stages(what, quiet) as bar:
            yield bar
        return
    begun: set[str] = set()

    def line(stage: str, done: int, total: int) -> None:
        del done, total
        name = stage.partition(":")[0]
        if name not in begun:
            begun.add(name)
            sys.stderr.write(f"{what}: {name}\n")

    yield line
