"""The figure of what was measured after every epoch beside loss and accuracy: penalties, clipping, α by layer, …"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures._networks import look
from weightsmith.reporting.figures.labels import columns, shown
from weightsmith.reporting.figures.style import GREEN, GREY, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from weightsmith.training.run import History

__all__ = ["watched_figure"]

_TOLD_APART = 12  # lines up to which each has a look of its own
_LIGHT, _DARK = (0.68, 0.82, 0.92), (0.0, 0.24, 0.42)
_WIDTH = 5.5


def watched_figure(
    history: History,
    lines: Mapping[str, str],
    quantity: str,
    *,
    best: int | None = None,
    band: tuple[float, float] | None = None,
) -> Figure:
    """A line against epochs for each of ``lines``: columns of the history, and what each is called.

    ``quantity`` names the axis, ``best`` is an epoch to mark, ``band`` a range to shade. More lines than can be told
    apart run from light, the first, to dark, the last.
    """
    known = {column: [math.nan if v is None else v for v in history.column(column)] for column in lines}
    known = {column: values for column, values in known.items() if not all(map(math.isnan, values))}
    if not known:
        raise UsageError(f"{quantity}: the history holds no value of {', '.join(lines) or 'it'}")
    epochs = [row.epoch for row in history.rows]
    marks: dict[str, Any] = {"marker": "o", "markersize": 3} if len(epochs) <= 30 else {}
    with house_style():
        figure, (axes,) = new_figure(_WIDTH, 3.0)
        drawn = [
            axes.plot(epochs, values, label=shown(lines[column], 30), **_look(place, len(known)), **marks)[0]
            for place, (column, values) in enumerate(known.items())
        ]
        if band is not None:
            axes.axhspan(*band, color=GREEN, alpha=0.09, linewidth=0, zorder=0)
        if best is not None:
            axes.axvline(best, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        axes.set_ylabel(shown(quantity))
        _epochs_below(axes, epochs)
        if len(drawn) > 1:
            _legend(figure, drawn)
    return figure


def _look(place: int, count: int) -> dict[str, Any]:
    if count <= _TOLD_APART:
        colour, style = look(place)
        return {"color": colour, "linestyle": style}
    share = place / (count - 1)
    mixed = tuple(light + share * (dark - light) for light, dark in zip(_LIGHT, _DARK, strict=True))
    return {"color": mixed, "linewidth": 0.9}


def _legend(figure: Figure, drawn: list[Line2D]) -> None:
    """All lines by name, or the first and the last where these stand for the order of the rest."""
    handles = drawn if len(drawn) <= _TOLD_APART else [drawn[0], drawn[-1]]
    count = columns([str(handle.get_label()) for handle in handles], _WIDTH)
    figure.legend(handles=handles, loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=2.2)


def _epochs_below(axes: Axes, epochs: list[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.02)
    if len(epochs) == 1:
        axes.set_xlim(epochs[0] - 1, epochs[0] + 1)
