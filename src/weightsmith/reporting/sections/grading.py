"""The description of grades: how well each layer is trained by its weights, and the layers without a grade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weightsmith.grading.answer import answer
from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.results import Coverage, Grades, LayerGrade, Measure, Status, VerdictKind
from weightsmith.reporting._sparks import spectrum_spark
from weightsmith.reporting.figures._networks import MARKS
from weightsmith.reporting.figures.labels import layer_label
from weightsmith.reporting.figures.shares import shares_figure
from weightsmith.reporting.parts import Cell, Choice, Column, Drawing, Facts, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._grading_words import settings_words, verdict_words
from weightsmith.reporting.sections._wording import counted, facts_of
from weightsmith.reporting.sections.comparing import alpha_curve, layer_drawings, network_drawings

__all__ = ["MOST_SPECTRA", "concerns", "grading_section"]


MOST_SPECTRA = 48
"""Spectra that fit on a page: two drawings each, about 40,000 characters together, for any size of layer."""

_BARS = 12  # of the histogram of a spectrum
_SHARES = ("name", "slice", "words", "share_over_regularised", "share_well_trained", "share_weakly_trained")
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
    "How a verdict is reached: a layer without a fit has its status instead. Without an eigenvalue beyond the range of "
    "random weights (Marchenko–Pastur, at 1 %) it looks like noise, whatever α is. Where the power law is rejected, "
    "there is no verdict; where the interval of α reaches into more than one class, the layer leans to the one with "
    "75 % of its resamples or more, or stays undecided (cannot say). Otherwise α below "
    f"{HEAVIEST:g} is over-regularised, up to {LIGHTEST:g} well trained, beyond weakly trained."
)


def grading_section(grades: Grades, name: str, *, spectra: int = MOST_SPECTRA, why: bool = False) -> Section:
    """The description of grades named ``name``; ``why``: a terminal shows the reason for each verdict too.

    The spectra of up to ``spectra`` layers are drawn, first of those with a conspicuous verdict, then of the
    largest; the section says how many it leaves out. Several networks on one page share :data:`MOST_SPECTRA`.
    """
    layers = grades.layers
    parts: list[Part] = [Notes(grades.notes)] if grades.notes else []
    parts += network_drawings([grades], name)
    if any(layer.shares is not None for layer in layers):
        how = (
            "How to read it: each bar is a layer, its colours the shares of its resamples in each class; a bar of one "
            "colour is certain."
        )
        rows = [{key: layer.row()[key] for key in _SHARES} for layer in layers if layer.shares is not None]
        parts.append(
            Drawing("How sure each verdict is", how, lambda: shares_figure(grades), rows, file=f"{name}-shares")
        )
    if layers:
        meanings = verdict_words(layers, "" if why else "--why explains each")
        parts += [_layer_table(layers, name), Facts("What the verdicts mean", tuple(meanings))]
        parts += [_reasons(layers, name, detail=not why), *_spectra(grades, name, spectra)]
    parts += [_measures(grades.measures, name), _left_out(grades.coverage, name)]
    parts.append(facts_of(grades.settings, grades.origin, before=[("source", grades.source)]))
    counts = grades.verdicts().items()
    how = "Verdicts come from the spectrum of the weights alone."
    first = [f"{line}." for line in answer(grades).lines] if layers else []
    lead = "\n\n".join([*first, f"{grades.coverage.line}. {how}"])
    leaning = sum(layer.words.startswith("leans") for layer in layers)
    lean = {VerdictKind.CANNOT_SAY: f", {leaning} of them lean to one class" * (leaning > 0)}
    chips = [(_marked(kind), counted(count, "layer") + lean.get(kind, "")) for kind, count in counts]
    if curve := alpha_curve(grades):
        chips.append(("α by layer", curve))
    return Section(
        f"Grades: {name}", lead, tuple(parts), tuple(chips), settings_words(grades), tuple(concerns(grades, name))
    )


def concerns(grades: Grades, name: str) -> list[str]:
    """Layers with NaN or infinity, and a network without layers."""
    if not grades.layers:
        return [f"nothing to grade in {name}: no tensor is a layer (see weightsmith inspect)"]
    broken = [layer_label(layer) for layer in grades.layers if layer.status is Status.NON_FINITE]
    return [f"NaN or infinity in {_some(broken)}: not graded"] if broken else []


def _reasons(layers: Sequence[LayerGrade], name: str, *, detail: bool) -> Table:
    columns = (Column("layer"), Column("verdict"), Column("because", "the numbers behind the verdict"))
    rows = tuple((layer_label(layer), layer.words, _because(layer)) for layer in layers)
    return Table("Why", columns, rows, _VERDICTS, file=f"{name}-why", detail=detail)


def _because(layer: LayerGrade) -> str:
    return layer.verdict.because + (f"; the interval may be too narrow: {layer.narrow}" if layer.narrow else "")


def _measures(measures: Sequence[Measure], name: str) -> Table:
    caption = "Measures that need a fit leave out layers without one; each is shown with its number of layers."
    if any(measure.baseline for measure in measures):
        caption += " Where measures without a fit order networks as well, the power laws add nothing."
    columns = (
        Column("measure"),
        Column("value", numeric=True),
        Column("layers", "how many are in it", numeric=True),
        Column("needs a fit", "made of α, not of plain norms alone", spare=1),
        Column("what is in it"),
    )
    ordered = sorted(measures, key=lambda measure: measure.baseline)
    rows = tuple((m.name, m.value, m.layers, "no" if m.baseline else "yes", m.meaning) for m in ordered)
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
                f"{len(chosen):,} of {len(possible):,} spectra are drawn: first those with a conspicuous verdict, "
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


def _layer_table(layers: Sequence[LayerGrade], name: str) -> Table:
    """A row per layer of the network ``name``, in the columns in which at least one layer has a value."""
    confidences = sorted({layer.interval.confidence for layer in layers if layer.interval is not None})
    levels = " and ".join(f"{100 * confidence:g} %" for confidence in confidences)
    of = f"of α, {levels}, the choice of λ_min included; ~ may be too narrow"
    columns = tuple(replace(each, meaning=of) if each.head == "interval" else each for each in _COLUMNS.values())
    found = [_values(layer) for layer in layers]
    rows = tuple(tuple(values[key] for key in _COLUMNS) for values in found)
    caption = "In the order of the file or module."
    return Table("Layers", columns, rows, caption, file=f"{name}-layers").filled()


def _marked(kind: VerdictKind) -> str:
    """The verdict with the symbol it has in figures."""
    return f"{_SYMBOLS[MARKS[kind][1]]} {kind.value}"


def _values(layer: LayerGrade) -> dict[str, Cell | Shown]:
    """The flat row of the layer, with extra display values."""
    better = [other.name for other in layer.alternatives if other.favours == other.name]
    size = f"{layer.N:,} × {layer.M:,}" + (f" · {layer.matrices:,}" if layer.matrices > 1 else "")
    interval, fit, row = layer.interval, layer.fit, layer.row()
    tied = (f"same weight as {', '.join(layer.tied_with)}",) if layer.tied_with else ()
    verdict = _marked(layer.verdict.kind).replace(layer.verdict.kind.value, layer.words)
    ends = None if interval is None else f"{'~' * (layer.narrow is not None)}[{interval.low:.2f}, {interval.high:.2f}]"
    span = None if interval is None or ends is None else Shown(interval.high - interval.low, ends)
    return row | {
        "layer": layer_label(layer),
        "verdict": Shown(layer.verdict.kind.value, verdict + (" (groups: a guess)" if layer.guessed else "")),
        "alpha": None if layer.alpha is None else Shown(layer.alpha, f"{layer.alpha:.2f}"),
        "interval": span,
        "D": None if fit is None else Shown(fit.D, f"{fit.D:.3f}"),
        "xmin": None if fit is None else Shown(fit.xmin, f"{fit.xmin:.3g}"),
        "lambda_max": None
        if layer.metrics is None
        else Shown(layer.metrics.lambda_max, f"{layer.metrics.lambda_max:.3g}"),
        "spikes": None if fit is None else row["spikes"],
        "better": (", ".join(better) or "none") if layer.alternatives else None,
        "parameters": Shown(layer.parameters, size),
        "spectrum": spectrum_spark(layer.eigenvalues, _BARS, ascii_only=False) or None,
        "remarks": "; ".join((*tied, *layer.notes)) or None,
    }


_COLUMNS = {
    "layer": Column("layer"),
    "verdict": Column("verdict"),
    "alpha": Column("α", "exponent of the tail", numeric=True),
    "interval": Column("interval", numeric=True),
    "parameters": Column("size", "rows × columns of its matrices · how many", numeric=True, spare=16),
    "evals": Column("eigenvalues", numeric=True, spare=14),
    "xmin": Column("λ_min", "where the tail begins", numeric=True, spare=13),
    "D": Column("D", "distance of the tail to the law", numeric=True, spare=10),
    "tail": Column("tail", "eigenvalues in it", numeric=True, spare=12),
    "lambda_max": Column("λ_max", "largest eigenvalue", numeric=True, spare=11),
    "spikes": Column("spikes", "eigenvalues beyond noise", numeric=True, spare=15),
    "spectrum": Column("spectrum", "log counts by log λ", spare=9),
    "p_fit": Column("p of fit", "below 0.1 the law is rejected", numeric=True, spare=8),
    "better": Column("better laws", "that suit the tail better at p < 0.1", spare=7),
    "stable_rank": Column("stable rank", "Σλ / λ_max", numeric=True, spare=6),
    "twin_distance": Column(
        "twin distance", "to the spectrum of the same weights in random order", numeric=True, spare=5
    ),
    "traps": Column("traps", "eigenvalues beyond noise even in random order", numeric=True, spare=4),
    "alpha_fixed_aspect": Column(
        "α, fixed aspect", "of sub-matrices of one shape, because α drifts with N / M", numeric=True, spare=3
    ),
    "kind": Column("kind", spare=1),
    "remarks": Column("remarks", spare=2),
}
"""The columns of the table of layers, by their key in :func:`_values`."""
