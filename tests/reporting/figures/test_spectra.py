"""The spectrum figure shows the eigenvalues it was given, and the law the record holds."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.grading.fits.powerlaw import distances
from weightsmith.grading.random_matrix.laws import MarchenkoPastur
from weightsmith.grading.random_matrix.noise import Bulk
from weightsmith.grading.results import Status
from weightsmith.reporting.figures.spectra import cut_figure, drawn_cuts, left_edge, spectral_density, spectrum_figure
from weightsmith.reporting.figures.style import BLUE, GREY, ORANGE, PURPLE, save_figure


def lines(axes, colour):
    return [line for line in axes.get_lines() if same_color(line.get_color(), colour)]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def body_and_tail(seed=0, body=300, tail=200, alpha=3.0):
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.uniform(0.05, 1.0, body), generator.pareto(alpha - 1, tail) + 1])


def test_the_density_counts_every_eigenvalue_once(make_layer):
    one = make_layer("a", body_and_tail())
    found = spectral_density(one)
    assert found.counts.sum() + found.below == one.eigenvalues.size
    assert found.counts[found.body :].sum() == one.fit.tail
    assert found.edges[found.body] == one.fit.xmin
    share = float((found.density * np.diff(found.edges)).sum())
    assert share == pytest.approx(1 - found.below / one.eigenvalues.size)
    assert (found.edges[0], found.edges[-1]) == (left_edge(one), one.eigenvalues[-1])


def test_the_density_approaches_the_true_one(make_layer, make_pareto):
    one = make_layer("a", make_pareto(3.0, 20000))
    found = spectral_density(one)
    shares = found.edges[:-1] ** -2.0 - found.edges[1:] ** -2.0  # of a law with α = 3 from 1 on, in each bin
    errors = np.sqrt(20000 * shares) / (20000 * np.diff(found.edges))
    assert np.all(np.abs(found.density - shares / np.diff(found.edges)) < 4.5 * errors)


def test_a_few_tiny_eigenvalues_are_named_instead_of_drawn(make_layer):
    one = make_layer("a", [1e-14, 1e-9, *body_and_tail()])
    found = spectral_density(one)
    assert found.below == 2
    figure = spectrum_figure(one)
    assert "◂ 2 smaller, down to 1e-14" in [text.get_text() for text in figure.axes[0].texts]
    assert figure.axes[0].get_xlim()[0] > 1e-3
    assert not spectrum_figure(make_layer("a", body_and_tail())).axes[0].texts


def test_the_law_is_the_one_of_the_record(make_layer):
    one = make_layer("a", body_and_tail(), interval=(2.5, 3.5))
    figure = spectrum_figure(one)
    (line,) = [line for line in lines(figure.axes[0], ORANGE) if len(line.get_xdata()) > 2]
    x, y = line.get_xdata(), line.get_ydata()
    fit = one.fit
    assert x[0] == pytest.approx(fit.xmin)
    assert x[-1] == pytest.approx(one.eigenvalues[-1])
    expected = fit.tail / fit.evals * (fit.alpha - 1) / fit.xmin * (x / fit.xmin) ** -fit.alpha
    np.testing.assert_allclose(y[:40], expected[:40])
    within = np.trapezoid(expected, x)
    beyond = (x[-1] / fit.xmin) ** (1 - fit.alpha)
    assert within == pytest.approx(fit.tail / fit.evals * (1 - beyond), rel=0.01)


def test_the_fan_holds_the_law_of_every_alpha_in_the_interval(make_layer):
    one = make_layer("a", body_and_tail(), interval=(2.2, 4.5))
    (axes,) = spectrum_figure(one).axes
    (fan,) = [part for part in axes.collections if part.get_label() == "95 % interval of α"]
    corners = fan.get_paths()[0].vertices
    bottom, top = axes.get_ylim()
    fit = one.fit
    for alpha in np.linspace(2.2, 4.5, 9):
        for x in np.unique(corners[:, 0])[1:-1:7]:
            at = corners[np.isclose(corners[:, 0], x, rtol=1e-9), 1]
            value = fit.tail / fit.evals * (alpha - 1) / fit.xmin * (x / fit.xmin) ** -alpha
            if bottom < value < top:
                assert at.min() * (1 - 1e-6) <= value <= at.max() * (1 + 1e-6)


def test_tail_and_body_are_told_apart_and_counted(make_layer):
    one = make_layer("a", body_and_tail())
    figure = spectrum_figure(one)
    outlines = {patch.get_label(): patch for patch in figure.axes[0].patches}
    rest = one.fit.evals - one.fit.tail
    body, tail = (outlines[f"{what} of 500"] for what in (f"below λ_min: {rest}", f"tail: {one.fit.tail}"))
    assert same_color(body.get_edgecolor(), GREY)
    assert same_color(tail.get_edgecolor(), BLUE)
    assert "fitted power law" in legend(figure)
    assert figure.get_suptitle() == "a"


def test_where_noise_ends_is_marked(make_layer):
    law = MarchenkoPastur(300, 200, 0.05)
    bulk = Bulk(law.sigma, law.low, law.high, 1.75, level=0.01, spikes=50, soft_rank=0.1, spike_alpha=None)
    figure = spectrum_figure(make_layer("a", body_and_tail(), bulk=bulk))
    noise, threshold = lines(figure.axes[0], PURPLE)
    assert threshold.get_xdata()[0] == 1.75
    x, y = noise.get_xdata(), noise.get_ydata()
    inside = (x > 1.05 * law.low) & (x < 0.95 * law.high)
    np.testing.assert_allclose(y[inside], 450 / 500 * law.density(x[inside]))
    assert x[-1] == pytest.approx(law.high)
    assert "1 % threshold 1.75, 50 beyond" in legend(figure)
    assert f"noise (Marchenko–Pastur) to {law.high:.3g}" in legend(figure)
    assert not lines(spectrum_figure(make_layer("a", body_and_tail())).axes[0], PURPLE)


def test_a_layer_without_a_fit_shows_its_eigenvalues_and_the_reason(make_layer):
    flat = make_layer("a", [2.0] * 9, status=Status.FLAT, reason="all 9 eigenvalues are equal to 2")
    figure = spectrum_figure(flat)
    assert figure.axes[0].get_title(loc="left") == "no fit: flat (all 9 eigenvalues are equal to 2)"
    assert legend(figure) == ["9 eigenvalues"]
    assert figure.axes[0].get_xlim()[0] < 2 < figure.axes[0].get_xlim()[1]


def test_no_spectrum_is_refused_by_name(make_layer):
    with pytest.raises(UsageError, match=r"block.3: there is no spectrum to draw, its status is 'zero' \(all weights"):
        spectrum_figure(make_layer("block.3"))


@pytest.mark.parametrize(
    "eigenvalues",
    [
        [1.0, 2.0],
        [1.0, 1.0 + 1e-9],
        [2.5],
        body_and_tail() * 1e60,
        body_and_tail() * 1e-200,
        10.0 ** np.random.default_rng(1).uniform(-12, 2, 300),
        [1e-15] * 20 + [1.0, 2.0, 4.0, 8.0],
        body_and_tail(body=0, tail=9000),
    ],
    ids=["two", "nearly equal", "one", "huge", "tiny", "fourteen decades", "mostly tiny", "many"],
)
def test_any_spectrum_can_be_drawn_inside_its_figure(make_layer, hostile, eigenvalues, tmp_path):
    status = {"status": Status.TOO_SMALL} if len(eigenvalues) == 1 else {}
    one = make_layer(hostile, eigenvalues, interval=(1.2, 40.0), **status)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = spectrum_figure(one)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        save_figure(figure, tmp_path / "figure.svg")
    whole = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert whole.x0 >= -0.02
    assert whole.y0 >= -0.02
    assert whole.x1 <= width + 0.02
    assert whole.y1 <= height + 0.02
    left, right = figure.axes[0].get_xlim()
    edges = spectral_density(one).edges
    assert left < edges[0] < edges[-1] < right
    bottom, top = figure.axes[0].get_ylim()
    assert 0 < bottom < top < math.inf
    assert figure.axes[0].bbox.height > 0.4 * figure.bbox.height


def curve(axes):
    (line,) = [line for line in axes.get_lines() if same_color(line.get_color(), BLUE)]
    return line.get_xdata(), line.get_ydata()


def chosen(axes):
    (mark,) = [line for line in axes.get_lines() if same_color(line.get_color(), ORANGE)]
    return mark.get_xdata()[0], mark.get_ydata()[0]


def by_hand(values, start):
    """α and D of the tail from ``start``, as their formulas have them."""
    tail = np.asarray(values[start:])
    alpha = 1 + tail.size / np.log(tail / tail[0]).sum()
    return alpha, max(abs(i / tail.size - 1 + (value / tail[0]) ** (1 - alpha)) for i, value in enumerate(tail))


def test_both_curves_are_those_of_the_formulas(make_layer):
    values = [1.0, 1.5, 2.0, 4.0, 9.0, 11.0]
    figure = cut_figure(make_layer("a", values))
    upper, lower = figure.axes
    alphas, gaps = zip(*(by_hand(values, start) for start in range(5)), strict=True)
    np.testing.assert_allclose(curve(upper)[1], gaps)
    np.testing.assert_allclose(curve(lower)[1], alphas)
    np.testing.assert_allclose(curve(upper)[0], values[:5])


def test_the_chosen_one_is_marked_where_the_distance_is_smallest(make_layer, make_pareto):
    one = make_layer("a", make_pareto(2.5, 200), interval=(2.0, 3.0))
    figure = cut_figure(one)
    upper, lower = figure.axes
    assert chosen(upper) == (one.fit.xmin, one.fit.D)
    assert chosen(lower) == (one.fit.xmin, one.fit.alpha)
    assert curve(upper)[1].min() == one.fit.D
    low, high = lower.get_ylim()
    assert low < one.interval.low < one.interval.high < high
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["candidates", "chosen by ks", "95 % interval of α", "tails of fewer than 8 values"]


def test_of_very_many_candidates_no_extreme_is_lost(make_layer, make_pareto):
    one = make_layer("a", make_pareto(2.5, 5000))
    every, kept = distances(one.eigenvalues), drawn_cuts(one)
    assert kept.xmin.size <= 240 < every.xmin.size
    for name in ("D", "alpha"):
        everywhere, drawn = getattr(every, name), getattr(kept, name)
        assert (drawn.min(), drawn.max()) == (everywhere.min(), everywhere.max())
    assert one.fit.xmin in kept.xmin
    assert np.all(np.diff(kept.xmin) > 0)


def test_tiny_eigenvalues_do_not_press_the_tail_together(make_layer, make_pareto):
    figure = cut_figure(make_layer("a", [1e-12, *make_pareto(2.5, 100)]))
    assert figure.axes[0].get_xlim()[0] > 0.5


def test_a_layer_without_a_fit_is_refused_by_name(make_layer):
    with pytest.raises(UsageError, match="block.3: there is no λ_min to draw, its status is 'zero'"):
        cut_figure(make_layer("block.3"))


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 1.0 + 1e-9, 1.0 + 2e-9], [1e-200, 3e-200, 5e-200], [1e80, 2e90]])
def test_the_smallest_and_strangest_fits_can_be_drawn(make_layer, hostile, values, tmp_path):
    figure = cut_figure(make_layer(hostile, values))
    assert save_figure(figure, tmp_path / "cut.svg").stat().st_size > 1000
    for axes in figure.axes:
        x, y = chosen(axes)
        assert axes.get_xlim()[0] < x < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < y < axes.get_ylim()[1]
