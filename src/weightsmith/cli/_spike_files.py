"""The output files of ``weightsmith spike`` besides network and record: tables, figures and JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.cli._figure_files import write_figures
from weightsmith.cli._spike_findings import advice, concerns
from weightsmith.cli._spike_rows import layer_rows, step_rows
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from weightsmith.spiking.results import SpikeRecord

__all__ = ["as_csv", "as_dict", "draw", "write_tables"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # beginnings of a cell that a spreadsheet would compute


def as_dict(
    record: SpikeRecord, written: Sequence[Path], least_accuracy: float | None, *, kept: bool
) -> dict[str, Any]:
    """The full result as JSON values; ``steps`` and ``layers`` are the tables of the CSV files."""
    return {
        "record": record.to_dict(),
        "steps": step_rows(record),
        "layers": [dataclasses.asdict(row) for row in layer_rows(record)],
        "look_at": concerns(record, least_accuracy),
        "try_next": advice(record, kept=kept),
        "files": [str(path) for path in written],
    }


def write_tables(folder: Path, record: SpikeRecord) -> list[Path]:
    """``steps.csv`` with a row per step, ``layers.csv`` with a row per layer."""
    layers = [dataclasses.asdict(row) for row in layer_rows(record)]
    return [
        write_atomic(folder / "steps.csv", as_csv(step_rows(record))),
        write_atomic(folder / "layers.csv", as_csv(layers)),
    ]


def draw(target: Path, record: SpikeRecord, classes: Sequence[str]) -> list[Path]:
    """All figures of a conversion; ``classes`` are used if there is a name for each output."""
    from weightsmith.reporting.figures.spiking.catalogue import figures_of

    fits = len(classes) == len(record.decisions.confusion.matrix)
    return write_figures(target, figures_of(record, classes if fits else None))


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV; text that a spreadsheet would read as a formula is quoted: names of layers come from files."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _harmless(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
