"""The histogram counts every α once, and says what it cannot count."""

from __future__ import annotations

import pytest

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.histogram import alpha_histogram


def steps(axes):
    """Outlines of the histograms: counts by the lower edge of their bins, the empty ones left out."""
    found = {}
    for patch in axes.patches:
        if patch.get_label() and hasattr(patch, "get_data"):
            values, edges, _ = patch.get_data()
            found[patch.get_label()] = {float(e): float(v) for v, e in zip(values, edges, strict=False) if v}
    return found


def test_layers_are_counted_in_half_units(make_alpha, make_layer, make_network):
    alphas = [1.7, 2.0, 2.2, 2.5, 4.9, 5.0, 5.1]
    figure = alpha_histogram(make_network(*(make_alpha(f"{a}", a) for a in alphas), make_layer("dead")))
    (axes,) = figure.axes
    assert steps(axes) == {"layers": {1.5: 1, 2.0: 2, 2.5: 1, 4.5: 1, 5.0: 2}}
    assert axes.get_title(loc="left") == "small: 5 of 7 layers with α in [2, 5], 1 without α"
    (shade,) = [patch for patch in axes.patches if patch.get_label() == "α in [2, 5]"]
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == (2, 5)
    ticks = next(line for line in axes.get_lines() if line.get_marker() == "|")
    assert list(ticks.get_xdata()) == alphas
    assert axes.get_xlim() == (1, 7)


def test_what_lies_beyond_is_counted_in_one_bin(make_alpha, make_network):
    figure = alpha_histogram(make_network(*(make_alpha(f"{a}", a) for a in (3.0, 10.0, 11.0, 400.0))))
    (axes,) = figure.axes
    assert steps(axes) == {"layers": {3.0: 1, 10.0: 3}}
    assert axes.get_xticklabels()[-1].get_text() == "≥ 10"
    assert axes.get_xlim() == (1, 10.5)
    assert max(next(line for line in axes.get_lines() if line.get_marker() == "|").get_xdata()) < 10.5


def test_several_networks_are_counted_in_shares_of_their_own(make_alpha, make_layer, make_network):
    first = make_network(
        make_alpha("a", 3.0), make_alpha("b", 3.1), make_alpha("c", 4.0), make_alpha("d", 7.0), source="x"
    )
    second = make_network(make_alpha("a", 3.0), make_layer("b"), source="y")
    nothing = make_network(make_layer("b"), source="z")
    figure = alpha_histogram([first, second, nothing])
    (axes,) = figure.axes
    assert steps(axes) == {"x": {3.0: 50, 4.0: 25, 7.0: 25}, "y": {3.0: 100}, "z": {}}
    assert axes.get_ylabel() == "layers (%)"
    assert axes.get_title(loc="left") == "4 of 5 layers with α in [2, 5], 2 without α"


def test_no_alpha_at_all_is_refused_by_name(make_layer, make_network):
    with pytest.raises(UsageError, match=r"nets/small\.safetensors: no layer has an α"):
        alpha_histogram(make_network(make_layer("dead")))
