"""The figure of measures against accuracies: whether α-hat orders networks better than the same measure without α."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import network_labels, number, shown
from weightsmith.reporting.figures.style import BLUE, GREY, INK, blank_figure, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.grading.comparison import ComparedMeasure, GradeComparison

__all__ = ["comparison_figure", "contest_measures"]

_NAMED = 12  # networks up to which points are labelled


def comparison_figure(comparison: GradeComparison, measures: Sequence[str] | None = None) -> Figure:
    """A panel for each of ``measures``, by accuracy; hollow squares are measures that need no fit.

    Without ``measures``: the pairs of ``contests``, which are fixed before any accuracy is seen. Each panel shows
    Kendall's τ: −1 if the smaller value always has the higher accuracy, as is claimed.
    """
    if comparison.accuracy is None:
        raise UsageError("the comparison has no accuracies to draw measures against: use compare(networks, accuracy=…)")
    chosen = contest_measures(comparison) if measures is None else [comparison.measure(name) for name in measures]
    if not chosen:
        raise UsageError("no α-hat and no norm has a value for two networks: there is nothing to draw")
    empty = [measure.name for measure in chosen if all(value is None for value in measure.values)]
    if empty:
        raise UsageError(f"{empty[0]}: no network has a value to draw")
    labels = network_labels(comparison.names)
    with house_style():
        figure = blank_figure(1.0 + 2.3 * len(chosen), 3.0)
        panels = figure.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
        for axes, measure in zip(panels, chosen, strict=True):
            _panel(axes, measure, comparison.accuracy, labels)
        panels[0].set_ylabel("accuracy")
    return figure


def contest_measures(comparison: GradeComparison) -> list[ComparedMeasure]:
    """Each measure of a contest next to the one it competes with."""
    names = [name for contest in comparison.contests for name in (contest.measure, contest.against)]
    return [comparison.measure(name) for name in dict.fromkeys(names)]


def _panel(axes: Axes, measure: ComparedMeasure, accuracy: Sequence[float], labels: Sequence[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    points = [
        (value, right, label)
        for value, right, label in zip(measure.values, accuracy, labels, strict=True)
        if value is not None
    ]
    face: dict[str, Any] = {"markerfacecolor": "white"} if measure.baseline else {}
    shape, colour = ("s", GREY) if measure.baseline else ("o", BLUE)
    axes.plot([x for x, _, _ in points], [y for _, y, _ in points], shape, color=colour, markersize=5.5, **face)
    middle = (min(x for x, _, _ in points) + max(x for x, _, _ in points)) / 2
    for x, y, label in points if len(points) <= _NAMED else []:
        # Towards the side with more room: labels never leave the panel.
        side, aside = ("right", -6) if x > middle else ("left", 6)
        text, offset = shown(label, 20), (aside, 0)
        axes.annotate(text, (x, y), offset, textcoords="offset points", ha=side, va="center", fontsize=6, color=INK)
    axes.margins(0.12)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(f"{measure.name}" + (" (no fit)" if measure.baseline else ""))
    tau = measure.kendall
    caption = measure.reason or "" if tau is None else f"τ = {tau.value:+.2f}, p = {number(tau.p)}, n = {tau.n}"
    axes.set_title(caption.replace("-", "−"), fontsize=7.5, fontweight="normal")
