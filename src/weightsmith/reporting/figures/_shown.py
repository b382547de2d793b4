"""A figure that a notebook shows as the value of a cell, without pyplot and without magic commands."""

from __future__ import annotations

from matplotlib.figure import Figure

from weightsmith.reporting.figures.style import figure_bytes

__all__ = ["ShownFigure"]

_DOTS_PER_INCH = 110  # the width of a notebook's cell


class ShownFigure(Figure):
    """A figure that shows itself."""

    def _repr_png_(self) -> bytes:
        return figure_bytes(self, "png", _DOTS_PER_INCH)
