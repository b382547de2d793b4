from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.front import FrontDot, draw_tailoring
from weightsmith.reporting.figures.style import save_figure


def dot(kind, accuracy, energy, parameters, **more):
    return FrontDot(kind, accuracy, accuracy - 0.02, accuracy + 0.02, energy, parameters, **more)


DOTS = [
    dot("whole", 0.95, 2.9e8, 1000, on_front=False),
    dot("reduced", 0.9, 1e8, 400),
    dot("reduced", 0.7, 2e7, 90),
    dot("spiking", 0.94, 1.5e8, 1000),
    dot("reduced and spiking", 0.91, 3e7, 400, chosen=True),
    dot("reduced and spiking", 0.88, 4e7, 400, on_front=False),
    dot("reduced and spiking", 0.2, 1e6, 400),
]


def scatters(axes):
    return {each.get_label(): each for each in axes.collections if isinstance(each, PathCollection)}


def test_each_kind_stands_in_both_panels_where_it_belongs():
    figure = draw_tailoring(DOTS)
    left, right = figure.axes
    assert left.get_xscale() == right.get_xscale() == "log"
    np.testing.assert_allclose(scatters(left)["reduced"].get_offsets(), [[100, 90], [20, 70]])
    np.testing.assert_allclose(scatters(right)["reduced"].get_offsets(), [[400, 90], [90, 70]])
    assert left.get_xlabel().startswith("energy per input (µJ)")


def test_what_is_beaten_is_faint_but_never_the_whole_network():
    left = draw_tailoring(DOTS).axes[0]
    found = scatters(left)
    np.testing.assert_allclose(found["reduced and spiking, dominated"].get_offsets(), [[40, 88]])
    assert found["reduced and spiking, dominated"].get_alpha() < 0.5
    assert len(found["whole"].get_offsets()) == 1
    assert "whole, dominated" not in found


def test_marks_are_larger_the_more_parameters():
    areas = scatters(draw_tailoring(DOTS).axes[0])
    small, large = areas["reduced"].get_sizes()[1], areas["spiking"].get_sizes()[0]
    assert small < large
    assert areas["whole"].get_sizes()[0] == large


def test_stairs_are_the_best_for_at_most_so_much():
    left, right = draw_tailoring(DOTS).axes
    for axes, expected in (
        (left, [(20, 70), (30, 91), (150, 94), (290, 95), (290, 95)]),
        (right, [(90, 70), (400, 91), (1000, 95), (1000, 95)]),
    ):
        line = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
        np.testing.assert_allclose(np.column_stack(line.get_data()), expected)


def test_limits_are_lines_with_a_shaded_corner():
    left, right = draw_tailoring(DOTS, accuracy=0.89, energy=5e7, params=500).axes
    assert {tuple(line.get_ydata()) for line in left.lines if line.get_linestyle() == "--"} >= {(89.0, 89.0)}
    assert 50.0 in [line.get_xdata()[0] for line in left.lines]
    assert 500.0 in [line.get_xdata()[0] for line in right.lines]
    corner = next(
        each
        for each in left.collections
        if not isinstance(each, PathCollection) and each.get_paths()[0].vertices.size > 4
    )
    edges = corner.get_paths()[0].vertices
    assert edges[:, 0].max() == 50.0
    assert edges[:, 1].min() == 89.0


def test_the_chosen_one_has_a_ring_and_its_interval():
    for met, word in ((True, "chosen"), (False, "nearest")):
        left = draw_tailoring(DOTS, accuracy=0.89, met=met).axes[0]
        ring = scatters(left)[f"{word}, with its 95 % interval"]
        np.testing.assert_allclose(ring.get_offsets(), [[30, 91]])


def test_what_is_far_below_is_left_out():
    left = draw_tailoring(DOTS).axes[0]
    assert min(each.get_offsets()[:, 1].min() for each in scatters(left).values()) == 70


def test_every_kind_is_in_the_legend_once():
    names = [text.get_text() for text in draw_tailoring(DOTS, accuracy=0.9, energy=5e7).legends[0].get_texts()]
    assert names[:4] == ["whole", "reduced", "spiking", "reduced and spiking"]
    assert len(names) == len(set(names))
    assert not any("beaten" in name for name in names)


def test_one_network_can_be_drawn_and_is_the_same_each_time(tmp_path):
    one = [dot("whole", 0.95, 3.0, 10, chosen=True)]
    paths = [save_figure(draw_tailoring(one, accuracy=0.99), tmp_path / f"{number}.svg") for number in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_unknown_kind_is_drawn_too():
    assert "mine" in scatters(draw_tailoring([dot("mine", 0.5, 1.0, 1)]).axes[0])


def test_nothing_to_draw_is_refused():
    with pytest.raises(UsageError, match="no networks"):
        draw_tailoring([])
