"""The figure of λ_min shows what the search saw."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.grading.fits.powerlaw import distances
from weightsmith.reporting.figures.cuts import cut_figure, drawn_cuts
from weightsmith.reporting.figures.style import BLUE, ORANGE, save_figure


def curve(axes):
    (line,) = [line for line in axes.get_lines() if same_color(line.get_color(), BLUE)]
    return line.get_xdata(), line.get_ydata()


def chosen(axes):
    (mark,) = [line for line in axes.get_lines() if same_color(line.get_color(), ORANGE)]
    return mark.get_xdata()[0], mark.get_ydata()[0]


def by_hand(values, start):
    """α and D of the tail from ``start``, as their formulas have them."""
    tail = np.asarray(values[start:])
    alpha = 1 + tail.size / np.log(tail / tail[0]).sum()
    return alpha, max(abs(i / tail.size - 1 + (value / tail[0]) ** (1 - alpha)) for i, value in enumerate(tail))


def test_both_curves_are_those_of_the_formulas(make_layer):
    values = [1.0, 1.5, 2.0, 4.0, 9.0, 11.0]
    figure = cut_figure(make_layer("a", values))
    upper, lower = figure.axes
    alphas, gaps = zip(*(by_hand(values, start) for start in range(5)), strict=True)
    np.testing.assert_allclose(curve(upper)[1], gaps)
    np.testing.assert_allclose(curve(lower)[1], alphas)
    np.testing.assert_allclose(curve(upper)[0], values[:5])


def test_the_chosen_one_is_marked_where_the_distance_is_smallest(make_layer, make_pareto):
    one = make_layer("a", make_pareto(2.5, 200), interval=(2.0, 3.0))
    figure = cut_figure(one)
    upper, lower = figure.axes
    assert chosen(upper) == (one.fit.xmin, one.fit.D)
    assert chosen(lower) == (one.fit.xmin, one.fit.alpha)
    assert curve(upper)[1].min() == one.fit.D
    low, high = lower.get_ylim()
    assert low < one.interval.low < one.interval.high < high
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["candidates", "chosen by ks", "95 % interval of α", "tails of fewer than 8 values"]


def test_of_very_many_candidates_no_extreme_is_lost(make_layer, make_pareto):
    one = make_layer("a", make_pareto(2.5, 5000))
    every, kept = distances(one.eigenvalues), drawn_cuts(one)
    assert kept.xmin.size <= 240 < every.xmin.size
    for name in ("D", "alpha"):
        everywhere, drawn = getattr(every, name), getattr(kept, name)
        assert (drawn.min(), drawn.max()) == (everywhere.min(), everywhere.max())
    assert one.fit.xmin in kept.xmin
    assert np.all(np.diff(kept.xmin) > 0)


def test_tiny_eigenvalues_do_not_press_the_tail_together(make_layer, make_pareto):
    figure = cut_figure(make_layer("a", [1e-12, *make_pareto(2.5, 100)]))
    assert figure.axes[0].get_xlim()[0] > 0.5


def test_a_layer_without_a_fit_is_refused_by_name(make_layer):
    with pytest.raises(UsageError, match="block.3: no λ_min was chosen that could be drawn, its status is 'zero'"):
        cut_figure(make_layer("block.3"))


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 1.0 + 1e-9, 1.0 + 2e-9], [1e-200, 3e-200, 5e-200], [1e80, 2e90]])
def test_the_smallest_and_strangest_fits_can_be_drawn(make_layer, hostile, values, tmp_path):
    figure = cut_figure(make_layer(hostile, values))
    assert save_figure(figure, tmp_path / "cut.svg").stat().st_size > 1000
    for axes in figure.axes:
        x, y = chosen(axes)
        assert axes.get_xlim()[0] < x < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < y < axes.get_ylim()[1]
