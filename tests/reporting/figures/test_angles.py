"""The heat map shows every angle where its units stand, and the tree says how many units can be left."""

from __future__ import annotations

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from matplotlib.collections import LineCollection
from matplotlib.colors import same_color, to_rgb

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.angles import draw_angles, draw_dendrogram
from weightsmith.reporting.figures.style import BLUE, GREY, ORANGE, save_figure


def angles(units, seed=0, rows=6):
    """Angles between random vectors; of few rows, so that some are small."""
    vectors = np.random.default_rng(seed).normal(size=(rows, units))
    vectors /= np.linalg.norm(vectors, axis=0)
    found = np.degrees(np.arccos(np.clip(vectors.T @ vectors, -1, 1)))
    found = (found + found.T) / 2
    np.fill_diagonal(found, 0)
    return found


# Units 0 and 3 are similar, 1 and 4 complementary, 2 stands alone.
FIVE = np.array(
    [
        [0.0, 80, 85, 4, 95],
        [80, 0, 88, 81, 175],
        [85, 88, 0, 86, 92],
        [4, 81, 86, 0, 96],
        [95, 175, 92, 96, 0],
    ]
)


def names(axis):
    return [int(label.get_text()) for label in axis.get_ticklabels()]


def forks(figure, colour):
    return [
        tuple(map(tuple, path.vertices))
        for collection in figure.axes[0].collections
        if isinstance(collection, LineCollection) and same_color(collection.get_colors()[0], colour)
        for path in collection.get_paths()
    ]


def title(figure):
    return figure.axes[0].get_title(loc="left")


def test_every_cell_is_the_angle_of_the_units_named_beside_it():
    axes = draw_angles(FIVE, layer="dense1", threshold=15).axes[0]
    (image,) = axes.get_images()
    shown, rows, columns = np.asarray(image.get_array()), names(axes.yaxis), names(axes.xaxis)
    assert rows == columns
    assert sorted(rows) == [0, 1, 2, 3, 4]
    expected = FIVE[np.ix_(rows, columns)].copy()
    np.fill_diagonal(expected, 90)
    assert np.array_equal(shown, expected)
    assert image.get_clim() == (0, 180)


def test_similar_and_complementary_units_stand_side_by_side():
    order = names(draw_angles(FIVE, layer="dense1", threshold=15).axes[0].xaxis)
    assert abs(order.index(0) - order.index(3)) == 1
    assert abs(order.index(1) - order.index(4)) == 1


def test_the_angles_handed_in_stay_as_they_are():
    before = FIVE.copy()
    draw_angles(FIVE, layer="dense1", threshold=15)
    draw_dendrogram(FIVE, layer="dense1", threshold=15)
    assert np.array_equal(FIVE, before)


@pytest.mark.parametrize("threshold", [None, 15.0, 45.0, 90.0])
def test_colours_are_two_sided_about_white(threshold):
    (image,) = draw_angles(FIVE, layer="dense1", threshold=threshold).axes[0].get_images()
    shade = {angle: np.array(image.to_rgba(angle)[:3]) for angle in (0, 10, 40, 60, 85, 95, 120, 140, 170, 180)}
    brightness = {angle: float(colour.sum()) for angle, colour in shade.items()}
    assert [brightness[a] for a in (0, 10, 40)] == sorted(brightness[a] for a in (0, 10, 40))
    assert brightness[170] > brightness[180]
    for similar, complementary in ((10, 170), (40, 140), (60, 120)):
        assert shade[similar][2] > shade[similar][0]  # bluish
        assert shade[complementary][0] > shade[complementary][2]  # reddish
    if threshold is not None and threshold < 90:
        below, above = (np.array(image.to_rgba(angle)[:3]) for angle in (threshold - 0.2, threshold + 0.2))
        assert above.sum() - below.sum() > 0.8
        assert np.allclose(image.to_rgba(180 - threshold + 0.2)[:3], to_rgb(ORANGE), atol=0.03)


def test_pairs_beyond_the_threshold_are_counted():
    assert title(draw_angles(FIVE, layer="dense1", threshold=15)) == "of 10 pairs 1 below 15°, 1 above 165°"
    assert title(draw_angles(FIVE, layer="dense1", threshold=4)) == "of 10 pairs 0 below 4°, 0 above 176°"  # strictly
    assert title(draw_angles(FIVE, layer="dense1")) == "10 pairs"


def test_the_bar_has_a_tick_at_the_thresholds():
    figure = draw_angles(FIVE, layer="dense1", threshold=12.5)
    bar = figure.axes[1]
    assert [label.get_text() for label in bar.get_yticklabels()] == ["0", "12.5", "45", "90", "135", "167.5", "180"]
    near = draw_angles(FIVE, layer="dense1", threshold=5).axes[1]
    assert [label.get_text() for label in near.get_yticklabels()] == ["5", "45", "90", "135", "175"]
    assert "(°)" in bar.get_ylabel()


def test_many_units_are_drawn_in_squares_that_lose_no_pair():
    many = np.full((1001, 1001), 90.0)
    np.fill_diagonal(many, 0)
    many[17, 903] = many[903, 17] = 3.0
    many[500, 2] = many[2, 500] = 178.0
    figure = draw_angles(many, layer="wide", threshold=15)
    axes = figure.axes[0]
    (image,) = axes.get_images()
    cells = np.asarray(image.get_array())
    assert cells.shape == (201, 201)
    assert sorted(cells[cells != 90]) in ([3.0, 3.0, 178.0, 178.0], [3.0, 178.0])  # once, if on the diagonal
    assert list(image.get_extent()) == [-0.5, 1004.5, 1004.5, -0.5]
    assert axes.get_xlim() == (-0.5, 1000.5)
    assert names(axes.xaxis) == []
    assert "5 × 5" in axes.get_xlabel()
    assert title(figure) == "of 500,500 pairs 1 below 15°, 1 above 165°"


def test_squares_are_as_a_slow_loop_finds_them():
    many = angles(530, rows=4)
    order_of = draw_angles(many, layer="wide").axes[0].get_images()[0].get_array()
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    order = leaves_list(linkage(squareform(np.minimum(many, 180 - many), checks=False), "complete"))
    for row, column in ((0, 0), (3, 90), (176, 5), (176, 176), (100, 100)):
        rows, columns = order[3 * row : 3 * row + 3], order[3 * column : 3 * column + 3]
        pairs = [many[a, b] for a in rows for b in columns if a != b]
        assert order_of[row, column] == max(pairs, key=lambda angle: abs(angle - 90))


def test_the_tree_joins_at_the_largest_angle_of_a_group():
    figure = draw_dendrogram(FIVE, layer="dense1", threshold=15)
    order = names(figure.axes[0].xaxis)
    below = {frozenset(order[round(x)] for x in (fork[0][0], fork[3][0])): fork[1][1] for fork in forks(figure, BLUE)}
    assert below == {frozenset({0, 3}): 4.0, frozenset({1, 4}): 5.0}
    # The rest: 81 = 0,3 with 1,4 (80, 81, 180 − 95, 180 − 96: the largest is 85), then all with 2 (180 − 92 = 88).
    assert sorted(fork[1][1] for fork in forks(figure, GREY)) == [85.0, 88.0]
    assert title(figure) == "3 groups below 15°"


def test_forks_hang_on_the_middle_of_those_below():
    figure = draw_dendrogram(angles(30), layer="dense1")
    drawn = forks(figure, BLUE)
    assert len(drawn) == 29
    tops = {((a[0] + b[0]) / 2, a[1]) for _, a, b, _ in drawn}
    feet = [foot for fork in drawn for foot in (fork[0], fork[3])]
    leaves = sorted(x for x, y in feet if y == 0)
    assert leaves == list(range(30))
    assert {foot for foot in feet if foot[1] > 0} == tops - {max(tops, key=lambda top: top[1])}
    for bottom, left, right, end in drawn:
        assert left[1] == right[1] >= max(bottom[1], end[1])


def test_the_threshold_is_a_line_in_degrees():
    axes = draw_dendrogram(FIVE, layer="dense1", threshold=15).axes[0]
    (line,) = axes.get_lines()
    assert list(line.get_ydata()) == [15, 15]
    assert [text.get_text() for text in axes.texts] == ["15°"]
    assert axes.get_ylim() == (0, 92)
    assert "(°)" in axes.get_ylabel()
    assert not draw_dendrogram(FIVE, layer="dense1").axes[0].get_lines()


def survivors(found, threshold):
    """Merge the nearest pair again and again, as the method does; complementary units are folded."""
    near = np.minimum(found, 180 - found)
    alive = set(range(len(near)))
    pairs = sorted((near[a, b], a, b) for a in range(len(near)) for b in range(a + 1, len(near)))
    for angle, a, b in pairs:
        if angle < threshold and {a, b} <= alive:
            alive.remove(b)
    return len(alive)


@given(st.integers(2, 40), st.integers(0, 1000), st.floats(1, 90))
@settings(max_examples=25, deadline=None)
def test_no_more_units_stay_than_there_are_groups(units, seed, threshold):
    found = angles(units, seed, rows=3)
    groups = int(title(draw_dendrogram(found, layer="dense1", threshold=threshold)).split()[0])
    assert survivors(found, threshold) <= groups


def test_a_long_chain_of_equal_units_can_be_drawn():
    equal = np.zeros((1500, 1500))
    assert title(draw_dendrogram(equal, layer="dead", threshold=15)) == "1 group below 15°"


def test_units_are_named_while_they_are_few():
    assert len(names(draw_dendrogram(angles(40), layer="a").axes[0].xaxis)) == 40
    assert names(draw_dendrogram(angles(41), layer="a").axes[0].xaxis) == []
    assert names(draw_angles(np.zeros((1, 1)), layer="a", threshold=15).axes[0].xaxis) == [0]


@pytest.mark.parametrize("draw", [draw_angles, draw_dendrogram])
def test_names_are_letters_and_figures_the_same_bytes(draw, hostile, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (
            save_figure(draw(FIVE, layer=f"$x_1$ <b> {hostile}", threshold=15), tmp_path / f"{number}.svg").read_bytes()
            for number in (1, 2)
        )
    assert first == second
    plain = draw(FIVE, layer="$x_1$ <b>", threshold=15)
    assert plain.get_suptitle() == r"\$x_1\$ <b>"


@pytest.mark.parametrize(
    ("degrees", "threshold", "message"),
    [
        (np.zeros((2, 3)), 15, "not of shape (2, 3)"),
        (np.zeros((0, 0)), 15, "not of shape (0, 0)"),
        (np.array([[0, np.nan], [np.nan, 0]]), 15, "between 0 and 180"),
        (np.array([[0, 181.0], [181, 0]]), 15, "between 0 and 180"),
        (np.array([[0, 10.0], [20, 0]]), 15, "must be symmetric"),
        (FIVE, 0, "at most 90 degrees, not 0"),
        (FIVE, 91, "at most 90 degrees, not 91"),
    ],
)
def test_what_are_no_angles_is_refused_by_name(degrees, threshold, message):
    for draw in (draw_angles, draw_dendrogram):
        with pytest.raises(UsageError, match="dense1: ") as caught:
            draw(degrees, layer="dense1", threshold=threshold)
        assert message in str(caught.value)


def test_a_single_unit_has_no_tree():
    with pytest.raises(UsageError, match="dense1: a dendrogram needs at least two units"):
        draw_dendrogram(np.zeros((1, 1)), layer="dense1", threshold=15)
