"""The figure of graded verdicts: for each layer a bar with the share of its resamples in each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weightsmith.core.errors import UsageError
from weightsmith.grading.classes import LEANING
from weightsmith.grading.results import Grades, LayerGrade, VerdictKind
from weightsmith.reporting.figures._networks import MARKS
from weightsmith.reporting.figures.labels import layer_label, network_labels
from weightsmith.reporting.figures.style import DASHED, GREY, INK, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["shares_figure"]

_CLASSES = (
    (VerdictKind.OVER_REGULARISED, "over_regularised", "\\\\\\\\"),
    (VerdictKind.WELL_TRAINED, "well_trained", ""),
    (VerdictKind.WEAKLY_TRAINED, "weakly_trained", "////"),
)
_ROW = 0.19  # inches for a layer
_MOST_WORDS = 80  # layers beyond which only bars are drawn


def shares_figure(grades: Grades) -> Figure:
    """A stacked bar for each fitted layer, in the order of the network, with its verdict in words at the right.

    Bars of layers without a verdict of their own (noise, a rejected law, no interval) are hollow. The dashed lines are
    the share from which a layer leans to a class, as seen from either end.
    """
    layers = [layer for layer in grades.layers if layer.fitted]
    if not any(layer.shares is not None for layer in layers):
        raise UsageError(f"{grades.source}: no layer has shares of its classes; grade it with evidence fast or full")
    with house_style():
        figure, (axes,) = new_figure(5.6, 1.1 + _ROW * min(len(layers), 2 * _MOST_WORDS))
        for kind, name, hatch in _CLASSES:
            widths = [100 * float(getattr(layer.shares, name)) if _is_judged(layer) else 0.0 for layer in layers]
            before = [sum(100 * _share(layer, other) for other in _before(name)) for layer in layers]
            axes.barh(
                range(len(layers)),
                widths,
                left=before,
                height=0.8,
                color=MARKS[kind][0],
                alpha=0.8,
                hatch=hatch,
                edgecolor="white",
                linewidth=0,
                label=kind.value,
            )
        for row, layer in enumerate(layers):
            if not _is_judged(layer):
                axes.barh(row, 100, height=0.8, fill=False, edgecolor=GREY, linewidth=0.6, linestyle=":")
            if len(layers) <= _MOST_WORDS:
                axes.annotate(layer.words, (101, row), fontsize=7, va="center", color=INK, annotation_clip=False)
        for border in (LEANING, 1 - LEANING):
            axes.axvline(100 * border, color=INK, linewidth=0.6, linestyle=DASHED)
        axes.set_xlim(0, 100)
        axes.set_ylim(len(layers) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(layers)), [layer_label(layer) for layer in layers], fontsize=7)
        axes.set_xlabel("share of resamples in each class (%)")
        axes.set_title(f"{network_labels([grades.source])[0]}: how sure each verdict is")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return figure


def _is_judged(layer: LayerGrade) -> bool:
    """Whether the verdict of a layer is based on its shares."""
    rejected = layer.goodness is not None and layer.goodness.rejected
    is_noise = layer.verdict.kind is VerdictKind.NO_HEAVY_TAIL
    return layer.shares is not None and layer.interval is not None and not rejected and not is_noise


def _share(layer: LayerGrade, name: str) -> float:
    return float(getattr(layer.shares, name)) if _is_judged(layer) else 0.0


def _before(name: str) -> list[str]:
    """The classes that are drawn left of one."""
    names = [own for _, own, _ in _CLASSES]
    return names[: names.index(name)]
