"""α by layer: every layer is there, verdicts can be told apart without colours, nothing overlaps."""

from __future__ import annotations

import itertools
import warnings

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.grading.results import Status, VerdictKind
from weightsmith.reporting.figures._networks import MARKS
from weightsmith.reporting.figures.depth import alpha_figure, alpha_histogram
from weightsmith.reporting.figures.style import BLUE, GREEN, INK, ORANGE, RED


def marks(axes):
    return [line for line in axes.get_lines() if line.get_marker() != "None"]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def drawn(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def test_every_verdict_has_a_mark_of_its_own():
    assert set(MARKS) == set(VerdictKind)
    assert len({shape for _, shape in MARKS.values()}) == len(VerdictKind)
    assert len({colour for colour, _ in MARKS.values()}) == len(VerdictKind)


def test_marks_stand_at_alpha_and_lines_span_the_interval(make_alpha, make_network):
    network = make_network(
        make_alpha("a", 1.5, VerdictKind.OVER_REGULARISED, 1.4, 1.9),
        make_alpha("b", 4.0, VerdictKind.WELL_TRAINED, 3.0, 5.0),
        make_alpha("c", 9.0, VerdictKind.WEAKLY_TRAINED),
    )
    figure = alpha_figure(network)
    (axes,) = figure.axes
    assert [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in marks(axes)] == [(0, 1.5), (1, 4.0), (2, 9.0)]
    colours = zip(marks(axes), (BLUE, GREEN, RED), strict=True)
    assert all(same_color(mark.get_color(), colour) for mark, colour in colours)
    assert [mark.get_marker() for mark in marks(axes)] == ["v", "o", "^"]
    spans = [part.get_segments()[0] for part in axes.collections]
    assert [[list(end) for end in span] for span in spans] == [[[0, 1.4], [0, 1.9]], [[1, 3.0], [1, 5.0]]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert axes.get_xlabel() == "layer, in the order of the file or module"
    assert legend(figure) == ["over-regularised: 1", "well trained: 1", "weakly trained: 1", "95 % interval"]
    assert axes.get_title(loc="left") == "small: α of 3 of 3 layers"


def test_the_bands_are_those_of_the_verdicts(make_alpha, make_network):
    (axes,) = alpha_figure(make_network(make_alpha("a", 3.0))).axes
    bottom, top = axes.get_ylim()
    spans = [(patch.get_y(), patch.get_y() + patch.get_height()) for patch in axes.patches]
    for span, band in zip(spans, [(bottom, 2.0), (2.0, 6.0), (6.0, top)], strict=True):
        assert span == pytest.approx(band)
    assert texts(axes) == ["over-regularised", "well trained", "weakly trained"]


def test_layers_without_a_fit_stand_hollow_at_the_edge_with_their_status(make_alpha, make_layer, make_network):
    network = make_network(make_layer("dead"), make_alpha("b", 4.0), make_layer("bad", status=Status.NON_FINITE))
    figure = alpha_figure(network)
    (axes,) = figure.axes
    dead, fine, bad = marks(axes)
    assert dead.get_markerfacecolor() == bad.get_markerfacecolor() == "white"
    assert dead.get_marker() == bad.get_marker() == "X"
    assert same_color(dead.get_color(), INK)
    heights = [mark.get_transform().transform((0, mark.get_ydata()[0]))[1] for mark in (dead, bad, fine)]
    assert axes.bbox.y0 < heights[0] == heights[1] < heights[2]
    assert texts(axes)[:2] == ["zero", "non-finite"]
    assert "cannot be fitted: 2" in legend(figure)
    assert axes.get_title(loc="left") == "small: α of 1 of 3 layers"


def test_a_network_without_any_fit_is_still_a_figure(make_layer, make_network):
    (axes,) = alpha_figure(make_network(make_layer("dead"), make_layer("also"))).axes
    assert len(marks(axes)) == 2
    bottom, top = axes.get_ylim()
    assert bottom < 2
    assert top > 6


def test_networks_of_the_same_layers_stand_side_by_side(make_alpha, make_layer, make_network):
    first = make_network(make_alpha("a", 3.0), make_alpha("b", 4.0), source="first.pt")
    second = make_network(make_alpha("a", 5.0), make_layer("b"), source="second.pt")
    figure = alpha_figure([first, second])
    (axes,) = figure.axes
    found = [(round(mark.get_xdata()[0], 9), mark.get_color()) for mark in marks(axes)]
    assert found == [(-0.25, BLUE), (0.75, BLUE), (0.25, ORANGE), (1.25, ORANGE)]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    assert legend(figure)[:2] == ["first", "second"]
    assert "zero" not in texts(axes)


def test_networks_of_other_layers_are_stretched_over_the_same_width(make_alpha, make_network):
    short = make_network(*(make_alpha(f"s{n}", 3.0) for n in range(2)), source="short")
    long = make_network(*(make_alpha(f"l{n}", 4.0) for n in range(4)), source="long")
    (axes,) = alpha_figure([short, long]).axes
    positions = [mark.get_xdata()[0] for mark in marks(axes)]
    assert positions == [25.0, 75.0, 12.5, 37.5, 62.5, 87.5]
    assert axes.get_xlim() == (0, 100)
    assert axes.get_xlabel() == "position in the file or module (% of the layers of each network)"


def test_every_alpha_is_in_sight_and_an_endless_interval_does_not_press_them_flat(make_alpha, make_network):
    network = make_network(make_alpha("a", 1.1, low=1.05, high=1.3), make_alpha("b", 30.0, low=2.0, high=1e6))
    bottom, top = alpha_figure(network).axes[0].get_ylim()
    assert bottom < 1.05
    assert 30 < top < 100


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (3, "dense{}"),
        (3, "encoder.blocks.{}.attention.projection"),
        (22, "layer3.{}.conv2"),
        (60, "encoder.blocks.{}.attention.projection"),
        (300, "transformer.h.{}.attn.c_attn"),
        (5, "x" * 200 + "{}"),
    ],
)
def test_names_can_be_read_and_nothing_leaves_the_figure(make_alpha, make_layer, make_network, count, name):
    layers = [make_alpha(name.format(number), 2.0 + number % 7, low=1.5, high=9.0) for number in range(count)]
    figure = alpha_figure(make_network(*layers[1:], make_layer("dead"), source="s" * 90))
    renderer = drawn(figure)
    (axes,) = figure.axes
    boxes = [label.get_window_extent(renderer) for label in axes.get_xticklabels()]
    assert len(boxes) >= min(count, 50)
    for left, right in itertools.pairwise(boxes):
        assert left.x1 <= right.x0 + 0.5
    whole = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert whole.x0 >= -0.02
    assert whole.y0 >= -0.02
    assert whole.x1 <= width + 0.02
    assert whole.y1 <= height + 0.02
    assert axes.bbox.height > 0.35 * figure.bbox.height


def test_hostile_names_are_letters(make_alpha, make_network, hostile):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = alpha_figure(make_network(make_alpha(hostile, 3.0), source=hostile))
        drawn(figure)
        assert figure.axes[0].get_xticklabels()[0].get_text().startswith(hostile[:15])
        drawn(alpha_figure([make_network(make_alpha("a", 3.0), source=name) for name in (hostile, "_b")]))


def test_nothing_to_draw_is_said_by_name(make_alpha, make_network):
    with pytest.raises(UsageError, match="no grades were given"):
        alpha_figure([])
    with pytest.raises(UsageError, match=r"empty\.pt: no layers were graded"):
        alpha_figure([make_network(make_alpha("a", 3.0)), make_network(source="empty.pt")])


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
    assert axes.get_title(loc="left") == "small: 6 of 7 layers with α in [2, 6], 1 without α"
    (shade,) = [patch for patch in axes.patches if patch.get_label() == "α in [2, 6]"]
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == (2, 6)
    ticks = next(line for line in axes.get_lines() if line.get_marker() == "|")
    assert list(ticks.get_xdata()) == alphas
    assert axes.get_xlim() == (1, 7)
    assert figure.get_figheight() < 0.6 * figure.get_figwidth()  # it is read across, and leaves room on a page


def test_what_lies_beyond_is_counted_in_one_bin(make_alpha, make_network):
    figure = alpha_histogram(make_network(*(make_alpha(f"{a}", a) for a in (3.0, 10.0, 11.0, 400.0))))
    (axes,) = figure.axes
    assert steps(axes) == {"layers": {3.0: 1, 10.0: 3}}
    assert axes.get_xticklabels()[-1].get_text() == "≥ 10"
    assert axes.get_xlim() == (1, 10.5)
    assert max(next(line for line in axes.get_lines() if line.get_marker() == "|").get_xdata()) < 10.5


def test_whole_numbers_are_ticks_up_to_the_last_bin(make_alpha, make_network):
    for alphas, names in (((1.7, 5.1), [*"1234567"]), ((3.0, 400.0), [*"123456789", "≥ 10"])):
        (axes,) = alpha_histogram(make_network(*(make_alpha(f"{a}", a) for a in alphas))).axes
        assert [label.get_text() for label in axes.get_xticklabels()] == names
        assert list(axes.get_xticks()) == list(range(1, len(names) + 1))


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
    assert axes.get_title(loc="left") == "4 of 5 layers with α in [2, 6], 2 without α"


def test_no_alpha_at_all_is_refused_by_name(make_layer, make_network):
    with pytest.raises(UsageError, match=r"nets/small\.safetensors: no layer has an α"):
        alpha_histogram(make_network(make_layer("dead")))
