"""``weightsmith reproduce course``: rerun published experiments, and compare the results in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import Attention, help_without_command, out, print_json, progress_bar, say_note, table

if TYPE_CHECKING:
    from weightsmith.papers.course import CourseRow, CourseTable

__all__ = ["app", "course", "course_cells", "course_page"]


app = typer.Typer(help="Published experiments, run again.", invoke_without_command=True)
app.callback()(help_without_command)

_HEADS = ("course", "ours", "difference", "within", "test")


@app.command("course")
def course(
    seeds: given.Seeds = "0,1,2",
    only: Annotated[list[str] | None, typer.Option(help="Only this experiment; repeatable.")] = None,
    workers: given.Workers = 1,
    data_path: given.DataPath = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder for the table; the same command again goes on in it.")
    ] = Path("runs/course"),
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """The Fashion-MNIST experiments of the course behind the slides on training, and those it left out.

    Writes course.md, course.csv and course.json. Code 1 if a row is further from the course's figure than allowed.
    """
    from weightsmith.core.seeds import read_seeds
    from weightsmith.core.storage import write_atomic
    from weightsmith.papers.course import EXPERIMENTS, run_course

    numbers = read_seeds(seeds)
    done, total = 0, len(numbers) * len(only or EXPERIMENTS)
    try:
        with progress_bar("course", quiet) as progress:

            def on_row(_row: dict[str, Any]) -> None:
                nonlocal done
                done += 1
                if progress is not None:
                    progress(done, total)

            journal = out_folder / "course.journal.jsonl"
            result = run_course(
                seeds=numbers, only=only, path=data_path, journal=journal, workers=workers, on_row=on_row
            )
    except KeyboardInterrupt:
        say_note(f"{done} of {total} runs are done and kept in {out_folder}: the same command goes on")
        raise
    for name, text in (
        ("course.md", course_page(result)),
        ("course.csv", result.to_csv()),
        ("course.json", result.to_json(indent=1) + "\n"),
    ):
        write_atomic(out_folder / name, text)
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result, out_folder)
    if result.outside:
        points = f"{100 * result.tolerance:g} points"
        raise Attention(f"further than {points} from the course's figure: {', '.join(result.outside)}")


def _show(result: CourseTable, folder: Path) -> None:
    rows = table("experiment", *_HEADS, "schedule check", numbers=_HEADS)
    for row in result.rows:
        rows.add_row(escape(row.experiment), *course_cells(row), "warns" if row.check else "")
    out().print(rows)
    files = ", ".join(str(folder / f"course.{ending}") for ending in ("md", "csv", "json"))
    out().print(f"files  {escape(files)}")


# The table of the course's experiments as Markdown.


_ABOUT = """\
The experiments of the course behind the slides on training deep networks, on Fashion-MNIST: an MLP 784-50-50-10, one
thing changed at a time. Accuracies in per cent. *Course* and *ours* are validation accuracies after the last epoch:
theirs of one run, ours the mean ± standard deviation over {seeds} seeds, each with a split of its own. *Within* means
no further than {points:g} points from the course. *Best* is the validation accuracy of the best epoch. *Test* is the
accuracy of the weights with the lowest validation loss, mean over the seeds, with Wilson's 95 % interval for the
{images} test images. The schedule check that runs before every training warns of {flagged}."""


def course_page(result: CourseTable) -> str:
    """The whole page: summary, table, notes on its rows, their settings, versions."""
    rows = result.rows
    images = next((run["test_images"] for run in result.runs.rows if run["test_images"]), 0)
    flagged = " and ".join(f"*{row.experiment}*" for row in rows if row.check) or "none of these"
    about = _ABOUT.format(seeds=rows[0].seeds, points=100 * result.tolerance, images=f"{images:,}", flagged=flagged)
    shared = ", ".join(f"{name} `{value}`" for name, value in result.protocol.items())
    heads = (
        "experiment",
        "course",
        "ours",
        "difference",
        "within",
        "best, course",
        "best, ours",
        "test, course",
        "test",
    )
    notes = _notes(rows)
    versions = ", ".join(f"{name} {version}" for name, version in sorted(result.runs.origin.versions.items()))
    return "\n\n".join(
        [
            "# course",
            about,
            f"All rows: {shared}.",
            _table(heads, [_figures(row) for row in rows]),
            *(["\n".join(notes)] if notes else []),
            _table(("experiment", "network", "schedule", "clip", "epochs"), [_settings(row) for row in rows]),
            f"{versions}. Made by `weightsmith reproduce course`; `course.json` has every run.\n",
        ]
    )


def course_cells(row: CourseRow) -> list[str]:
    """The numbers of a row as text: course, ours, difference, within, test."""
    spread = "" if row.deviation is None else f" ± {100 * row.deviation:.2f}"
    return [
        _percent(row.course),
        "diverged" if row.accuracy is None else f"{100 * row.accuracy:.2f}{spread}",
        "" if row.difference is None else f"{100 * row.difference:+.2f}",
        "" if row.within is None else "yes" if row.within else "no",
        ""
        if row.test is None
        else f"{100 * row.test.value:.2f} ({100 * row.test.low:.2f} – {100 * row.test.high:.2f})",
    ]


def _figures(row: CourseRow) -> list[str]:
    *figures, within, test = course_cells(row)
    figures.append("**no**" if within == "no" else within)
    best = (_percent(row.course_best), _percent(row.best))
    return [row.experiment, *figures, *best, _percent(row.course_test), test]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def _notes(rows: Sequence[CourseRow]) -> list[str]:
    notes = []
    for row in rows:
        remarks = [row.remark] if row.remark else []
        remarks += [f"the schedule check says: *{row.check}*"] if row.check else []
        remarks += [f"{row.diverged} of {row.seeds} runs diverged and are left out"] if row.diverged else []
        if remarks:
            notes.append(f"- **{row.experiment}**: {'; '.join(remarks)}.")
    return notes


def _settings(row: CourseRow) -> list[str]:
    least, most = min(row.epochs), max(row.epochs)
    epochs = str(most) if least == most else f"{least} to {most}"
    return [row.experiment, f"`{row.network}`", f"`{row.schedule}`", f"`{row.clip}`" if row.clip else "", epochs]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    made = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([made[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *made[1:]])
