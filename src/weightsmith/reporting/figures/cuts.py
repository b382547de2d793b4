"""The figure of the choice of λ_min: the distance of every tail to its power law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import head, layer_label, readable_ticks
from weightsmith.reporting.figures.spectra import left_edge
from weightsmith.reporting.figures.style import BLUE, GREY, INK, ORANGE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.grading.fits.powerlaw import PowerLaw, TailScan
    from weightsmith.grading.results import LayerGrade

__all__ = ["cut_figure", "drawn_cuts"]

_SHORT = 8  # values; shorter tails do not enter the interval of α
_MOST = 240  # candidates; of more, each group is drawn by its smallest and largest D and α
_DASHED = (0, (4, 3))

_Numbers = NDArray[np.float64]


def cut_figure(layer: LayerGrade) -> Figure:
    """The distance D (above) and α (below) for every candidate λ_min, and the chosen one.

    If α is level on both sides of the chosen λ_min, it does not depend on that choice. Shaded grey are tails of
    fewer than eight values, whose α is mostly chance.
    """
    if layer.fit is None:
        status = layer.status.value
        raise UsageError(f"{layer_label(layer)}: no λ_min was chosen that could be drawn, its status is {status!r}")
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
