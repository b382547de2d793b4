"""``weightsmith transfer BASE --data NAME``: adapt a trained network to new data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, raise_concerns, say_note, show
from weightsmith.cli.training_view import training_view
from weightsmith.training import loop
from weightsmith.training import transfer as verb

if TYPE_CHECKING:
    from weightsmith.data import Data
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.networks.target_evaluation import RegressionEvaluation
    from weightsmith.training.transferring import TransferRun

__all__ = ["transfer"]


@takes_options_of(
    verb.transfer,
    loop.train,
    without=("accuracy", *verb.NOT_OF_TRAIN),
    examples=(
        "weightsmith transfer runs/net --data digits --epochs 20,10 --out runs/new",
        "weightsmith transfer base.safetensors --data folder:parts --head 64 --remedy by-data --least-accuracy 90",
    ),
)
def transfer(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", readable=False, help="a network file or the folder of a result")
    ],
    data: given.DataOption,
    options: Options,
    data_path: given.DataPath = None,
    network: given.WhatNetwork = None,
    least_accuracy: given.LeastAccuracy = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Reuse a trained network for new data: a new head on its frozen lower blocks, then the top blocks unfrozen.

    Inputs are resized to the input size of the base, grey images get its channels. The stages are compared on the same
    validation images, and the network of the best one is kept. If no stage reaches --least-accuracy on them, the
    remedy is tried; if it fails too, the exit code is 1.
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe

    known = load_all(data, path=data_path)
    options |= {"accuracy": None if least_accuracy is None else least_accuracy / 100, "out": out_folder}
    run = _transferred(base, known, network, options, quiet)
    results = _evaluated(run, known, options["threads"], out_folder)
    description = describe(run, str(base), tested=results)
    if as_json:
        tested = results and results.to_dict()
        print_json({"record": run.record.to_dict(), "test": tested, "description": description.to_dict()})
    else:
        files = () if out_folder is None else (out_folder / "network.safetensors", out_folder / "record.json")
        show(description, files)
    raise_concerns(description)


def _transferred(base: Path, known: Data, network: str | None, options: Options, quiet: bool) -> TransferRun:
    from weightsmith.networks.card import card_of
    from weightsmith.networks.files import load

    loaded = load(base, network=network, normalise=options["normalise"], input_shape=known.input_shape)
    if not quiet:
        for note in (*card_of(loaded).notes, *known.notes):
            say_note(note)
    try:
        with warnings_as_notes(), training_view(quiet) as view:
            return verb.transfer(loaded, known, **options, progress=view.progress, hooks=view.hooks)
    except KeyboardInterrupt:
        folder = options["out"]
        kept = f"finished epochs are kept in {folder}: the same command resumes" if folder else "nothing is kept"
        say_note(f"{kept}{'' if folder else ' without --out'}")
        raise


def _evaluated(
    run: TransferRun, known: Data, threads: int, folder: Path | None
) -> Evaluation | RegressionEvaluation | None:
    from weightsmith.core.records import write_record
    from weightsmith.networks.evaluating import evaluate

    if "test" not in known.splits:
        return None
    result = evaluate(run.network, known, split="test", threads=threads)
    if folder is not None:
        write_record(folder / "evaluation.json", result)
    return result
