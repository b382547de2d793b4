"""Means and spreads of a study are those of its rows, and lines stand where their settings are."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import corrected_t
from weightsmith.reporting.figures.study import (
    draw_angle_sweep,
    draw_final_size,
    draw_method_accuracy,
    draw_penalty_sweep,
)
from weightsmith.reporting.figures.style import BLUE, INK, RED, save_figure


@dataclass(frozen=True)
class Row:
    method: str
    hidden: int
    fold: int
    repeat: int
    units: int
    train_accuracy: float
    test_accuracy: float
    angle: float | None = None
    penalty: float | None = None


def cell(method, hidden, accuracies, units, folds=None, **setting):
    """One row per accuracy: fold after fold, and then the next repeat."""
    folds = folds or len(accuracies)
    sizes = [units] * len(accuracies) if isinstance(units, int) else units
    return [
        Row(method, hidden, index % folds, index // folds, size, 50.0, accuracy, **setting)
        for index, (accuracy, size) in enumerate(zip(accuracies, sizes, strict=True))
    ]


def points(line):
    return [(float(x), pytest.approx(float(y))) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def of_colour(axes, colour):
    lines = [line for line in axes.get_lines() if same_color(line.get_color(), colour) and len(line.get_xdata())]
    return [points(line) for line in lines]


def halves(axes):
    """Half the length of every bar, a list per line."""
    collections = [found for found in axes.collections if not isinstance(found, PolyCollection)]
    return [[float(np.ptp(path.vertices[:, 1])) / 2 for path in found.get_paths()] for found in collections]


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def caption(figure):
    return figure.axes[0].get_title(loc="left")


SWEEP = [
    *cell("angles", 100, [20.0, 22.0, 27.0], [99, 100, 98], angle=15.0),
    *cell("angles", 100, [25.0, 22.0, 25.0], 100, angle=0.0),
    *cell("angles", 100, [18.0, 18.0, 18.0], [20, 30, 34], angle=45.0),
    *cell("whole", 100, [26.0, 22.0, 24.0], 100),
]


def test_the_angle_sweep_is_red_above_and_blue_below():
    figure = draw_angle_sweep(SWEEP)
    accuracy, size = figure.axes
    assert of_colour(accuracy, RED) == [[(0, 24), (15, 23), (45, 18)]]
    assert of_colour(size, BLUE) == [[(0, 100), (15, 99), (45, 28)]]
    assert [axes.get_ylabel() for axes in figure.axes] == ["test accuracy (%)", "hidden units left"]
    assert size.get_xlabel() == "threshold angle (°)"
    assert size.get_ylim() == (0, 106)
    assert labels(figure) == ["100 units before", "unreduced"]


def test_dashed_is_the_network_before():
    accuracy, size = draw_angle_sweep(SWEEP).axes
    assert [y for _, y in of_colour(accuracy, INK)[0]] == [24, 24]
    assert [y for _, y in of_colour(size, INK)[0]] == [100, 100]
    renamed = draw_angle_sweep(SWEEP, whole="unpruned").axes[0]
    assert of_colour(renamed, INK) == []


def test_bands_are_standard_deviations_and_bars_corrected_standard_errors():
    figure = draw_angle_sweep(SWEEP)
    (band,) = [found for found in figure.axes[0].collections if isinstance(found, PolyCollection)]
    at_15 = sorted({float(y) for x, y in band.get_paths()[0].vertices if x == 15})
    deviation = math.sqrt(((20 - 23) ** 2 + (22 - 23) ** 2 + (27 - 23) ** 2) / 2)
    assert at_15 == pytest.approx([23 - deviation, 23 + deviation])
    assert halves(figure.axes[0]) == [pytest.approx([math.sqrt(3 * (1 / 3 + 1 / 2)), deviation * math.sqrt(5 / 6), 0])]
    assert "band: ± standard deviation" in caption(figure)
    assert "bars: ± standard error" in caption(figure)


def test_the_standard_error_is_that_of_the_corrected_t_test():
    values = list(np.random.default_rng(0).normal(22, 5, 20))
    rows = cell("genetic", 50, values, 20, folds=10, penalty=0.0)
    (half,), *_ = halves(draw_penalty_sweep(rows).axes[0])
    tested = corrected_t(np.array(values), train_size=9, test_size=1)
    from scipy.stats import t

    assert half == pytest.approx((tested.interval.high - tested.interval.low) / 2 / t.ppf(0.975, 19))


def test_repeats_of_one_fold_have_the_plain_standard_error():
    rows = cell("genetic", 50, [20.0, 22.0, 27.0], 20, folds=1, penalty=0.0)
    assert halves(draw_penalty_sweep(rows).axes[0]) == [pytest.approx([math.sqrt(13 / 3)])]


def test_a_single_value_has_no_spread():
    figure = draw_angle_sweep(cell("angles", 10, [20.0], 9, angle=15.0))
    figure.draw_without_rendering()
    assert of_colour(figure.axes[0], RED) == [[(15, 20)]]
    assert all(math.isnan(half) for half in halves(figure.axes[0])[0])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (cell("genetic", 50, [1.0, 2.0, 3.0], 20, penalty=0.0), "mean over 3 folds,"),
        (cell("genetic", 50, [1.0, 2.0, 3.0, 4.0], 20, folds=2, penalty=0.0), "mean over 2 folds × 2 repeats,"),
        (
            [
                *cell("genetic", 50, [1.0, 2.0, 3.0, 4.0], 20, folds=2, penalty=0.0),
                *cell("genetic", 50, [1.0, 2.0, 3.0], 20, folds=2, penalty=9.0),
            ],
            "mean over 2 folds × 2 repeats (only 3 at some points),",
        ),
    ],
)
def test_the_caption_says_over_what_the_mean_is(rows, message):
    assert caption(draw_penalty_sweep(rows)).splitlines()[0] == message


def test_penalties_have_a_line_per_initial_size_in_order():
    rows = [
        row
        for hidden in (200, 50)
        for penalty in (50.0, 0.0, 10.0)
        for row in cell("genetic", hidden, [hidden / 10 - penalty / 10, hidden / 10], 20, penalty=penalty)
    ]
    figure = draw_penalty_sweep([*rows, *SWEEP])
    (axes,) = figure.axes
    assert [points(line) for line in axes.get_lines()] == [
        [(0, 5), (10, 4.5), (50, 2.5)],
        [(0, 20), (10, 19.5), (50, 17.5)],
    ]
    assert labels(figure) == ["50 units before", "200 units before"]
    assert axes.get_xlabel() == "penalty λ"
    assert axes.get_xscale() == "linear"
    assert list(axes.get_xticks()) == [0, 10, 50]


def test_penalties_far_apart_keep_a_place_for_zero():
    rows = [row for penalty in (0.0, 0.01, 1.0, 50.0) for row in cell("genetic", 50, [20.0, 22.0], 9, penalty=penalty)]
    axes = draw_penalty_sweep(rows).axes[0]
    assert axes.get_xscale() == "symlog"
    spots = axes.xaxis.get_transform().transform(np.array([*axes.get_xlim(), 0.0, 50.0]))
    left, right, zero, last = spots
    assert 0 < zero - left < 0.1 * (last - zero)  # the data fill the axes
    assert 0 < right - last < 0.1 * (last - zero)


def test_methods_of_several_kinds_are_told_apart_in_a_sweep():
    rows = [*cell("genetic", 50, [20.0, 22.0], 9, penalty=1.0), *cell("genetic6:1", 50, [20.0, 22.0], 9, penalty=1.0)]
    assert labels(draw_penalty_sweep(rows)) == ["genetic, 50 units before", "genetic6, 50 units before"]


def test_a_sweep_may_name_its_options():
    rows = [row for angle in (15.0, 45.0) for row in cell(f"angles:{angle}", 50, [20.0, 22.0], 9, angle=angle)]
    assert of_colour(draw_angle_sweep(rows).axes[0], RED) == [[(15, 21), (45, 21)]]


def study(sizes=(20, 100, 500)):
    rows = []
    for hidden in sizes:
        rows += cell("whole", hidden, [22.0, 24.0], hidden)
        rows += cell("angles", hidden, [21.0, 23.0], [hidden, hidden], angle=15.0)
        rows += cell("angles", hidden, [20.0, 20.0], [12, 18], angle=45.0)
        rows += cell("genetic", hidden, [hidden / 100, hidden / 100], hidden // 2, penalty=50.0)
        rows += cell("genetic:penalty=0", hidden, [25.0, 25.0], hidden // 2, penalty=0.0)
    return rows


def test_methods_have_a_line_each_and_the_unreduced_is_dashed():
    figure = draw_method_accuracy(study())
    (axes,) = figure.axes
    assert labels(figure) == ["angles 15°", "angles 45°", "genetic λ = 50", "genetic:penalty=0", "unreduced"]
    lines = axes.get_lines()
    assert points(lines[2]) == [(20, 0.2), (100, 1), (500, 5)]
    assert points(lines[4]) == [(20, 23), (100, 23), (500, 23)]
    assert same_color(lines[4].get_color(), INK)
    assert lines[4].is_dashed()
    assert halves(axes)[0] == pytest.approx([math.sqrt(2 * 1.5)] * 3)
    assert axes.get_xscale() == "log"
    assert list(axes.get_xticks()) == [20, 100, 500]
    assert axes.get_xlabel() == "hidden units before"


def test_all_of_it_lies_within_the_limits():
    axes = draw_method_accuracy(study()).axes[0]
    assert axes.get_ylim()[0] < 0.2
    assert axes.get_ylim()[1] > 25
    assert 10 < axes.get_xlim()[0] < 20
    assert 500 < axes.get_xlim()[1] < 1000


def test_final_sizes_with_the_diagonal_and_slopes():
    figure = draw_final_size(study())
    (axes,) = figure.axes
    assert [axes.get_xscale(), axes.get_yscale()] == ["log", "log"]
    *methods, diagonal = axes.get_lines()
    assert points(diagonal) == [(20, 20), (100, 100), (500, 500)]
    assert points(methods[1]) == [(20, 15), (100, 15), (500, 15)]
    assert labels(figure) == [
        "angles 15° (1.00)",
        "angles 45° (0.00)",
        "genetic λ = 50 (1.00)",
        "genetic:penalty=0 (1.00)",
        "nothing removed (1.00)",
    ]
    assert halves(axes)[1] == pytest.approx([math.sqrt(18)] * 3)
    assert "bars: ± standard deviation" in caption(figure)


def test_the_slope_is_that_of_the_logarithms():
    rows = [row for hidden in (16, 64, 256) for row in cell("m", hidden, [1.0, 2.0], round(2 * hidden**0.5))]
    assert labels(draw_final_size(rows))[0] == "m (0.50)"
    assert labels(draw_final_size(rows[:2]))[0] == "m"


def test_a_bar_ends_at_one_unit():
    axes = draw_final_size(cell("m", 100, [1.0, 2.0, 3.0], [1, 1, 40])).axes[0]
    (bar,) = axes.collections[0].get_paths()
    assert min(bar.vertices[:, 1]) == 1.0
    assert 0.5 < axes.get_ylim()[0] < 1


def test_methods_keep_their_colour_from_figure_to_figure():
    first, second = draw_method_accuracy(study()), draw_final_size(study())
    colours = [[line.get_color() for line in figure.axes[0].get_lines()[:4]] for figure in (first, second)]
    assert colours[0] == colours[1]
    assert len(set(colours[0])) == 4


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(UsageError, match="has an angle"):
        draw_angle_sweep(cell("whole", 10, [1.0], 10))
    with pytest.raises(UsageError, match="has a penalty"):
        draw_penalty_sweep(SWEEP)
    with pytest.raises(UsageError, match="no rows"):
        draw_method_accuracy([])
    with pytest.raises(UsageError, match="no rows"):
        draw_final_size(cell("whole", 10, [1.0], 10))
    with pytest.raises(UsageError, match="fold 1 of repeat 0 occurs twice at 15"):
        draw_angle_sweep([*SWEEP, SWEEP[1]])
    for row in (cell("m", 10, [math.nan], 5), cell("m", 10, [1.0], 0), cell("m", 10, [1.0], 11)):
        with pytest.raises(UsageError, match="m: a reduced network cannot have"):
            draw_final_size(row)


def test_names_are_letters_and_figures_the_same_bytes(hostile, tmp_path):
    rows = [*study(), *cell(f"$x_1$ <b> {hostile}", 20, [20.0, 22.0], 9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for draw in (draw_angle_sweep, draw_penalty_sweep, draw_method_accuracy, draw_final_size):
            first, second = (save_figure(draw(rows), tmp_path / f"{n}.svg").read_bytes() for n in (1, 2))
            assert first == second
    assert labels(draw_method_accuracy(cell("$x_1$ <b>", 20, [20.0], 9))) == [r"\$x_1\$ <b>"]
