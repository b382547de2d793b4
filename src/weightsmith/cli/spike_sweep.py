"""``weightsmith spike-sweep NETWORK --data NAME``: where the L4 adjustment helps, over leaks, resets and thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.cli import _shared_options as given
from weightsmith.cli import _spike_sweep_files as files
from weightsmith.cli._figure_files import check_writable, figures_of
from weightsmith.cli._spike_options import ROWS, refuse_nir, refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.core.errors import UsageError
from weightsmith.spiking.sweep import sweeping as verb

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.spiking.sweep.results import SpikeSweep

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

    Training rows choose, test rows judge the winners once, all on the same input spikes: differences are paired.
    Exit code 1 if no setting has a single training row right.
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.sweep.grid import Grid

    grid = ("leaks", "resets", "factors", "smoothings", "delay")
    Grid(**{name: options[name] for name in grid})  # refuses before data are read what no sweep can try
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
        print_json(files.as_dict(sweep, description, written))
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
    found = None if options["out"] is None else files.begun(options["out"], known, options)
    if found is not None:
        say_note(found)


def _write(sweep: SpikeSweep, folder: Path | None, figures: Path | None) -> list[Path]:
    """Write the files next to the record, which the sweep wrote; return all files."""
    written = []
    if folder is not None:
        written = [folder / "record.json", *files.write_tables(folder, sweep)]
    if figures is not None:
        written += files.draw(figures, sweep)
    return written


def _check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the record of a network."""
    check_writable(None, figures, folder)
    if folder is None:
        return
    if file.resolve() == folder.resolve() or (folder / "network.safetensors").exists():
        raise UsageError(f"--out {folder} is the folder of a network, whose record would be lost: give another folder")
