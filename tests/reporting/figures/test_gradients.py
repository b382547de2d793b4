"""The gradient figure shows the numbers of the record, tells verdicts apart, and stays readable for 3 to 60 layers."""

from __future__ import annotations

import itertools
import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color

from weightsmith.reporting.figures.gradients import gradient_figure
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, PURPLE, RED, save_figure
from weightsmith.training.diagnosis.gradients import GradientDiagnosis, Health, LayerGradients


def layer(name, sensitivity, update=1e-3, health=Health.HEALTHY):
    series = sensitivity if isinstance(sensitivity, tuple) else (sensitivity,)
    return LayerGradients(name, series, update if isinstance(update, tuple) else (update,) * len(series), health, "")


def diagnosis(*layers, reference="output"):
    worst = max((one.health for one in layers), key=lambda health: health.severity)
    return GradientDiagnosis(tuple(range(0, 10 * len(layers[0].update), 10)), layers, reference, worst, "")


def lines(axes):
    """The lines of the probes: one value per layer, no marks."""
    return [line for line in axes.get_lines() if line.get_marker() == "None" and len(line.get_xdata()) > 2]


def marks(axes):
    return [line for line in axes.get_lines() if line.get_marker() != "None"]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def drawn(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def test_lines_are_the_probes_relative_to_the_reference():
    found = diagnosis(
        layer("a", (0.1, 0.4), (1e-3, 2e-3)),
        layer("b", (0.2, 0.2), (3e-3, 4e-3)),
        layer("output", (1.0, 0.5), (5e-3, 6e-3)),
    )
    upper, lower = gradient_figure(found).axes
    assert [list(line.get_ydata()) for line in lines(upper)] == [[0.1, 0.2, 1.0], [0.8, 0.4, 1.0]]
    assert [list(line.get_ydata()) for line in lines(lower)] == [[1e-3, 3e-3, 5e-3], [2e-3, 4e-3, 6e-3]]
    early, late = (float(line.get_color()) for line in lines(upper))
    assert early > late
    assert upper.get_yscale() == lower.get_yscale() == "log"
    assert upper.get_ylabel() == "sensitivity ÷ that of output"


def test_marks_tell_the_verdict_by_colour_and_shape():
    found = diagnosis(
        layer("low", 1e-9, health=Health.VANISHING),
        layer("high", 1e6, health=Health.EXPLODING),
        layer("fine", 0.5),
        layer("output", 1.0),
    )
    figure = gradient_figure(found)
    for axes in figure.axes:
        colours = zip(marks(axes), (BLUE, RED, GREEN, GREEN), strict=True)
        assert all(same_color(mark.get_color(), colour) for mark, colour in colours)
        assert [mark.get_marker() for mark in marks(axes)] == ["v", "^", "o", "o"]
    assert legend(figure) == ["healthy", "vanishing", "exploding", "step 0"]
    assert figure.axes[0].get_title(loc="left") == "Gradients exploding in 1 of 4 layers, vanishing in 1 of 4 layers"


def test_what_no_logarithmic_axis_can_show_is_marked_hollow_at_an_edge():
    found = diagnosis(
        layer("ice", None, None, Health.FROZEN),
        layer("dead", 0.0, 0.0, Health.DEAD),
        layer("broken", None, None, Health.NOT_FINITE),
        layer("output", 1.0),
    )
    figure = gradient_figure(found)
    ice, dead, broken, output = marks(figure.axes[0])
    assert [mark.get_markerfacecolor() for mark in (ice, dead, broken)] == ["white"] * 3
    assert same_color(ice.get_color(), GREY)
    assert same_color(broken.get_color(), PURPLE)
    heights = [mark.get_transform().transform((0, mark.get_ydata()[0]))[1] for mark in (ice, dead, broken, output)]
    low, high = figure.axes[0].bbox.y0, figure.axes[0].bbox.y1
    assert low < heights[0] == heights[1] < heights[3] < heights[2] < high
    assert "hollow: zero or no number" in legend(figure)
    assert (
        figure.axes[0].get_title(loc="left")
        == "Gradients not finite in 1 of 3 trained layers, dead in 1 of 3 trained layers"
    )


def test_a_probe_without_numbers_has_no_line_and_the_last_number_is_marked():
    found = diagnosis(layer("a", (2.0, None)), layer("b", (3.0, None)), layer("output", (1.0, None)))
    found = GradientDiagnosis(
        found.probes,
        tuple(layer(one.name, one.sensitivity, (1e-3, None)) for one in found.layers),
        "output",
        found.health,
        "",
    )
    figure = gradient_figure(found)
    assert len(lines(figure.axes[0])) == 1
    assert [mark.get_ydata()[0] for mark in marks(figure.axes[0])] == [2.0, 3.0, 1.0]
    assert legend(figure) == ["healthy", "step 0"]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_limits_and_all_values_are_in_sight(scale):
    figure = gradient_figure(diagnosis(layer("a", scale, 1e7 * scale), layer("b", 1.0), layer("output", 1.0)))
    for axes, limits in zip(figure.axes, ((1e-3, 1e3), (1.0,)), strict=True):
        bottom, top = axes.get_ylim()
        assert all(bottom < limit < top for limit in limits)
        for line in (*lines(axes), *marks(axes)):
            assert all(bottom < value < top for value in line.get_ydata() if not math.isnan(value))


@pytest.mark.parametrize(("own", "last"), [(1e100, 1e-300), (1.0, 1e-300), (1e-300, 1.0), (1e-300, 1e100)])
def test_axes_end_where_powers_of_ten_do(own, last, tmp_path):
    figure = gradient_figure(diagnosis(layer("a", own, 1e-300), layer("b", last), layer("output", last)))
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        assert 0 < bottom < top < math.inf
    save_figure(figure, tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (3, "dense{}"),
        (3, "encoder.blocks.{}.attention.projection"),
        (10, "layer3.{}.conv2"),
        (21, "dense{}"),
        (60, "layer3.{}.conv2"),
        (60, "encoder.blocks.{}.attention.projection"),
        (110, "layer3.{}.conv2"),
    ],
)
def test_names_can_be_read_and_nothing_leaves_the_figure(count, name):
    layers = [layer(name.format(number), 10.0 ** (-number / 3)) for number in range(count)]
    figure = gradient_figure(diagnosis(*layers, reference=layers[-1].name))
    renderer = drawn(figure)
    ticks = [label for label in figure.axes[1].get_xticklabels() if label.get_text()]
    assert len(ticks) >= min(count, 50)
    boxes = [label.get_window_extent(renderer) for label in ticks]
    for left, right in itertools.pairwise(boxes):
        assert left.x1 <= right.x0 + 0.5
    whole = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert whole.x0 >= -0.02
    assert whole.y0 >= -0.02
    assert whole.x1 <= width + 0.02
    assert whole.y1 <= height + 0.02
    assert all(axes.bbox.height > 0.15 * figure.bbox.height for axes in figure.axes)


def test_no_gradient_at_all_still_makes_a_figure(tmp_path):
    found = diagnosis(layer("a", None, None, Health.NOT_FINITE), reference=None)
    assert save_figure(gradient_figure(found), tmp_path / "none.png").stat().st_size > 1000


def test_the_bytes_are_the_same(tmp_path):
    found = diagnosis(layer("a", 0.3), layer("b", 0.2), layer("output", 1.0))
    first, second = (save_figure(gradient_figure(found), tmp_path / f"{n}.svg").read_bytes() for n in (1, 2))
    assert first == second
