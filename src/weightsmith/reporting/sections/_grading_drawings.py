"""The drawings of graded networks: each with a sentence on how to read it, and its numbers as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weightsmith.grading.comparison import GradeComparison
from weightsmith.grading.results import Grades, LayerGrade
from weightsmith.reporting.figures.comparison import comparison_figure, contest_measures
from weightsmith.reporting.figures.cuts import cut_figure, drawn_cuts
from weightsmith.reporting.figures.depth import alpha_figure
from weightsmith.reporting.figures.histogram import alpha_histogram
from weightsmith.reporting.figures.labels import layer_label
from weightsmith.reporting.figures.spectra import spectral_density, spectrum_figure
from weightsmith.reporting.parts import Cell, Drawing

__all__ = ["comparison_drawings", "layer_drawings", "network_drawings"]


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
        "How to read it: each mark is a layer, its height α, the line through it the interval, its shape the verdict; "
        "a line that crosses the border between two bands leaves the verdict open."
    )
    yield Drawing("α against depth", how, lambda: alpha_figure(drawn), rows, file=f"{name}-grades")
    if any(layer.alpha is not None for network in drawn for layer in network.layers):
        how = (
            "How to read it: in good networks nearly all layers are said to lie in the shaded range; "
            "a tick at the bottom is a layer."
            if not several
            else "How to read it: the share of each network’s layers per half unit of α; in good networks nearly all "
            "are said to lie in the shaded range."
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
        "How to read it: the smaller D, the nearer is the tail from there on to a power law; where α is level "
        "around the chosen λ_min it does not hang on that choice, where it climbs every λ_min has another α."
    )
    yield Drawing(f"Choice of λ_min in {label}", how, lambda: cut_figure(layer), rows, file=f"{file}-cuts")


def comparison_drawings(comparison: GradeComparison) -> Iterator[Drawing]:
    """Measures against accuracies, if there are accuracies and a measure with values."""
    if comparison.accuracy is None or not contest_measures(comparison):
        return
    rows: list[dict[str, Cell]] = [
        {"network": name, "accuracy": right, **{measure.name: measure.values[index] for measure in comparison.measures}}
        for index, (name, right) in enumerate(zip(comparison.names, comparison.accuracy, strict=True))
    ]
    how = (
        "How to read it: points that fall from the upper left to the lower right are ordered as is claimed; "
        "where the hollow squares, which need no fit, do so as well, the power law has added nothing."
    )
    yield Drawing("Measures against accuracy", how, lambda: comparison_figure(comparison), rows)


def _short(value: float) -> float:
    """Six digits, the resolution of a figure."""
    return float(f"{value:.6g}")
