"""The section of a comparison of graded networks: which measure orders them as their accuracies do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weightsmith.grading.comparison import GradeComparison
from weightsmith.grading.results import Grades, LayerGrade
from weightsmith.reporting._sparks import spark
from weightsmith.reporting.figures.comparison import comparison_figure, contest_measures
from weightsmith.reporting.figures.depth import alpha_figure, alpha_histogram
from weightsmith.reporting.figures.epochs import checkpoint_epochs, epochs_figure, epochs_rows
from weightsmith.reporting.figures.labels import layer_label, network_labels
from weightsmith.reporting.figures.spectra import cut_figure, drawn_cuts, spectral_density, spectrum_figure
from weightsmith.reporting.parts import Cell, Column, Drawing, Facts, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._grading_words import settings_words, verdict_words
from weightsmith.reporting.sections._wording import chance, counted, percent, points

__all__ = ["alpha_curve", "comparison_section", "layer_drawings", "network_drawings"]

_BARS = 24  # of the line of α by layer; with more layers only some are shown


def comparison_section(comparison: GradeComparison, _name: str = "", *, networks: Sequence[Grades] = ()) -> Section:
    """The description of a comparison, with figures and verdicts of all ``networks`` if their grades are given."""
    parts: list[Part] = [Notes(comparison.notes)] if comparison.notes else []
    parts += _comparison_drawings(comparison)
    if networks and checkpoint_epochs(networks) is not None:
        parts.append(_epochs(networks))
    if len(networks) > 1:
        parts += network_drawings(networks, "comparison")
    parts += [_coverage(comparison, networks), _measures(comparison)]
    parts.append(Facts("What the measures are", tuple((one.name, one.meaning) for one in comparison.measures)))
    if layers := [layer for network in networks for layer in network.layers]:
        words = verdict_words(layers, "--why with one network explains each")
        parts.append(Facts("What the verdicts mean", tuple(words)))
    if comparison.partials:
        told = [one.words for one in comparison.partials if one.interval is not None]
        parts.append(Notes(tuple(told or [comparison.partials[0].words])))
    sizes = f"{counted(len(comparison.measures), 'measure')} of {counted(len(comparison.names), 'network')}"
    lead = " ".join(filter(None, [f"{sizes}, each over the layers with a fit.", comparison.sentence]))
    if comparison.ranking is not None:
        best, *others = (_labelled(line, comparison.names) for line in comparison.ranking.lines)
        lead = f"{best}. {lead}"
        parts.append(Notes(tuple(others)))
    about = settings_words(networks[0]) if networks else ""
    return Section("Networks side by side", lead, tuple(parts), about=about)


def _epochs(networks: Sequence[Grades]) -> Drawing:
    how = (
        "How to read it: one line per layer; the broad or dark one is the median. While a network learns, the "
        "stable rank usually falls and λ_max grows; a line that reverses or jumps shows the layer and the epoch "
        "to look at."
    )
    return Drawing("By epoch", how, lambda: epochs_figure(networks), list(epochs_rows(networks)), file="epochs")


def _labelled(line: str, names: Sequence[str]) -> str:
    """A line with the short labels of networks in place of their paths."""
    pairs = sorted(zip(names, network_labels(names), strict=True), key=lambda pair: -len(pair[0]))
    for name, label in pairs:
        line = line.replace(name, label)
    return line


def _measures(comparison: GradeComparison) -> Table:
    """A row per measure, a column per network; correlations if there are accuracies."""
    judged = comparison.accuracy is not None
    columns = [Column("measure")]
    columns += [Column(label, numeric=True) for label in network_labels(comparison.names)]
    if judged:
        ways = {one.kendall.method.partition(", ")[2] for one in comparison.measures if one.kendall is not None}
        columns += [
            Column("τ", "Kendall’s correlation with the accuracies", numeric=True),
            Column("p of τ", f"two-sided; {' or '.join(sorted(ways))}", numeric=True),
            Column("ρ", "Spearman’s correlation with the accuracies", numeric=True),
        ]
    columns += [Column("better", "as claimed", spare=3), Column("needs a fit", spare=2), Column("remark", spare=1)]
    rows: list[tuple[Cell | Shown, ...]] = []
    for measure in comparison.measures:
        cells: list[Cell | Shown] = [measure.name, *measure.values]
        if judged:
            tau, rho = measure.kendall, measure.spearman
            cells += [None, None] if tau is None else [Shown(tau.value, points(tau.value, 1, 2)), _p(tau.p)]
            cells += [None] if rho is None else [Shown(rho.value, points(rho.value, 1, 2))]
        rows.append((*cells, measure.better, "no" if measure.baseline else "yes", measure.reason))
    caption = ""
    if comparison.accuracy is not None:
        shares = all(value <= 1 for value in comparison.accuracy)
        texts = [percent(value) if shares else f"{value:g}" for value in comparison.accuracy]
        pairs = zip(network_labels(comparison.names), texts, strict=True)
        caption = f"Accuracies as given: {', '.join(f'{name} {text}' for name, text in pairs)}."
    return Table("Measures of all networks", tuple(columns), tuple(rows), caption, file="comparison").filled()


def _p(p: float) -> Shown:
    return Shown(p, chance(p).removeprefix("p ").removeprefix("= "))


def _coverage(comparison: GradeComparison, networks: Sequence[Grades]) -> Table:
    """How much of each network was graded, and with which outcome."""
    columns = [Column("network"), Column("graded", "how much of it has a fit")]
    names = [Shown(*pair) for pair in zip(comparison.names, network_labels(comparison.names), strict=True)]
    rows: list[tuple[Cell | Shown, ...]] = list(zip(names, comparison.coverage, strict=True))
    if len(networks) == len(rows):
        columns += [Column("verdicts"), Column("α by layer", "from the least to the largest")]
        found = [", ".join(f"{count:,} {kind.value}" for kind, count in one.verdicts().items()) for one in networks]
        curves = map(alpha_curve, networks)
        rows = [(*row, words or None, curve or None) for row, words, curve in zip(rows, found, curves, strict=True)]
    return Table("Coverage", tuple(columns), tuple(rows), file="coverage")


def alpha_curve(grades: Grades) -> str:
    """α from the first layer to the last as bars, a dot for no fit, and its ends; empty without a fit."""
    alphas = [layer.alpha for layer in grades.layers if layer.alpha is not None]
    if not alphas:
        return ""
    bars = spark([layer.alpha for layer in grades.layers], _BARS, ascii_only=False)
    return f"{bars}  {min(alphas):.2f} – {max(alphas):.2f}"


# The drawings of graded networks: each with a sentence on how to read it, and its numbers as rows.


def network_drawings(networks: Sequence[Grades], name: str) -> Iterator[Drawing]:
    """α against depth and its histogram, of one network or of several, if there is something to show.

    ``name`` is the prefix of their file names.
    """
    drawn = [network for network in networks if network.layers]
    if not drawn:
        return
    several = len(drawn) > 1
    rows: list[dict[str, Cell]] = [
        {**({"network": network.source} if several else {}), **layer.row()}
        for network in drawn
        for layer in network.layers
    ]
    how = (
        "How to read it: each mark is a layer, its height α, the line through it the interval, its shape the "
        "verdict; a line that crosses the border between two bands leaves the verdict open."
    )
    yield Drawing("α against depth", how, lambda: alpha_figure(drawn), rows, file=f"{name}-grades")
    if any(layer.alpha is not None for network in drawn for layer in network.layers):
        how = (
            "How to read it: in good networks nearly all layers should lie in the shaded range; a tick at the "
            "bottom is a layer."
            if not several
            else "How to read it: the share of each network’s layers per half unit of α; in good networks nearly all "
            "should lie in the shaded range."
        )
        kept = ("network", "name", "slice", "status", "alpha")
        rows = [{key: row[key] for key in kept if key in row} for row in rows]
        yield Drawing("Histogram of α", how, lambda: alpha_histogram(drawn), rows, file=f"{name}-alpha")


def layer_drawings(layer: LayerGrade, name: str) -> Iterator[Drawing]:
    """The spectrum of a layer of the network ``name``, and the choice of λ_min if there was one."""
    label, found = layer_label(layer), spectral_density(layer)
    rows: list[dict[str, Cell]] = [
        {"lambda_from": _short(low), "lambda_to": _short(high), "eigenvalues": int(count), "density": _short(density)}
        for low, high, count, density in zip(found.edges, found.edges[1:], found.counts, found.density, strict=False)
    ]
    how = "How to read it: a power law is a straight line here, the steeper the larger α; "
    how += (
        "the tail (blue) should follow the orange line, and lie inside the fan."
        if layer.fit is not None
        else "this layer has none, and its eigenvalues are shown as they are."
    )
    file = f"{name}-{label}"
    yield Drawing(f"Spectrum of {label}", how, lambda: spectrum_figure(layer), rows, file=f"{file}-spectrum")
    if layer.fit is None:
        return
    scan = drawn_cuts(layer)
    rows = [
        {"xmin": _short(xmin), "alpha": _short(alpha), "D": _short(distance)}
        for xmin, alpha, distance in zip(scan.xmin, scan.alpha, scan.D, strict=True)
    ]
    how = (
        "How to read it: the smaller D, the closer the tail above λ_min is to a power law; where α is flat around "
        "the chosen λ_min it does not depend on that choice, where it climbs it does."
    )
    yield Drawing(f"Choice of λ_min in {label}", how, lambda: cut_figure(layer), rows, file=f"{file}-cuts")


def _comparison_drawings(comparison: GradeComparison) -> Iterator[Drawing]:
    """Measures against accuracies, if there are accuracies and a measure with values."""
    if comparison.accuracy is None or not contest_measures(comparison):
        return
    rows: list[dict[str, Cell]] = [
        {"network": name, "accuracy": right, **{measure.name: measure.values[index] for measure in comparison.measures}}
        for index, (name, right) in enumerate(zip(comparison.names, comparison.accuracy, strict=True))
    ]
    how = (
        "How to read it: points that fall from the upper left to the lower right are ordered as claimed; where "
        "the hollow squares, which need no fit, do so as well, the power law adds nothing."
    )
    yield Drawing("Measures against accuracy", how, lambda: comparison_figure(comparison), rows)


def _short(value: float) -> float:
    """Six digits, the resolution of a figure."""
    return float(f"{value:.6g}")
