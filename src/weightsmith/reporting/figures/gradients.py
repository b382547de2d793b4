"""The figure of the gradient diagnosis: sensitivity and update of each layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, PURPLE, RED, house_style, new_figure
from weightsmith.training.diagnosis.gradients import GROWN, LARGEST_UPDATE, SHRUNK, Health

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.training.diagnosis.gradients import GradientDiagnosis, LayerGradients

__all__ = ["gradient_figure"]

# A colour and a shape for each verdict, which is readable without colours.
_MARKS = {
    Health.HEALTHY: (GREEN, "o"),
    Health.NOT_MEASURED: (GREY, "o"),
    Health.VANISHING: (BLUE, "v"),
    Health.SATURATED: (BLUE, "P"),
    Health.EXPLODING: (RED, "^"),
    Health.DEAD: (INK, "X"),
    Health.NOT_FINITE: (PURPLE, "D"),
    Health.FROZEN: (GREY, "s"),
}
_MOST_NAMES, _LONGEST_NAME, _LONGEST_REFERENCE = 64, 36, 20
_EDGE, _BAND = 0.04, 0.11  # fractions of the height: marks at the edges; least height of a band
_FARTHEST = 200  # the largest range of an axis in powers of ten: beyond, its ends are not representable
_LEAST = 1e-4  # updates down to this one are shown even if all are larger


def gradient_figure(diagnosis: GradientDiagnosis) -> Figure:
    """Sensitivity relative to the last layer (above) and update relative to the weights (below), layer by layer.

    A line is a probe, later ones darker; the last value of each layer carries the mark of its verdict. The shaded
    ranges are those of vanishing and exploding. Hollow marks have no value on the axis: at the lower edge exact zeros
    and frozen layers without numbers; at the upper edge values that are not finite.
    """
    layers, count = diagnosis.layers, len(diagnosis.layers)
    reference = next((layer for layer in layers if layer.name == diagnosis.reference), None)
    ratios = [_ratios(layer.sensitivity, reference) for layer in layers]
    updates = [layer.update for layer in layers]
    shades = _shades(
        [probe for probe in range(len(diagnosis.probes)) if any(row[probe] for row in (*ratios, *updates))]
    )
    flat = count * (max(len(layer.name) for layer in layers) + 2) < 80
    with house_style():
        longest = 0 if flat else max(min(len(layer.name), _LONGEST_NAME) for layer in layers)
        figure, (upper, lower) = new_figure(
            min(max(6.0, 3.0 + 0.14 * count), 11.0), 4.9 + 0.05 * longest, 2, heights=(3, 2)
        )
        hollow = _draw(upper, layers, ratios, shades, limits=(SHRUNK, GROWN))
        hollow |= _draw(lower, layers, updates, shades, limits=(None, LARGEST_UPDATE))
        short = reference is not None and len(reference.name) <= _LONGEST_REFERENCE
        upper.set_ylabel(f"sensitivity ÷ that of {shown(reference.name) if reference and short else 'the last layer'}")
        lower.set_ylabel("update ÷ weights")
        _shade(upper, "vanishing", BLUE, below=SHRUNK)
        _shade(upper, "exploding", RED, above=GROWN)
        _shade(lower, "overwrites\nthe weights", RED, above=LARGEST_UPDATE)
        _name_layers(lower, layers, flat=flat)
        upper.set_title(_title(layers))
        _legend(figure, diagnosis, shades, hollow=hollow)
        figure.align_ylabels()
    return figure


def _ratios(sensitivity: Sequence[float | None], reference: LayerGradients | None) -> list[float | None]:
    if reference is None:
        return [None] * len(sensitivity)
    pairs = zip(sensitivity, reference.sensitivity, strict=True)
    return [None if own is None or not other else min(own / other, 10.0**_FARTHEST) for own, other in pairs]


def _shades(probes: Sequence[int]) -> dict[int, str]:
    """Greys for the probes with values, from light (the first) to dark (the last)."""
    last = max(len(probes) - 1, 1)
    return {probe: f"{0.2 + 0.6 * (len(probes) - 1 - index) / last:.3f}" for index, probe in enumerate(probes)}


def _draw(
    axes: Axes,
    layers: Sequence[LayerGradients],
    values: Sequence[Sequence[float | None]],
    shades: Mapping[int, str],
    *,
    limits: tuple[float | None, float],
) -> bool:
    """Draw a line per probe, with the verdict's mark on each layer's last value; return whether any mark is hollow."""
    hollow = False
    axes.set_yscale("log")
    axes.minorticks_off()
    for probe, shade in shades.items():
        axes.plot([row[probe] or math.nan for row in values], color=shade, linewidth=1.1, zorder=2)
    axes.set_ylim(*_reach([value for row in values for value in row if value], *limits))
    for index, (layer, row) in enumerate(zip(layers, values, strict=True)):
        last = next((value for value in reversed(row) if value is not None), None)
        colour, shape = _MARKS[layer.health]
        mark: dict[str, Any] = {"color": colour, "marker": shape, "linestyle": "none", "markersize": 5, "zorder": 4}
        edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "markerfacecolor": "white"}
        if last:
            axes.plot(index, last, **mark)
        elif last == 0 or layer.health in (Health.FROZEN, Health.NOT_MEASURED, Health.NOT_FINITE):
            broken = last is None and layer.health is Health.NOT_FINITE
            axes.plot(index, 1 - _EDGE if broken else _EDGE, **mark, **edge)
            hollow = True
    return hollow


def _reach(values: Sequence[float], lower: float | None, upper: float) -> tuple[float, float]:
    """Limits of a logarithmic axis that shows all values, both health limits, and a band beyond each of them."""
    logarithms = [math.log10(value) for value in (*values, upper, _LEAST if lower is None else lower)]
    low, high = max(min(logarithms), -_FARTHEST), min(max(logarithms), _FARTHEST)
    band = _BAND * (high - low)
    low, high = low - 0.04 * (high - low), max(high + 0.04 * (high - low), math.log10(upper) + band)
    return 10 ** (low if lower is None else min(low, math.log10(lower) - band)), 10**high


def _shade(axes: Axes, text: str, colour: str, *, below: float | None = None, above: float | None = None) -> None:
    """Shade the range beyond a limit, to the edge of the axes, and label it."""
    bottom, top = axes.get_ylim()
    limit = below or above or 1.0
    axes.axhspan(*((bottom, limit) if below else (limit, top)), color=colour, alpha=0.09, linewidth=0)
    axes.axhline(limit, color=colour, linewidth=0.7, alpha=0.6)
    axes.annotate(
        text,
        (1, limit),
        xycoords=axes.get_yaxis_transform(),
        xytext=(4, 0),
        textcoords="offset points",
        ha="left",
        va="top" if below else "bottom",
        color=colour,
        fontsize=7,
    )


def _name_layers(axes: Axes, layers: Sequence[LayerGradients], *, flat: bool) -> None:
    """Labels under the axis, as many as are readable."""
    count = len(layers)
    step = math.ceil(count / _MOST_NAMES)
    named = range(0, count, step)
    labels = [shown(layers[index].name, _LONGEST_NAME) for index in named]
    axes.set_xticks(list(named), labels, rotation=0 if flat else 90, fontsize=7 if count <= 30 else 6)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_xlabel("layer, in the order of the forward pass" + (f" (one in {step} named)" if step > 1 else ""))


def _title(layers: Sequence[LayerGradients]) -> str:
    judged = [layer for layer in layers if layer.health is not Health.FROZEN]
    kind = "layers" if len(judged) == len(layers) else "trained layers"
    parts = []
    for health in sorted({layer.health for layer in judged}, key=lambda health: -health.severity):
        count = sum(layer.health is health for layer in judged)
        if health is not Health.HEALTHY or count == len(judged):
            parts.append(f"{health.value} in {'all' if count == len(judged) else f'{count} of'} {len(judged)} {kind}")
    return f"Gradients {', '.join(parts)}" if parts else "All layers frozen"


def _legend(figure: Figure, diagnosis: GradientDiagnosis, shades: Mapping[int, str], *, hollow: bool) -> None:
    """The verdicts that occur, the meaning of hollow marks, and the steps of the first and the last line."""
    from matplotlib.lines import Line2D

    found = {layer.health for layer in diagnosis.layers}
    handles = [
        Line2D([], [], color=colour, marker=shape, linestyle="none", markersize=5, label=health.value)
        for health, (colour, shape) in _MARKS.items()
        if health in found
    ]
    if hollow:
        plain: dict[str, Any] = {"linestyle": "none", "markersize": 5, "markerfacecolor": "white"}
        handles.append(Line2D([], [], color=GREY, marker="o", label="hollow: zero or no number", **plain))
    ends = dict.fromkeys((*list(shades)[:1], *list(shades)[-1:]))
    handles += [Line2D([], [], color=shades[p], label=f"step {diagnosis.probes[p]:,}") for p in ends]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.4, handlelength=1.6)
