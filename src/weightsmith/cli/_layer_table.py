"""The table of graded layers: a row for each, with as many columns as fit into the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from weightsmith.cli.terminal import table
from weightsmith.reporting._sparks import spectrum_spark

if TYPE_CHECKING:
    from weightsmith.grading.results import LayerGrade

__all__ = ["layer_legend", "layer_name", "layer_table"]

_GAP = (0, 1, 0, 0)  # one space between columns
_SHORTEST_NAME = 8
_SPECTRUM = 12  # bars of a histogram


class _Column(NamedTuple):
    head: str
    cell: Callable[[LayerGrade], str]
    meaning: str = ""
    numeric: bool = True
    given_up: int = 0
    """Which column a narrow terminal drops first: 1 first, 0 never."""


def layer_table(layers: Sequence[LayerGrade], width: int) -> Table:
    """One row per layer (or slice of one); a layer without a fit shows its status in place of a verdict.

    If ``width`` is too small, columns are dropped one by one, and then names are cut from the left.
    """
    columns = _columns(layers, width)
    rows = table(*(column.head for column in columns), numbers=tuple(c.head for c in columns if c.numeric))
    rows.padding = _GAP
    room = max(_SHORTEST_NAME, width - _width(columns[1:], layers) - 1)
    for layer in layers:
        name, *cells = (column.cell(layer) for column in columns)
        rows.add_row(escape(_cut(name, room)), *map(escape, cells))
    return rows


def layer_legend(layers: Sequence[LayerGrade], width: int) -> str:
    """The meaning of the columns, and which of them were dropped."""
    columns = _columns(layers, width)
    words = [f"{column.head} {column.meaning}" for column in columns if column.meaning]
    shown = {column.head for column in columns}
    missing = [column.head for column in _filled(layers) if column.head not in shown]
    words += [f"a wider terminal has {', '.join(missing)}"] if missing else []
    return " · ".join(words)


def layer_name(layer: LayerGrade) -> str:
    """The layer's name, with the number of its slice."""
    return layer.name if layer.slice is None else f"{layer.name}[{layer.slice}]"


def _columns(layers: Sequence[LayerGrade], width: int) -> list[_Column]:
    columns = _filled(layers)
    for last in sorted((column for column in columns if column.given_up), key=lambda column: column.given_up):
        if _width(columns, layers) <= width:
            break
        columns.remove(last)
    return columns


def _filled(layers: Sequence[LayerGrade]) -> list[_Column]:
    """All columns but empty ones."""
    confidences = sorted({layer.interval.confidence for layer in layers if layer.interval is not None})
    interval = f"[{' and '.join(f'{100 * confidence:g} %' for confidence in confidences)} interval]"
    columns = [
        _Column("layer", layer_name, numeric=False),
        _Column("N×M", _size, "size of its matrices", given_up=8),
        _Column("evals", lambda layer: str(layer.evals), "eigenvalues of all", given_up=6),
        _Column("α", _exponent, interval if confidences else "exponent of the tail"),
        _Column(
            "λ_min",
            lambda layer: "" if layer.fit is None else f"{layer.fit.xmin:.3g}",
            "where the tail begins",
            given_up=5,
        ),
        _Column(
            "D", lambda layer: "" if layer.fit is None else f"{layer.fit.D:.3f}", "its distance to the law", given_up=2
        ),
        _Column(
            "tail", lambda layer: "" if layer.fit is None else str(layer.fit.tail), "eigenvalues in it", given_up=4
        ),
        _Column("λ_max", _largest, "largest eigenvalue", given_up=3),
        _Column("spikes", _spikes, "eigenvalues beyond noise", given_up=7),
        _Column("spectrum", _spectrum, "log counts by log λ", numeric=False, given_up=1),
        _Column("verdict", _verdict, numeric=False),
    ]
    return [column for column in columns if not column.given_up or any(map(column.cell, layers))]


def _width(columns: Sequence[_Column], layers: Sequence[LayerGrade]) -> int:
    widest = (max(cell_len(text) for text in (column.head, *map(column.cell, layers))) for column in columns)
    return sum(widest) + len(columns) - 1


def _cut(name: str, room: int) -> str:
    return name if cell_len(name) <= room else f"…{name[1 - room :]}"


def _size(layer: LayerGrade) -> str:
    return f"{layer.N}×{layer.M}" + (f" ×{layer.matrices}" if layer.matrices > 1 else "")


def _exponent(layer: LayerGrade) -> str:
    if layer.alpha is None:
        return ""
    if layer.alpha_low is None or layer.alpha_high is None:
        return f"{layer.alpha:.2f}"
    return f"{layer.alpha:.2f} [{layer.alpha_low:.2f}, {layer.alpha_high:.2f}]"


def _largest(layer: LayerGrade) -> str:
    return "" if layer.metrics is None else f"{layer.metrics.lambda_max:.3g}"


def _spikes(layer: LayerGrade) -> str:
    return "" if layer.fit is None or layer.bulk is None else str(layer.bulk.spikes)


def _spectrum(layer: LayerGrade) -> str:
    return spectrum_spark(layer.eigenvalues, _SPECTRUM)


def _verdict(layer: LayerGrade) -> str:
    if layer.fit is None:
        return layer.status.value
    return layer.verdict.kind.value + (" (groups: a guess)" if layer.guessed else "")
