"""Shared by all commands: tables on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weightsmith.core.progress import StepCallback
from weightsmith.core.statistics import Interval

__all__ = [
    "Attention",
    "count_text",
    "every_tenth",
    "help_without_command",
    "out",
    "percent",
    "print_json",
    "progress_bar",
    "say_error",
    "say_note",
    "table",
]


class Attention(Exception):
    """The work is done, but the user must look at something: exit code 1."""


def help_without_command(context: typer.Context) -> None:
    """For a group of commands: without one, show the help."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def out() -> Console:
    """A new console on stdout, so that it follows redirection; a file or pipe gets long lines."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
    return Console(highlight=False, width=wide)


def say_error(message: str) -> None:
    """One line on stderr, for any message."""
    sys.stderr.write(f"weightsmith: {' '.join(message.split())}\n")


def say_note(message: str) -> None:
    """A note on stderr, dimmed on a terminal."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[dim]{escape(message)}[/dim]")


def print_json(value: Any) -> None:
    """JSON on stdout; NaN raises."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def table(*columns: str, title: str | None = None, numbers: tuple[str, ...] = ()) -> Table:
    """A plain table; the columns named in ``numbers`` are right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def percent(interval: Interval) -> str:
    """``91.73 % (91.17 – 92.25)``: the value and its interval in per cent."""
    return f"{100 * interval.value:.2f} % ({100 * interval.low:.2f} – {100 * interval.high:.2f})"


def count_text(number: int) -> str:
    """Thousands separated: ``269,722``."""
    return f"{number:,}"


@contextmanager
def progress_bar(what: str, quiet: bool, unit: str = "items") -> Iterator[StepCallback | None]:
    """Yield ``f(done, total)``: a bar on a terminal, a line for every tenth elsewhere, None when quiet."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        from rich import progress

        counted = progress.DownloadColumn() if unit == "bytes" else progress.MofNCompleteColumn()
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            counted,
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield every_tenth(what)


def every_tenth(what: str) -> StepCallback:
    """Progress as plain lines, one for each tenth."""
    last = -1

    def line(done: int, total: int) -> None:
        nonlocal last
        tenth = 10 * done // total
        if tenth != last:  # a second file begins at 0 again
            last = tenth
            sys.stderr.write(f"{what}: {done:,} of {total:,}\n")

    return line
