"""Lines of what was measured after every epoch are the columns of the history."""

from __future__ import annotations

import math

import pytest
from matplotlib.colors import to_rgb

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.watched import watched_figure
from weightsmith.training.run import EpochRow, History


def history(*extras):
    return History(tuple(EpochRow(epoch, 1, 0.1, 1.0, 0.5, extra=extra) for epoch, extra in enumerate(extras, 1)))


def legend(figure):
    return [text.get_text() for found in figure.legends for text in found.get_texts()]


def test_a_line_per_column_with_gaps_where_nothing_was_measured():
    figure = watched_figure(history({"a": 1.0}, {"a": 2.0, "b": 5.0}), {"a": "first", "b": "second"}, "level")
    first, second = figure.axes[0].get_lines()
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([1, 2], [1.0, 2.0])
    assert math.isnan(second.get_ydata()[0])
    assert second.get_ydata()[1] == 5.0
    assert legend(figure) == ["first", "second"]
    assert (figure.axes[0].get_ylabel(), figure.axes[0].get_xlabel()) == ("level", "epoch")


def test_one_line_needs_no_legend_and_one_epoch_has_room():
    figure = watched_figure(history({"a": 1.0}), {"a": "first"}, "level")
    assert legend(figure) == []
    assert figure.axes[0].get_xlim() == (0, 2)


def test_many_lines_run_from_light_to_dark_and_keep_their_names():
    names = {f"c{place}": f"layer {place}" for place in range(20)}
    figure = watched_figure(history(dict.fromkeys(names, 1.0), dict.fromkeys(names, 2.0)), names, "level")
    lines = figure.axes[0].get_lines()
    brightness = [sum(to_rgb(line.get_color())) for line in lines]
    assert brightness == sorted(brightness, reverse=True)
    assert [line.get_label() for line in lines] == list(names.values())
    assert legend(figure) == ["layer 0", "layer 19"]


def test_best_epoch_and_band():
    figure = watched_figure(history({"a": 1.0}, {"a": 2.0}), {"a": "a"}, "level", best=2, band=(1.5, 1.8))
    assert figure.axes[0].get_lines()[1].get_xdata()[0] == 2
    (span,) = figure.axes[0].patches
    assert (span.get_y(), span.get_height()) == (1.5, pytest.approx(0.3))


def test_names_from_files_are_text():
    figure = watched_figure(history({"a": 1.0, "b": 1.0}), {"a": "_x", "b": "$\\frac{"}, "level")
    assert len(legend(figure)) == 2
    figure.draw_without_rendering()


def test_nothing_measured_is_refused():
    with pytest.raises(UsageError, match="level: the history holds no value of penalty"):
        watched_figure(history({}, {}), {"penalty": "penalty"}, "level")
    with pytest.raises(UsageError, match="no value of it"):
        watched_figure(history({}), {}, "level")
