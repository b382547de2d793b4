"""Figures 1 to 5 of the L4-norm paper under one name: the effect of the potential's variance on a neuron's spikes."""

from __future__ import annotations

from weightsmith.papers.theory._dominance_figure import draw_dominance
from weightsmith.papers.theory._drift_figure import draw_hadamard_drift
from weightsmith.papers.theory._example_figure import draw_above_threshold, draw_same_mean
from weightsmith.papers.theory._threshold_figure import draw_threshold_sweep
from weightsmith.reporting.figures.style import save_figure

__all__ = [
    "draw_above_threshold",
    "draw_dominance",
    "draw_hadamard_drift",
    "draw_same_mean",
    "draw_threshold_sweep",
    "save_figure",
]
