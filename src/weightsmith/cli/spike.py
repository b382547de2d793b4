"""``weightsmith spike NETWORK --data NAME``: convert a trained network into a spiking one; accuracy and cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _spike_files as files
from weightsmith.cli import _training_options as given
from weightsmith.cli._reduction_options import check_bar
from weightsmith.cli._spike_options import (
    ROWS,
    Numbers,
    check_out,
    read_options,
    refuse_nir,
    refuse_spiking,
    say_if_compiling,
)
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import print_json, raise_concerns, show
from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.spiking.results import SpikeRecord, SpikeRun

__all__ = ["spike"]


def spike(
    file: Annotated[
        Path, typer.Argument(metavar="NETWORK", readable=False, help="A network file or result folder, made of ReLUs.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set by name (weightsmith data list), folder:PATH or table:PATH; a run's folder tells its own."
        ),
    ] = None,
    neuron: Annotated[str, typer.Option(help="if, lif:0.95 (what is left after a step), lif:0.95,reset=hard …")] = "if",
    encode: Annotated[
        str, typer.Option(help="constant (pixels as currents) or poisson (random spikes; inputs between −1 and 1).")
    ] = "constant",
    balance: Annotated[
        str, typer.Option(help="How thresholds are found: percentile:99.9 or max-current:factor=0.7.")
    ] = "percentile",
    adjust: Annotated[
        str | None, typer.Option(help="l4:1.0 adjusts the first layer by its L4 norms (smoothing 1.0).")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Time steps for each image.")] = 64,
    precision: Annotated[Numbers, typer.Option(help="Numbers of the run; int8 rounds the weights.")] = "float32",
    early: Annotated[
        str | None, typer.Option(help="margin:3 ends an image once its answer leads by 3 standard errors.")
    ] = None,
    settle: Annotated[int, typer.Option(min=0, help="First steps whose outputs are left out of the sums.")] = 0,
    mismatch: Annotated[
        str | None, typer.Option(help="mismatch:threshold=0.1,leak=0.1 gives every neuron values of its own.")
    ] = None,
    prices: Annotated[
        str, typer.Option(help="Of operations in picojoules, as picojoule:0.9,4.6 or picojoule:neurons=true.")
    ] = "picojoule",
    images: Annotated[int | None, typer.Option(min=1, help="Test rows that judge the result (all).")] = None,
    watch: Annotated[int, typer.Option(min=0, help="Images looked at closely, for statistics and figures.")] = 8,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    least_accuracy: Annotated[
        float | None, typer.Option(min=0, max=100, help="End with code 1 if the accuracy (%) is below this.")
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the spiking network, its record, tables and figures.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Draw into this folder, or as FILE.svg, .png or .pdf (with --out: its figures folder)."),
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Draw nothing, also with --out.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of input spikes, of rows that are drawn, and of mismatch.")
    ] = 0,
    device: given.Device = "cpu",
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Convert a trained network into a spiking one: accuracy after each step, rates, operations and energy.

    Exit code 1 if a layer never fires, or the accuracy is below --least-accuracy.
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe

    asked = read_options(
        neuron=neuron, encode=encode, balance=balance, adjust=adjust, early=early, mismatch=mismatch, prices=prices
    )
    check_bar(least_accuracy)
    figure_target = _figure_target(figures, no_figures, out_folder)
    refuse_spiking(file)
    refuse_nir(file)
    check_out(file, out_folder, figure_target)
    known = load_all(data_of(file, data, quiet, what_for=ROWS), path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    options: dict[str, Any] = {
        **asked.keywords(),
        "steps": steps,
        "settle": settle,
        "precision": precision,
        "images": images,
        "watch": watch,
        "seed": seed,
        "device": device,
        "out": out_folder,
    }
    result = _spiked(module, known, options, quiet)
    record, classes = result.record, result.network.card.classes or known.classes
    written = _write(record, out_folder, figure_target, classes)
    asked_for = {"least_accuracy": least_accuracy, "kept": out_folder is not None}
    description = describe(result, str(file), classes=classes, **asked_for)
    if as_json:
        print_json(files.as_dict(record, description, written))
    else:
        show(description, written)
    raise_concerns(description)


def _figure_target(figures: Path | None, none: bool, folder: Path | None) -> Path | None:
    """The path of the figures, if any are drawn."""
    if none and figures is not None:
        raise UsageError(f"--figures {figures} and --no-figures contradict each other: give one of them")
    if none or figures is not None or folder is None:
        return figures
    return folder / "figures"


def _spiked(module: nn.Module, known: Data, options: dict[str, Any], quiet: bool) -> SpikeRun:
    from weightsmith.spiking.spike import spike as run

    say_if_compiling(quiet)
    with stages("spike", quiet) as progress:
        return run(module, known, **options, progress=progress)


def _write(record: SpikeRecord, folder: Path | None, figures: Path | None, classes: Sequence[str]) -> list[Path]:
    """Write the files next to the network and the record, which the conversion wrote; return all files."""
    written = []
    if folder is not None:
        written = [folder / "network.safetensors", folder / "record.json", *files.write_tables(folder, record)]
    if figures is not None:
        written += files.draw(figures, record, classes)
    return written
