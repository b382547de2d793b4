"""The table of the course's experiments as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weightsmith.papers.course import CourseRow, CourseTable

__all__ = ["course_cells", "course_page"]

_ABOUT = """\
The experiments of the course behind the slides on training deep networks, on Fashion-MNIST: an MLP 784-50-50-10, one
thing changed at a time. Accuracies in per cent. *Course* and *ours* are validation accuracies after the last epoch:
theirs of one run, ours the mean ± standard deviation over {seeds} seeds, each with a split of its own. *Within* means
no further than {points:g} points from the course. *Best* is the validation accuracy of the best epoch. *Test* is the
accuracy of the weights with the lowest validation loss, mean over the seeds, with Wilson's 95 % interval for the
{images} test images. The schedule check that runs before every training warns of {flagged}."""


def course_page(result: CourseTable) -> str:
    """The whole page: what was done, the table, what is to be known of its rows, their settings, versions."""
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
    """The figures of a row as text: course, ours, difference, within, test."""
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
        said = [row.remark] if row.remark else []
        said += [f"the schedule check says: *{row.check}*"] if row.check else []
        said += [f"{row.diverged} of {row.seeds} runs diverged and are left out"] if row.diverged else []
        if said:
            notes.append(f"- **{row.experiment}**: {'; '.join(said)}.")
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
