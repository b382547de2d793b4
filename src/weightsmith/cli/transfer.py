"""``weightsmith transfer BASE --data NAME``: a network for new data out of a trained one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._training_options import none_or, warnings_as_notes, whole_numbers
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import Attention, count_text, out, percent, print_json, say_note, table
from weightsmith.cli.training_view import training_view
from weightsmith.core.errors import OptionError
from weightsmith.training import loop

if TYPE_CHECKING:
    from weightsmith.data import Data, Normalisation
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.training.transfer import TransferRun

__all__ = ["transfer"]


@takes_options_of(
    loop.train,
    only=("normalise", "optimiser", "clip", "stop", "penalties", "augment", "batch", "seed", "device", "threads"),
)
def transfer(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", readable=False, help="a network file or the folder of a result")
    ],
    data: given.DataOption,
    options: Options,
    data_path: given.DataPath = None,
    network: given.WhatNetwork = None,
    reuse: Annotated[
        int | None, typer.Option(min=1, help="blocks of the base to reuse; without it all but its output layer")
    ] = None,
    head: Annotated[str | None, typer.Option(help="widths of new hidden layers on top, as 64,32")] = None,
    dropout: Annotated[float, typer.Option(min=0, max=0.99, help="dropout after each hidden layer of the head")] = 0.0,
    pool: Annotated[
        Literal["mean", "flatten"], typer.Option(help="what becomes of feature maps before the head")
    ] = "mean",
    unfreeze: Annotated[str, typer.Option(help="top blocks that the second stage frees: a number, or all")] = "2",
    rate: Annotated[str | None, typer.Option(help="rate or schedule of the frozen stage; without it the usual")] = None,
    finer: Annotated[float, typer.Option(help="factor of the rate when blocks are unfrozen")] = 0.1,
    epochs: Annotated[str, typer.Option(help="epochs of each stage, or of the frozen and the unfrozen one: 20,10")] = (
        "10"
    ),
    remedy: Annotated[
        str | None, typer.Option(help="what to try if unfreezing does not help: drop, replace, by-data:500")
    ] = None,
    least_accuracy: given.LeastAccuracy = None,
    validation: Annotated[
        float | None, typer.Option(min=0.01, max=0.99, help="share of training rows for validation; without it 0.2")
    ] = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Reuse a trained network for new data: a new head on its frozen lower blocks, then the top blocks unfrozen.

    Inputs are resized to what the base takes, grey images get its channels. The stages are compared on the same
    validation images, and the network of the best one is kept. While no stage reaches --least-accuracy on them, the
    remedy is tried; if none does, the exit code is 1.
    """
    from weightsmith.data.datasets import load_all

    known = load_all(data, path=data_path)
    normalise, threads = options.pop("normalise"), options["threads"]
    options |= {
        "reuse": reuse,
        "head": whole_numbers(head, "--head"),
        "dropout": dropout,
        "pool": pool,
        "unfreeze": _unfreeze(unfreeze),
        "rate": none_or(rate),
        "finer": finer,
        "epochs": _epochs(epochs),
        "remedy": none_or(remedy),
        "accuracy": None if least_accuracy is None else least_accuracy / 100,
        "validation": validation,
        "out": out_folder,
    }
    run = _transferred(base, known, network, normalise, options, quiet)
    results = _evaluated(run, known, threads, out_folder)
    if as_json:
        print_json({"record": run.record.to_dict(), "test": results and results.to_dict()})
    else:
        _show(run, results, str(base), out_folder)
    reached = run.best.accuracy.value
    if least_accuracy is not None and 100 * reached < least_accuracy:
        raise Attention(f"validation accuracy {100 * reached:.2f} % is below the {least_accuracy:g} % asked for")


def _transferred(
    base: Path, known: Data, network: str | None, normalise: Normalisation | None, options: Options, quiet: bool
) -> TransferRun:
    from weightsmith.networks.card import card_of
    from weightsmith.networks.files import load
    from weightsmith.training.transfer import transfer as run

    loaded = load(base, network=network, normalise=normalise, input_shape=known.input_shape)
    if not quiet:
        for note in (*card_of(loaded).notes, *known.notes):
            say_note(note)
    try:
        with warnings_as_notes(), training_view(quiet) as view:
            return run(loaded, known, **options, progress=view.progress, hooks=view.hooks)
    except KeyboardInterrupt:
        folder = options["out"]
        kept = f"the epochs done are kept in {folder}: the same command goes on" if folder else "nothing is kept"
        say_note(f"{kept}{'' if folder else ' without --out'}")
        raise


def _evaluated(run: TransferRun, known: Data, threads: int, folder: Path | None) -> Evaluation | None:
    from weightsmith.core.storage import write_atomic
    from weightsmith.networks.evaluation import evaluate

    if "test" not in known.splits:
        return None
    result = evaluate(run.network, known, split="test", threads=threads)
    if folder is not None:
        write_atomic(folder / "evaluation.json", result.to_json(indent=1) + "\n")
    return result


def _show(run: TransferRun, result: Evaluation | None, base: str, folder: Path | None) -> None:
    console, settings = out(), run.record.settings
    about = [f"rate {settings['rate']}", f"then × {settings['finer']:g}"]
    console.print(f"[bold]{escape(base)}[/bold] on {escape(settings['data'])}  {escape(' · '.join(about))}")
    heads = ("stage", "blocks reused", "parameters trained", "epochs", "validation accuracy", "")
    rows = table(*heads, numbers=heads[1:4])
    for number, stage in enumerate(run.stages):
        rows.add_row(
            stage.name,
            str(stage.reuse),
            f"{count_text(stage.training.trained)} of {count_text(stage.training.parameters)}",
            str(len(stage.training.history.rows)),
            percent(stage.accuracy),
            "← kept" if number == run.record.best else "",
        )
    console.print(rows)
    for number, line in enumerate(run.advice):
        console.print(f"{'' if number else 'found':<12}{escape(line)}")
    if result is not None:
        interval = f"[bold]{percent(result.accuracy)}[/bold]  {count_text(result.images)} images, 95 % Wilson interval"
        console.print(f"{'test':<12}{interval}")
    if folder is not None:
        console.print(
            f"{'files':<12}{escape(str(folder / 'network.safetensors'))}, {escape(str(folder / 'record.json'))}"
        )


def _unfreeze(text: str) -> int | Literal["all"]:
    if text.strip().lower() == "all":
        return "all"
    numbers = whole_numbers(text, "--unfreeze")
    if len(numbers) != 1:
        raise OptionError(f"--unfreeze takes one number or all, not {text!r}")
    return numbers[0]


def _epochs(text: str) -> tuple[int, int]:
    numbers = whole_numbers(text, "--epochs")
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise OptionError(f"--epochs takes one number ≥ 1 or two, as 20,10, not {text!r}")
    return numbers[0], numbers[-1]
