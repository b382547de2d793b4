"""The figures of the grading page: each with a sentence that says how to read it, and its numbers as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from weightsmith.grading.comparison import GradeComparison
from weightsmith.grading.results import Grades, LayerGrade
from weightsmith.reporting._inline import Cell, csv_link, inline_svg
from weightsmith.reporting.figures.comparison import comparison_figure, telling_measures
from weightsmith.reporting.figures.cuts import cut_figure, drawn_cuts
from weightsmith.reporting.figures.depth import alpha_figure
from weightsmith.reporting.figures.histogram import alpha_histogram
from weightsmith.reporting.figures.labels import layer_label
from weightsmith.reporting.figures.spectra import spectral_density, spectrum_figure

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

__all__ = ["Drawing", "draw_comparison", "draw_layer", "draw_networks"]


_WIDE = 7.0  # inches, from which on a figure does not share its row


class Drawing(NamedTuple):
    """A figure on the page; ``file`` is what its CSV is called."""

    svg: Markup
    label: str
    caption: str
    csv: str
    file: str
    wide: bool

    @property
    def size(self) -> int:
        """The letters it takes."""
        return len(self.svg) + len(self.csv)


def draw_networks(networks: Sequence[Grades], prefix: str) -> list[Drawing]:
    """α against depth and its histogram, of one network or of several; those that have something to show."""
    drawn = [network for network in networks if network.layers]
    if not drawn:
        return []
    several = len(drawn) > 1
    rows: list[dict[str, Cell]] = [
        {
            **({"network": network.source} if several else {}),
            "layer": layer_label(layer),
            "status": layer.status.value,
            "alpha": layer.alpha,
            "alpha_low": layer.alpha_low,
            "alpha_high": layer.alpha_high,
            "verdict": layer.verdict.kind.value,
        }
        for network in drawn
        for layer in network.layers
    ]
    caption = (
        "How to read it: each mark is a layer, its height α, the line through it the interval, its shape the verdict; "
        "a line that crosses the border between two bands leaves the verdict open."
    )
    found = [_drawing(alpha_figure(drawn), f"{prefix}a-", ("α against depth", caption), rows)]
    if any(layer.alpha is not None for network in drawn for layer in network.layers):
        caption = (
            "How to read it: in good networks nearly all layers are said to lie in the shaded range; "
            "a tick at the bottom is a layer."
            if not several
            else "How to read it: the share of each network’s layers per half unit of α; in good networks nearly all "
            "are said to lie in the shaded range."
        )
        found.append(_drawing(alpha_histogram(drawn), f"{prefix}h-", ("histogram of α", caption), rows))
    return found


def draw_layer(layer: LayerGrade, prefix: str) -> list[Drawing]:
    """The spectrum of a layer, and how its λ_min was chosen if it was."""
    found = spectral_density(layer)
    rows: list[dict[str, Cell]] = [
        {"lambda_from": _short(low), "lambda_to": _short(high), "eigenvalues": int(count), "density": _short(density)}
        for low, high, count, density in zip(found.edges, found.edges[1:], found.counts, found.density, strict=False)
    ]
    caption = "How to read it: a power law is a straight line here, the steeper the larger α; "
    caption += (
        "the tail (blue) should follow the orange line, and lie inside the fan."
        if layer.fit is not None
        else "this layer has none, and its eigenvalues are shown as they are."
    )
    words = (f"spectrum of {layer_label(layer)}", caption)
    drawings = [_drawing(spectrum_figure(layer), f"{prefix}s-", words, rows)]
    if layer.fit is not None:
        scan = drawn_cuts(layer)
        rows = [
            {"xmin": _short(xmin), "alpha": _short(alpha), "D": _short(distance)}
            for xmin, alpha, distance in zip(scan.xmin, scan.alpha, scan.D, strict=True)
        ]
        caption = (
            "How to read it: the smaller D, the nearer is the tail from there on to a power law; where α is level "
            "around the chosen λ_min it does not hang on that choice, where it climbs every λ_min has another α."
        )
        words = (f"choice of λ_min in {layer_label(layer)}", caption)
        drawings.append(_drawing(cut_figure(layer), f"{prefix}c-", words, rows))
    return drawings


def draw_comparison(comparison: GradeComparison, prefix: str) -> list[Drawing]:
    """Measures against accuracies, where there are accuracies and a measure with values."""
    if comparison.accuracy is None or not telling_measures(comparison):
        return []
    rows: list[dict[str, Cell]] = [
        {"network": name, "accuracy": right, **{measure.name: measure.values[place] for measure in comparison.measures}}
        for place, (name, right) in enumerate(zip(comparison.names, comparison.accuracy, strict=True))
    ]
    caption = (
        "How to read it: points that fall from the upper left to the lower right are ordered as is claimed; "
        "where the hollow squares, which need no fit, do so as well, the power law has added nothing."
    )
    words = ("measures against accuracy", caption)
    return [_drawing(comparison_figure(comparison), f"{prefix}k-", words, rows)]


def _drawing(figure: Figure, prefix: str, words: tuple[str, str], rows: Sequence[dict[str, Cell]]) -> Drawing:
    """``words`` are what the figure is called, and how to read it."""
    from markupsafe import Markup

    label, caption = words
    # Markup because it is: every letter in it that is not ours was escaped by matplotlib or by inline_svg.
    svg = Markup(inline_svg(figure, prefix, label))
    return Drawing(svg, label, caption, csv_link(rows), f"{prefix.rstrip('-')}.csv", figure.get_figwidth() > _WIDE)


def _short(value: float) -> float:
    """Six digits: what a figure can show."""
    return float(f"{value:.6g}")
