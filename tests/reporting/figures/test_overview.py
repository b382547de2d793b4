from __future__ import annotations

import statistics

import numpy as np
import pytest
from matplotlib.text import Text

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import wilson
from weightsmith.reporting.figures.overview import (
    Branch,
    NetworkMark,
    draw_ancestry,
    draw_losses,
    draw_networks,
    draw_seeds,
    energy_unit,
)
from weightsmith.reporting.figures.style import house_style, save_figure
from weightsmith.training.run import EpochRow, History


def mark(name, right, at=1000.0, making="reduced", parent=None):
    return NetworkMark(name, making, at, wilson(right, 100), parent)


def lines(axes):
    return {line.get_label(): tuple(np.ravel(line.get_data())) for line in axes.get_lines()}


def bars(axes):
    return [tuple(np.ravel(path.vertices)) for one in axes.collections for path in one.get_paths()]


def boxes(figure, axes):
    """The rectangles of all names, in pixels."""
    with house_style():
        figure.draw_without_rendering()
        return {text.get_text(): Text.get_window_extent(text) for text in axes.texts}  # without the line to its mark


def history(*losses, validation=None):
    rows = [
        EpochRow(number, 1, 0.1, loss, 0.5, None if validation is None else validation[number - 1])
        for number, loss in enumerate(losses, 1)
    ]
    return History(tuple(rows))


def test_every_network_has_a_mark_a_bar_and_its_name():
    figure = draw_networks([mark("big", 90, 5000, "trained"), mark("small", 80, 1250, parent="big")], "parameters")
    (axes,) = figure.axes
    assert lines(axes)["big"] == pytest.approx((5000, 90))
    assert lines(axes)["small"] == pytest.approx((1250, 80))
    low, high = (100 * end for end in (wilson(80, 100).low, wilson(80, 100).high))
    assert any(each == pytest.approx((1250, low, 1250, high)) for each in bars(axes))
    assert {text.get_text() for text in axes.texts} == {"big", "small"}
    assert axes.get_xlabel() == "parameters"
    assert axes.get_ylabel() == "accuracy (%), bars: 95 % intervals"


def test_a_line_leads_from_a_parent_to_its_child_and_from_nobody_else():
    several = [mark("a", 90, 400), mark("b", 80, 200, parent="a"), mark("c", 70, 100, parent="unknown")]
    (axes,) = draw_networks(several, "parameters").axes
    led = [found for label, found in lines(axes).items() if label.startswith("_")]
    assert led == [pytest.approx((400, 200, 90, 80))]


def test_energies_are_written_in_the_unit_of_the_largest():
    (axes,) = draw_networks([mark("a", 90, 41_000.0), mark("b", 80, 500.0)], "energy").axes
    assert axes.get_xlabel() == "energy per image (nJ)"
    assert lines(axes)["a"][0] == pytest.approx(41)
    assert axes.get_xscale() == "log"  # 82 times as much
    assert [energy_unit(value)[1] for value in (0, 999, 1e3, 2e6, 3e10)] == ["pJ", "pJ", "nJ", "µJ", "mJ"]


@pytest.mark.parametrize("close", [1.0, 1.002, 1.05])
def test_names_of_networks_that_lie_together_can_be_read(close):
    several = [mark(f"network-{number}", 90 + number % 2, 1000 * close**number) for number in range(9)]
    figure = draw_networks([*several, mark("far", 40, 2000)], "parameters")
    (axes,) = figure.axes
    found = boxes(figure, axes)
    assert len(found) == 10
    area = axes.get_window_extent()
    for name, box in found.items():
        assert area.x0 - 2 <= box.x0 < box.x1 <= area.x1 + 2, name
        others = [other for other in found if other != name]
        assert [other for other in others if box.shrunk(0.9, 0.8).overlaps(found[other].shrunk(0.9, 0.8))] == []


def test_names_lie_off_the_lines_between_networks():
    several = [mark("whole", 96, 50_000, "trained"), mark("cut", 96, 12_000, parent="whole")]
    several += [mark("low", 90, 12_500, "tailored", parent="whole"), mark("mid", 93, 30_000, parent="whole")]
    figure = draw_networks(several, "parameters")
    (axes,) = figure.axes
    found = boxes(figure, axes)
    at = {each.name: axes.transData.transform((each.at, 100 * each.accuracy.value)) for each in several}
    for child in ("cut", "low", "mid"):
        along = [at["whole"] + (at[child] - at["whole"]) * share for share in np.linspace(0, 1, 200)]
        covered = {name for name, box in found.items() if any(box.shrunk(0.9, 0.6).contains(*point) for point in along)}
        assert not covered, child


def test_parameters_have_their_thousands_separated():
    figure = draw_networks([mark("a", 90, 50_000), mark("b", 80, 12_000)], "parameters")
    (axes,) = figure.axes
    figure.draw_without_rendering()
    assert "20,000" in [text.get_text() for text in axes.get_xticklabels()]


def test_one_network_without_any_cost_can_be_drawn():
    (axes,) = draw_networks([mark("only", 50, 0.0)], "energy").axes
    assert axes.get_xlim()[0] < 0 < axes.get_xlim()[1]


def test_many_networks_are_drawn_without_names():
    (axes,) = draw_networks([mark(f"n{number}", number, number + 1) for number in range(60)], "parameters").axes
    assert not axes.texts
    assert {f"n{number}" for number in range(60)} <= set(lines(axes))


def test_names_are_never_formulas():
    figure = draw_networks([mark("$x^2$ _a", 50), mark("_hidden\x1b", 60, 2000)], "parameters")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [" _hidden□", r"\$x^2\$ _a"]
    assert not any(line.get_label() == "_hidden\x1b" for line in axes.get_lines())


def test_children_stand_below_and_right_of_their_parents():
    tree = [
        Branch(0, "start", None, "before training"),
        Branch(1, "big", "trained", "trained", "90 %"),
        Branch(2, "small", "reduced", "reduced by angles"),
        Branch(1, "other", "trained", "trained"),
    ]
    (axes,) = draw_ancestry(tree).axes
    positions = {text.get_text(): text.xy for text in axes.texts if text.xycoords == "data"}
    assert list(positions) == ["start", "big", "small", "other"]
    assert [position[1] for position in positions.values()] == [0, 1, 2, 3]
    assert positions["start"][0] < positions["big"][0] == positions["other"][0] < positions["small"][0]
    elbows = [tuple(line.get_ydata()) for line in axes.get_lines() if len(line.get_xdata()) == 3]
    assert elbows == [(0, 1, 1), (1, 2, 2), (0, 3, 3)]
    assert [text.get_text() for text in axes.texts if text.xycoords != "data"][1] == "trained   90 %"


def test_an_ancestry_grows_with_its_networks():
    heights = [draw_ancestry([Branch(0, "a", None, "")] * count).get_figheight() for count in (1, 10)]
    assert heights[1] - heights[0] == pytest.approx(9 * 0.26)


def test_seeds_show_their_mean_and_deviation():
    values = [0.8, 0.9, 0.91]
    (axes,) = draw_seeds({"train": [(f"seed {each}", share) for each, share in enumerate(values)]}).axes
    found = lines(axes)
    mean, spread = 100 * statistics.mean(values), 100 * statistics.stdev(values)
    assert found["mean"] == pytest.approx((mean, 0))
    assert found["seed 1"] == pytest.approx((90, 0))
    assert bars(axes) == [pytest.approx((mean - spread, 0, mean + spread, 0))]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["train"]


def test_losses_are_those_of_validation_only_if_all_runs_have_them():
    plain, both = history(2.0, 1.0), history(3.0, 1.5, validation=(2.5, 2.0))
    (axes,) = draw_losses({"a": plain, "b": both}).axes
    assert (lines(axes)["b"], axes.get_ylabel()) == ((1, 2, 3.0, 1.5), "training loss (mean per image)")
    (axes,) = draw_losses({"b": both}).axes
    assert (lines(axes)["b"], axes.get_ylabel()) == ((1, 2, 2.5, 2.0), "validation loss (mean per image)")


def test_losses_of_many_sizes_have_a_logarithmic_axis():
    assert draw_losses({"a": history(40.0, 1.0)}).axes[0].get_yscale() == "log"
    assert draw_losses({"a": history(40.0, 0.0)}).axes[0].get_yscale() == "linear"


def test_nothing_is_not_drawn():
    with pytest.raises(UsageError, match="no network has both an accuracy and energy"):
        draw_networks([], "energy")
    with pytest.raises(UsageError, match="there are no networks"):
        draw_ancestry([])
    with pytest.raises(UsageError, match="at least two seeds"):
        draw_seeds({"train": [("seed 0", 0.5)]})
    with pytest.raises(UsageError, match="at least one epoch"):
        draw_losses({"a": history()})


def test_equal_figures_give_equal_bytes(tmp_path):
    several = [mark("a", 90, 400), mark("b", 80, 200, parent="a")]
    saved = [save_figure(draw_networks(several, "energy"), tmp_path / f"{each}.svg").read_bytes() for each in "xy"]
    assert saved[0] == saved[1]
