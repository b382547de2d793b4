"""``weightsmith reproduce``: published experiments, run again, with a verdict on every claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import Attention, out, print_json, progress_bar, say_note, table
from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import read_seeds

if TYPE_CHECKING:
    from weightsmith.papers.course import CourseRow, CourseTable

__all__ = ["course_cells", "course_page", "reproduce"]

_HEADS = ("course", "ours", "difference", "within", "test")


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="the experiment, or all; without it they are listed")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="seconds instead of minutes, on few rows of the embedded digits")
    ] = False,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="seeds other than the experiment's own: 0,1,2 or 0-9")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="course: only this experiment of it; repeatable.", rich_help_panel=given.MORE),
    ] = None,
    workers: given.Workers = 1,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", help="a Dask scheduler to run on: tcp://HOST:PORT", rich_help_panel=given.MORE),
    ] = None,
    data_path: given.DataPath = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder for the pages; the same command again goes on in it.")
    ] = Path("runs/reproduce"),
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Run published experiments again: every claim of four documents with our number, its interval and a verdict.

    Writes NAME.md, .csv, .json and .svg, and the pages over all results there, index.md and reproduction.html.
    """
    if name is None:
        _list(as_json)
    elif name == "course":
        if quick or cluster:
            raise UsageError("course has no --quick and no --cluster: --only and --seeds shorten it")
        _course(seeds or "0,1,2", only, workers, data_path, out_folder, as_json, quiet)
    else:
        _experiments(
            name,
            quick,
            None if seeds is None else read_seeds(seeds),
            workers,
            cluster,
            data_path,
            out_folder,
            as_json,
            quiet,
        )


def _list(as_json: bool) -> None:
    from weightsmith.papers.reproduction import EXPERIMENTS, experiment

    found = [experiment(each) for each in EXPERIMENTS]
    if as_json:
        print_json(
            [
                {"name": each.name, "document": each.document, "claims": [claim.text for claim in each.claims]}
                for each in found
            ]
        )
        return
    rows = table(
        "name", "document", "claims", "CPU minutes", "what the document says", numbers=("claims", "CPU minutes")
    )
    for each in found:
        rows.add_row(each.name, each.document, str(len(each.claims)), f"{each.minutes:g}", escape(each.says))
    rows.add_row(
        "course", "training", "1", "15", "The validation accuracies of the runs of the course behind the slides."
    )
    out().print(rows)


def _experiments(
    name: str,
    quick: bool,
    seeds: Sequence[int] | None,
    workers: int,
    cluster: str | None,
    data_path: Path | None,
    folder: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    from weightsmith.papers.index import write_index
    from weightsmith.papers.reproduction import EXPERIMENTS, experiment, section
    from weightsmith.papers.reproduction import reproduce as run
    from weightsmith.reporting.terminal import show

    chosen = [experiment(each) for each in (EXPERIMENTS if name == "all" else [name])]
    results = []
    for each in chosen:
        plan = each.settings(quick)
        done, total = 0, len(plan.each) * len(plan.seeds if seeds is None else seeds)
        with progress_bar(each.name, quiet, "runs") as progress:

            def on_row(_row: dict[str, Any], progress: Any = progress, total: int = total) -> None:
                nonlocal done
                done += 1
                if progress is not None:
                    progress(done, total)

            made = run(
                each.name,
                quick=quick,
                seeds=seeds,
                workers=workers,
                cluster=cluster,
                path=data_path,
                out=folder,
                on_row=on_row,
            )
        results.append(made)
        if not as_json:
            show(section(made), out(), [folder / f"{each.name}.md"])
    index = write_index(folder)
    if as_json:
        print_json([made.to_dict() for made in results])
    elif len(chosen) > 1:
        out().print(f"[bold]all claims[/bold]  {escape(str(index))}")


def _course(
    seeds: str,
    only: list[str] | None,
    workers: int,
    data_path: Path | None,
    out_folder: Path,
    as_json: bool,
    quiet: bool,
) -> None:
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
