"""``weightsmith tailor NETWORK --data NAME --accuracy 90% --energy 20%``: search a network that meets limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, write_figures
from weightsmith.cli._spike_options import refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._tailor_report import as_dict, concern, show_tailored
from weightsmith.cli._training_options import none_or, warnings_as_notes
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import Attention, print_json, say_note
from weightsmith.core.errors import UsageError
from weightsmith.spiking.neurons import Precision

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.data import Data

__all__ = ["tailor"]

_WHAT_FOR = "networks are trained on some rows, chosen by others and judged by yet others"


def tailor(
    file: given.NetworkFile,
    data: given.DataOrRecord = None,
    accuracy: Annotated[str | None, typer.Option(help="At least this share of right answers, as 0.9 or 90%.")] = None,
    energy: Annotated[
        str | None, typer.Option(help="At most this, for an input: 0.2 or 20% of the network's own, or as 1.5uJ.")
    ] = None,
    params: Annotated[
        str | None, typer.Option(help="At most so many parameters: 0.5 or 50% of the network's own, or as 20000.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="End the search after 90s, 10m or 1.5h; what is known counts.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(min=0, help="Standard errors above the accuracy asked for; without it by the number of ways."),
    ] = None,
    test_rows: Annotated[
        int | None, typer.Option(min=1, help="rows to choose by, and as many others to judge by; without it all")
    ] = None,
    recover: Annotated[
        str, typer.Option(help="How networks are trained that were cut, as fine-tune:3,schedule=cosine:0.01; or none.")
    ] = "fine-tune:3,schedule=cosine:0.01",
    tune_rows: Annotated[int | None, typer.Option(min=1, help="Training rows they are trained on (all).")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Training rows that methods of reduction look at.")] = 2000,
    spiking: Annotated[
        bool | None, typer.Option(help="Whether spiking networks are tried (unless only the size is limited).")
    ] = None,
    neuron: Annotated[str, typer.Option(help="if, or lif:0.95; reset=hard for either.")] = "if",
    encode: Annotated[str | None, typer.Option(help="constant or poisson:1; without it both are tried.")] = None,
    balance: Annotated[
        str, typer.Option(help="How thresholds are found: percentile:99.9 or max-current.")
    ] = "percentile",
    steps: Annotated[int, typer.Option(min=1, help="Time steps that a spiking network is run for, at most.")] = 32,
    precision: Annotated[Precision, typer.Option(help="Of spiking networks: float32, float64, or int8.")] = "float32",
    prices: Annotated[
        str, typer.Option(help="Of operations in picojoules, as picojoule:0.9,4.6 or picojoule:neurons=true.")
    ] = "picojoule",
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    figures: given.Figures = None,
    seed: given.Seed = 0,
    batch: given.Batch = 256,
    threads: given.Threads = 1,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Search the chain (reduce, fine-tune, make spiking) for the cheapest network that keeps to limits.

    Candidates are chosen on some rows, the choice is judged on others. Exit code 1 if the limits are not kept to.
    """
    from weightsmith.chain.tailor.limits import Wanted, read_seconds
    from weightsmith.data.datasets import load_all

    Wanted.read(accuracy, energy, params)
    read_seconds(budget)
    _check_outputs(file, out_folder, figures)
    refuse_spiking(file)
    known = load_all(data_of(file, data, quiet, what_for=_WHAT_FOR), path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    options: dict[str, Any] = {
        "accuracy": accuracy,
        "energy": energy,
        "params": params,
        "budget": budget,
        "margin": margin,
        "test_rows": test_rows,
        "recover": none_or(recover),
        "tune_rows": tune_rows,
        "rows": rows,
        "spiking": spiking,
        "neuron": neuron,
        "encode": encode,
        "balance": balance,
        "steps": steps,
        "precision": precision,
        "prices": prices,
        "seed": seed,
        "batch": batch,
        "threads": threads,
        "out": out_folder,
    }
    result = _tailored(module, known, options, quiet)
    written = _write(result, out_folder, figures)
    if as_json:
        print_json(as_dict(result.record, written))
    else:
        show_tailored(result.record, str(file), known.name, written)
    if out_folder is None and not quiet:
        say_note("the network was not kept: give --out FOLDER")
    if missed := concern(result.record):
        raise Attention(missed)


def _check_outputs(file: Path, folder: Path | None, figures: Path | None) -> None:
    """Check before any work that the outputs can be written, and do not overwrite the input network."""
    check_writable(None, figures, folder)
    if folder is not None and file.resolve() in (folder.resolve(), (folder / "network.safetensors").resolve()):
        raise UsageError(f"--out {folder} is where the network itself is, which is never changed: give another folder")


def _tailored(module: nn.Module, known: Data, options: dict[str, Any], quiet: bool) -> Tailored:
    from weightsmith.chain.tailor.tailoring import tailor as run

    if options["spiking"] is not False:
        say_if_compiling(quiet)
    try:
        with warnings_as_notes(), stages("tailor", quiet) as progress:
            return run(module, known, **options, progress=progress)
    except KeyboardInterrupt:
        kept = options["out"] is not None
        say_note("what is done is kept: the same command goes on" if kept else "nothing is kept without --out")
        raise


def _write(result: Tailored, folder: Path | None, figures: Path | None) -> list[Path]:
    """Write the figure; return all files."""
    from weightsmith.chain.tailor.section import draw_front_of

    written = [] if folder is None else [folder / "network.safetensors", folder / "record.json"]
    if figures is not None:
        written += write_figures(figures, {"front": lambda: draw_front_of(result.record)})
    return written
