"""``weightsmith evaluate NETWORK --data NAME``: accuracy with its interval, recall by class and confusions."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import hold
from weightsmith.cli._spike_options import refuse_nir, say_if_compiling
from weightsmith.cli._spike_records import data_of, steps_of
from weightsmith.cli._verb_options import Options, flag_of, takes_options_of
from weightsmith.cli.terminal import print_json, progress_bar, raise_concerns, say_note, show
from weightsmith.core.errors import UsageError
from weightsmith.core.records import write_record
from weightsmith.core.verbs import declared
from weightsmith.networks import evaluating as verb
from weightsmith.spiking.evaluating import evaluate_spiking

if TYPE_CHECKING:
    from weightsmith.data import Data
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.networks.target_evaluation import RegressionEvaluation
    from weightsmith.spiking.evaluating import SpikingEvaluation

__all__ = ["evaluate", "load_judging"]


_WHAT_FOR = "accuracy is measured on rows with labels"
_REMOVED: Literal["skip"] = "skip"


@takes_options_of(
    verb.evaluate,
    evaluate_spiking,
    examples=(
        "weightsmith evaluate runs/net --data digits",
        "weightsmith evaluate runs/spiking --data digits --steps 32 --test-rows 1000",
    ),
)
def evaluate(
    file: given.NetworkFile,
    options: Options,
    data: given.DataOrRecord = None,
    data_path: given.DataPath = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    removed: Annotated[
        Literal["skip", "zero"],
        typer.Option(help="treat all-zero convolutions of a ResNet as removed (skip) or as zero"),
    ] = _REMOVED,
    least_accuracy: given.LeastAccuracy = None,
    out_folder: given.Out = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Accuracy of a network on a data set, with a 95 % Wilson interval, top-5, recall per class and confusion.

    For a spiking network: accuracy after --steps steps, rows without an answer, and firing rates.
    """
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.files import is_spiking

    hold(out_folder)
    spiking = is_spiking(file)
    if spiking:
        loading = {"network": network, "normalise": normalise, "removed": None if removed == _REMOVED else removed}
        _refuse_given({name: value for name, value in loading.items() if value is not None}, f"{file} is spiking")
    else:
        refuse_nir(file)
    own, other = (evaluate_spiking, verb.evaluate) if spiking else (verb.evaluate, evaluate_spiking)
    because = f"{file} is a spiking network" if spiking else f"{file} does not spike (weightsmith spike converts it)"
    taken = _of_verb(options, own, other, because)
    known = load_judging(data_of(file, data, quiet, what_for=_WHAT_FOR), data_path, taken["split"])
    if spiking:
        taken["steps"] = steps_of(file, taken["steps"], quiet)
        result: Evaluation | RegressionEvaluation | SpikingEvaluation = _run_spiking(file, known, taken, quiet)
    else:
        loading = {"network": network, "normalise": normalise, "removed": removed}
        result = _run(file, known, loading, taken, quiet)
    if out_folder is not None:
        write_record(out_folder / "record.json", result)
    description = describe(result, str(file), least_accuracy=least_accuracy)
    if as_json:
        print_json({"file": str(file), **result.to_dict()} if spiking else result.to_dict())
    else:
        show(description)
    raise_concerns(description)


def load_judging(name: str, path: Path | None, split: str | None) -> Data:
    """Load only the required split of a known set, which may be large; all splits of the user's own data."""
    from weightsmith.data import load
    from weightsmith.data.catalogue import CATALOGUE

    everything = ("test",) if name in CATALOGUE else ("train", "validation", "test")
    return load(name, path=path, splits=(split,) if split else everything)


def _of_verb(options: Options, own: Any, other: Any, because: str) -> Options:
    """The options of the called verb; options that only the other verb has are refused if they were changed."""
    alone = {name: each for name, each in declared(other).items() if name not in declared(own)}
    _refuse_given([name for name, each in alone.items() if each.plain and options[name] != each.default], because)
    return {name: value for name, value in options.items() if name in declared(own)}


def _refuse_given(names: Collection[str], because: str) -> None:
    """Raise for options that would have no effect."""
    for name in names:
        raise UsageError(f"{flag_of(name)} does not apply: {because}")


def _run(
    file: Path, known: Data, loading: dict[str, Any], options: Options, quiet: bool
) -> Evaluation | RegressionEvaluation:
    from weightsmith.networks.card import card_of
    from weightsmith.networks.files import load

    loaded = load(file, **loading, input_shape=known.input_shape, classes=len(known.classes))
    _say_notes((*card_of(loaded).notes, *known.notes), quiet)
    with progress_bar("evaluate", quiet) as progress:
        return verb.evaluate(loaded, known, **options, progress=progress)


def _run_spiking(file: Path, known: Data, options: Options, quiet: bool) -> SpikingEvaluation:
    from weightsmith.spiking.files import load_spiking

    loaded = load_spiking(file)
    _say_notes((*loaded.card.notes, *known.notes), quiet)
    say_if_compiling(quiet)
    with progress_bar("evaluate", quiet) as progress:
        return evaluate_spiking(loaded, known, **options, progress=progress)


def _say_notes(notes: Collection[str], quiet: bool) -> None:
    for note in () if quiet else notes:
        say_note(note)
