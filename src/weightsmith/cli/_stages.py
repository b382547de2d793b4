"""Progress of work with several stages: one bar with the stage on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from weightsmith.cli.terminal import every_tenth
from weightsmith.core.progress import ProgressCallback, StepCallback, progress_bar

__all__ = ["stages"]


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
