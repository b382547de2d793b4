"""Shared by all commands: tables on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weightsmith.core.progress import StepCallback

if TYPE_CHECKING:
    from weightsmith.reporting.parts import Section

__all__ = [
    "Attention",
    "count_text",
    "every_tenth",
    "files_line",
    "help_without_command",
    "named_line",
    "out",
    "print_json",
    "progress_bar",
    "raise_concerns",
    "say_error",
    "say_note",
    "show",
    "table",
]


_TOLD = 3  # concerns that the last line names; the others are counted
_FILES = 6  # files that are shown; the others are counted
_INDENT = 15  # width of the names of lines


class Attention(Exception):
    """The work is done, but something needs the user's attention: exit code 1."""


def show(description: Section, files: Sequence[Path] = ()) -> None:
    """Print a description on stdout, and the ``files`` that were written."""
    from weightsmith.reporting import terminal

    terminal.show(description, out(), files)


def raise_concerns(description: Section) -> None:
    """End with code 1 if there is something to look at."""
    found = description.look_at
    if found:
        more = f" (and {len(found) - _TOLD} more)" if len(found) > _TOLD else ""
        raise Attention("; ".join(found[:_TOLD]) + more)


def help_without_command(context: typer.Context) -> None:
    """Show the help of a group of commands if none of them is given."""
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


def count_text(number: int) -> str:
    """Thousands separated: ``269,722``."""
    return f"{number:,}"


def files_line(paths: Sequence[Path]) -> Table:
    """The written files; if there are many, the first few."""
    return named_line(
        "files",
        escape(", ".join(map(str, paths[:_FILES])))
        + (f" and {len(paths) - _FILES} more" if len(paths) > _FILES else ""),
    )


def named_line(name: str, text: str) -> Table:
    """A named line that wraps with indentation on a narrow terminal."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=_INDENT - 1)
    grid.add_column(overflow="fold")
    grid.add_row(name, text)
    return grid


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
