"""Progress of work with several stages: one bar with the stage on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from weightsmith.cli.terminal import every_tenth
from weightsmith.core.progress import ProgressCallback, StepCallback

__all__ = ["stages"]


@contextmanager
def stages(what: str, quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield ``f(stage, done, total)``; ``what`` precedes the name of every stage. None when quiet."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(escape(what), total=None)
            now = ""

            def update(stage: str, done: int, total: int) -> None:
                nonlocal now
                if stage != now:
                    now = stage
                    bar.reset(task, description=escape(f"{what}: {stage}"))
                bar.update(task, completed=done, total=total)

            yield update
    else:
        lines: dict[str, StepCallback] = {}

        def line(stage: str, done: int, total: int) -> None:
            lines.setdefault(stage, every_tenth(f"{what}: {stage}"))(done, total)

        yield line
