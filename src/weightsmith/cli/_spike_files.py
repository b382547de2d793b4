"""The output files of ``weightsmith spike`` besides network and record: tables, figures and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli._figure_files import write_figures
from weightsmith.core.csv_text import csv_rows
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.sections._spiking_layers import layer_rows, step_rows
from weightsmith.reporting.sections._spiking_rivals import rival_rows

if TYPE_CHECKING:
    from weightsmith.reporting.parts import Section
    from weightsmith.spiking.results import SpikeRecord

__all__ = ["as_dict", "draw", "write_tables"]


def as_dict(record: SpikeRecord, description: Section, written: Sequence[Path]) -> dict[str, Any]:
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


def write_tables(folder: Path, record: SpikeRecord) -> list[Path]:
    """``steps.csv`` with a row per step, ``layers.csv`` with a row per layer."""
    layers = [dataclasses.asdict(row) for row in layer_rows(record)]
    return [
        write_atomic(folder / "steps.csv", csv_rows(step_rows(record))),
        write_atomic(folder / "layers.csv", csv_rows(layers)),
    ]


def draw(target: Path, record: SpikeRecord, classes: Sequence[str]) -> list[Path]:
    """All figures of a conversion; ``classes`` are used if there is a name for each output."""
    from weightsmith.reporting.figures.spiking.catalogue import figures_of

    fits = len(classes) == len(record.decisions.confusion.matrix)
    return write_figures(target, figures_of(record, classes if fits else None))
