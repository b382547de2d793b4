"""Points lie where matplotlib drew them, and say what stands on the axes there."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from weightsmith.reporting._blocks import inline_svg
from weightsmith.reporting.figures.style import house_style, new_figure
from weightsmith.reporting.hover import hover_points


def drawn(figure):
    """The SVG of a figure and the points that go with it."""
    svg = inline_svg(figure, "f-", "a figure")
    return svg, hover_points(figure)


def paths(svg):
    """The vertices of every path of straight lines, as they stand in the SVG."""
    found = re.findall(r'<path d="M([^"]*?)"', svg)
    return [
        [tuple(map(float, point.split())) for point in re.split(r" ?[ML] ?", text) if point]
        for text in found
        if not re.search("[CQzZ]", text)
    ]


@pytest.fixture
def axes():
    with house_style():
        _, (axes,) = new_figure(5, 3)
    axes.set_xlabel("epoch")
    axes.set_ylabel("accuracy (%)")
    return axes


def only(found):
    (panel,) = found["panels"]
    (series,) = panel["series"]
    return panel, series


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_points_of_a_line_lie_on_its_path(axes, scale):
    x, y = [1, 2, 5, 9], [10.0, 40.0, 35.0, 98.76543]
    axes.plot(x, y, label="validation")
    axes.set_yscale(scale)
    axes.set_title("a title that takes room")
    svg, found = drawn(axes.figure)
    panel, series = only(found)
    positions = list(zip(series["x"], series["y"], strict=True))
    near = [path for path in paths(svg) if len(path) == 4 and np.allclose(path, positions, atol=0.06)]
    assert len(near) == 1
    assert (series["name"], series["a"], series["b"]) == ("validation", x, [10, 40, 35, 98.77])
    assert (panel["x"], panel["y"]) == (["epoch", ""], ["accuracy", "%"])
    left, top, right, bottom = panel["box"]
    assert all(left <= a <= right and top <= b <= bottom for a, b in positions)


def test_marks_of_a_cloud_lie_where_they_are_used(axes):
    rng = np.random.default_rng(0)
    x, y, shade = rng.random(7), rng.random(7), np.arange(7.0)
    cloud = axes.scatter(x, y, c=shade, label="units")
    axes.figure.colorbar(cloud, ax=axes).set_label("angle (°): 90 unrelated")
    svg, found = drawn(axes.figure)
    _, series = only(found)
    used = [
        tuple(map(float, position)) for position in re.findall(r'<use href="#f-\w+" x="([\d.]+)" y="([\d.]+)"', svg)
    ]
    for position in zip(series["x"], series["y"], strict=True):
        assert min(np.hypot(a - position[0], b - position[1]) for a, b in used) < 0.1
    assert (series["z"], series["c"]) == (["angle", "°"], list(range(7)))


@pytest.mark.parametrize("upright", [True, False])
def test_bars_are_found_at_their_ends_and_tell_their_length(axes, upright):
    draw, stack = (axes.bar, "bottom") if upright else (axes.barh, "left")
    draw(range(3), [4, 5, 6], label="kept")
    draw(range(3), [1, 2, 3], **{stack: [4, 5, 6]}, label="removed")
    names = ["conv1", "conv2", "fc"]
    (axes.set_xticks if upright else axes.set_yticks)(range(3), names)
    svg, found = drawn(axes.figure)
    (panel,) = found["panels"]
    kept, removed = panel["series"]
    words, values = ("a", "b") if upright else ("b", "a")
    assert (kept["name"], removed["name"]) == ("kept", "removed")
    assert (kept[words], removed[words]) == (names, names)
    assert (kept[values], removed[values]) == ([4, 5, 6], [1, 2, 3])
    assert kept["by"] == ("x" if upright else "y")
    corners = [
        [tuple(map(float, point.split())) for point in re.split(r" ?[MLz] ?", text) if point.strip()]
        for text in re.findall(r'<path d="(M[^"]*z)"', svg)
    ]
    for series in (kept, removed):
        for x, y in zip(series["x"], series["y"], strict=True):
            edges = [np.min(box, 0).tolist() + np.max(box, 0).tolist() for box in corners if len(box) == 4]
            if upright:
                assert any(abs((left + right) / 2 - x) < 0.1 and abs(top - y) < 0.1 for left, top, right, _ in edges)
            else:
                assert any(
                    abs((top + bottom) / 2 - y) < 0.1 and abs(right - x) < 0.1 for _, top, right, bottom in edges
                )


def test_steps_say_their_ranges_and_lie_in_their_middle(axes):
    axes.stairs([3, 0, 5], [0, 1, 10, 100], label="layers")
    axes.set_xlabel("λ")
    _, found = drawn(axes.figure)
    _, series = only(found)
    assert (series["a"], series["b"]) == (["0 to 1", "1 to 10", "10 to 100"], [3, 0, 5])
    left, _, right, _ = found["panels"][0]["box"]
    low, high = axes.get_xlim()
    assert series["x"][2] == pytest.approx(left + (55 - low) / (high - low) * (right - left), abs=0.1)


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_cells_of_an_image_lie_in_its_squares_with_their_values(axes, origin):
    cells = np.ma.masked_equal([[1.0, 2.0, 3.0], [4.0, 0.0, 6.5]], 0)
    axes.imshow(cells, origin=origin)
    axes.set_xticks(range(3), ["cat", "dog", "fox"])
    axes.set_yticks(range(2), ["17", "4"])  # units in another order: numbers, but names
    _, found = drawn(axes.figure)
    _, series = only(found)
    assert (series["a"], series["b"]) == (["cat", "dog", "fox"], ["17", "4"])
    assert series["c"] == [1, 2, 3, 4, None, 6.5]
    left, top, across, along = series["grid"]
    box = found["panels"][0]["box"]
    wide, tall = (box[2] - box[0]) / 3, (box[3] - box[1]) / 2
    assert (left, across) == (pytest.approx(box[0] + wide / 2, abs=0.1), pytest.approx(wide, abs=0.1))
    first = box[1] + tall / 2 if origin == "upper" else box[3] - tall / 2
    assert (top, abs(along)) == (pytest.approx(first, abs=0.1), pytest.approx(tall, abs=0.1))
    assert (along > 0) == (origin == "upper")


def test_large_images_and_long_lines_are_thinned_evenly(axes):
    axes.imshow(np.arange(200.0 * 300).reshape(200, 300), extent=(0, 300, 0, 200))
    axes.plot(np.linspace(0, 300, 9001), np.linspace(0, 200, 9001), label="long")
    _, found = drawn(axes.figure)
    line, grid = found["panels"][0]["series"]
    assert 1000 < len(line["x"]) <= 2000
    assert len(set(np.round(np.diff(line["x"]), 0))) <= 2
    assert len(grid["c"]) == len(grid["a"]) * len(grid["b"]) <= 4096
    assert grid["c"][0] == 0
    assert grid["c"][1] * 300 == pytest.approx(300 * (grid["a"][1] - grid["a"][0]))
    left, _, across, _ = grid["grid"]
    box = found["panels"][0]["box"]
    assert left + across * (len(grid["a"]) - 1) <= box[2] + 0.5


def test_nameless_points_give_way_and_guides_are_no_points(axes):
    axes.plot([1, 2, 3], [1, 2, 3])  # a line through the marks
    axes.plot([1, 2, 3], [1, 2, 3], "o", label="networks")
    axes.plot([1, 3], [1, 3])  # a guide
    axes.axhline(2.5)
    axes.axvline(1.5)
    axes.fill_between([1, 2, 3], [0, 1, 2], [2, 3, 4])
    axes.plot(0.5, 0.5, "s", transform=axes.transAxes)
    _, found = drawn(axes.figure)
    _, series = only(found)
    assert series["name"] == "networks"


def test_lines_that_coincide_keep_both_their_names(axes):
    axes.plot([1, 2], [3, 4], label="one")
    axes.plot([1, 2], [3, 4], label="two")
    _, found = drawn(axes.figure)
    assert [one["name"] for one in found["panels"][0]["series"]] == ["one", "two"]


def test_shifted_marks_are_still_data(axes):
    from matplotlib.transforms import ScaledTranslation

    beside = axes.transData + ScaledTranslation(5 / 72, 0, axes.figure.dpi_scale_trans)
    axes.plot([1, 2], [3, 4], "o", label="plain")
    axes.plot([1, 2], [3, 4], "o", label="beside", transform=beside)
    _, found = drawn(axes.figure)
    plain, shifted = found["panels"][0]["series"]
    assert np.subtract(shifted["x"], plain["x"]) == pytest.approx([5, 5], abs=0.11)
    assert shifted["a"] == plain["a"]


def test_intervals_names_and_formats_are_told(axes):
    axes.plot([1, 2], [50, 60.0], "o", label="nets")
    axes.vlines([1, 2], [45, 60], [55.5, 70])
    axes.annotate("small.pt", (2, 60), xytext=(3, 3), textcoords="offset points")
    axes.annotate("50.0", (1, 50), xytext=(3, 3), textcoords="offset points")
    axes.fmt_xdata = lambda position: f"network {position:.0f}"
    _, found = drawn(axes.figure)
    panel, series = only(found)
    assert series["b"] == ["50 [45, 55.5]", 60]  # the second stroke begins at its point and is no interval
    assert series["t"] == ["", "small.pt"]
    assert (series["a"], panel["x"]) == (["network 1", "network 2"], ["", ""])


def test_places_without_ticks_mean_nothing_and_unnamed_ones_have_no_name(axes):
    axes.imshow([[1.0, 2.0, 3.0]])
    axes.set_yticks([])
    axes.set_xticks([0, 2], ["cat", "fox"])
    _, found = drawn(axes.figure)
    _, series = only(found)
    assert (series["a"], series["b"], series["c"]) == (["cat", "", "fox"], [""], [1, 2, 3])


def test_panels_lend_each_other_their_labels():
    with house_style():
        figure = Figure(figsize=(5, 4), layout="constrained")
        grid = figure.subplots(2, 2)
        for panel in grid.ravel():
            panel.plot([1, 2, 3], [1, 2, 3], "o")
        grid[0, 0].set_ylabel("rate")
        grid[1, 0].set_ylabel("energy (nJ)")
        grid[1, 1].set_xlabel("time steps")
    _, found = drawn(figure)
    first, second, third, fourth = found["panels"]
    assert (second["y"], fourth["y"]) == (["rate", ""], ["energy", "nJ"])
    assert (second["x"], first["x"]) == (["time steps", ""], ["", ""])
    assert second["box"][0] > first["box"][2]
    assert third["box"][1] > first["box"][3]


def test_nan_outside_and_hidden_points_are_left_out(axes):
    axes.plot([1, 2, 3, 4], [1, np.nan, 3, 40], label="a")
    axes.set_ylim(0, 5)
    _, found = drawn(axes.figure)
    _, series = only(found)
    assert series["a"] == [1, 3]
    axes.set_visible(False)
    assert drawn(axes.figure)[1] is None


def test_a_figure_without_points_has_none():
    with house_style():
        figure, (axes,) = new_figure(4, 3)
    axes.fill_between([0, 1], [0, 1], [1, 2])
    axes.text(0.5, 0.5, "nothing")
    assert drawn(figure)[1] is None


def test_names_are_plain_and_the_figure_stays_as_it_was(axes):
    axes.plot([1, 2, 3], [1, 2, 3], label="evil\x1b\u202e \\$5 \\$6" + "x" * 5000)
    dpi = axes.figure.dpi
    _, found = drawn(axes.figure)
    _, series = only(found)
    assert series["name"].startswith("evil␛� $5 $6xx")
    assert len(series["name"]) <= 120
    assert axes.figure.dpi == dpi
    json.dumps(found, allow_nan=False)


def test_equal_figures_have_equal_points():
    def make():
        with house_style():
            figure, (axes,) = new_figure(4, 3)
            axes.plot([1, 2, 3], [3, 1, 2], label="a")
        return drawn(figure)

    assert make() == make()
