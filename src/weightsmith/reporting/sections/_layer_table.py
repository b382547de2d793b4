"""The layers of a network as a table for people: which columns, what they mean, and how their values are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weightsmith.grading.results import LayerGrade, VerdictKind
from weightsmith.reporting.figures._networks import MARKS
from weightsmith.reporting.figures.labels import layer_label
from weightsmith.reporting.parts import Cell, Column, Shown, Table

__all__ = ["layer_table", "marked"]

_SYMBOLS = {"v": "▼", "o": "●", "^": "▲", "D": "◆", "s": "■", "h": "⬢", "X": "✖"}


class _LayerColumn(NamedTuple):
    """A column: its head, its meaning, what it holds in :func:`_values`, and whether that is a number."""

    head: str
    meaning: str
    key: str
    numeric: bool = True


def layer_table(layers: Sequence[LayerGrade], name: str) -> Table:
    """A row per layer of the network ``name``, in the columns in which at least one layer has a value."""
    found = [_values(layer) for layer in layers]
    shown = [column for column in _COLUMNS if any(_value(values[column.key]) is not None for values in found)]
    columns = tuple(Column(column.head, column.meaning, column.numeric) for column in shown)
    rows = tuple(tuple(values[column.key] for column in shown) for values in found)
    return Table("Layers", columns or (Column("layer"),), rows, file=f"{name}-layers")


def marked(kind: VerdictKind) -> str:
    """The verdict after a symbol of the shape it has in figures."""
    return f"{_SYMBOLS[MARKS[kind][1]]} {kind.value}"


def _values(layer: LayerGrade) -> dict[str, Cell | Shown]:
    """The flat row of the layer, and what only people ask for."""
    better = [other.name for other in layer.alternatives if other.favours == other.name]
    size = f"{layer.N:,} × {layer.M:,}" + (f" · {layer.matrices:,}" if layer.matrices > 1 else "")
    interval = layer.interval
    tied = (f"same weight as {', '.join(layer.tied_with)}",) if layer.tied_with else ()
    return layer.row() | {
        "layer": layer_label(layer),
        "verdict": Shown(layer.verdict.kind.value, marked(layer.verdict.kind)),
        "interval": None
        if interval is None
        else Shown(interval.high - interval.low, f"[{interval.low:.3g}, {interval.high:.3g}]"),
        "better": (", ".join(better) or "none") if layer.alternatives else None,
        "parameters": Shown(layer.parameters, size),
        "remarks": "; ".join((*tied, *layer.notes)) or None,
    }


def _value(cell: Cell | Shown) -> Cell:
    return cell.value if isinstance(cell, Shown) else cell


_COLUMNS = (
    _LayerColumn("layer", "its name, with the number of the matrix where each has a row", "layer", numeric=False),
    _LayerColumn("verdict", "what can be said of it, in the shape it has in the figures", "verdict", numeric=False),
    _LayerColumn("α", "the exponent of the power law fitted to the tail", "alpha"),
    _LayerColumn("interval", "of α by resampling, the choice of λ_min included; sorted by its width", "interval"),
    _LayerColumn("λ_min", "where the tail begins", "xmin"),
    _LayerColumn("D", "the largest distance between the tail and the law, 0 to 1", "D"),
    _LayerColumn("tail", "how many eigenvalues the law was fitted to", "tail"),
    _LayerColumn("eigenvalues", "how many eigenvalues the matrices have together", "evals"),
    _LayerColumn(
        "p of fit", "how often a tail drawn from the law lies further from it; below 0.1 it is rejected", "p_fit"
    ),
    _LayerColumn(
        "better laws",
        "of exponential, lognormal and truncated power law those that suit the tail better at p < 0.1",
        "better",
        numeric=False,
    ),
    _LayerColumn("λ_max", "the largest eigenvalue", "lambda_max"),
    _LayerColumn("stable rank", "Σλ / λ_max", "stable_rank"),
    _LayerColumn("spikes", "eigenvalues beyond what noise of that size reaches", "spikes"),
    _LayerColumn("twin distance", "between the spectrum and that of the same weights in random order", "twin_distance"),
    _LayerColumn("traps", "eigenvalues beyond the noise even with the weights in random order", "traps"),
    _LayerColumn(
        "α, fixed aspect", "α of sub-matrices of one shape, because α drifts with N / M", "alpha_fixed_aspect"
    ),
    _LayerColumn("size", "rows N × columns M of each matrix · how many matrices; sorted by parameters", "parameters"),
    _LayerColumn("kind", "what sort of layer it is", "kind", numeric=False),
    _LayerColumn("because", "the numbers that the verdict rests on", "because", numeric=False),
    _LayerColumn("remarks", "shared weights, and what was noted while reading", "remarks", numeric=False),
)
