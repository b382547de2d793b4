"""Measures against accuracies: the points are the values, and the baseline stands beside α-hat."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.statistics import rank_correlation
from weightsmith.grading.comparison import ComparedMeasure, Contest, GradeComparison
from weightsmith.reporting.figures.comparison import comparison_figure

ACCURACY = (91.0, 92.0, 93.0, 93.5)


def measure(name, *values, baseline=False):
    known = [(value, right) for value, right in zip(values, ACCURACY, strict=True) if value is not None]
    tau = rank_correlation(*zip(*known, strict=True)) if len(known) > 1 else None
    return ComparedMeasure(name, f"meaning of {name}", baseline, values, (20,) * 4, tau, tau)


COMPARISON = GradeComparison(
    names=("nets/a.pt", "nets/b.pt", "nets/c.pt", "nets/d.pt"),
    measures=(
        measure("log_spectral_norm", 4.0, 3.0, 2.0, 1.0, baseline=True),
        measure("alpha_hat", 1.0, 3.0, 2.0, -5.0),
        measure("alpha_hat_mean", 9.0, 7.0, 7.5, 1.0),
        measure("log_norm", 1.0, 2.0, 3.0, 4.0, baseline=True),
        measure("parameters", 4.0, 3.0, 2.0, 1.0, baseline=True),
        measure("alpha_hat_pooled", None, None, None, 1.0),
    ),
    coverage=("20 of 20",) * 4,
    accuracy=ACCURACY,
    contests=(
        Contest("alpha_hat", "log_spectral_norm", 4, 6, 5.0, 6.0),
        Contest("alpha_hat_mean", "log_spectral_norm", 4, 6, 5.0, 6.0),
    ),
)


def points(axes):
    (line,) = [line for line in axes.get_lines() if line.get_marker() in ("o", "s")]
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True)), line.get_marker()


def test_the_pairs_of_the_contests_are_shown_each_once():
    figure = comparison_figure(COMPARISON)
    assert [axes.get_xlabel() for axes in figure.axes] == ["alpha_hat", "log_spectral_norm (no fit)", "alpha_hat_mean"]
    assert points(figure.axes[2]) == ([(9.0, 91.0), (7.0, 92.0), (7.5, 93.0), (1.0, 93.5)], "o")
    assert points(figure.axes[1])[1] == "s"
    assert figure.axes[1].get_title(loc="left") == "τ = −1.00, p = 0.0833, n = 4"
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b", "c", "d"]


def test_measures_can_be_chosen_and_networks_without_a_value_are_left_out():
    figure = comparison_figure(COMPARISON, ["alpha_hat_pooled"])
    assert points(figure.axes[0])[0] == [(1.0, 93.5)]
    with pytest.raises(UnknownName, match="alpha_hut"):
        comparison_figure(COMPARISON, ["alpha_hut"])


def test_many_and_hostile_names_stay_in_the_figure(hostile):
    one = replace(COMPARISON, names=(hostile, "n" * 100, "_c", "d"))
    figure = comparison_figure(one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    whole = figure.get_tightbbox(canvas.get_renderer())
    assert whole.x1 <= figure.get_figwidth() + 0.02
    assert whole.x0 >= -0.02


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="no accuracies"):
        comparison_figure(replace(COMPARISON, accuracy=None))
    with pytest.raises(UsageError, match="nothing to draw"):
        comparison_figure(replace(COMPARISON, measures=COMPARISON.measures[-1:], contests=()))
    with pytest.raises(UsageError, match="alpha_hat_pooled: no network"):
        comparison_figure(
            replace(COMPARISON, measures=(measure("alpha_hat_pooled", *[None] * 4),)), ["alpha_hat_pooled"]
        )
