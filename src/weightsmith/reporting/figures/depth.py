"""The figure of α by layer: every layer of a network with its interval, over the bands of the verdicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.results import Grades, LayerGrade, VerdictKind
from weightsmith.reporting.figures._networks import MARKS, look, several
from weightsmith.reporting.figures.labels import columns, layer_label, network_labels, readable_ticks, shown
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["alpha_figure", "alpha_histogram"]


_BANDS = (
    (VerdictKind.OVER_REGULARISED, 0.0, HEAVIEST),
    (VerdictKind.WELL_TRAINED, HEAVIEST, LIGHTEST),
    (VerdictKind.WEAKLY_TRAINED, LIGHTEST, math.inf),
)
_MOST_NAMES, _LONGEST_NAME = 64, 36
_MANY = 40  # layers from which marks are smaller
_EDGE = 0.035  # fraction of the height: marks of layers without an α


def alpha_figure(grades: Grades | Sequence[Grades]) -> Figure:
    """α of every layer with its interval, over the bands of the verdicts.

    Layers are in the order of the file or module; some files sort layers by name, so it need not be the depth.
    The shape of a mark is the layer's verdict. A layer without a fit is hollow at the lower edge with its status.
    Several networks differ by colour and line style; those with the same layers share their positions,
    otherwise each network is stretched over the same width.
    """
    networks = several(grades)
    labels = network_labels([network.source for network in networks])
    width, height = _size(networks)
    with house_style():
        figure, (axes,) = new_figure(width, height)
        axes.set_yscale("log")
        axes.set_ylim(*_reach([layer for network in networks for layer in network.layers]))
        for index, network in enumerate(networks):
            _draw(axes, network, _positions(networks, index), None if len(networks) == 1 else index)
        _bands(axes)
        _name_layers(axes, networks)
        readable_ticks(axes.yaxis)
        axes.set_ylabel("α")
        axes.set_title(_title(networks, labels, width))
        _legend(figure, networks, labels)
    return figure


def _aligned(networks: Sequence[Grades]) -> bool:
    """Whether all networks have the same layers, so that these can share their positions."""
    first, *others = ([layer_label(layer) for layer in network.layers] for network in networks)
    return all(other == first for other in others)


def _positions(networks: Sequence[Grades], number: int) -> list[float]:
    """The positions of the layers of a network: by index, next to those of the others, or in per cent."""
    count = len(networks[number].layers)
    if not _aligned(networks):
        return [100 * (index + 0.5) / count for index in range(count)]
    aside = 0.5 * (number / (len(networks) - 1) - 0.5) if len(networks) > 1 else 0.0
    return [index + aside for index in range(count)]


def _size(networks: Sequence[Grades]) -> tuple[float, float]:
    count = max(len(network.layers) for network in networks)
    longest = 0
    if _aligned(networks) and not _is_flat(networks[0].layers):
        longest = max(min(len(layer_label(layer)), _LONGEST_NAME) for layer in networks[0].layers)
    return min(max(6.0, 3.0 + 0.14 * count), 11.0), 3.3 + 0.05 * longest + 0.12 * (len(networks) // 2)


def _is_flat(layers: Sequence[LayerGrade]) -> bool:
    """Whether the names are so few and short that they can be horizontal."""
    return len(layers) * (max(len(layer_label(layer)) for layer in layers) + 2) < 80


def _reach(layers: Sequence[LayerGrade]) -> tuple[float, float]:
    """Limits that show every α and all bands; an interval may leave the figure at the top."""
    alphas = [layer.alpha for layer in layers if layer.alpha is not None]
    ends = [end for layer in layers for end in (layer.alpha_low, layer.alpha_high) if end is not None]
    most = 3 * max([*alphas, LIGHTEST])
    low = 0.93 * min([0.7 * HEAVIEST, *alphas, *ends])
    high = 1.12 * max([1.5 * LIGHTEST, *alphas, *(end for end in ends if end < most)])
    if len(alphas) < len(layers):  # room for the marks at the edge
        low /= (high / low) ** 0.16
    return low, high


def _draw(axes: Axes, network: Grades, positions: Sequence[float], number: int | None) -> None:
    """A line through all α, a mark and an interval for each; hollow marks at the edge for layers without one.

    Marks have the colour of their verdict, or with a ``number`` that of their network.
    """
    many = len(network.layers) > _MANY
    own, style = (None, "-") if number is None else look(number)
    alphas = [math.nan if layer.alpha is None else layer.alpha for layer in network.layers]
    axes.plot(
        positions, alphas, color=own or GREY, linewidth=0.5 if many else 0.9, linestyle=style, alpha=0.7, zorder=2
    )
    for x, layer in zip(positions, network.layers, strict=True):
        colour, shape = MARKS[layer.verdict.kind]
        mark: dict[str, Any] = {"color": own or colour, "marker": shape, "linestyle": "none", "zorder": 4}
        mark["markersize"] = 3.5 if many else 5
        if layer.alpha is None:
            axes.plot(x, _EDGE, transform=axes.get_xaxis_transform(), markerfacecolor="white", **mark)
            if number is None and len(network.layers) <= _MOST_NAMES:
                at: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
                text = layer.status.value
                axes.annotate(text, (x, _EDGE), xytext=(0, 5), rotation=90, ha="center", va="bottom", fontsize=6, **at)
            continue
        axes.plot(x, layer.alpha, **mark)
        if layer.interval is not None:
            ends = layer.interval.low, layer.interval.high
            axes.vlines(x, *ends, color=own or colour, linewidth=1.0, alpha=0.55, zorder=3)


def _bands(axes: Axes) -> None:
    """Shade the bands of the verdicts and name them at the right."""
    bottom, top = axes.get_ylim()
    for kind, start, end in _BANDS:
        low, high, colour = max(start, bottom), min(end, top), MARKS[kind][0]
        axes.axhspan(low, high, color=colour, alpha=0.07, linewidth=0)
        if low > bottom:
            axes.axhline(low, color=GREY, linewidth=0.7)
        at: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        middle = math.sqrt(low * high)
        axes.annotate(kind.value, (1, middle), xytext=(4, 0), va="center", color=colour, fontsize=7, **at)


def _name_layers(axes: Axes, networks: Sequence[Grades]) -> None:
    """Labels under the axis, as many as are readable; positions in per cent for networks with different layers."""
    layers = networks[0].layers
    if not _aligned(networks):
        axes.set_xlim(0, 100)
        axes.set_xlabel("position in the file or module (% of the layers of each network)")
        return
    count = len(layers)
    step = math.ceil(count / _MOST_NAMES)
    labels = [shown(layer_label(layer), _LONGEST_NAME) for layer in layers[::step]]
    size = 7 if count <= 30 else 6
    axes.set_xticks(range(0, count, step), labels, rotation=0 if _is_flat(layers) else 90, fontsize=size)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_xlabel("layer, in the order of the file or module" + (f" (one in {step} named)" if step > 1 else ""))


def _title(networks: Sequence[Grades], labels: Sequence[str], width: float) -> str:
    if len(networks) > 1:
        return f"α of {len(networks)} networks"
    fitted = sum(layer.alpha is not None for layer in networks[0].layers)
    text = f"α of {fitted:,} of {len(networks[0].layers):,} layers"
    return f"{shown(labels[0], int(10 * width) - len(text))}: {text}"


def _legend(figure: Figure, networks: Sequence[Grades], labels: Sequence[str]) -> None:
    """The verdicts that occur with their counts, the interval, and the networks if there are several."""
    from matplotlib.lines import Line2D

    one = len(networks) == 1
    layers = [layer for network in networks for layer in network.layers]
    handles = []
    for index, label in enumerate([] if one else labels):
        colour, style = look(index)
        handles.append(Line2D([], [], color=colour, linestyle=style, label=shown(label, 34)))
    for kind, (colour, shape) in MARKS.items():
        count = sum(layer.verdict.kind is kind for layer in layers)
        if count:
            mark: dict[str, Any] = {"marker": shape, "linestyle": "none", "markersize": 5}
            mark |= {"markerfacecolor": "white"} if kind is VerdictKind.CANNOT_BE_FITTED else {}
            handles.append(Line2D([], [], color=colour if one else INK, label=f"{kind.value}: {count:,}", **mark))
    confidences = {layer.interval.confidence for layer in layers if layer.interval is not None}
    if confidences:
        text = " and ".join(f"{100 * confidence:g} %" for confidence in sorted(confidences))
        handles.append(Line2D([], [], color=GREY, linewidth=1.0, label=f"{text} interval"))
    count = columns([str(handle.get_label()) for handle in handles], figure.get_figwidth())
    figure.legend(handles=handles, loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=1.8)


# The histogram of α over the layers of one or more networks.


_BIN = 0.5
_LEAST, _LAST = 7.0, 10.0  # the axis ends between these two; larger values share the last bin


def alpha_histogram(grades: Grades | Sequence[Grades]) -> Figure:
    """The number of layers by α, over the range of well trained ones.

    One network is counted in layers, several in per cent of their own layers with an α.
    """
    networks = several(grades)
    found = [[layer.alpha for layer in network.layers if layer.alpha is not None] for network in networks]
    if not any(found):
        raise UsageError(f"{', '.join(network.source for network in networks)}: no layer has an α to count")
    labels = network_labels([network.source for network in networks])
    highest = max(map(max, filter(None, found)))
    last = min(max(_LEAST, math.ceil(highest)), _LAST)
    edges = [1 + _BIN * step for step in range(round((last - 1) / _BIN) + 1 + (highest >= last))]
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.2)
        low, high = HEAVIEST, LIGHTEST
        axes.axvspan(low, high, color=GREEN, alpha=0.1, linewidth=0, label=f"α in [{low:g}, {high:g}]")
        if len(networks) == 1:
            _count_layers(axes, found[0], edges, last)
        else:
            for index, (alphas, label) in enumerate(zip(found, labels, strict=True)):
                _count_shares(axes, _counts(alphas, edges, last), edges, index, label)
        _axes(axes, edges, last, "layers" if len(networks) == 1 else "layers (%)")
        axes.set_title(_histogram_title(networks, labels, found))
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


def _histogram_title(networks: Sequence[Grades], labels: Sequence[str], found: Sequence[Sequence[float]]) -> str:
    """How many layers lie in the range, and how many have no α."""
    low, high = HEAVIEST, LIGHTEST
    alphas = list(itertools.chain.from_iterable(found))
    without = sum(len(network.layers) for network in networks) - len(alphas)
    text = f"{sum(low <= alpha <= high for alpha in alphas):,} of {len(alphas):,} layers with α in [{low:g}, {high:g}]"
    text += f", {without:,} without α" if without else ""
    return text if len(networks) > 1 else f"{shown(labels[0], max(16, 62 - len(text)))}: {text}"
