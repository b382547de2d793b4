"""``weightsmith spike-sweep NETWORK --data NAME``: where the L4 adjustment helps, over leaks, resets and thresholds."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _spike_sweep_files as files
from weightsmith.cli import _training_options as given
from weightsmith.cli._figure_files import check_writable
from weightsmith.cli._spike_options import ROWS, Numbers, refuse_nir, refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._spike_sweep_findings import advice, concern
from weightsmith.cli._spike_sweep_report import show_sweep
from weightsmith.cli._stages import stages
from weightsmith.cli._training_options import none_or, whole_numbers
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import Attention, print_json, say_note
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.text import read_value, split_items

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.spiking.sweep.results import SpikeSweep

__all__ = ["numbers", "read_grid", "read_rules", "spike_sweep"]


def spike_sweep(
    file: Annotated[
        Path, typer.Argument(metavar="NETWORK", readable=False, help="A network file or result folder, made of ReLUs.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set by name (weightsmith data list), folder:PATH or table:PATH; a run's folder tells its own."
        ),
    ] = None,
    leaks: Annotated[
        str, typer.Option(help="What is left of a membrane after a step; 1 leaks nothing.")
    ] = "1,0.99,0.97,0.95,0.9",
    resets: Annotated[str, typer.Option(help="soft takes the threshold away, hard sets to zero.")] = "soft,hard",
    factors: Annotated[str, typer.Option(help="By which the thresholds of --balance are multiplied.")] = (
        "0.3,0.4,0.5,0.7"
    ),
    smoothings: Annotated[
        str, typer.Option(help="Of the L4 adjustment; the larger, the less is changed. none: thresholds alone.")
    ] = "0.5,1,2,5,10",
    steps: Annotated[str, typer.Option(help="Time steps for each image; 25,50,75 tells all three.")] = "75",
    encode: Annotated[
        str, typer.Option(help="poisson (random spikes; inputs between −1 and 1) or constant (pixels as currents).")
    ] = "poisson",
    balance: Annotated[
        str, typer.Option(help="How thresholds are found: max-current (networks without bias) or percentile:99.9.")
    ] = "max-current",
    delay: Annotated[bool, typer.Option("--delay", help="Fire one step later, as the L4 paper's code does.")] = False,
    train_images: Annotated[int, typer.Option(min=1, help="Training rows on which settings are chosen.")] = 200,
    test_images: Annotated[
        int, typer.Option(min=1, help="Test rows that judge the winners; all, if there are fewer.")
    ] = 1000,
    mean_images: Annotated[
        int, typer.Option(min=1, help="Training rows that give the adjustment its mean membranes.")
    ] = 64,
    race: Annotated[
        str, typer.Option(help="racing drops settings that are clearly worse early; none drops nothing.")
    ] = "racing",
    precision: Annotated[Numbers, typer.Option(help="Numbers of the runs; int8 rounds the weights.")] = "float32",
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for record, tables and figures; the same command again goes on in it."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Draw into this folder, or as FILE.svg, .png or .pdf (with --out: its figures folder)."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of input spikes and of rows that are drawn.")] = 0,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """The best thresholds with and without L4 adjustment for each leak and reset, and whether the adjustment helps.

    Training rows choose, test rows judge the winners once, all on the same input spikes: differences are paired.
    Exit code 1 if no setting has a single training row right.
    """
    from weightsmith.data.datasets import load_all

    options: dict[str, Any] = {
        **read_grid(leaks=leaks, resets=resets, factors=factors, smoothings=smoothings, steps=steps),
        **read_rules(encode=encode, balance=balance, race=race),
        "delay": delay,
        "train_images": train_images,
        "test_images": test_images,
        "mean_images": mean_images,
        "precision": precision,
        "seed": seed,
        "out": out_folder,
    }
    refuse_spiking(file)
    refuse_nir(file)
    _check_out(file, out_folder, figures)
    name = data_of(file, data, quiet, what_for=ROWS)
    known = load_all(name, path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    sweep = _swept(module, known, options, quiet)
    written = _write(sweep, out_folder, figures)
    spike = ["weightsmith", "spike", str(file), "--data", name]
    for option, value in (("--data-path", data_path), ("--network", network), ("--normalise", normalise)):
        spike += [] if value is None else [option, str(value)]
    try_next = advice(sweep, spike, kept=out_folder is not None)
    if as_json:
        print_json(files.as_dict(sweep, written, try_next))
    else:
        show_sweep(sweep, str(file), known.name, written, try_next, quiet=quiet)
    found = concern(sweep)
    if found is not None:
        raise Attention(found)


def _swept(module: nn.Module, known: Data, options: dict[str, Any], quiet: bool) -> SpikeSweep:
    from weightsmith.spiking.sweep.sweeping import spike_sweep as run

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

            return run(module, known, **options, progress=callback)
    except KeyboardInterrupt:
        folder = options["out"]
        kept = "without --out nothing is kept" if folder is None else f"{folder} keeps what is done: repeat to go on"
        say_note(f"{reached}{kept}")
        raise


def _say_if_begun(known: Data, options: dict[str, Any]) -> None:
    found = None if options["out"] is None else files.begun(options["out"], known, options)
    if found is not None:
        say_note(found)


def _write(sweep: SpikeSweep, folder: Path | None, figures: Path | None) -> list[Path]:
    """Write the files next to the record, which the sweep wrote; return all files."""
    written = []
    if folder is not None:
        written = [folder / "record.json", *files.write_tables(folder, sweep)]
        figures = figures or folder / "figures"
    if figures is not None:
        written += files.draw(figures, sweep)
    return written


# The options of ``weightsmith spike-sweep``, parsed and checked before any work begins.


def read_grid(*, leaks: str, resets: str, factors: str, smoothings: str, steps: str) -> dict[str, Any]:
    """The swept values as keyword arguments; values that no neuron or adjustment can have raise."""
    from weightsmith.spiking.l4.adjust import L4
    from weightsmith.spiking.neurons import LIF

    grid: dict[str, Any] = {
        "leaks": numbers(leaks, "--leaks"),
        "resets": tuple(_items(resets, "--resets", "soft,hard")),
        "factors": numbers(factors, "--factors"),
        "smoothings": () if none_or(smoothings) is None else numbers(smoothings, "--smoothings"),
        "steps": whole_numbers(steps, "--steps"),
    }
    for leak, reset in itertools.product(grid["leaks"], grid["resets"]):
        LIF.from_values({"leak": leak, "reset": reset})
    for smoothing in grid["smoothings"]:
        L4(smoothing)
    if min(grid["factors"]) <= 0:
        raise OptionError(f"--factors multiply thresholds and must be > 0, not {min(grid['factors']):g}")
    if not grid["steps"] or min(grid["steps"]) < 1:
        raise OptionError(f"--steps takes whole numbers from 1 on, such as 25,50,75, not {steps!r}")
    return grid


def read_rules(*, encode: str, balance: str, race: str) -> dict[str, Any]:
    """Encoding, thresholds and racing as objects."""
    from weightsmith.spiking.conversion.balance import Balance
    from weightsmith.spiking.encoding import Encode
    from weightsmith.spiking.sweep.racing import Race

    return {
        "encode": Encode.parse(encode),
        "balance": Balance.parse(balance),
        "race": None if none_or(race) is None else Race.parse(race),
    }


def numbers(text: str, option: str) -> tuple[float, ...]:
    """``1,0.99`` as distinct numbers; always as floats, so that a sweep begun with ``1`` resumes with ``1.0``.

    >>> numbers("1,0.99", "--leaks")
    (1.0, 0.99)
    """
    values = [read_value(item) for item in _items(text, option, "0.5,1,2")]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise OptionError(f"{option} takes numbers such as 0.5,1,2, not {text!r}")
    found = tuple(float(value) for value in values)
    if not all(map(math.isfinite, found)):
        raise OptionError(f"{option} takes finite numbers, not {text!r}")
    shown = [f"{value:g}" for value in found]  # settings are identified by this text
    twice = next((one for index, one in enumerate(shown) if one in shown[:index]), None)
    if twice is not None:
        raise OptionError(f"{option} names {twice} twice in {text!r}")
    return found


def _check_out(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the record of a network."""
    check_writable(None, figures, folder)
    if folder is None:
        return
    if file.resolve() == folder.resolve() or (folder / "network.safetensors").exists():
        raise UsageError(f"--out {folder} is the folder of a network, whose record would be lost: give another folder")


def _items(text: str, option: str, example: str) -> list[str]:
    plain, named = split_items(text, text)
    if named or not plain:
        raise OptionError(f"{option} takes values such as {example}, not {text!r}")
    return plain
