"""The section of grades: how well each layer is trained by its weights, and the layers without a grade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.results import Coverage, Grades, LayerGrade, Measure, VerdictKind
from weightsmith.reporting.figures._networks import MARKS
from weightsmith.reporting.figures.labels import layer_label
from weightsmith.reporting.parts import Cell, Choice, Column, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._wording import counted, facts_of
from weightsmith.reporting.sections.comparing import layer_drawings, network_drawings

__all__ = ["MOST_SPECTRA", "grading_section"]


MOST_SPECTRA = 48
"""Spectra that fit on a page: two drawings each, about 40,000 characters together, for any size of layer."""

_NAMED = 3  # omitted tensors that are named with their reason; the CSV has all
_ASKED_FIRST = (
    VerdictKind.OVER_REGULARISED,
    VerdictKind.WEAKLY_TRAINED,
    VerdictKind.NO_HEAVY_TAIL,
    VerdictKind.CANNOT_SAY,
    VerdictKind.WELL_TRAINED,
    VerdictKind.NOT_JUDGED,
    VerdictKind.CANNOT_BE_FITTED,
)
_VERDICTS = (
    "How a verdict is reached: a layer without a fit has its status instead. Without an eigenvalue beyond the noise "
    "(Marchenko–Pastur, at 1 %) there is no heavy tail, whatever α says. Where the power law is rejected, or the "
    "interval of α reaches into more than one class, it cannot be said. Otherwise α below "
    f"{HEAVIEST:g} is over-regularised, up to {LIGHTEST:g} well trained, beyond weakly trained."
)


def grading_section(grades: Grades, name: str, *, spectra: int = MOST_SPECTRA) -> Section:
    """The section of grades named ``name``.

    The spectra of up to ``spectra`` layers are drawn, first of those with a conspicuous verdict, then of the
    largest; the section says how many it leaves out. Several networks on one page share :data:`MOST_SPECTRA`.
    """
    parts: list[Part] = []
    if grades.notes:
        parts.append(Notes(grades.notes))
    parts += network_drawings([grades], name)
    parts.append(_measures(grades.measures, name))
    if grades.layers:
        parts += [_layer_table(grades.layers, name), Prose(_VERDICTS), *_spectra(grades, name, spectra)]
    parts.append(_left_out(grades.coverage, name))
    parts.append(facts_of(grades.settings, grades.origin, before=[("source", grades.source)]))
    chips = tuple((_marked(kind), counted(count, "layer")) for kind, count in grades.verdicts().items())
    lead = f"{grades.coverage.line}. Whether a layer is well trained is told from the spectrum of its weights alone."
    return Section(f"Grades: {name}", lead, tuple(parts), chips)


def _measures(measures: Sequence[Measure], name: str) -> Table:
    caption = "Those that need a fit leave out layers without one; the number of layers in each stands beside it."
    if any(measure.baseline for measure in measures):
        caption += " Where those without any fit order networks as well, the power laws add nothing."
    columns = (
        Column("measure"),
        Column("value", numeric=True),
        Column("layers", "how many are in it", numeric=True),
        Column("needs a fit", "whether it is made of α, or of plain norms"),
        Column("what is in it"),
    )
    rows = tuple((m.name, m.value, m.layers, "no" if m.baseline else "yes", m.meaning) for m in measures)
    return Table("Measures of the whole network", columns, rows, caption, file=f"{name}-measures")


def _spectra(grades: Grades, name: str, most: int) -> list[Part]:
    """The drawn spectra, in the order of the layers; the most conspicuous one is shown first."""

    def interest(index: int) -> tuple[int, int, int]:
        layer = grades.layers[index]
        return _ASKED_FIRST.index(layer.verdict.kind), -layer.parameters, index

    possible = [index for index, layer in enumerate(grades.layers) if layer.eigenvalues.size]
    asked = sorted(possible, key=interest)[: max(most, 0)]
    chosen = sorted(asked)
    parts: list[Part] = []
    if len(chosen) < len(possible):
        parts.append(
            Prose(
                f"{len(chosen):,} of {len(possible):,} spectra are drawn: first those whose verdict asks for a look, "
                "then those of the largest layers."
            )
        )
    if chosen:
        options = tuple(_spectrum(grades.layers[index], name) for index in chosen)
        parts.append(Choice("Spectrum of layer", options, first=chosen.index(asked[0])))
    return parts


def _spectrum(layer: LayerGrade, name: str) -> tuple[str, tuple[Part, ...]]:
    verdict = layer.verdict
    verdict_text = Prose(f"{_marked(verdict.kind)}: {verdict.because}")
    # The name of its row in the table of layers, which links here.
    return layer_label(layer), (verdict_text, *layer_drawings(layer, name))


class _Group(NamedTuple):
    """Tensors left out for the same reason."""

    names: list[str]
    parameters: int


def _left_out(coverage: Coverage, name: str) -> Part:
    """Tensors that were not graded, by reason, the most parameters first: there are as many biases as layers."""
    if not coverage.left_out:
        return Prose("Nothing is left out: every parameter is in a layer with a fit.")
    groups: dict[str, _Group] = {}
    for item in coverage.left_out:
        known = groups.get(item.reason, _Group([], 0))
        groups[item.reason] = _Group([*known.names, item.name], known.parameters + item.parameters)
    columns = (
        Column("reason"),
        Column("tensors", numeric=True),
        Column("parameters", numeric=True),
        Column("which", "the first of them; the CSV has all"),
    )
    rows = tuple(
        (reason, len(group.names), group.parameters, Shown(", ".join(group.names), _some(group.names)))
        for reason, group in sorted(groups.items(), key=lambda pair: -pair[1].parameters)
    )
    return Table("Left out", columns, rows, file=f"{name}-left-out")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


# The table of layers: its columns, their meaning, and the format of their values.


_SYMBOLS = {"v": "▼", "o": "●", "^": "▲", "D": "◆", "s": "■", "h": "⬢", "X": "✖"}


class _LayerColumn(NamedTuple):
    """A column: its head, its meaning, its key in :func:`_values`, and whether it is a number."""

    head: str
    meaning: str
    key: str
    numeric: bool = True


def _layer_table(layers: Sequence[LayerGrade], name: str) -> Table:
    """A row per layer of the network ``name``, in the columns in which at least one layer has a value."""
    found = [_values(layer) for layer in layers]
    shown = [column for column in _COLUMNS if any(_value(values[column.key]) is not None for values in found)]
    columns = tuple(Column(column.head, column.meaning, column.numeric) for column in shown)
    rows = tuple(tuple(values[column.key] for column in shown) for values in found)
    return Table("Layers", columns or (Column("layer"),), rows, file=f"{name}-layers")


def _marked(kind: VerdictKind) -> str:
    """The verdict with the symbol it has in figures."""
    return f"{_SYMBOLS[MARKS[kind][1]]} {kind.value}"


def _values(layer: LayerGrade) -> dict[str, Cell | Shown]:
    """The flat row of the layer, with extra display values."""
    better = [other.name for other in layer.alternatives if other.favours == other.name]
    size = f"{layer.N:,} × {layer.M:,}" + (f" · {layer.matrices:,}" if layer.matrices > 1 else "")
    interval = layer.interval
    tied = (f"same weight as {', '.join(layer.tied_with)}",) if layer.tied_with else ()
    return layer.row() | {
        "layer": layer_label(layer),
        "verdict": Shown(layer.verdict.kind.value, _marked(layer.verdict.kind)),
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
