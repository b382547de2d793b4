"""The output files of ``weightsmith reduce`` besides network and record: tables, figures and JSON."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli._figure_files import write_figures
from weightsmith.cli._reduction_findings import advice, concerns
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.core.statistics import Interval
    from weightsmith.reducing.decisions import FrontPoint
    from weightsmith.reducing.results import Reduction, ReductionRecord, SiteReduction

__all__ = ["as_dict", "draw", "reasons", "summary_row", "summary_text", "write_tables"]

_Point = tuple[float, float, float, float]  # share of parameters; accuracy, low and high in per cent


def as_dict(
    results: Sequence[Reduction], written: Sequence[Path], least_accuracy: float | None, *, kept: bool
) -> dict[str, Any]:
    """The full result as JSON values; durations, which differ from run to run, are separate from the records."""
    return {
        "reductions": [
            {
                "record": result.record.to_dict(),
                "latency": None if result.latency is None else dataclasses.asdict(result.latency),
                "look_at": concerns(result.record, least_accuracy),
                "try_next": advice(result, kept=kept),
            }
            for result in results
        ],
        "files": [str(path) for path in written],
    }


def reasons(site: SiteReduction) -> str:
    """Why units were removed: ``12 complementary, 5 similar``."""
    counts = Counter(removal.reason for removal in site.removals)
    return ", ".join(
        f"{count} {reason}" for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def write_tables(folder: Path, results: Sequence[Reduction]) -> list[Path]:
    """``summary.csv`` with a row per method, ``sites.csv`` with a row per method and site."""
    rows = [
        {
            "by": result.record.settings["by"],
            "site": site.name,
            "layers": " ".join(site.layers),
            "kind": site.kind,
            "before": site.before,
            "after": site.after,
            "reasons": reasons(site),
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


def draw(target: Path, results: Sequence[Reduction]) -> list[Path]:
    """Accuracy against size of all methods, and for each search its history and its front."""
    from weightsmith.reporting.figures.reducing import draw_front, draw_sizes, draw_trace

    figures: dict[str, Callable[[], Figure]] = {
        "sizes": functools.partial(draw_sizes, _points(results), 100 * results[0].record.measured.whole.value)
    }
    for number, result in enumerate(results, 1):
        ending = "" if len(results) == 1 else f"-{number}"
        record = result.record
        if record.trace is not None and record.trace.rows:
            figures[f"trace{ending}"] = functools.partial(draw_trace, record.trace)
        if record.front:
            figures[f"front{ending}"] = functools.partial(draw_front, record.front, _chosen(record))
    return write_figures(target, figures)


def _points(results: Sequence[Reduction]) -> dict[str, list[_Point]]:
    """The result and its baselines by label."""
    points: dict[str, list[_Point]] = {}
    several = len(results) > 1
    for number, result in enumerate(results, 1):
        record = result.record
        share = record.reduced.parameters / record.whole.parameters
        name, measured = f"{number}  " * several + record.settings["by"], record.measured
        points[name] = [_point(share, measured.reduced, 100)]
        if record.settings["recover"] is not None and not several:
            points[f"{name}, just cut"] = [_point(share, measured.cut, 100)]
        if record.random is not None and record.random.interval is not None:
            points.setdefault("random masks, untrained", []).append(_point(share, record.random.interval, 1))
        if record.scratch is not None and record.scratch.mean is not None:
            points.setdefault("from scratch", []).append(_point(share, record.scratch.mean, 100))
    return points


def _point(share: float, interval: Interval, scale: float) -> _Point:
    return share, scale * interval.value, scale * interval.low, scale * interval.high


def _chosen(record: ReductionRecord) -> FrontPoint | None:
    """The chosen network of the front; after several rounds the front has other units than the network."""
    kept = {site.name: site.kept for site in record.sites}
    return next((point for point in record.front if point.kept == kept), None)
