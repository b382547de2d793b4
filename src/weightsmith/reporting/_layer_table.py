"""The layers of a network as a table for people: which columns, what they mean, and how their values are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weightsmith.grading.results import LayerGrade, VerdictKind
from weightsmith.reporting._inline import COLOURS
from weightsmith.reporting.figures._networks import MARKS
from weightsmith.reporting.figures.labels import layer_label

__all__ = ["Column", "LayerRow", "Mark", "TableCell", "columns_of", "mark_of", "row_of", "text_of"]

Value = float | int | str | None

_SYMBOLS = {"v": "▼", "o": "●", "^": "▲", "D": "◆", "s": "■", "h": "⬢", "X": "✖"}


class Column(NamedTuple):
    """A column: its head, its meaning, what it holds in :func:`_values`, and whether that is a number."""

    head: str
    meaning: str
    key: str
    numeric: bool = True


class TableCell(NamedTuple):
    """A value, None where there is none, and its text."""

    value: Value
    text: str


class Mark(NamedTuple):
    """The sign of a verdict: its name, a symbol of the figures' shape, and a colour of the style sheet."""

    name: str
    symbol: str
    colour: str


class LayerRow(NamedTuple):
    """One layer: its cells, remarks under its name, its verdict (sorted by ``order``), and where its spectrum is."""

    cells: tuple[TableCell, ...]
    remarks: tuple[str, ...]
    verdict: str
    because: str
    order: int
    symbol: str
    colour: str
    anchor: str | None


def text_of(value: Value) -> str:
    """A value for people: four digits, whole numbers in full, a dash where there is none.

    >>> [text_of(value) for value in (None, 12345, 0.123456, 2.0, "ks")]
    ['–', '12,345', '0.1235', '2', 'ks']
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def mark_of(kind: VerdictKind) -> Mark:
    """How a verdict is marked, as in the figures."""
    colour, shape = MARKS[kind]
    return Mark(kind.value, _SYMBOLS[shape], COLOURS[colour])


def columns_of(layers: Iterable[LayerGrade]) -> list[Column]:
    """The columns in which at least one layer has a value."""
    found = [_values(layer) for layer in layers]
    return [column for column in _COLUMNS if any(values[column.key] is not None for values in found)]


def row_of(layer: LayerGrade, columns: Sequence[Column], anchor: str | None) -> LayerRow:
    """The layer in these columns."""
    values, texts = _values(layer), _texts(layer)
    cells = tuple(
        TableCell(values[column.key], texts.get(column.key) or text_of(values[column.key])) for column in columns
    )
    tied = (f"same weight as {', '.join(layer.tied_with)}",) if layer.tied_with else ()
    mark = mark_of(layer.verdict.kind)
    order = list(VerdictKind).index(layer.verdict.kind)
    because = layer.verdict.because
    return LayerRow(cells, (*tied, *layer.notes), mark.name, because, order, mark.symbol, mark.colour, anchor)


def _values(layer: LayerGrade) -> dict[str, Value]:
    """The flat row of the layer, and what only people ask for."""
    better = [other.name for other in layer.alternatives if other.favours == other.name]
    return layer.row() | {
        "layer": layer_label(layer),
        "interval": None if layer.interval is None else layer.interval.high - layer.interval.low,
        "better": (", ".join(better) or "none") if layer.alternatives else None,
    }


def _texts(layer: LayerGrade) -> dict[str, str]:
    """What is shown where that is not the value it sorts by."""
    size = f"{layer.N:,} × {layer.M:,}" + (f" · {layer.matrices:,}" if layer.matrices > 1 else "")
    interval = "" if layer.interval is None else f"[{layer.interval.low:.3g}, {layer.interval.high:.3g}]"
    return {"parameters": size, "interval": interval}


_COLUMNS = (
    Column("layer", "its name, with the number of the matrix where each has a row", "layer", numeric=False),
    Column("α", "the exponent of the power law fitted to the tail", "alpha"),
    Column("interval", "of α by resampling, the choice of λ_min included; sorted by its width", "interval"),
    Column("λ_min", "where the tail begins", "xmin"),
    Column("D", "the largest distance between the tail and the law, 0 to 1", "D"),
    Column("tail", "how many eigenvalues the law was fitted to", "tail"),
    Column("eigenvalues", "how many eigenvalues the matrices have together", "evals"),
    Column("p of fit", "how often a tail drawn from the law lies further from it; below 0.1 it is rejected", "p_fit"),
    Column(
        "better laws",
        "of exponential, lognormal and truncated power law those that suit the tail better at p < 0.1",
        "better",
        numeric=False,
    ),
    Column("λ_max", "the largest eigenvalue", "lambda_max"),
    Column("stable rank", "Σλ / λ_max", "stable_rank"),
    Column("spikes", "eigenvalues beyond what noise of that size reaches", "spikes"),
    Column("twin distance", "between the spectrum and that of the same weights in random order", "twin_distance"),
    Column("traps", "eigenvalues beyond the noise even with the weights in random order", "traps"),
    Column("α, fixed aspect", "α of sub-matrices of one shape, because α drifts with N / M", "alpha_fixed_aspect"),
    Column("size", "rows N × columns M of each matrix · how many matrices; sorted by parameters", "parameters"),
    Column("kind", "what sort of layer it is", "kind", numeric=False),
)
