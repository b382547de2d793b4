"""``weightsmith spike-sweep NETWORK --data NAME``: where the L4 adjustment helps, over leaks, resets and thresholds."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, figures_of, write_figures
from weightsmith.cli._spike_options import ROWS, refuse_nir, refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.errors import UsageError
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.sections._sweeping_findings import comparisons, saved, taken, verdict
from weightsmith.spiking.sweep import sweeping as verb

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from weightsmith.core.statistics import Comparison, Interval
    from weightsmith.data import Data
    from weightsmith.reporting.parts import Section
    from weightsmith.spiking.sweep.results import Chosen, SpikeSweep

__all__ = ["spike_sweep"]


@takes_options_of(
    verb.spike_sweep,
    examples=(
        "weightsmith spike-sweep runs/net --data digits --leaks 1,0.95 --steps 25,50 --out runs/sweep",
        "weightsmith spike-sweep runs/net --data digits --encode constant --balance percentile",
    ),
)
def spike_sweep(
    file: given.NetworkFile,
    options: Options,
    data: given.DataOrRecord = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    figures: given.FiguresOrNone = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """The best thresholds with and without L4 adjustment for each leak and reset, and whether the adjustment helps.

    Settings are chosen on training rows and the winners tested once on test rows, all on the same input spikes, so that
    differences are paired. Exit code 1 if no setting classifies any training row correctly.
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.sweep.grid import Grid

    grid = ("leaks", "resets", "factors", "smoothings", "delay")
    Grid(**{name: options[name] for name in grid})  # refuse an invalid grid before data are read
    figure_target = figures_of(figures, out_folder)
    refuse_spiking(file)
    refuse_nir(file)
    _check_out(file, out_folder, figure_target)
    name = data_of(file, data, quiet, what_for=ROWS)
    known = load_all(name, path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    sweep = _swept(module, known, options | {"out": out_folder}, quiet)
    written = _write(sweep, out_folder, figure_target)
    spike = ["weightsmith", "spike", str(file), "--data", name]
    for option, value in (("--data-path", data_path), ("--network", network), ("--normalise", normalise)):
        spike += [] if value is None else [option, str(value)]
    description = describe(sweep, str(file), convert=spike, kept=out_folder is not None)
    if as_json:
        print_json(_as_dict(sweep, description, written))
    else:
        show(description, written)
    raise_concerns(description)


def _swept(module: nn.Module, known: Data, options: Options, quiet: bool) -> SpikeSweep:
    reached = ""
    say_if_compiling(quiet)
    try:
        with stages("spike-sweep", quiet) as progress:

            def callback(stage: str, done: int, total: int) -> None:
                nonlocal reached
                if not reached and not quiet:  # by now the sweep has checked that the files there belong to this call
                    _say_if_begun(known, options)
                reached = f"stopped at {stage}, {done:,} of {total:,}; "
                if progress is not None:
                    progress(stage, done, total)

            return verb.spike_sweep(module, known, **options, progress=callback)
    except KeyboardInterrupt:
        folder = options["out"]
        kept = (
            "without --out nothing is kept" if folder is None else f"{folder} keeps finished work: run again to resume"
        )
        say_note(f"{reached}{kept}")
        raise


def _say_if_begun(known: Data, options: Options) -> None:
    found = None if options["out"] is None else _begun(options["out"], known, options)
    if found is not None:
        say_note(found)


def _write(sweep: SpikeSweep, folder: Path | None, figures: Path | None) -> list[Path]:
    """Write the files next to the record, which the sweep wrote; return all files."""
    written = []
    if folder is not None:
        written = [folder / "record.json", *_write_tables(folder, sweep)]
    if figures is not None:
        written += _draw(figures, sweep)
    return written


def _check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the record of a network."""
    check_writable(None, figures, folder)
    if folder is None:
        return
    if file.resolve() == folder.resolve() or (folder / "network.safetensors").exists():
        raise UsageError(
            f"--out {folder} is the folder of a network, whose record would be overwritten: give another folder"
        )


def _as_dict(sweep: SpikeSweep, description: Section, written: Sequence[Path]) -> dict[str, Any]:
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


def _begun(folder: Path, known: Data, options: Mapping[str, Any]) -> str | None:
    """A note if a sweep with these options finds its own results in ``folder``."""
    from weightsmith.spiking.sweep.work import reached

    found = reached(folder)
    if found is None:
        return None
    if (folder / "record.json").exists():
        return f"already complete: read from {folder}"
    stage, done = found
    if stage == "means":
        total, what = math.prod(len(options[name]) for name in ("leaks", "resets", "factors")), "neurons and factors"
    else:
        split, asked = ("train", "rows") if stage == "racing" else ("test", "test_rows")
        rows = len(known.split(split)) if split in known.splits else options[asked]
        total, what = min(options[asked], rows), f"{split} images"
    return f"resuming in {folder}: {stage} was at {done:,} of {total:,} {what}"


def _write_tables(folder: Path, sweep: SpikeSweep) -> list[Path]:
    """``sweep.csv`` with all settings on training rows, ``chosen.csv`` with the winners on test rows."""
    return [
        write_atomic(folder / "sweep.csv", csv_rows(_setting_rows(sweep))),
        write_atomic(folder / "chosen.csv", csv_rows(_chosen_rows(sweep))),
    ]


def _draw(target: Path, sweep: SpikeSweep) -> list[Path]:
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
