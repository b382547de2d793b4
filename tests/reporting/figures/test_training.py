"""What the figures of a run show is what the records say."""

from __future__ import annotations

import math

import pytest
from matplotlib.colors import same_color, to_rgb

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.reporting.figures.style import BLUE, ORANGE
from weightsmith.reporting.figures.training import curves, rate_curve, save_figure, schedule_figure, watched_figure
from weightsmith.training.finder import RateCurve
from weightsmith.training.run import EpochRow, History, Stopped


def row(epoch, loss=1.0, validation=None, rate=0.1):
    return EpochRow(epoch, 10, rate, loss, 0.5 + 0.01 * epoch, validation, None if validation is None else 0.5)


def values(axes, colour):
    (line,) = [line for line in axes.get_lines() if same_color(line.get_color(), colour) and len(line.get_xdata())]
    return list(line.get_xdata()), [float(value) for value in line.get_ydata()]


def vertical(axes):
    return [line.get_xdata()[0] for line in axes.get_lines() if list(line.get_ydata()) == [0, 1]]


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_curves_are_the_columns_of_the_history():
    history = History((row(1, 2.0, 2.5), row(2, 1.0, 1.5), row(3, 0.5, 1.75)))
    figure = curves(history)
    loss, accuracy, rate = figure.axes
    assert values(loss, BLUE) == ([1, 2, 3], [2.0, 1.0, 0.5])
    assert values(loss, ORANGE) == ([1, 2, 3], [2.5, 1.5, 1.75])
    assert values(accuracy, BLUE)[1] == pytest.approx([51, 52, 53])
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss (mean per image)", "accuracy (%)", "learning rate"]
    assert rate.get_xlabel() == "epoch"
    left, right = rate.get_xlim()
    assert 0.9 < left < 1  # the epochs fill the width
    assert 3 < right < 3.1


def test_the_best_epoch_is_marked_in_every_panel():
    history = History((row(1, 2.0, 2.5), row(2, 1.0, 1.5), row(3, 0.5, 1.75)))
    figure = curves(history)
    assert [vertical(axes) for axes in figure.axes] == [[2], [2], [2]]
    assert "lowest validation loss: epoch 2" in labels(figure)
    shown = curves(history, best=3)
    assert vertical(shown.axes[0]) == [3]
    assert "best epoch 3" in labels(shown)


def test_without_validation_there_is_one_line_and_no_best_epoch():
    figure = curves(History((row(1), row(2))))
    assert labels(figure) == ["training"]
    assert vertical(figure.axes[0]) == []


def test_epochs_without_a_value_leave_a_gap():
    _, found = values(curves(History((row(1, 1.0, 0.9), row(2), row(3, 1.0, 0.8)))).axes[0], ORANGE)
    assert [math.isnan(value) for value in found] == [False, True, False]


def test_an_axis_is_logarithmic_where_values_span_much():
    figure = curves(History((row(1, 2.0, rate=0.1), row(2, 1.0, rate=1e-4))))
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]
    assert figure.axes[0].get_ylim()[0] == 0


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(UsageError, match="no epochs"):
        curves(History(()))
    with pytest.raises(UsageError, match="at least one rate"):
        schedule_figure({})
    with pytest.raises(UsageError, match="at least one rate"):
        schedule_figure({"none": []})
    with pytest.raises(UsageError, match="no steps"):
        rate_curve(sweep((), ()))


def sweep(rates, losses, suggestion=None, tenth=None):
    return RateCurve(tuple(rates), tuple(losses), tuple(losses), suggestion, tenth, Stopped.DONE, "why", {}, Origin())


def test_the_rate_curve_marks_what_it_suggests():
    rates, losses = [1e-4, 1e-3, 1e-2, 1e-1, 1.0], [2.3, 2.2, 1.0, 0.9, 1e6]
    figure = rate_curve(sweep(rates, losses, 0.003, 0.01))
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert vertical(axes) == [0.003, 0.01]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "suggestion 0.003: steepest fall" in texts
    assert axes.get_ylim()[1] < 10  # the loss that has left does not press the fall flat
    assert axes.get_ylim()[0] < 0.9
    assert vertical(rate_curve(sweep(rates, losses)).axes[0]) == []


def test_schedules_are_drawn_step_by_step_with_epochs_on_top():
    figure = schedule_figure({"falling": [0.3, 0.2, 0.1], "flat": [0.2, 0.2, 0.2]}, steps_per_epoch=2)
    axes = figure.axes[0]
    assert [list(line.get_ydata()) for line in axes.get_lines()] == [[0.3, 0.2, 0.1], [0.2, 0.2, 0.2]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["falling", "flat"]
    (top,) = axes.child_axes
    assert top.get_xlabel() == "epoch"
    figure.draw_without_rendering()
    assert top.get_xlim() == (0, 1.5)


def test_many_schedules_can_be_told_apart():
    figure = schedule_figure({f"number {n}": [0.1 * n, 0.2] for n in range(1, 15)})
    looks = {(line.get_color(), str(line._dash_pattern)) for line in figure.axes[0].get_lines()}
    assert len(looks) == 14


def test_figures_are_saved_with_the_same_bytes(tmp_path):
    history = History(tuple(row(epoch, 1 / epoch, 1.5 / epoch) for epoch in range(1, 40)))
    first, second = (save_figure(curves(history), tmp_path / f"{number}.svg").read_bytes() for number in (1, 2))
    assert first == second


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
    names = {f"c{index}": f"layer {index}" for index in range(20)}
    figure = watched_figure(history(dict.fromkeys(names, 1.0), dict.fromkeys(names, 2.0)), names, "level")
    lines = figure.axes[0].get_lines()
    brightness = [sum(to_rgb(line.get_color())) for line in lines]
    assert brightness == sorted(brightness, reverse=True)
    assert [line.get_label() for line in lines] == list(names.values())
    assert legend(figure) == ["layer 0", "layer 19"]


def test_a_band_is_shaded():
    figure = watched_figure(history({"a": 1.0}, {"a": 2.0}), {"a": "a"}, "level", band=(1.5, 1.8))
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
