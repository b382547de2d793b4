"""All figures of grading: of single layers, of networks, and of networks side by side."""

from __future__ import annotations

from weightsmith.reporting.figures.comparison import comparison_figure
from weightsmith.reporting.figures.depth import alpha_figure, alpha_histogram
from weightsmith.reporting.figures.epochs import epochs_figure
from weightsmith.reporting.figures.shares import shares_figure
from weightsmith.reporting.figures.spectra import cut_figure, spectrum_figure
from weightsmith.reporting.figures.style import save_figure

__all__ = [
    "alpha_figure",
    "alpha_histogram",
    "comparison_figure",
    "cut_figure",
    "epochs_figure",
    "save_figure",
    "shares_figure",
    "spectrum_figure",
]
