"""What the figures of a reduction show is what the records say."""

from __future__ import annotations

import math
import warnings

import pytest
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.reducing.decisions import FrontPoint, Trace, TraceRow
from weightsmith.reducing.results import RemovedUnit, SiteReduction
from weightsmith.reporting.figures import reducing
from weightsmith.reporting.figures.labels import shown
from weightsmith.reporting.figures.reducing import (
    draw_front,
    draw_sites,
    draw_sizes,
    draw_trace,
    gone_by_reason,
)
from weightsmith.reporting.figures.style import BLUE, INK, ORANGE, save_figure


def points(line):
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


def of_colour(axes, colour, marker=None):
    return [
        points(line)
        for line in axes.get_lines()
        if same_color(line.get_color(), colour) and (marker is None or line.get_marker() == marker)
    ]


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def trace(*rows, fitness="accuracy % − 50·units/all"):
    return Trace(fitness, tuple(TraceRow(generation, *row, 95) for generation, row in enumerate(rows)))


def test_the_trace_has_fitness_above_and_units_below():
    figure = draw_trace(trace((5.0, -3.0, 60, 50.5), (7.0, 2.0, 58, 49.0), (9.0, 4.0, 41, 45.0)))
    fitness, units = figure.axes
    assert of_colour(fitness, BLUE) == [[(0, 5.0), (1, 7.0), (2, 9.0)]]
    assert of_colour(fitness, ORANGE) == [[(0, -3.0), (1, 2.0), (2, 4.0)]]
    assert of_colour(units, BLUE) == [[(0, 60), (1, 58), (2, 41)]]
    assert of_colour(units, ORANGE) == [[(0, 50.5), (1, 49.0), (2, 45.0)]]
    assert [axes.get_ylabel() for axes in figure.axes] == ["fitness", "units"]
    assert units.get_xlabel() == "generation"
    assert labels(figure) == ["best", "mean of the population"]
    assert fitness.get_title(loc="left") == "fitness: accuracy % − 50·units/all"


def test_a_mean_without_end_is_a_gap_and_limits_are_of_the_rest():
    figure = draw_trace(trace((5.0, -math.inf, 60, 50.0), (6.0, 1.0, 58, 49.0)))
    (mean,) = of_colour(figure.axes[0], ORANGE)
    assert math.isnan(mean[0][1])
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_ylim()
    assert -1 < low < 1
    assert 6 < high < 8


def test_a_single_generation_is_a_point():
    axes = draw_trace(trace((5.0, 1.0, 60, 50.0))).axes[1]
    assert axes.get_xlim() == (-1, 1)
    assert [line.get_marker() for line in axes.get_lines()] == ["o", "o"]


FRONT = [FrontPoint(90.0, 40, {}), FrontPoint(60.0, 5, {}), FrontPoint(80.0, 12, {})]


def test_the_front_is_a_staircase_of_the_networks_found():
    whole = FrontPoint(92.5, 100, {})
    figure = draw_front(FRONT, FRONT[2], whole)
    (axes,) = figure.axes
    stairs, found = of_colour(axes, BLUE)
    assert found == [(5, 60.0), (12, 80.0), (40, 90.0)]
    assert stairs == [*found, (100, 90.0)]
    assert axes.get_lines()[0].get_drawstyle() == "steps-post"
    assert of_colour(axes, ORANGE) == [[(12, 80.0)]]
    assert of_colour(axes, INK, "s") == [[(100, 92.5)]]
    assert labels(figure) == ["front: 3 networks", "whole: 100 units, 92.5 %", "chosen: 12 units, 80.0 %"]
    assert axes.get_xlabel() == "units"
    assert "(%)" in axes.get_ylabel()


def test_units_are_logarithmic_where_they_span_much():
    assert draw_front(FRONT).axes[0].get_xscale() == "linear"
    wide = draw_front([*FRONT, FrontPoint(20.0, 1, {})]).axes[0]
    assert wide.get_xscale() == "log"


def test_a_front_of_one_network_and_nothing_marked():
    figure = draw_front([FrontPoint(50.0, 1, {})])
    assert figure.axes[0].get_xlim() == (0, 2)
    assert labels(figure) == ["front: 1 network"]
    assert of_colour(figure.axes[0], INK) == []


SIZES = {
    "angles": [(0.5, 90.0, 89.0, 90.5), (0.25, 80.0, 78.0, 81.0)],
    "random": [(0.5, 70.0, 66.0, 73.0)],
}


def bars(axes):
    return [[tuple(map(tuple, path.vertices)) for path in found.get_paths()] for found in axes.collections]


def test_sizes_are_shares_in_percent_with_their_intervals():
    figure = draw_sizes(SIZES, 92.5, intervals="Wilson, 95 %")
    (axes,) = figure.axes
    before, *lines = axes.get_lines()
    assert list(before.get_ydata()) == [92.5, 92.5]
    assert [points(line) for line in lines] == [[(25.0, 80.0), (50.0, 90.0)], [(50.0, 70.0)]]
    assert bars(axes) == [[((25, 78), (25, 81)), ((50, 89), (50, 90.5))], [((50, 66), (50, 73))]]
    assert labels(figure) == ["unreduced: 92.5 %", "angles", "random"]
    assert axes.get_xlabel() == "parameters left (%)"
    assert axes.get_ylabel() == "accuracy (%), bars: Wilson, 95 %"


def test_everything_drawn_lies_within_the_limits():
    axes = draw_sizes(SIZES, 92.5).axes[0]
    low, high = axes.get_ylim()
    assert 60 < low < 66
    assert 92.5 < high < 97
    left, right = axes.get_xlim()
    assert 20 < left < 25
    assert 50 < right < 55


def test_equal_shares_stand_side_by_side():
    axes = draw_sizes(SIZES).axes[0]
    axes.figure.draw_without_rendering()
    first, second = (line.get_transform().transform((50.0, 70.0)) for line in axes.get_lines())
    assert second[0] - first[0] == pytest.approx(2.4 / 72 * axes.figure.dpi)
    assert second[1] == first[1]


def test_an_interval_that_is_unknown_has_no_bar():
    axes = draw_sizes({"a": [(0.5, 90.0, math.nan, math.nan), (0.25, 80.0, 79.0, 81.0)]}).axes[0]
    axes.figure.draw_without_rendering()
    assert 78 < axes.get_ylim()[0] < 79


def test_shares_far_apart_are_logarithmic():
    assert draw_sizes({"a": [(1.0, 90, 89, 91), (0.01, 50, 40, 61)]}).axes[0].get_xscale() == "log"


@pytest.mark.parametrize("share", [0, -0.1, 25, math.nan])
def test_shares_are_from_0_to_1(share):
    with pytest.raises(UsageError, match=f"angles: a share .* not {share:.3g}"):
        draw_sizes({"angles": [(share, 90, 89, 91)]})


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="no generations"):
        draw_trace(Trace("fitness"))
    with pytest.raises(UsageError, match="no networks"):
        draw_front([])
    for rows in ({}, {"angles": []}):
        with pytest.raises(UsageError, match="at least one"):
            draw_sizes(rows)


def test_names_are_letters_and_figures_the_same_bytes(hostile, tmp_path):
    def drawn():
        yield draw_trace(trace((5.0, 1.0, 60, 50.0), fitness=f"$x_1$ {hostile}"))
        yield draw_sizes({hostile: SIZES["angles"], "_$x_1$ <b>": SIZES["random"]}, 90, intervals=hostile)
        yield draw_front(FRONT)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first, second in zip(drawn(), drawn(), strict=True):
            assert (
                save_figure(first, tmp_path / "1.svg").read_bytes()
                == save_figure(second, tmp_path / "2.svg").read_bytes()
            )
    assert labels(draw_sizes({"_$x_1$ <b>": SIZES["random"]})) == [r" _\$x_1\$ <b>"]


def test_all_figures_of_reducing_have_one_home():
    assert all(callable(getattr(reducing, name)) for name in reducing.__all__)
    assert sorted(reducing.__all__) == reducing.__all__


def site(name="dense1", before=10, kept=4, reasons=(), **more):
    gone = tuple(RemovedUnit(kept + index, reason) for index, reason in enumerate(reasons))
    return SiteReduction(name, more.pop("layers", (name,)), "dense", before, tuple(range(kept)), gone, **more)


def bars_sites(figure):
    """Lengths by label."""
    (axes,) = figure.axes
    return {found.get_label(): [round(bar.get_width()) for bar in found] for found in axes.containers}


def test_bars_are_units_left_and_gone_by_reason():
    figure = draw_sites([site(reasons=["similar"] * 4 + ["constant"] * 2), site("dense2", 6, 5, ["constant"])])
    assert bars_sites(figure) == {"left": [4, 5], "similar": [4, 0], "constant": [2, 1]}
    (axes,) = figure.axes
    assert all(same_color(bar.get_facecolor(), BLUE) for bar in axes.containers[0])
    ends = [bar.get_x() + bar.get_width() for bar in axes.containers[-1]]
    assert ends == [10, 6]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dense1", "dense2"]
    assert axes.get_title(loc="left") == "9 of 16 units are left"
    assert [text.get_text() for text in axes.texts] == ["4 of 10 (40 %)", "5 of 6 (83 %)"]


def test_rare_reasons_are_drawn_together_and_earlier_rounds_are_named():
    reasons = ["a"] * 4 + ["b"] * 3 + ["c"] * 2 + ["d", "e"]
    assert bars_sites(draw_sites([site(before=15, kept=4, reasons=reasons)])) == {
        "left": [4],
        "a": [4],
        "b": [3],
        "c": [2],
        "other reasons": [2],
    }
    earlier = site(before=9, kept=3, reasons=["search"])
    assert gone_by_reason(earlier) == {"search": 1, "earlier rounds": 5}
    assert bars_sites(draw_sites([earlier])) == {"left": [3], "search": [1], "earlier rounds": [5]}


def test_layers_that_share_units_and_refusals_are_told():
    (axes,) = draw_sites([site(kept=10, layers=("a", "b", "c"), refused="because")]).axes
    assert axes.get_yticklabels()[0].get_text() == "dense1 (+2)"
    assert axes.texts[0].get_text() == "10 of 10 (100 %), refused"


def test_many_layers_are_drawn_without_numbers_and_none_is_refused():
    (axes,) = draw_sites([site(f"layer{number}") for number in range(41)]).axes
    assert not axes.texts
    with pytest.raises(UsageError, match="no layers whose units can be removed"):
        draw_sites([])


def test_hostile_names_are_letters(hostile):
    figure = draw_sites([site(hostile, reasons=[hostile])])
    figure.draw_without_rendering()
    assert shown(hostile, 34) in [text.get_text() for found in figure.legends for text in found.get_texts()]
