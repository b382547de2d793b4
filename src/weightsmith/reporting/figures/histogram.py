"""The histogram of α over the layers of one or more networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weightsmith.core.errors import UsageError
from weightsmith.grading.measures import BEST_RANGE
from weightsmith.grading.results import Grades
from weightsmith.reporting.figures._networks import look, several
from weightsmith.reporting.figures.labels import columns, network_labels, shown
from weightsmith.reporting.figures.style import BLUE, GREEN, INK, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["alpha_histogram"]

_BIN = 0.5
_LEAST, _LAST = 7.0, 10.0  # the axis ends between these two; larger values share the last bin


def alpha_histogram(grades: Grades | Sequence[Grades]) -> Figure:
    """The number of layers by α, over the range [2, 5] that the seed names for good networks.

    One network is counted in layers, several in per cent of their own layers with an α.
    """
    networks = several(grades)
    found = [[layer.alpha for layer in network.layers if layer.alpha is not None] for network in networks]
    if not any(found):
        raise UsageError(
            f"{', '.join(network.source for network in networks)}: no layer has an α that could be counted"
        )
    labels = network_labels([network.source for network in networks])
    highest = max(map(max, filter(None, found)))
    last = min(max(_LEAST, math.ceil(highest)), _LAST)
    edges = [1 + _BIN * step for step in range(round((last - 1) / _BIN) + 1 + (highest >= last))]
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.2)
        low, high = BEST_RANGE
        axes.axvspan(low, high, color=GREEN, alpha=0.1, linewidth=0, label=f"α in [{low:g}, {high:g}]")
        if len(networks) == 1:
            _count_layers(axes, found[0], edges, last)
        else:
            for index, (alphas, label) in enumerate(zip(found, labels, strict=True)):
                _count_shares(axes, _counts(alphas, edges, last), edges, index, label)
        _axes(axes, edges, last, "layers" if len(networks) == 1 else "layers (%)")
        axes.set_title(_title(networks, labels, found))
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=columns(names, 5.5))
    return figure


def _counts(alphas: Sequence[float], edges: Sequence[float], last: float) -> list[int]:
    """Layers in each bin; the last bin holds all larger values."""
    inside = [min(alpha, last) for alpha in alphas]
    return [sum(low <= alpha < high for alpha in inside) for low, high in itertools.pairwise(edges)]


def _count_layers(axes: Axes, alphas: Sequence[float], edges: Sequence[float], last: float) -> None:
    counts = _counts(alphas, edges, last)
    axes.stairs(counts, edges, fill=True, color=BLUE, alpha=0.35)
    axes.stairs(counts, edges, color=BLUE, linewidth=1.2, label="layers")
    ticks = [min(alpha, last + _BIN / 2) for alpha in alphas]
    axes.plot(ticks, [0.02] * len(ticks), "|", color=INK, markersize=6, transform=axes.get_xaxis_transform())


def _count_shares(axes: Axes, counts: Sequence[int], edges: Sequence[float], index: int, label: str) -> None:
    colour, style = look(index)
    shares = [100 * count / max(sum(counts), 1) for count in counts]
    axes.stairs(shares, edges, color=colour, linestyle=style, linewidth=1.5, label=shown(label, 34))


def _axes(axes: Axes, edges: Sequence[float], last: float, unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(1, edges[-1])
    ticks = [float(tick) for tick in range(1, int(last) + 1)]
    beyond = edges[-1] > last
    axes.set_xticks(ticks, [f"≥ {tick:g}" if beyond and tick == last else f"{tick:g}" for tick in ticks])
    axes.set_xlabel("α")
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylim(0, None)


def _title(networks: Sequence[Grades], labels: Sequence[str], found: Sequence[Sequence[float]]) -> str:
    """How many layers lie in the range, and how many have no α."""
    low, high = BEST_RANGE
    alphas = list(itertools.chain.from_iterable(found))
    without = sum(len(network.layers) for network in networks) - len(alphas)
    text = f"{sum(low <= alpha <= high for alpha in alphas):,} of {len(alphas):,} layers with α in [{low:g}, {high:g}]"
    text += f", {without:,} without α" if without else ""
    return text if len(networks) > 1 else f"{shown(labels[0], max(16, 62 - len(text)))}: {text}"
