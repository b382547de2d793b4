"""Figures of the fidelity of a conversion: rates against activations, and the answers of both networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._matrix import MatrixWords, draw_matrix
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.spiking._panels import CAPTION, layer_names, legend_below, small_multiples, spread
from weightsmith.reporting.figures.style import BLUE, DASHED, INK, ORANGE, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.monitors.correspondence import Confusion, Correspondence, PopulationCorrespondence

__all__ = ["draw_confusion", "draw_correspondence"]


_MOST_PANELS = 25


def draw_correspondence(correspondence: Correspondence) -> Figure:
    """Rates (spikes per step) times the amplitude of a spike against activations, a panel per layer.

    Dashed is equality, if the amplitude is known, and orange the regression line through the origin. Of
    more layers than fit, an even selection is drawn.
    """
    populations = correspondence.populations
    if not populations:
        raise UsageError("no population was compared with activations: there is nothing to draw")
    shown_layers = spread(len(populations), _MOST_PANELS)
    names = layer_names([(population.layer, population.name) for population in populations])
    with house_style():
        known = any(population.calibrated for population in populations)
        figure, panels = small_multiples(
            len(shown_layers), "activation", "rate × amplitude" if known else "spikes per step"
        )
        for panel, index in zip(panels, shown_layers, strict=True):
            _draw_population(panel, populations[index], names[index], small=len(shown_layers) > 3)
        figure.suptitle(_head(correspondence, len(shown_layers)), x=0.01, ha="left", fontsize=9, fontweight="bold")
        legend_below(figure, _handles(populations))
    return figure


def _draw_population(axes: Axes, population: PopulationCorrespondence, name: str, *, small: bool) -> None:
    most = float(population.activations.max(initial=0))
    end = 1.05 * most or 1.0
    # As an image also in vector formats: some ten thousand dots would make a file of megabytes.
    dots: dict[str, Any] = {"markersize": 2.5, "markeredgewidth": 0, "alpha": 0.35, "rasterized": True}
    axes.plot(population.activations, population.rates, "o", color=BLUE, **dots)
    if population.calibrated:
        axes.plot([0, end], [0, end], color=INK, linewidth=0.9, linestyle=DASHED)
    if population.slope is not None:
        axes.plot([0, end], [0, population.slope * end], color=ORANGE, linewidth=1.2)
    high = max(float(population.rates.max(initial=0)), most if population.calibrated else 0.0)
    axes.set_xlim(-0.03 * end, end)
    axes.set_ylim(-0.03 * (1.05 * high or 1.0), 1.05 * high or 1.0)
    axes.locator_params(nbins=4)
    axes.tick_params(labelsize=6 if small else 7)
    look = CAPTION | {"fontsize": 6.5 if small else 7.5}
    axes.set_title(f"{shown(name, 22 if small else 34)}\n{_caption(population)}", **look)


def _caption(population: PopulationCorrespondence) -> str:
    """Slope and relative error, or what is known in their place."""
    if population.slope is None:
        return "all activations are zero"
    if population.error is not None:
        return f"slope {population.slope:.2f}, error {100 * population.error:.1f} %"
    if population.correlation is not None:
        return f"slope {population.slope:.2g}, correlation {population.correlation:.2f}"
    return f"slope {population.slope:.2g}"


def _head(correspondence: Correspondence, drawn: int) -> str:
    images = f"{correspondence.images:,} image{'s' * (correspondence.images > 1)}"
    some = f", {drawn} of {len(correspondence.populations)} layers" * (drawn < len(correspondence.populations))
    steps = f"{correspondence.steps:.4g} step{'s' * (correspondence.steps != 1)}"
    return f"Rates against activations: {images}, {steps}{some}"


def _handles(populations: Sequence[PopulationCorrespondence]) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], marker="o", linestyle="none", color=BLUE, markersize=3, label="unit and image")]
    if any(population.calibrated for population in populations):
        handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle=DASHED, label="equal"))
    if any(population.slope is not None for population in populations):
        handles.append(Line2D([], [], color=ORANGE, linewidth=1.2, label="slope"))
    return handles


# Answers of the spiking network against those of its network.


def draw_confusion(confusion: Confusion, classes: Sequence[str] | None = None) -> Figure:
    """Images by the class that the network (rows) and the spiking network (columns) give them.

    Agreement, the diagonal, is pale; disagreement is darker the more images, so that rare cells are visible.
    A last column holds the images without an answer, if there are any. Without ``classes``, their names, they are
    numbered.
    """
    count = len(confusion.matrix)
    names = [str(index) for index in range(count)] if classes is None else list(classes)
    if len(names) != count:
        raise UsageError(f"the confusion is of {count} classes, but {len(names)} names were given")
    undecided = bool(confusion.undecided.any())
    cells = np.column_stack([confusion.matrix, confusion.undecided]) if undecided else confusion.matrix
    words = MatrixWords(
        title=_agreement(confusion, int(cells.sum())),
        rows="class by the network",
        columns="class by the spiking network",
        apart="images on which the two differ",
    )
    return draw_matrix(cells, names, words, further="undecided" if undecided else None)


def _agreement(confusion: Confusion, images: int) -> str:
    share = confusion.agreement
    within = f"[{100 * share.low:.1f}, {100 * share.high:.1f}]"
    return f"Both agree on {100 * share.value:.1f} % {within} of {images:,} image{'s' * (images > 1)}"
