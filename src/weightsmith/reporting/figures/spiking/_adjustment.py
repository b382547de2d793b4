"""The figure of the L4 adjustment: the scalar of each unit's weights against its norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import number, shown
from weightsmith.reporting.figures.spiking._panels import CAPTION, layer_names, legend_below, small_multiples, spread
from weightsmith.reporting.figures.style import DASHED, GREY, INK, RED, house_style
from weightsmith.spiking.l4.adjust import L4, Adjust

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.l4.adjust import AdjustedPopulation, Adjustment

__all__ = ["draw_adjustment"]

_MOST_PANELS = 20


def draw_adjustment(adjustment: Adjustment) -> Figure:
    """The scalar ŝ of each unit against its norm, coloured by the mean of its membrane, a panel per adjusted layer.

    Units whose wanted threshold was raised to a tenth of the one in use have a red ring.
    """
    populations = adjustment.populations
    if not populations:
        raise UsageError("the adjustment changed no population: there is nothing to draw")
    shown_layers = spread(len(populations), _MOST_PANELS)
    names = layer_names([(population.layer, population.population) for population in populations])
    rule = Adjust.parse(adjustment.adjust)
    norm = "spread caused by the inputs" if isinstance(rule, L4) and rule.by == "input" else "L4 norm of the weights"
    means = np.concatenate([_means(populations[index]) for index in shown_layers])
    with house_style():
        figure, panels = small_multiples(len(shown_layers), norm, "scalar ŝ of the unit", most=3)
        low, high = float(means.min()), float(means.max())
        colours = {"cmap": "viridis", "vmin": low, "vmax": high if high > low else low + 1}
        for panel, index in zip(panels, shown_layers, strict=True):
            points = _draw_population(panel, populations[index], names[index], colours)
        bar = figure.colorbar(points, ax=panels, shrink=0.9, pad=0.02, aspect=30)
        bar.set_label("mean membrane ÷ threshold")
        some = f", {len(shown_layers)} of {len(populations)} layers" * (len(shown_layers) < len(populations))
        measured = f"{adjustment.images:,} images, {adjustment.steps} steps"
        title = f"{shown(adjustment.adjust, 40)}, measured on {measured}{some}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold")
        legend_below(figure, _handles(guarded=any(population.guarded for population in populations)))
    return figure


def _means(population: AdjustedPopulation) -> Any:
    """Mean membranes in units of the threshold."""
    return np.array(population.means) / np.array(population.thresholds)


def _draw_population(axes: Axes, population: AdjustedPopulation, name: str, colours: dict[str, Any]) -> Any:
    norms, scalars = np.array(population.norms), np.array(population.scalars)
    axes.axhline(1, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=1.9)
    points = axes.scatter(
        norms, scalars, c=_means(population), s=16, linewidths=0.3, edgecolors=INK, zorder=3, **colours
    )
    rings = list(population.guarded)
    axes.scatter(norms[rings], scalars[rings], s=46, facecolors="none", edgecolors=RED, linewidths=1.1, zorder=4)
    guarded = f", {len(rings)} raised" if rings else ""
    text = f"{len(norms)} unit{'s' * (len(norms) > 1)}{guarded}, then all × {number(population.rescale)}"
    axes.set_title(f"{shown(name, 24)}\n{text}", **(CAPTION | {"fontsize": 7}))
    axes.locator_params(nbins=4)
    return points


def _handles(*, guarded: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=GREY, linewidth=0.9, linestyle=DASHED, label="unchanged")]
    if guarded:
        ring: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 7, "markerfacecolor": "none"}
        handles.append(Line2D([], [], color=RED, label="wanted threshold raised to a tenth of the one in use", **ring))
    return handles
