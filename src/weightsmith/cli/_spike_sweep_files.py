"""What ``weightsmith spike-sweep`` leaves behind besides the record: tables, figures and JSON."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli._figure_files import write_figures
from weightsmith.cli._spike_sweep_findings import comparisons, saved
from weightsmith.cli._spike_sweep_rows import chosen_rows, setting_rows
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.data import Data
    from weightsmith.spiking.sweep_results import SpikeSweep

__all__ = ["as_dict", "begun", "draw", "write_tables"]


def as_dict(sweep: SpikeSweep, written: Sequence[Path], try_next: Sequence[str]) -> dict[str, Any]:
    """All there is to say, for machines; ``settings`` and ``chosen`` are the tables that stand in the CSV files."""
    counted = comparisons(sweep)
    return {
        "record": sweep.to_dict(),
        "settings": setting_rows(sweep),
        "chosen": chosen_rows(sweep),
        "adjustment": None if counted is None else dataclasses.asdict(counted),
        "racing": dataclasses.asdict(saved(sweep)),
        "try_next": list(try_next),
        "files": [str(path) for path in written],
    }


def begun(folder: Path, known: Data, options: Mapping[str, Any]) -> str | None:
    """What to say of a sweep with these options that finds results of its own in ``folder``."""
    from weightsmith.spiking.sweep_work import reached

    found = reached(folder)
    if found is None:
        return None
    if (folder / "record.json").exists():
        return f"all of it was done: read from {folder}"
    stage, done = found
    if stage == "means":
        total, what = math.prod(len(options[name]) for name in ("leaks", "resets", "factors")), "neurons and factors"
    else:
        split, asked = ("train", "train_images") if stage == "racing" else ("test", "test_images")
        rows = len(known.split(split)) if split in known.splits else options[asked]
        total, what = min(options[asked], rows), f"{split} images"
    return f"going on in {folder}: {stage} was at {done:,} of {total:,} {what}"


def write_tables(folder: Path, sweep: SpikeSweep) -> list[Path]:
    """``sweep.csv`` with all settings on training rows, ``chosen.csv`` with the winners on test rows."""
    return [
        write_atomic(folder / "sweep.csv", csv_rows(setting_rows(sweep))),
        write_atomic(folder / "chosen.csv", csv_rows(chosen_rows(sweep))),
    ]


def draw(place: Path, sweep: SpikeSweep) -> list[Path]:
    """Accuracy against leak, a figure for each number of steps."""
    from weightsmith.reporting.figures.spiking import draw_leak_sweep, leak_points

    figures: dict[str, Callable[[], Figure]] = {}
    for steps in sweep.steps:
        name = "leaks" if len(sweep.steps) == 1 else f"leaks-{steps}"
        figures[name] = functools.partial(draw_leak_sweep, leak_points(sweep, steps), network=sweep.plain)
    return write_figures(place, figures)
