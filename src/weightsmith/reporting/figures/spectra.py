"""The figure of a layer's spectrum: its density, and the law fitted to its tail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.reporting.figures.labels import columns, head, layer_label, number, readable_ticks
from weightsmith.reporting.figures.style import BLUE, GREY, INK, ORANGE, PURPLE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.grading.fits.powerlaw import PowerLaw, TailScan
    from weightsmith.grading.random_matrix.noise import Bulk
    from weightsmith.grading.results import LayerGrade

__all__ = ["Density", "cut_figure", "drawn_cuts", "left_edge", "spectral_density", "spectrum_figure"]


_FEWEST_BINS, _MOST_BINS = 6, 40  # of the tail, and of the rest; with few eigenvalues one bin for two of them
_BODY = 1e-2  # fraction of λ_min, or of the median, down to which eigenvalues are shown
_DASHED, _DOTTED = (0, (4, 3)), (0, (1, 1.5))

_Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Density(Record):
    """An empirical spectral density in bins; λ_min is one of the edges if there is a fit.

    ``density[i]`` is the share of all eigenvalues between ``edges[i]`` and ``edges[i + 1]``, divided by the length
    of that bin; ``counts`` are the eigenvalues themselves. The first ``body`` bins lie below λ_min. ``below`` counts
    the eigenvalues before the first bin.
    """

    edges: _Numbers
    counts: NDArray[np.int64]
    density: _Numbers
    body: int
    below: int


def spectral_density(layer: LayerGrade) -> Density:
    """The density that :func:`spectrum_figure` draws.

    Below and above λ_min the bins have equal widths in log λ, by Freedman and Diaconis' rule (1981) on log λ.
    """
    values, low = _eigenvalues(layer), left_edge(layer)
    below = int(np.searchsorted(values, low))
    high = float(values[-1])
    split = values.size if layer.fit is None else int(np.searchsorted(values, layer.fit.xmin))
    if low == high:  # a single bin around all values
        low, high = 0.9 * low, 1.1 * high
    edges = np.array([low])
    if split > below:
        edges = _edges(values[below:split], low, high if layer.fit is None else layer.fit.xmin)
    body = edges.size - 1
    if layer.fit is not None:
        edges = np.concatenate([edges[:-1], _edges(values[split:], layer.fit.xmin, high)])
    counts = np.histogram(values, edges)[0]
    return Density(edges, counts, counts / (values.size * np.diff(edges)), body, below)


def spectrum_figure(layer: LayerGrade) -> Figure:
    """The spectral density of a layer, log–log, with the power law fitted to its tail.

    Blue is the tail of the fit, grey the rest. The shaded fan is the range of the law within the
    interval of α. If noise was fitted, its law is dotted, and the purple line is exceeded by a matrix of pure noise
    with the stated probability.
    """
    found = spectral_density(layer)
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.7)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _frame(axes, layer, found)
        _stairs(axes, layer, found)
        if layer.fit is not None:
            _law(axes, layer, layer.fit)
        if layer.bulk is not None:
            _noise(axes, layer.bulk, layer.eigenvalues.size)
        if found.below:
            text = f"◂ {found.below:,} smaller, down to {number(float(layer.eigenvalues[0]))}"
            axes.annotate(text, (0.01, 0.02), xycoords="axes fraction", fontsize=6.5, color=INK)
        for axis in (axes.xaxis, axes.yaxis):
            readable_ticks(axis)
        axes.set_xlabel("eigenvalue λ")
        axes.set_ylabel("density ρ(λ)")
        head(figure, axes, layer)
        handles = axes.get_legend_handles_labels()
        figure.legend(
            *handles, loc="outside lower center", ncols=columns(handles[1], 5.5), columnspacing=1.4, handlelength=1.8
        )
    return figure


def left_edge(layer: LayerGrade) -> float:
    """The smallest eigenvalue to show, so that a few tiny ones do not compress the tail."""
    values = layer.eigenvalues
    start = float(values[values.size // 2])
    start = start if layer.fit is None else min(start, layer.fit.xmin)
    return float(values[np.searchsorted(values, _BODY * start)])


def _eigenvalues(layer: LayerGrade) -> _Numbers:
    if not layer.eigenvalues.size:
        reason = f" ({layer.reason})" if layer.reason else ""
        status = layer.status.value
        raise UsageError(f"{layer_label(layer)}: there is no spectrum to draw, its status is {status!r}{reason}")
    return layer.eigenvalues


def _edges(values: _Numbers, low: float, high: float) -> _Numbers:
    """Edges of bins of equal width in log λ from ``low`` to ``high``, enough to see the shape, few enough to fill."""
    spread = math.log10(high) - math.log10(low)
    quarters = np.percentile(np.log10(values), [25, 75])
    width = 2 * float(quarters[1] - quarters[0]) / values.size ** (1 / 3)
    most = min(_MOST_BINS, max(1, values.size // 2))
    count = min(most, max(_FEWEST_BINS, math.ceil(spread / max(width, 1e-12))))
    edges: _Numbers = np.geomspace(low, high, count + 1)
    edges[0], edges[-1] = low, high
    return edges


def _frame(axes: Axes, layer: LayerGrade, found: Density) -> None:
    """Limits that show all bins, the beginning of the law, and the noise if it is not far away."""
    low, high = float(found.edges[0]), float(found.edges[-1])
    if layer.bulk is not None and layer.bulk.threshold < 10 * high:
        high = max(high, layer.bulk.threshold)
    seen = found.density[found.counts > 0]
    top = float(seen.max())
    if layer.fit is not None:
        top = max(top, layer.fit.tail / layer.fit.evals * (layer.fit.alpha - 1) / layer.fit.xmin)
    room = (high / low) ** 0.03
    axes.set_xlim(low / room, high * room)
    axes.set_ylim(float(seen.min()) / 3, 2 * top)


def _stairs(axes: Axes, layer: LayerGrade, found: Density) -> None:
    """Body and tail; an empty bin ends at the lower edge, since a logarithmic axis has no zero."""
    bottom = axes.get_ylim()[0]
    heights = np.maximum(found.density, bottom)
    total, fit, body = layer.eigenvalues.size, layer.fit, found.body
    parts = [(0, body, GREY, f"{total:,} eigenvalue{'' if total == 1 else 's'}")]
    if fit is not None:
        parts = [
            (0, body, GREY, f"below λ_min: {fit.evals - fit.tail:,} of {fit.evals:,}"),
            (body, heights.size, BLUE, f"tail: {fit.tail:,} of {fit.evals:,}"),
        ]
    for start, stop, colour, label in parts:
        if start < stop:
            edges, part = found.edges[start : stop + 1], heights[start:stop]
            axes.stairs(part, edges, baseline=bottom, fill=True, color=colour, alpha=0.3, linewidth=0)
            axes.stairs(part, edges, baseline=bottom, color=colour, linewidth=1.1, label=label)


def _law(axes: Axes, layer: LayerGrade, fit: PowerLaw) -> None:
    """The fitted law, normalised to the share of the tail, and its range over the interval of α."""
    steps = np.linspace(0, math.log(float(layer.eigenvalues[-1]) / fit.xmin), 60)
    x = fit.xmin * np.exp(steps)
    share = math.log(fit.tail / fit.evals) - math.log(fit.xmin)
    lowest, highest = (math.log(limit) for limit in axes.get_ylim())

    def law(alpha: Any) -> _Numbers:
        # Restricted to the figure: far outside it the law may overflow.
        logs: _Numbers = np.clip(share + np.log(alpha - 1) - alpha * steps, lowest - 5, highest + 5)
        return np.exp(logs)

    if layer.interval is not None:
        low, high = layer.interval.low, layer.interval.high
        # (α − 1)·r^−α has one maximum, at α = 1 + 1/ln r; the least value lies at an end.
        best = np.clip(1 + 1 / np.maximum(steps, 1e-12), low, high)
        label = f"{100 * layer.interval.confidence:g} % interval of α"
        least = np.minimum(law(low), law(high))
        axes.fill_between(x, least, law(best), color=ORANGE, alpha=0.25, linewidth=0, label=label)
    axes.plot(x, law(fit.alpha), color=ORANGE, linewidth=1.8, label="fitted power law")
    axes.axvline(fit.xmin, color=INK, linewidth=0.9, linestyle=_DASHED, label="λ_min")


def _noise(axes: Axes, bulk: Bulk, evals: int) -> None:
    """The law of the fitted noise, and the threshold for the largest eigenvalue of noise.

    In the units of λ the Marchenko–Pastur law is determined by its edges: with s = (√high − √low)/2,

        ρ(λ) = √((high − λ)(λ − low)) / (2π·s²·λ)
    """
    left, right = axes.get_xlim()
    start = max(bulk.low, left)
    if start < bulk.high <= right:
        ends = bulk.high - (bulk.high - start) * np.geomspace(1e-5, 0.3, 15)  # towards zero
        x = np.unique([*np.geomspace(start, bulk.high, 60), *ends])
        root = np.sqrt(np.maximum((bulk.high - x) * (x - bulk.low), 0))
        density = root / (2 * math.pi * x * ((math.sqrt(bulk.high) - math.sqrt(bulk.low)) / 2) ** 2)
        y = np.maximum((evals - bulk.spikes) / evals * density, axes.get_ylim()[0] / 10)
        label = f"noise (Marchenko–Pastur) to {number(bulk.high)}"
        axes.plot(x, y, color=PURPLE, linewidth=1.1, linestyle=_DOTTED, label=label)
    if left <= bulk.threshold <= right:
        text = f"{100 * bulk.level:g} % threshold {number(bulk.threshold)}, {bulk.spikes:,} beyond"
        axes.axvline(bulk.threshold, color=PURPLE, linewidth=0.9, label=text)


# The figure of the choice of λ_min: the distance of every tail to its power law.


_SHORT = 8  # values; shorter tails do not enter the interval of α
_MOST = 240  # candidates; of more, each group is drawn by its smallest and largest D and α


def cut_figure(layer: LayerGrade) -> Figure:
    """The distance D (above) and α (below) for every candidate λ_min, and the chosen one.

    If α is level on both sides of the chosen λ_min, it does not depend on that choice. Shaded grey are tails of
    fewer than eight values, whose α is mostly chance.
    """
    if layer.fit is None:
        status = layer.status.value
        raise UsageError(f"{layer_label(layer)}: there is no λ_min to draw, its status is {status!r}")
    scan = drawn_cuts(layer)
    with house_style():
        figure, (upper, lower) = new_figure(5.5, 4.2, 2)
        upper.set_xscale("log")
        for axes, values, chosen in ((upper, scan.D, layer.fit.D), (lower, scan.alpha, layer.fit.alpha)):
            _candidates(axes, layer, scan.xmin, values)
            axes.axvline(layer.fit.xmin, color=INK, linewidth=0.9, linestyle=_DASHED, zorder=1)
            axes.plot(layer.fit.xmin, chosen, "o", color=ORANGE, markersize=6, zorder=4)
        low, high = left_edge(layer), float(layer.eigenvalues[-1])
        room = (high / low) ** 0.03
        upper.set_xlim(low / room, high * room)
        upper.set_ylim(0, 1.08 * max(float(scan.D.max()), layer.fit.D))
        lower.set_yscale("log")
        lower.set_ylim(*_reach(layer, layer.fit, scan.alpha))
        if layer.interval is not None:
            lower.axhspan(layer.interval.low, layer.interval.high, color=ORANGE, alpha=0.18, linewidth=0)
        readable_ticks(lower.xaxis)
        readable_ticks(lower.yaxis)
        for axes, text in ((upper, "distance D"), (lower, "α")):
            axes.set_ylabel(text)
            axes.yaxis.set_label_coords(-0.085, 0.5)
        lower.set_xlabel("λ_min, where the tail begins")
        head(figure, upper, layer)
        _legend(figure, layer, layer.fit)
    return figure


def drawn_cuts(layer: LayerGrade) -> TailScan:
    """The candidates that :func:`cut_figure` draws; of very many, the extremes of each group."""
    from weightsmith.grading.fits.powerlaw import TailScan, distances

    scan = distances(layer.eigenvalues)
    indices = np.flatnonzero(scan.xmin >= left_edge(layer))
    if indices.size > _MOST:
        stretches = np.array_split(indices, _MOST // 4)
        kinds = [(values, pick) for values in (scan.D, scan.alpha) for pick in (np.argmin, np.argmax)]
        indices = np.unique([stretch[pick(values[stretch])] for stretch in stretches for values, pick in kinds])
    return TailScan(scan.xmin[indices], scan.alpha[indices], scan.D[indices])


def _candidates(axes: Axes, layer: LayerGrade, xmin: _Numbers, values: _Numbers) -> None:
    marks: dict[str, Any] = {"marker": "o", "markersize": 2.5} if xmin.size <= 60 else {}
    axes.plot(xmin, values, color=BLUE, linewidth=1.1, **marks)
    found = layer.eigenvalues
    if found.size > _SHORT:
        axes.axvspan(float(found[-_SHORT]), float(found[-1]), color=GREY, alpha=0.16, linewidth=0)


def _reach(layer: LayerGrade, fit: PowerLaw, alphas: _Numbers) -> tuple[float, float]:
    """Limits that show the chosen α, its interval and most others; the shortest tails may have any α."""
    values = [fit.alpha, *np.percentile(alphas, [0, 95])]
    if layer.interval is not None:
        values += [layer.interval.low, layer.interval.high]
    return max(1.0, 0.93 * float(min(values))), 1.15 * float(max(values))


def _legend(figure: Figure, layer: LayerGrade, fit: PowerLaw) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=BLUE, linewidth=1.1, label="candidates"),
        Line2D([], [], color=ORANGE, marker="o", linestyle="none", label=f"chosen by {fit.cut}"),
    ]
    if layer.interval is not None:
        label = f"{100 * layer.interval.confidence:g} % interval of α"
        handles.append(Patch(color=ORANGE, alpha=0.25, linewidth=0, label=label))
    if layer.eigenvalues.size > _SHORT:
        label = f"tails of fewer than {_SHORT} values"
        handles.append(Patch(color=GREY, alpha=0.3, linewidth=0, label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.4, handlelength=1.6)
