"""The figure of one run's checkpoints: α, stable rank and λ_max of every layer by epoch."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weightsmith.core.errors import UsageError
from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.results import Grades, LayerGrade
from weightsmith.reporting.figures._networks import look
from weightsmith.reporting.figures.labels import columns, layer_label, network_labels, readable_ticks, shown
from weightsmith.reporting.figures.style import GREEN, GREY, INK, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PANELS", "checkpoint_epochs", "epochs_figure", "epochs_rows"]

PANELS = ("alpha", "stable_rank", "lambda_max")
_LABELS = {"alpha": "α", "stable_rank": "stable rank", "lambda_max": "λ_max"}
_NAMED = 8  # layers up to which each has a colour and a name; with more, only the median stands out
_NUMBER = re.compile(r"(\d+)(?!.*\d)")


def checkpoint_epochs(networks: Sequence[Grades]) -> tuple[int, ...] | None:
    """The epoch of each network if they are checkpoints of one run: names that differ in the last number, equal layers.

    Examples are ``epoch-0005.safetensors`` and ``epoch-0010.safetensors``, or ``step_100`` and ``step_2000``.
    """
    found = [_NUMBER.search(label) for label in network_labels([network.source for network in networks])]
    numbers = [int(match.group()) for match in found if match is not None]
    if len(networks) < 2 or len(set(numbers)) < len(networks):
        return None
    names = {match.string[: match.start()] + "#" + match.string[match.end() :] for match in found if match is not None}
    layers = {tuple(layer_label(layer) for layer in network.layers) for network in networks}
    return tuple(numbers) if len(names) == 1 and len(layers) == 1 else None


def epochs_rows(networks: Sequence[Grades]) -> list[dict[str, float | int | str | None]]:
    """A row for each layer of each checkpoint, by epoch: the numbers of the figure."""
    return [
        {"epoch": epoch, "layer": layer_label(layer), **{name: _value(layer, name) for name in PANELS}}
        for epoch, network in _ordered(networks)
        for layer in network.layers
    ]


def epochs_figure(networks: Sequence[Grades]) -> Figure:
    """A panel each for α, the stable rank and λ_max (logarithmic): a line per layer, and their median.

    A checkpoint in which a layer has no fit leaves a gap in its line.
    """
    ordered = _ordered(networks)
    epochs = [epoch for epoch, _ in ordered]
    layers = [layer_label(layer) for layer in ordered[0][1].layers]
    with house_style():
        figure, panels = new_figure(5.5, 5.6, len(PANELS))
        for axes, name in zip(panels, PANELS, strict=True):
            _panel(axes, name, epochs, layers, ordered)
        panels[0].axhspan(HEAVIEST, LIGHTEST, color=GREEN, alpha=0.12, linewidth=0)
        panels[0].set_title("checkpoints of one run; shaded: α of well-trained layers")
        panels[-1].set_yscale("log")
        readable_ticks(panels[-1].yaxis)
        panels[-1].set_xlabel("epoch, or the number in the file's name")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=columns(labels, 5.5))
    return figure


def _panel(axes: Axes, name: str, epochs: list[int], layers: list[str], ordered: list[tuple[int, Grades]]) -> None:
    table = [[_value(network.layers[place], name) for _, network in ordered] for place in range(len(layers))]
    for place, values in enumerate(table):
        if all(value is None for value in values):
            continue
        line = [float("nan") if value is None else value for value in values]
        if len(layers) <= _NAMED:
            colour, style = look(place)
            axes.plot(epochs, line, color=colour, linestyle=style, marker=".", label=shown(layers[place], 24))
        else:
            axes.plot(epochs, line, color=GREY, linewidth=0.5, alpha=0.5)
    at_epoch = [[value for value in column if value is not None] for column in zip(*table, strict=True)]
    middle = [statistics.median(values) if values else float("nan") for values in at_epoch]
    # The median is wide and pale behind named lines, and the one dark line among grey ones.
    width, opacity = (4.0, 0.25) if len(layers) <= _NAMED else (1.8, 1.0)
    axes.plot(epochs, middle, color=INK, linewidth=width, alpha=opacity, label=f"median of {len(layers)} layers")
    axes.set_ylabel(_LABELS[name])


def _ordered(networks: Sequence[Grades]) -> list[tuple[int, Grades]]:
    epochs = checkpoint_epochs(networks)
    if epochs is None:
        raise UsageError(
            "these are not checkpoints of one run: their names must differ only in the last number, as in "
            "epoch-0001.safetensors, and their layers must be the same"
        )
    return sorted(zip(epochs, networks, strict=True), key=lambda pair: pair[0])


def _value(layer: LayerGrade, name: str) -> float | None:
    if name == "alpha":
        return layer.alpha
    return None if layer.metrics is None else float(getattr(layer.metrics, name))
