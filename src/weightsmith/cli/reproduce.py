"""``weightsmith reproduce course``: published experiments run again, ours beside theirs in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _training_options as given
from weightsmith.cli.course_page import course_cells, course_page
from weightsmith.cli.terminal import Attention, help_without_command, out, print_json, progress_bar, say_note, table

if TYPE_CHECKING:
    from weightsmith.papers.course import CourseTable

__all__ = ["app", "course"]

app = typer.Typer(help="Published experiments, run again.", invoke_without_command=True)
app.callback()(help_without_command)

_HEADS = ("course", "ours", "difference", "within", "test")


@app.command("course")
def course(
    seeds: Annotated[str, typer.Option(help="Seeds of weights, split, order and dropout.")] = "0,1,2",
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
    from weightsmith.core.storage import write_atomic
    from weightsmith.papers.course import EXPERIMENTS, run_course

    numbers = given.whole_numbers(seeds, "--seeds")
    done, total = 0, len(numbers) * len(only or EXPERIMENTS)
    try:
        with progress_bar("course", quiet) as progress:

            def told(_row: dict[str, Any]) -> None:
                nonlocal done
                done += 1
                if progress is not None:
                    progress(done, total)

            journal = out_folder / "course.journal.jsonl"
            result = run_course(seeds=numbers, only=only, path=data_path, journal=journal, workers=workers, on_row=told)
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
