"""``weightsmith evaluate NETWORK --data NAME``: accuracy with its interval, recall by class and confusions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._spike_options import refuse_nir, say_if_compiling
from weightsmith.cli._spike_records import data_of, steps_of
from weightsmith.cli.terminal import print_json, progress_bar, raise_concerns, say_note, show
from weightsmith.core.errors import UsageError
from weightsmith.core.records import write_record
from weightsmith.core.seeds import stream
from weightsmith.reporting.sections._spiking_layers import accuracy_rows
from weightsmith.spiking.neurons import Precision

if TYPE_CHECKING:
    from weightsmith.data import Data
    from weightsmith.spiking.network import SpikingNetwork
    from weightsmith.spiking.simulation.responses import Responses

__all__ = ["evaluate", "show"]


_WHAT_FOR = "accuracy is measured on rows with labels"


def evaluate(
    file: given.NetworkFile,
    data: given.DataOrRecord = None,
    data_path: given.DataPath = None,
    split: given.Split = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    removed: Annotated[
        Literal["skip", "zero"], typer.Option(help="What all-zero convolutions of a ResNet are: removed, or zero.")
    ] = "skip",
    least_accuracy: given.LeastAccuracy = None,
    batch: given.Batch = 64,
    threads: given.Threads = 1,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Spiking networks: time steps for each image (its record's, or 64)."),
    ] = None,
    test_rows: given.TestRows = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Spiking networks: seed of input spikes and rows (0).")
    ] = None,
    precision: Annotated[Precision | None, typer.Option(help="Spiking networks: numbers of the run (float32).")] = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Accuracy of a network on a data set, with a 95 % Wilson interval, top-5, recall per class and confusion.

    Of a spiking network: accuracy after so many steps, images without an answer, and rates.
    """
    from weightsmith.networks.card import card_of
    from weightsmith.networks.evaluation import evaluate as run
    from weightsmith.networks.files import load
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.files import is_spiking

    of_plain = {"network": network, "normalise": normalise, "removed": removed, "batch": batch, "threads": threads}
    of_plain["out"] = None if out_folder is None else str(out_folder)
    of_spiking = {"steps": steps, "test-rows": test_rows, "seed": seed, "precision": precision}
    if is_spiking(file):
        _refuse_given(of_plain, {"removed": "skip", "batch": 64, "threads": 1}, f"{file} is a spiking network")
        known = _load_data(data_of(file, data, quiet, what_for=_WHAT_FOR), data_path, split)
        of_spiking["steps"] = steps_of(file, steps, quiet)
        _evaluate_spiking(file, known, split, of_spiking, least_accuracy, as_json, quiet)
        return
    refuse_nir(file)
    _refuse_given(of_spiking, {}, f"{file} does not spike (weightsmith spike converts a network)")
    known = _load_data(data_of(file, data, quiet, what_for=_WHAT_FOR), data_path, split)
    loaded = load(
        file,
        network=network,
        normalise=normalise,
        removed=removed,
        input_shape=known.input_shape,
        classes=len(known.classes),
    )
    if not quiet:
        for note in (*card_of(loaded).notes, *known.notes):
            say_note(note)
    with progress_bar("evaluate", quiet) as progress:
        result = run(loaded, known, split=split, batch=batch, threads=threads, progress=progress)
    if out_folder is not None:
        write_record(out_folder / "record.json", result)
    description = describe(result, str(file), least_accuracy=least_accuracy)
    if as_json:
        print_json(result.to_dict())
    else:
        show(description)
    raise_concerns(description)


def _refuse_given(options: dict[str, Any], usual: dict[str, Any], because: str) -> None:
    """Raise for options that would have no effect."""
    for name, value in options.items():
        if value != usual.get(name):
            raise UsageError(f"--{name} does not apply: {because}")


def _evaluate_spiking(
    file: Path,
    known: Data,
    split: str | None,
    given: dict[str, Any],
    least_accuracy: float | None,
    as_json: bool,
    quiet: bool,
) -> None:
    from weightsmith.reporting.sections.evaluating import spiking_evaluation_section

    report = _run_spiking(
        file,
        known,
        split=split,
        steps=given["steps"],
        images=given["test-rows"],
        seed=given["seed"] or 0,
        precision=given["precision"] or "float32",
        quiet=quiet,
    )
    description = spiking_evaluation_section(report, least_accuracy=least_accuracy)
    if as_json:
        print_json(report)
    else:
        show(description)
    raise_concerns(description)


def _load_data(name: str, path: Path | None, split: str | None) -> Data:
    """Load only the required split of a known set, which may be large; all splits of the user's own data."""
    from weightsmith.data import load
    from weightsmith.data.catalogue import CATALOGUE

    everything = ("test",) if name in CATALOGUE else ("train", "validation", "test")
    return load(name, path=path, splits=(split,) if split else everything)


# Evaluate the file of a spiking network: accuracy by steps, and rates.


def _run_spiking(
    file: Path,
    known: Data,
    *,
    split: str | None,
    steps: int,
    images: int | None,
    seed: int,
    precision: Precision,
    quiet: bool,
) -> dict[str, Any]:
    """Run the spiking network in ``file`` on one split of ``known``, with the rows and spikes of its conversion."""
    import torch

    from weightsmith.networks.evaluation import labels_for
    from weightsmith.spiking.files import load_spiking
    from weightsmith.spiking.simulation.simulate import simulate

    network = load_spiking(file)
    chosen = split or (next(iter(known.splits)) if len(known.splits) == 1 else "test")
    part = known.split(chosen)
    rows = np.arange(len(part))
    if images is not None and images < len(part):
        rows = np.sort(stream(seed, "judging rows").choice(len(part), images, replace=False))
    x, y = part.x[torch.from_numpy(rows)], part.y[torch.from_numpy(rows)]
    labels = labels_for(network.card, known, y, network.classes)[1]
    if not quiet:
        for note in (*network.card.notes, *known.notes):
            say_note(note)
    say_if_compiling(quiet)
    with progress_bar("evaluate", quiet) as progress:
        responses = simulate(network, x, steps, seed=seed, precision=precision, progress=progress)
    return {
        "file": str(file),
        "data": known.name,
        "split": chosen,
        "images": len(rows),
        "neuron": str(network.neuron),
        "encode": str(network.encode),
        "precision": precision,
        "seed": seed,
        "steps": _steps(responses, labels.numpy()),
        "layers": _layers(network, responses),
    }


def _steps(responses: Responses, labels: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    from weightsmith.spiking.simulation.responses import UNDECIDED

    correct = responses.correct(labels).sum(axis=0, dtype=np.int64)
    undecided = (responses.answers == UNDECIDED).sum(axis=0, dtype=np.int64)
    return accuracy_rows(correct, undecided, responses.images)


def _layers(network: SpikingNetwork, responses: Responses) -> list[dict[str, Any]]:
    rates, spikes = responses.rates(), responses.spikes()
    return [
        {
            "layer": node.layer or node.name,
            "population": node.name,
            "neurons": responses.units[node.name],
            "rate": rates[node.name],
            "spikes": spikes[node.name] / responses.images,
        }
        for node in network.populations
    ]
