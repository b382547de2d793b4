"""``weightsmith spike NETWORK --data NAME``: convert a trained network into a spiking one; accuracy and cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import figures_of, write_figures
from weightsmith.cli._spike_options import ROWS, check_out, refuse_nir, refuse_spiking, say_if_compiling
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._stages import stages
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import print_json, raise_concerns, show
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.sections._spiking_layers import layer_rows, step_rows
from weightsmith.reporting.sections._spiking_rivals import rival_rows
from weightsmith.spiking import spike as verb

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data
    from weightsmith.reporting.parts import Section
    from weightsmith.spiking.results import SpikeRecord, SpikeRun

__all__ = ["spike"]


@takes_options_of(
    verb.spike,
    examples=(
        "weightsmith spike runs/net --data digits --within 1 --out runs/spiking",
        "weightsmith spike runs/net --data digits --neuron lif:0.95 --adjust l4:1.0 --test-rows 500",
    ),
)
def spike(
    file: given.NetworkFile,
    options: Options,
    data: given.DataOrRecord = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    least_accuracy: given.LeastAccuracy = None,
    out_folder: given.Out = None,
    figures: given.FiguresOrNone = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Convert a trained network into a spiking one: accuracy after each step, rates, operations and energy.

    Without --neuron, --steps and --balance the conversion is chosen on training rows: by --within, by --energy, or at
    the knee of the front of accuracy and energy; options that are given are kept.
    Exit code 1 if a layer never fires, no candidate meets --within or --energy, or the accuracy is below
    --least-accuracy.
    """
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe

    figure_target = figures_of(figures, out_folder)
    refuse_spiking(file)
    refuse_nir(file)
    check_out(file, out_folder, figure_target)
    known = load_all(data_of(file, data, quiet, what_for=ROWS), path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    result = _spiked(module, known, options | {"out": out_folder}, quiet)
    record, classes = result.record, result.network.card.classes or known.classes
    written = _write(record, out_folder, figure_target, classes)
    asked_for = {"least_accuracy": least_accuracy, "kept": out_folder is not None}
    description = describe(result, str(file), classes=classes, **asked_for)
    if as_json:
        print_json(_as_dict(record, description, written))
    else:
        show(description, written)
    raise_concerns(description)


def _spiked(module: nn.Module, known: Data, options: Options, quiet: bool) -> SpikeRun:
    say_if_compiling(quiet)
    with stages("spike", quiet) as progress:
        return verb.spike(module, known, **options, progress=progress)


def _write(record: SpikeRecord, folder: Path | None, figures: Path | None, classes: Sequence[str]) -> list[Path]:
    """Write the files next to the network and the record, which the conversion wrote; return all files."""
    written = []
    if folder is not None:
        written = [folder / "network.safetensors", folder / "record.json", *_write_tables(folder, record)]
    if figures is not None:
        written += _draw(figures, record, classes)
    return written


def _as_dict(record: SpikeRecord, description: Section, written: Sequence[Path]) -> dict[str, Any]:
    """The full result as JSON values; ``steps`` and ``layers`` are the tables of the CSV files."""
    return {
        "record": record.to_dict(),
        "steps": step_rows(record),
        "layers": [dataclasses.asdict(row) for row in layer_rows(record)],
        "synaptic_operations": record.cost.neurobench,
        "rivals": rival_rows(record.cost),
        "look_at": list(description.look_at),
        "try_next": list(description.try_next),
        "description": description.to_dict(),
        "files": [str(path) for path in written],
    }


def _write_tables(folder: Path, record: SpikeRecord) -> list[Path]:
    """``steps.csv`` with a row per step, ``layers.csv`` with a row per layer."""
    layers = [dataclasses.asdict(row) for row in layer_rows(record)]
    return [
        write_atomic(folder / "steps.csv", csv_rows(step_rows(record))),
        write_atomic(folder / "layers.csv", csv_rows(layers)),
    ]


def _draw(target: Path, record: SpikeRecord, classes: Sequence[str]) -> list[Path]:
    """All figures of a conversion; ``classes`` are used if there is a name for each output."""
    from weightsmith.reporting.figures.spiking import catalogue

    fits = len(classes) == len(record.decisions.confusion.matrix)
    return write_figures(target, catalogue.figures_of(record, classes if fits else None))
