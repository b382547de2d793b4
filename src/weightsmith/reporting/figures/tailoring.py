"""The accuracy and the costs of a tailored network, beside the original network and its rivals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import Interval
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, blank_figure, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Tailor", "draw_kept_and_cost"]

_COLOURS = (GREEN, BLUE, ORANGE, PURPLE, GREY)
_WIDTH = 7.4


@dataclasses.dataclass(frozen=True)
class Tailor:
    """A network: its name, its accuracy on the judging rows (None: not judged), and its costs as shares by name."""

    name: str
    accuracy: Interval | None
    costs: dict[str, float]


def draw_kept_and_cost(whole: Interval, networks: Sequence[Tailor], limits: dict[str, float] | None = None) -> Figure:
    """Accuracies with their intervals (left), and costs as shares of the original network (right).

    The first of ``networks`` is the result. ``limits`` are shares by the same names, drawn as lines.
    """
    if not networks:
        raise UsageError("there are no networks to draw")
    costs = list(networks[0].costs)
    height = 1.3 + 0.17 * max(len(costs) * (len(networks) + 1), 2 * len(networks) + 2)
    with house_style():
        figure = blank_figure(_WIDTH, height)
        left, right = figure.subplots(1, 2, width_ratios=(2, 3))
        _accuracies(left, whole, networks)
        _costs(right, networks, costs, limits or {})
        handles, names = right.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=min(2, len(names)))
    return figure


def _accuracies(axes: Axes, whole: Interval, networks: Sequence[Tailor]) -> None:
    judged = [("original", whole, INK)]
    judged += [
        (each.name, each.accuracy, colour)
        for each, colour in zip(networks, _cycle(len(networks)), strict=True)
        if each.accuracy is not None
    ]
    for place, (_, accuracy, colour) in enumerate(judged):
        value, low, high = (100 * each for each in (accuracy.value, accuracy.low, accuracy.high))
        axes.errorbar([value], [place], xerr=[[value - low], [high - value]], fmt="o", color=colour, capsize=2.5)
        axes.annotate(f"{value:.1f} %", (value, place), (0, 6), textcoords="offset points", ha="center", color=colour)
    axes.axvline(100 * whole.value, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(judged)), [shown(name.partition(":")[0], 22) for name, _, _ in judged])
    axes.set_ylim(len(judged) - 0.4, -0.8)
    axes.margins(x=0.18)
    axes.set(xlabel="accuracy (%), 95 % intervals", title="accuracy")


def _costs(axes: Axes, networks: Sequence[Tailor], costs: Sequence[str], limits: dict[str, float]) -> None:
    step = 1 / (len(networks) + 1)
    for index, (each, colour) in enumerate(zip(networks, _cycle(len(networks)), strict=True)):
        known = [(place, 100 * each.costs[cost]) for place, cost in enumerate(costs) if cost in each.costs]
        places = [place + step * (index + 0.5) for place, _ in known]
        axes.barh(places, [share for _, share in known], height=0.9 * step, color=colour, label=shown(each.name, 60))
        for place, (_, share) in zip(places, known, strict=True):
            axes.annotate(f"{share:.3g} %", (share, place), (3, 0), textcoords="offset points", va="center", fontsize=7)
    for place, cost in enumerate(costs):
        if cost in limits:
            axes.plot([100 * limits[cost]] * 2, [place - 0.05, place + 1 - step + 0.05], color=RED, linewidth=1.2)
    axes.axvline(100, color=INK, linewidth=0.8)
    axes.set_yticks([place + (1 - step) / 2 for place in range(len(costs))], list(costs))
    axes.set_ylim(len(costs), -0.2)
    axes.set_xlim(0, 125)
    axes.set(xlabel="share of the original network (%); red: the limit", title="cost")


def _cycle(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]
