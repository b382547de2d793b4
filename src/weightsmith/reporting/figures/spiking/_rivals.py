"""A figure of the energy of a spiking network beside other ways to run the network it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import readable_ticks
from weightsmith.reporting.figures.spiking._energy import energy_text
from weightsmith.reporting.figures.spiking._panels import layer_rows
from weightsmith.reporting.figures.style import BLUE, DASHED, GREY, ORANGE, house_style
from weightsmith.spiking.energy.prices import Prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.energy.cost import SpikeCost

__all__ = ["draw_rivals"]

_ROOM = 4.0  # of the axis beyond the largest energy, for its number
_FEW = 1e5  # picojoules up to which energies are shown in nanojoules
_NUMBER: dict[str, Any] = {
    "va": "center",
    "fontsize": 6.5,
    "textcoords": "offset points",
    "xytext": (6, 0),
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6},
}


class _Row(NamedTuple):
    name: str
    arithmetic: float
    memory: float | None
    own: bool


def draw_rivals(cost: SpikeCost) -> Figure:
    """The energy per image of arithmetic (left) and of memory accesses (right), on logarithmic axes.

    The line is the spiking network; what lies left of it (orange) takes less.
    """
    rows = _rows(cost)
    with house_style():
        figure, (left, right) = layer_rows([row.name for row in rows], 2, row=0.27)
        _draw(left, [row.arithmetic for row in rows], rows)
        _draw(right, [row.memory for row in rows], rows)
        left.set_title("Arithmetic")
        right.set_title("Memory accesses")
        figure.suptitle(_said(cost), x=0.01, ha="left", fontsize=7.5)
    return figure


def _rows(cost: SpikeCost) -> list[_Row]:
    if not cost.rivals:
        raise UsageError("the record has no rivals: it is from an older version; run spike again")
    rows = [_Row("spiking", cost.energy, cost.memory_energy, own=True)]
    if cost.prices.numbers == "float32":
        whole = cost.at(Prices(neurons=cost.prices.neurons, numbers="int8"))
        rows.append(_Row("spiking, if all were integers", whole.energy, None, own=True))
    return rows + [_Row(f"network, {each.name}", each.energy, each.memory, own=False) for each in cost.rivals]


def _draw(axes: Axes, energies: Sequence[float | None], rows: Sequence[_Row]) -> None:
    axes.set_xscale("log")
    known = [energy for energy in energies if energy]
    line = energies[0]
    if not known or line is None:
        axes.set_visible(False)
        return
    scale, unit = (1e-3, "nJ") if max(known) < _FEW else (1e-6, "µJ")
    axes.set_xlim(scale * min(known) / 2, scale * _ROOM * max(known))
    axes.axvline(scale * line, color=BLUE, linestyle=DASHED, linewidth=0.9, zorder=1)
    for index, (energy, row) in enumerate(zip(energies, rows, strict=True)):
        if energy:
            color = BLUE if row.own else ORANGE if energy < line else GREY
            axes.plot(scale * energy, index, "o", color=color, markersize=5)
            axes.annotate(energy_text(energy), (scale * energy, index), **_NUMBER)
    axes.set_xlabel(f"energy per image ({unit})")
    readable_ticks(axes.xaxis)


def _said(cost: SpikeCost) -> str:
    cheaper = "; ".join(rival.name for rival in cost.cheaper)
    rows = next((rival.rows for rival in cost.rivals if rival.rows is not None), None)
    counted = "" if rows is None else f"\nzero activations were counted on {rows:,} image{'s' * (rows > 1)}"
    if not cheaper:
        return f"no other way to run the network takes less arithmetic{counted}"
    return f"the network takes less arithmetic in {cheaper}{counted}"
