"""The output files of ``weightsmith spike-sweep`` besides the record: tables, figures and JSON."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli._figure_files import write_figures
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.sections._sweeping_findings import comparisons, saved, taken, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.core.statistics import Comparison, Interval
    from weightsmith.data import Data
    from weightsmith.reporting.parts import Section
    from weightsmith.spiking.sweep.results import Chosen, SpikeSweep

__all__ = ["as_dict", "begun", "draw", "write_tables"]


def as_dict(sweep: SpikeSweep, description: Section, written: Sequence[Path]) -> dict[str, Any]:
    """The full result as JSON values; ``settings`` and ``chosen`` are the tables of the CSV files."""
    counted = comparisons(sweep)
    return {
        "record": sweep.to_dict(),
        "settings": _setting_rows(sweep),
        "chosen": _chosen_rows(sweep),
        "adjustment": None if counted is None else dataclasses.asdict(counted),
        "racing": dataclasses.asdict(saved(sweep)),
        "try_next": list(description.try_next),
        "description": description.to_dict(),
        "files": [str(path) for path in written],
    }


def begun(folder: Path, known: Data, options: Mapping[str, Any]) -> str | None:
    """A note if a sweep with these options finds its own results in ``folder``."""
    from weightsmith.spiking.sweep.work import reached

    found = reached(folder)
    if found is None:
        return None
    if (folder / "record.json").exists():
        return f"all of it was done: read from {folder}"
    stage, done = found
    if stage == "means":
        total, what = math.prod(len(options[name]) for name in ("leaks", "resets", "factors")), "neurons and factors"
    else:
        split, asked = ("train", "rows") if stage == "racing" else ("test", "test_rows")
        rows = len(known.split(split)) if split in known.splits else options[asked]
        total, what = min(options[asked], rows), f"{split} images"
    return f"resuming in {folder}: {stage} was at {done:,} of {total:,} {what}"


def write_tables(folder: Path, sweep: SpikeSweep) -> list[Path]:
    """``sweep.csv`` with all settings on training rows, ``chosen.csv`` with the winners on test rows."""
    return [
        write_atomic(folder / "sweep.csv", csv_rows(_setting_rows(sweep))),
        write_atomic(folder / "chosen.csv", csv_rows(_chosen_rows(sweep))),
    ]


def draw(target: Path, sweep: SpikeSweep) -> list[Path]:
    """Accuracy against leak, a figure for each number of steps."""
    from weightsmith.reporting.figures.spiking.catalogue import draw_leak_sweep, leak_points

    figures: dict[str, Callable[[], Figure]] = {}
    for steps in sweep.steps:
        name = "leaks" if len(sweep.steps) == 1 else f"leaks-{steps}"
        figures[name] = functools.partial(draw_leak_sweep, leak_points(sweep, steps), network=sweep.plain)
    return write_figures(target, figures)


# The numbers of a sweep as rows for CSV and JSON: one per setting and number of steps, one per choice.


def _setting_rows(sweep: SpikeSweep) -> list[dict[str, Any]]:
    """The accuracy of every setting on the training images it saw; accuracies are shares.

    ``lost`` settings were dropped by racing, ``chosen`` ones are in the other table.
    """
    from weightsmith.core.statistics import wilson

    chosen = {
        (setting.key, choice.steps)
        for choice in sweep.chosen
        for setting in (choice.baseline, choice.adjusted)
        if setting is not None
    }
    rows = []
    for result in sweep.table:
        setting = result.setting
        for steps, correct in zip(sweep.steps, result.correct, strict=True):
            rows.append(
                {
                    "leak": setting.leak,
                    "reset": setting.reset,
                    "factor": setting.factor,
                    "smoothing": setting.smoothing,
                    "steps": steps,
                    "images": result.seen,
                    "correct": correct,
                    **_share("train", wilson(correct, result.seen)),
                    "lost": result.lost,
                    "chosen": (setting.key, steps) in chosen,
                }
            )
    return rows


def _chosen_rows(sweep: SpikeSweep) -> list[dict[str, Any]]:
    """The winners on the test images; accuracies and differences are shares."""
    return [_chosen_row(sweep, choice) for choice in sweep.chosen]


def _chosen_row(sweep: SpikeSweep, choice: Chosen) -> dict[str, Any]:
    adjusted, gain = choice.adjusted, choice.gain
    return {
        "leak": choice.leak,
        "reset": choice.reset,
        "steps": choice.steps,
        "baseline_factor": choice.baseline.factor,
        **_share("baseline", choice.baseline_test),
        "adjusted_factor": None if adjusted is None else adjusted.factor,
        "adjusted_smoothing": None if adjusted is None else adjusted.smoothing,
        **_share("adjusted", choice.adjusted_test),
        **_difference("gain", gain),
        "only_adjusted_right": None if gain is None else gain.only_a,
        "only_baseline_right": None if gain is None else gain.only_b,
        "adjustment": verdict(choice),
        "taken": "baseline" if taken(sweep, choice).smoothing is None else "adjusted",
        **_difference("cost", choice.cost),
    }


def _share(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {
        f"{name}_accuracy": None if interval is None else interval.value,
        f"{name}_low": None if interval is None else interval.low,
        f"{name}_high": None if interval is None else interval.high,
    }


def _difference(name: str, comparison: Comparison | None) -> dict[str, float | None]:
    ends = None if comparison is None else comparison.interval
    return {
        name: None if comparison is None else comparison.difference,
        f"{name}_low": None if ends is None else ends.low,
        f"{name}_high": None if ends is None else ends.high,
        f"{name}_p": None if comparison is None else comparison.p,
    }
