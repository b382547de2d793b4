"""The figure of a sweep over leaks shows every accuracy and difference with its interval, by reset."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.colors import same_color
from numpy.testing import assert_allclose

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.core.statistics import Interval, mcnemar, wilson
from weightsmith.reporting.figures.spiking.catalogue import LeakPoint, draw_leak_sweep, leak_points, save_figure
from weightsmith.reporting.figures.style import BLUE, GREEN, INK, ORANGE
from weightsmith.spiking.sweep.results import Chosen, Setting, SpikeSweep


def interval(value, half=0.02):
    return Interval(value, value - half, value + half, 0.95, "by hand")


def points_of(reset, drop=0.0):
    for leak, value, gain in ((1.0, 0.8, 0.01), (0.9, 0.6, 0.05), (0.95, 0.7, -0.03)):
        yield LeakPoint(leak, reset, adjusted=False, accuracy=interval(value - drop))
        yield LeakPoint(leak, reset, True, interval(value - drop + gain), interval(gain))


ROWS = [*points_of("hard", 0.1), *points_of("soft")]


def line(axes, colour):
    """Points of the line of this colour, and the ends of its bars."""
    (found,) = [one for one in axes.get_lines() if same_color(one.get_color(), colour) and len(one.get_xdata()) == 3]
    bars = [one for one in axes.collections if same_color(one.get_color()[0], (*found_rgb(colour), one.get_alpha()))]
    ends = [segment[:, 1].tolist() for segment in bars[0].get_segments()]
    return list(found.get_xdata()), list(found.get_ydata()), ends


def found_rgb(colour):
    return tuple(int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_accuracies_stand_over_leaks_by_reset_and_differences_below():
    figure = draw_leak_sweep(ROWS, wilson(90, 100))
    soft, hard, soft_below, hard_below = figure.axes
    assert [axes.get_title(loc="left") for axes in (soft, hard)] == ["Soft reset", "Hard reset"]
    for axes, drop in ((soft, 0), (hard, 10)):
        leaks, values, ends = line(axes, BLUE)
        assert leaks == [0.9, 0.95, 1.0]
        assert_allclose(values, np.array([60, 70, 80]) - drop)
        assert_allclose(ends, [(value - 2, value + 2) for value in values])
        assert_allclose(line(axes, ORANGE)[1], np.array([65, 67, 81]) - drop)
        assert_allclose([one.get_ydata()[0] for one in axes.get_lines() if same_color(one.get_color(), INK)], [90])
    for axes in (soft_below, hard_below):
        _, values, ends = line(axes, GREEN)
        assert_allclose(values, [5, -3, 1])
        assert_allclose(ends, [(3, 7), (-5, -1), (-1, 3)])
    assert soft.get_ylim() == hard.get_ylim()
    assert soft.get_ylabel() == "accuracy (%)"
    assert hard_below.get_xlabel().startswith("leak")
    assert legend(figure) == ["network: 90.0 %", "baseline", "L4-adjusted", "difference (filled: excludes zero)"]
    assert figure.get_suptitle() == "bars: accuracies by hand, 95 %; differences by hand, 95 %"


def test_only_differences_that_leave_out_zero_are_filled():
    axes = draw_leak_sweep(ROWS).axes[2]
    open_marks, filled = (one for one in axes.get_lines() if one.get_marker() == "D")
    assert open_marks.get_markerfacecolor() == "white"
    assert list(filled.get_xdata()) == [0.9, 0.95]
    assert_allclose(filled.get_ydata(), [5, -3])


def test_one_baseline_point_is_drawn_without_a_second_row():
    figure = draw_leak_sweep([LeakPoint(1.0, "soft", adjusted=False, accuracy=interval(0.5))])
    (axes,) = figure.axes
    assert legend(figure) == ["baseline"]
    assert axes.get_xticks().tolist() == [1.0]
    assert axes.get_xlim() == pytest.approx((0.95, 1.05))


def test_ticks_that_would_run_into_each_other_are_left_out():
    rows = [LeakPoint(leak, "soft", adjusted=False, accuracy=interval(0.5)) for leak in (0.5, 0.98, 0.99, 1.0)]
    assert draw_leak_sweep(rows).axes[0].get_xticks().tolist() == [1.0, 0.5]


def test_points_that_contradict_each_other_are_refused():
    with pytest.raises(UsageError, match="no points"):
        draw_leak_sweep([])
    with pytest.raises(UsageError, match="adjusted at leak 0.9 with soft reset is given 2 times"):
        draw_leak_sweep([*ROWS, next(row for row in ROWS if row.leak == 0.9 and row.reset == "soft" and row.adjusted)])
    with pytest.raises(UsageError, match="baseline at leak 1 with hard reset has a difference"):
        draw_leak_sweep([dataclasses.replace(ROWS[0], difference=interval(0.1))])


def test_unknown_resets_stand_last_and_are_letters(hostile, tmp_path):
    rows = [LeakPoint(0.9, reset, adjusted=False, accuracy=interval(0.5)) for reset in ("$a_b$", "hard", hostile)]
    figure = draw_leak_sweep(rows)
    assert figure.axes[0].get_title(loc="left") == "Hard reset"
    assert r"\$a_b\$ reset" in [axes.get_title(loc="left") for axes in figure.axes]
    other = save_figure(draw_leak_sweep(rows), tmp_path / "2.svg").read_bytes()
    assert save_figure(figure, tmp_path / "1.svg").read_bytes() == other


def chosen(leak, steps, right, gained):
    setting = Setting(leak, "soft", 1.0, None)
    before, after = np.arange(100) < right, np.arange(100) < right + (gained or 0)
    return Chosen(
        leak=leak,
        reset="soft",
        steps=steps,
        baseline=setting,
        adjusted=None if gained is None else dataclasses.replace(setting, smoothing=1.0),
        baseline_test=wilson(right, 100),
        adjusted_test=None if gained is None else wilson(right + gained, 100),
        gain=None if gained is None else mcnemar(after, before),
        cost=mcnemar(before, before),
    )


def test_a_sweep_gives_the_points_of_the_steps_wanted():
    choices = (chosen(1.0, 10, 50, 2), chosen(1.0, 30, 80, 5), chosen(0.9, 30, 70, None))
    sweep = SpikeSweep({}, "net", "test", 10, 100, wilson(90, 100), (10, 30), (), choices, (), Origin())
    first, second, third = leak_points(sweep)
    assert (first.leak, first.adjusted, first.accuracy.value, first.difference) == (1.0, False, 0.8, None)
    assert (second.adjusted, second.accuracy.value) == (True, 0.85)
    assert second.difference == mcnemar(np.arange(100) < 85, np.arange(100) < 80).interval
    assert (third.leak, third.adjusted) == (0.9, False)
    assert [point.accuracy.value for point in leak_points(sweep, 10)] == [0.5, 0.52]
    with pytest.raises(UsageError, match="after 10, 30 steps, not after 20"):
        leak_points(sweep, 20)
