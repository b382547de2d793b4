"""The output files of ``weightsmith reduce`` besides network and record: tables, figures and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli._figure_files import write_figures
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.parts import Drawing, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.reducing.results import Reduction

__all__ = ["as_dict", "draw", "summary_row", "summary_text", "write_tables"]

_FIGURES = {"search.csv": "trace", "front.csv": "front"}  # drawings of each method, and the names of their files


def as_dict(
    results: Sequence[Reduction], described: Sequence[Section], description: Section, written: Sequence[Path]
) -> dict[str, Any]:
    """The full result as JSON values; durations, which differ from run to run, are separate from the records."""
    return {
        "reductions": [
            {
                "record": result.record.to_dict(),
                "latency": None if result.latency is None else dataclasses.asdict(result.latency),
                "look_at": list(section.look_at),
                "try_next": list(section.try_next),
            }
            for result, section in zip(results, described, strict=True)
        ],
        "description": description.to_dict(),
        "files": [str(path) for path in written],
    }


def write_tables(folder: Path, results: Sequence[Reduction]) -> list[Path]:
    """``summary.csv`` with a row per method, ``sites.csv`` with a row per method and site."""
    from weightsmith.reporting.figures.reducing import gone_by_reason

    rows = [
        {
            "by": result.record.settings["by"],
            "site": site.name,
            "layers": " ".join(site.layers),
            "kind": site.kind,
            "before": site.before,
            "after": site.after,
            "reasons": ", ".join(f"{count} {reason}" for reason, count in gone_by_reason(site).items()),
            "refused": site.refused,
            "notes": "; ".join(site.notes),
        }
        for result in results
        for site in result.sites
    ]
    summary = write_atomic(folder / "summary.csv", summary_text(results))
    return [summary, write_atomic(folder / "sites.csv", csv_rows(rows))]


def summary_text(results: Sequence[Reduction]) -> str:
    """The numbers of every method as CSV."""
    return csv_rows([summary_row(result) for result in results])


def summary_row(result: Reduction) -> dict[str, Any]:
    """Sizes before and after, accuracies as shares with their intervals, and baselines."""
    record = result.record
    row: dict[str, Any] = {name: record.settings[name] for name in ("by", "target", "plan", "recover", "seed")}
    for measure in ("units", "parameters", "macs", "file_bytes"):
        row[f"{measure}_before"] = getattr(record.whole, measure)
        row[f"{measure}_after"] = getattr(record.reduced, measure)
    measured = record.measured
    row |= {"split": measured.split, "images": measured.images}
    for name, interval in (("whole", measured.whole), ("cut", measured.cut), ("reduced", measured.reduced)):
        row |= {f"accuracy_{name}": interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    row |= {"difference": measured.cost.difference, "p": measured.cost.p}
    random, scratch = record.random, record.scratch
    row["random_mean"] = None if random is None else random.mean / 100
    row["random_deviation"] = None if random is None or random.deviation is None else random.deviation / 100
    row["scratch_mean"] = None if scratch is None or scratch.mean is None else scratch.mean.value
    for batch in (1, 64):
        row[f"time_ratio_{batch}"] = None if result.latency is None else result.latency.at(batch).median
    row["refused"] = " ".join(site.name for site in record.sites if site.refused)
    return row


def draw(target: Path, described: Sequence[Section], description: Section) -> list[Path]:
    """Accuracy against size of all methods, and for each search its history and its front."""
    sizes = next(part for part in description if isinstance(part, Drawing))
    figures: dict[str, Callable[[], Figure]] = {"sizes": sizes.figure}
    for number, section in enumerate(described, 1):
        ending = "" if len(described) == 1 else f"-{number}"
        for part in section:
            if isinstance(part, Drawing) and part.file in _FIGURES:
                figures[f"{_FIGURES[part.file]}{ending}"] = part.figure
    return write_figures(target, figures)
