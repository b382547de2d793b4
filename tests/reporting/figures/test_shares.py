"""The stacked bars of graded verdicts: widths are the shares, and what is not judged has no colour."""

from __future__ import annotations

import dataclasses

import pytest

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import Interval
from weightsmith.grading.classes import ClassShares
from weightsmith.grading.results import VerdictKind
from weightsmith.reporting.figures.shares import shares_figure


def with_shares(layer, *shares):
    interval = Interval(layer.alpha, layer.alpha - 0.5, layer.alpha + 0.5, 0.95, "by hand")
    return dataclasses.replace(layer, shares=ClassShares(*shares), interval=interval)


def test_bars_are_as_long_as_the_shares(make_alpha, make_layer, make_network):
    network = make_network(
        with_shares(make_alpha("a", 5.0, VerdictKind.CANNOT_SAY), 0.0, 0.2, 0.8),
        with_shares(make_alpha("b", 3.0, VerdictKind.WELL_TRAINED), 0.01, 0.98, 0.01),
        make_layer("dead"),
        with_shares(make_alpha("noise", 4.0, VerdictKind.NO_HEAVY_TAIL), 0.0, 1.0, 0.0),
    )
    figure = shares_figure(network)
    (axes,) = figure.axes
    bars = {bars.get_label(): [(bar.get_x(), bar.get_width()) for bar in bars] for bars in axes.containers[:3]}
    assert bars["over-regularised"] == [(0, 0), (0, 1), (0, 0)]
    assert bars["well trained"] == [(0, pytest.approx(20)), (1, pytest.approx(98)), (0, 0)]
    assert bars["weakly trained"] == [(pytest.approx(20), pytest.approx(80)), (pytest.approx(99), 1), (0, 0)]
    hollow = [bar for bars in axes.containers[3:] for bar in bars]
    assert [(bar.get_y() + bar.get_height() / 2, bar.get_width(), bar.get_fill()) for bar in hollow] == [
        (2, 100, False)
    ]
    assert [text.get_text() for text in axes.texts] == [
        "leans weakly trained (80 %)",
        "well trained",
        "looks like noise",
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "noise"]


def test_grades_of_before_have_no_shares_to_draw(make_alpha, make_network):
    with pytest.raises(UsageError, match="evidence"):
        shares_figure(make_network(make_alpha("a", 3.0)))
