"""One style for all figures, and the same bytes whenever one is saved.

A figure is drawn and saved inside :func:`house_style`, which starts from matplotlib's defaults, so that a user's
``matplotlibrc`` or changed ``rcParams`` have no effect, and restores everything afterwards.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.errors import UsageError
from weightsmith.core.storage import write_atomic
from weightsmith.reporting.figures.labels import columns

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = [
    "BLUE",
    "DASHED",
    "DOTTED",
    "GREEN",
    "GREY",
    "INK",
    "LINES",
    "ORANGE",
    "PURPLE",
    "RED",
    "arrow",
    "blank_figure",
    "figure_bytes",
    "grid",
    "house_style",
    "legend",
    "new_figure",
    "save_figure",
]


# A palette for colour-blind readers (after Okabe and Ito 2008), dark enough on white.
BLUE, ORANGE, GREEN, RED, PURPLE = "#0072B2", "#D55E00", "#00805C", "#C0282D", "#8A4F9E"
GREY, INK = "#8C8C8C", "#222222"
LINES = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same on every machine
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "axes.edgecolor": "#555555",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": True,  # white, so that lines behind it do not cross the text
    "legend.fancybox": False,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.9,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "svg.hashsalt": "weightsmith",  # ids of clip paths and markers do not change from run to run
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
_DOTS_PER_INCH = 200
# Metadata with dates and versions that each format would write.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextmanager
def house_style() -> Iterator[None]:
    """Apply the common style inside the block."""
    import matplotlib.style

    with matplotlib.style.context(_STYLE, after_reset=True):
        yield


def new_figure(
    width: float, height: float, rows: int = 1, *, heights: tuple[float, ...] | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure of that many inches with ``rows`` of axes that share their x; call it inside :func:`house_style`."""
    figure = blank_figure(width, height)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights or (1,) * rows})
    return figure, list(grid[:, 0])


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write ``figure`` as PNG, SVG or PDF by the suffix of ``path``; equal figures give equal bytes."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in _METADATA:
        raise UsageError(
            f"{path}: a figure is written as .png, .svg or .pdf, not as {Path(path).suffix or 'no suffix'!r}"
        )
    return write_atomic(path, figure_bytes(figure, suffix))


def figure_bytes(figure: Figure, suffix: str, dots_per_inch: int = _DOTS_PER_INCH) -> bytes:
    """The content of that file."""
    content = io.BytesIO()
    with house_style():
        figure.savefig(content, format=suffix, dpi=dots_per_inch, metadata=_METADATA[suffix])
    return content.getvalue()


# Shared by figures of the spiking theory: empty figures, a legend below, arrows from the origin.


DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))


def blank_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches with automatic layout; call it inside the house style."""
    from weightsmith.reporting.figures._shown import ShownFigure

    return ShownFigure(figsize=(width, height), layout="constrained")


def grid(width: float, height: float, rows: int, count: int, **layout: Any) -> tuple[Figure, Any]:
    """A figure with rows and columns of axes."""
    figure = blank_figure(width, height)
    return figure, figure.subplots(rows, count, squeeze=False, **layout)


def legend(figure: Figure, entries: Sequence[dict[str, Any]]) -> None:
    """A legend under the figure."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **entry) for entry in entries]
    count = columns([str(entry["label"]) for entry in entries], figure.get_figwidth())
    figure.legend(handles=handles, loc="outside lower center", ncols=count, columnspacing=1.4, handlelength=2.0)


def arrow(axes: Axes, tip: NDArray[np.float64], colour: Any, width: float) -> None:
    """An arrow from the origin to exactly ``tip``."""
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (tip[0], tip[1]), (0, 0), arrowprops=look)
