"""The five figures show the numbers of their records at the right positions, inside the figure."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.colors import same_color
from matplotlib.quiver import Quiver
from numpy.testing import assert_allclose

from weightsmith.core.errors import UsageError
from weightsmith.papers.theory.dominance import dominance, draw_dominance
from weightsmith.papers.theory.drift import draw_hadamard_drift, hadamard_drift
from weightsmith.papers.theory.example import above_threshold, draw_above_threshold, draw_same_mean, same_mean
from weightsmith.papers.theory.threshold import draw_threshold_sweep, threshold_sweep
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, save_figure


@pytest.fixture(scope="module")
def records():
    return {
        "same mean": same_mean(),
        "above": above_threshold(trials=5000, duration=10.0, points=101),
        "hard": dominance(lengths=[0.5, 1.0, 2.0], points=7, duration=500.0),
        "soft": dominance(lengths=[0.5, 1.0, 2.0], points=7, duration=500.0, reset="soft"),
        "drift": hadamard_drift(),
        "sweep": threshold_sweep(points=7, duration=500.0, repeats=2),
    }


@pytest.fixture(scope="module")
def figures(records):
    return {
        "same mean": draw_same_mean(records["same mean"]),
        "above": draw_above_threshold(records["above"]),
        "one dominance": draw_dominance(records["hard"]),
        "two dominances": draw_dominance(records["hard"], records["soft"]),
        "drift": draw_hadamard_drift(records["drift"]),
        "sweep": draw_threshold_sweep(records["sweep"]),
    }


def lines(axes, colour, count=None):
    return [
        line
        for line in axes.get_lines()
        if same_color(line.get_color(), colour) and (count is None or len(line.get_xdata()) == count)
    ]


def words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def title(axes):
    return axes.get_title(loc="left")


NAMES = ["same mean", "above", "one dominance", "two dominances", "drift", "sweep"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_leaves_the_figure_and_every_axis_is_named(figures, name):
    figure = figures[name]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    whole = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert whole.x0 >= -0.03
    assert whole.y0 >= -0.03
    assert whole.x1 <= width + 0.03
    assert whole.y1 <= height + 0.03
    for axes in figure.axes:
        spec = axes.get_subplotspec()
        if spec is not None and spec.is_last_row():
            assert axes.get_xlabel()
        if spec is not None and spec.is_first_row() and not axes.get_label().startswith("share"):
            assert title(axes)


@pytest.mark.parametrize("name", NAMES)
def test_legends_do_not_run_out_of_the_figure(figures, name):
    figure = figures[name]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for legend in figure.legends:
        box = legend.get_window_extent(canvas.get_renderer())
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("name", NAMES)
def test_equal_figures_are_equal_bytes(records, name, tmp_path):
    draw = {
        "same mean": lambda: draw_same_mean(records["same mean"]),
        "above": lambda: draw_above_threshold(records["above"]),
        "one dominance": lambda: draw_dominance(records["hard"]),
        "two dominances": lambda: draw_dominance(records["hard"], records["soft"]),
        "drift": lambda: draw_hadamard_drift(records["drift"]),
        "sweep": lambda: draw_threshold_sweep(records["sweep"]),
    }[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (save_figure(draw(), tmp_path / f"{n}.svg").read_bytes() for n in (1, 2))
    assert first == second


def test_same_mean_shows_spikes_as_high_as_weights_and_moments_as_bands(records, figures):
    example, figure = records["same mean"], figures["same mean"]
    axes = np.array(figure.axes).reshape(2, 2)
    for column, colour in enumerate((ORANGE, BLUE)):
        above, below = axes[:, column]
        (spikes,) = [one for one in above.collections if isinstance(one, LineCollection)]
        segments = np.array(spikes.get_segments())
        assert_allclose(segments[:, 0, 0], example.spikes[column])
        assert set(segments[:, 1, 1]) == {example.weights[column]}
        (mean,) = lines(below, colour)
        assert_allclose(mean.get_ydata(), example.means[column])
        band = below.collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx(float((example.means + np.sqrt(example.variances))[column].max()))
        assert [text.get_text() for text in below.texts] == [f"steady state: mean 2, variance {2 - column}"]
    assert title(axes[0, 0]) == "Neuron 1: rate λ = 1, weight w = 2"
    assert axes[1, 0].get_ylim() == axes[1, 1].get_ylim()


def test_above_threshold_shows_paths_shares_and_tails(records, figures):
    example, figure = records["above"], figures["above"]
    named = {axes.get_label(): axes for axes in figure.axes}
    for index, colour in enumerate((ORANGE, BLUE)):
        path, share = named[f"path {index}"], named[f"share {index}"]
        (line,) = lines(path, colour)
        assert_allclose(line.get_ydata(), example.paths[index])
        for axes in (path, share):
            (threshold,) = lines(axes, PURPLE)
            assert list(threshold.get_ydata()) == [4.0, 4.0]
        assert path.get_ylim() == share.get_ylim()
        heights, edges = share.patches[0].get_data()[:2]
        # The bins hold all potentials but the few beyond the last level.
        assert (heights * np.diff(edges)).sum() == pytest.approx(1 - example.simulated[index, -1])
        (density,) = lines(share, INK)
        step = example.levels[1]
        assert (density.get_xdata() * step).sum() == pytest.approx(1 - example.lognormal[index, -1])
    assert named["share 0"].get_xlim() == named["share 1"].get_xlim()
    tail = named["tail"]
    simulated, lognormal, normal = lines(tail, ORANGE)[:3]
    for line, values in ((simulated, example.simulated), (lognormal, example.lognormal), (normal, example.normal)):
        assert_allclose(line.get_ydata(), values[0][values[0] >= 20 / 5000])
    assert [text.get_text() for text in tail.texts] == [f"{100 * value:.1f} %" for value in example.above_simulated]
    assert tail.get_yscale() == "log"
    assert words(figure) == ["threshold 4", "mean", "simulated, 5,000 potentials", "lognormal", "normal"]


def test_dominance_colours_each_cell_by_its_winner(records, figures):
    found, figure = records["hard"], figures["two dominances"]
    plane = figure.axes[0]
    (mesh,) = [one for one in plane.collections if isinstance(one, QuadMesh)]
    assert np.array_equal(np.asarray(mesh.get_array()).reshape(found.winner.shape), found.winner)
    corners = np.asarray(mesh.get_coordinates())
    radii, angles = np.hypot(*corners.T).T, np.degrees(np.arctan2(corners[..., 1], corners[..., 0]))
    for i, length in enumerate(found.lengths):
        assert (radii[i] < length).all()
        assert (radii[i + 1] > length).all()
    for j, angle in enumerate(found.angles):
        assert (angles[1:, j] <= angle + 1e-9).all()
        assert (angles[1:, j + 1] >= angle - 1e-9).all()
    assert same_color(mesh.to_rgba(1), "#C3DCEB")
    assert same_color(mesh.to_rgba(-1), "#F6D5C2")
    assert [title(axes) for axes in figure.axes] == ["Hard reset, threshold 2", "Soft reset, threshold 2", "Borders"]


def test_dominance_shows_the_borders_as_lines_and_as_angles(records, figures):
    figure = figures["two dominances"]
    borders = figure.axes[-1]
    for record in (records["hard"], records["soft"]):
        known = [(length, angle) for length, angle in zip(record.lengths, record.border, strict=True) if angle]
        shown = [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in lines(borders, INK)]
        assert known in shown
    plane = figure.axes[0]
    (predicted,) = lines(plane, GREEN)
    x, y = predicted.get_xdata(), predicted.get_ydata()
    assert_allclose(np.degrees(np.arctan2(y, x)), records["hard"].predicted)
    assert_allclose(np.hypot(x, y), records["hard"].lengths)
    assert any(np.allclose(line.get_ydata(), 22.5) for line in lines(borders, INK, 2))
    assert [text.get_text() for text in borders.get_legend().get_texts()] == ["hard reset", "soft reset"]
    assert figures["one dominance"].axes[-1].get_legend() is None


def test_dominance_without_any_border_is_still_drawn(tmp_path):
    silent = dominance(lengths=[0.01], points=5, duration=20.0)
    silent = dataclasses.replace(silent, predicted=(None,))
    assert save_figure(draw_dominance(silent), tmp_path / "silent.png").stat().st_size > 1000
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_dominance()


def test_drift_arrows_go_from_vectors_to_their_squares(records, figures):
    found, figure = records["drift"], figures["drift"]
    plane, curve = figure.axes[:2]
    arrows = [one for one in plane.collections if isinstance(one, Quiver)]
    starts = np.concatenate([one.get_offsets() for one in arrows])
    ends = starts + np.concatenate([np.stack([one.U, one.V], axis=-1) for one in arrows])
    assert_allclose(ends, starts**2, atol=1e-12)
    still = np.isclose(found.start, found.end).all(axis=1)
    assert len(starts) == len(found.start) - still.sum()
    low, high = plane.get_xlim()
    assert low < starts.min()
    assert ends.max() < high
    (turn,) = lines(curve, PURPLE, found.angles.size)
    assert_allclose(turn.get_ydata(), found.drift_of_angle)
    assert [text.get_text() for text in curve.texts] == ["−12.8° at 23.5°", "+12.8° at 66.5°"]


def test_threshold_sweep_shows_what_is_needed_and_what_is_predicted(records, figures):
    found, figure = records["sweep"], figures["sweep"]
    named = {axes.get_label(): axes for axes in figure.axes}
    for label, values in (("angle", found.angles), ("norm", found.l4_norms)):
        axes = named[label]
        (points,) = [one for one in axes.collections if isinstance(one, PathCollection)]
        assert_allclose(points.get_offsets(), np.stack([values, found.needed], axis=-1))
        for colour, predicted in ((ORANGE, found.by_l4), (GREEN, found.by_moments), (INK, found.by_norms)):
            (line,) = lines(axes, colour, found.angles.size)
            assert_allclose(line.get_xdata(), values)
            assert_allclose(line.get_ydata(), predicted)
        assert list(lines(axes, GREY, 2)[0].get_ydata()) == [2.0, 2.0]
    assert named["angle"].get_ylim() == named["norm"].get_ylim()
    assert "simulated ± std. error" in words(figure)


def test_snapshots_show_both_weights_and_the_input_half_way(records, figures):
    found, figure = records["sweep"], figures["sweep"]
    snapshots = [axes for axes in figure.axes if axes.get_label().startswith("snapshot")]
    assert [title(axes) for axes in snapshots] == ["(a) 0°", "(b) 30°", "(c) 60°", "(d) 90°"]
    for axes, index in zip(snapshots, (0, 2, 4, 6), strict=True):
        static, sweeping, shown = axes.texts
        assert static.xy == (1.0, 0.0)
        assert_allclose(sweeping.xy, found.weights[index])
        assert_allclose(shown.xy, found.inputs[index])
        assert same_color(shown.arrow_patch.get_edgecolor(), RED)
        angle = np.degrees(np.arctan2(shown.xy[1], shown.xy[0]))
        assert angle == pytest.approx(found.angles[index] / 2)
