"""What the figures of single neurons, of firing, of rates and of the adjustment show is what their records say."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import same_color
from numpy.testing import assert_allclose
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.spiking.catalogue import (
    draw_adjustment,
    draw_correspondence,
    draw_membranes,
    draw_raster,
    draw_statistics,
    figures_of,
    save_figure,
)
from weightsmith.reporting.figures.style import BLUE, GREY, INK, ORANGE, PURPLE, RED
from weightsmith.spiking.l4.adjust import AdjustedPopulation, Adjustment
from weightsmith.spiking.monitors.activity import ActivityRecord, PopulationStatistics
from weightsmith.spiking.monitors.correspondence import Correspondence, PopulationCorrespondence
from weightsmith.spiking.monitors.raster import PopulationRaster, RasterRecord
from weightsmith.spiking.spike import spike


def lines(axes, colour, marker=None):
    return [
        line
        for line in axes.get_lines()
        if same_color(line.get_color(), colour) and (marker is None or line.get_marker() == marker)
    ]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def title(axes):
    return axes.get_title(loc="left")


def overflow(figure):
    """Inches by which anything leaves the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    return max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


# Three units, two images of 6 and 4 steps: unit 0 fires twice, unit 2 once for the first image; unit 1 for the second.
SPIKES = np.array([(0, 1, 0), (0, 3, 2), (0, 4, 0), (1, 2, 1)], np.int32).T


def raster_of(layer="conv", name="relu", membranes=True):
    traces = np.arange(36, dtype=np.float32).reshape(2, 6, 3)
    return PopulationRaster(
        name=name,
        layer=layer,
        positions=np.array([0, 0, 5]),
        channels=np.array([1, 4, 2]),
        thresholds=np.array([2.0, 4.0, 8.0]),
        spike_images=SPIKES[0],
        spike_steps=SPIKES[1],
        spike_rows=SPIKES[2],
        membranes=traces if membranes else None,
    )


RASTER = RasterRecord((7, 9), (6, 4), (raster_of(), raster_of("fc", "relu2")))


def strokes(axes):
    """Step and row of every stroke."""
    return [(x, (low + high) / 2) for (x, low), (_, high) in axes.collections[0].get_segments()]


def test_every_spike_is_a_stroke_at_its_step_in_the_row_of_its_unit():
    figure = draw_raster(RASTER)
    assert [axes.get_ylabel() for axes in figure.axes] == ["conv", "fc"]
    for axes in figure.axes:
        assert_allclose(strokes(axes), [(2, 0), (4, 2), (5, 0)])
        assert [text.get_text() for text in axes.texts] == ["rate\n0.167"]  # 3 spikes of 3 units in 6 steps
        assert not axes.patches
    assert title(figure.axes[0]) == "Spikes for image 7, a row per neuron"
    assert figure.axes[-1].get_xlabel() == "time steps"
    low, high = figure.axes[0].get_ylim()
    assert low > 2.4
    assert high < -0.4


def test_after_its_end_an_image_is_grey():
    axes = draw_raster(RASTER, 1).axes[0]
    assert_allclose(strokes(axes), [(3, 1)])
    (grey,) = axes.patches
    assert (grey.get_x(), grey.get_x() + grey.get_width()) == (4.5, 6.5)
    assert axes.texts[0].get_text() == "rate\n0.083"


def test_of_many_populations_some_are_drawn_from_the_first_to_the_last():
    many = tuple(raster_of(f"layer{index}", f"relu{index}") for index in range(47))
    figure = draw_raster(dataclasses.replace(RASTER, populations=many))
    assert [axes.get_ylabel() for axes in figure.axes] == [f"layer{index}" for index in range(0, 47, 2)]
    assert title(figure.axes[0]).endswith("24 of 47 populations")
    assert figure.get_size_inches()[1] <= 10.1
    rows = [axes.get_ylabel() for axes in draw_membranes(dataclasses.replace(RASTER, populations=many)).axes]
    assert [text.split("\n")[0] for text in rows if text] == ["layer0", "layer12", "layer23", "layer34", "layer46"]


def test_membranes_are_in_thresholds_and_marked_where_they_fire():
    figure = draw_membranes(RASTER, units=3)
    grid = np.array(figure.axes).reshape(2, 3)
    # From the unit that fired most to silent ones: rows 0, 2, 1.
    assert [title(axes) for axes in grid[0]] == [
        "channel 1, position 0: 2 spikes",
        "channel 2, position 5: 1 spike",
        "channel 4, position 0: 0 spikes",
    ]
    membrane, threshold, fired = grid[0, 0].get_lines()
    assert_allclose(membrane.get_xdata(), range(1, 7))
    assert_allclose(membrane.get_ydata(), np.array([0, 3, 6, 9, 12, 15]) / 2)
    assert list(threshold.get_ydata()) == [1, 1]
    assert same_color(threshold.get_color(), RED)
    assert_allclose(fired.get_xdata(), [2, 5])
    assert_allclose(fired.get_ydata(), [1.5, 6])
    assert legend(figure) == ["membrane before the threshold test", "threshold", "spike"]
    assert grid[1, 0].get_ylabel() == "fc\nmembrane ÷ threshold"


def test_membranes_end_with_their_image_and_missing_units_leave_no_axes():
    figure = draw_membranes(RASTER, 1, units=5)
    grid = np.array(figure.axes).reshape(2, 5)
    assert_allclose(grid[0, 0].get_lines()[0].get_ydata(), np.array([19, 22, 25, 28]) / 4)
    assert [axes.axison for axes in grid[0]] == [True, True, True, False, False]


def test_what_a_raster_does_not_hold_is_said():
    with pytest.raises(UsageError, match=r"2 image\(s\).*index 2"):
        draw_raster(RASTER, 2)
    with pytest.raises(UsageError, match="no membranes of relu"):
        draw_membranes(dataclasses.replace(RASTER, populations=(raster_of(membranes=False),)))
    with pytest.raises(UsageError, match="not 0"):
        draw_membranes(RASTER, units=0)
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_raster(RasterRecord((), (), ()))


def statistics_of(layer, **more):
    about = {"units": 8, "spikes": 9, "rate": 0.1, "rate_variance": 0.0, "silent": 0.25, "rate_noise": None}
    about |= {"fano": 0.5, "fano_trains": 4, "interval_cv": 1.2, "interval_trains": 3, "overshoot": 0.3}
    return PopulationStatistics("relu", layer, **(about | more))


def test_statistics_are_dots_beside_the_line_of_poisson_trains():
    figure = draw_statistics(ActivityRecord(1, 1.0, 2, 10, (statistics_of("a"), statistics_of("b", fano=0.9))))
    trains, overshoot, silent = figure.axes
    (fano,), (interval,) = lines(trains, BLUE, "o"), lines(trains, ORANGE, "s")
    assert_allclose(fano.get_xdata(), [0.5, 0.9])
    assert_allclose(fano.get_ydata(), [0, 1])
    assert_allclose(interval.get_xdata(), [1.2, 1.2])
    assert_allclose(lines(overshoot, PURPLE, "D")[0].get_xdata(), [0.3, 0.3])
    assert_allclose([patch.get_width() for patch in silent.patches], [25, 25])
    assert list(lines(trains, INK)[0].get_xdata()) == [1, 1]
    assert trains.get_xlim()[0] == 0
    assert trains.get_xlim()[1] > 1.2
    assert names_of(trains) == ["a", "b"]
    assert title(trains) == "Trains: 1 image, 1 step, the first 2 left out, windows of 10"
    assert legend(figure) == ["Poisson trains: 1", "Fano factor", "interval CV", "overshoot"]


def test_what_has_no_statistic_is_a_cross_at_the_edge_and_not_at_zero():
    empty = statistics_of("b", fano=None, interval_cv=None, overshoot=None, silent=1.0)
    figure = draw_statistics(ActivityRecord(2, 8.0, 0, 4, (statistics_of("a"), empty)))
    trains, overshoot, _ = figure.axes
    assert np.isnan(lines(trains, BLUE, "o")[0].get_xdata()[1])
    crosses = [lines(trains, BLUE, "x")[0], lines(trains, ORANGE, "x")[0], lines(overshoot, PURPLE, "x")[0]]
    assert [list(cross.get_ydata()) for cross in crosses] == [[1], [1], [1]]
    assert crosses[0].get_xdata()[0] != crosses[1].get_xdata()[0]
    assert legend(figure)[-1] == "too few spikes or steps"
    silent = draw_statistics(ActivityRecord(2, 8.0, 0, 4, (empty,)))
    assert silent.axes[1].get_xlim() == (0, 1)
    assert overflow(silent) < 0.03


def correspondence_of(layer="conv", **more):
    about = {"name": "relu", "units": 4, "calibrated": True, "slope": 0.8, "correlation": 0.9, "error": 0.25}
    values = {"activations": np.array([0, 1, 2], np.float32), "rates": np.array([0, 0.5, 1.75], np.float32)}
    return PopulationCorrespondence(layer=layer, scatter=0.1, **(about | values | more))


def test_rates_are_held_against_activations_with_equality_and_slope():
    figure = draw_correspondence(Correspondence(3, 32.0, (correspondence_of(), correspondence_of("fc"))))
    assert [title(axes) for axes in figure.axes] == [f"{name}\nslope 0.80, error 25.0 %" for name in ("conv", "fc")]
    for axes in figure.axes:
        (points,), (equal,), (slope,) = lines(axes, BLUE), lines(axes, INK), lines(axes, ORANGE)
        assert_allclose(points.get_xdata(), [0, 1, 2])
        assert_allclose(points.get_ydata(), [0, 0.5, 1.75])
        assert_allclose(equal.get_ydata(), equal.get_xdata())
        assert_allclose(slope.get_ydata(), 0.8 * np.array(slope.get_xdata()))
        assert axes.get_xlabel() == "activation"
    assert [axes.get_ylabel() for axes in figure.axes] == ["rate × amplitude", ""]
    assert figure.get_suptitle() == "Rates against activations: 3 images, 32 steps"


def test_without_a_common_unit_there_is_no_equality_and_without_activations_no_slope():
    unknown = correspondence_of(calibrated=False, error=None)
    dead = correspondence_of("dead", calibrated=False, slope=None, correlation=None, error=None)
    zeros = {"activations": np.zeros(3, np.float32), "rates": np.zeros(3, np.float32)}
    figure = draw_correspondence(Correspondence(1, 1.0, (unknown, dataclasses.replace(dead, **zeros))))
    first, second = figure.axes
    assert title(first) == "conv\nslope 0.8, correlation 0.90"
    assert title(second) == "dead\nall activations are zero"
    assert not lines(first, INK)
    assert not lines(second, ORANGE)
    assert first.get_ylabel() == "spikes per step"
    assert legend(figure) == ["unit and image", "slope"]


def test_panels_are_labelled_at_the_outside_and_as_many_as_can_be_seen():
    figure = draw_correspondence(
        Correspondence(1, 8.0, tuple(correspondence_of(f"l{n}", name=f"r{n}") for n in range(7)))
    )
    assert [bool(axes.get_xlabel()) for axes in figure.axes] == [False, False, True, True, True, True, True]
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True, False, False, False, False, True, False]
    many = Correspondence(1, 8.0, tuple(correspondence_of(f"l{n}", name=f"r{n}") for n in range(49)))
    figure = draw_correspondence(many)
    assert [title(axes).split("\n")[0] for axes in figure.axes] == [f"l{n}" for n in range(0, 49, 2)]
    assert figure.get_suptitle().endswith("25 of 49 layers")


def adjusted_of(layer="conv", **more):
    about = {"population": "relu", "synapses": layer, "norms": (0.5, 1.0, 1.5), "smoothed": (0.75, 1.0, 1.25)}
    about |= {"means": (0.2, -0.4, 1.0), "thresholds": (2.0, 2.0, 2.0), "wanted": (1.5, 2.0, 2.5)}
    return AdjustedPopulation(
        layer=layer, **(about | {"scalars": (1.2, 1.0, 0.9), "guarded": (0,), "rescale": 0.97} | more)
    )


def test_scalars_stand_over_norms_with_the_colour_of_the_mean_and_a_ring_where_guarded():
    figure = draw_adjustment(Adjustment("l4:1.0", 64, 75, 0, (adjusted_of(),)))
    axes = figure.axes[0]
    units, rings = [one for one in axes.collections if isinstance(one, PathCollection)]
    assert_allclose(units.get_offsets(), [(0.5, 1.2), (1.0, 1.0), (1.5, 0.9)])
    assert_allclose(units.get_array(), [0.1, -0.2, 0.5])
    assert units.get_clim() == (-0.2, 0.5)
    assert_allclose(rings.get_offsets(), [(0.5, 1.2)])
    assert same_color(rings.get_edgecolor()[0], RED)
    assert list(lines(axes, GREY)[0].get_ydata()) == [1, 1]
    assert title(axes) == "conv\n3 units, 1 raised, then all × 0.97"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("L4 norm of the weights", "scalar ŝ of the unit")
    assert figure.get_suptitle() == "l4:1.0, measured on 64 images, 75 steps"
    assert legend(figure)[1].startswith("wanted threshold raised")


def test_several_layers_share_their_colours_and_other_norms_are_named():
    layers = (adjusted_of(), adjusted_of("fc", means=(0.0, 0.0, 4.0), guarded=()))
    figure = draw_adjustment(Adjustment("l4:1.0,layers=2,by=input", 64, 75, 0, layers))
    limits = [axes.collections[0].get_clim() for axes in figure.axes[:2]]
    assert limits == [(-0.2, 2.0)] * 2
    assert figure.axes[0].get_xlabel() == "spread caused by the inputs"
    assert title(figure.axes[1]) == "fc\n3 units, then all × 0.97"


def test_equal_means_and_no_guarded_unit_are_drawn_too():
    plain = adjusted_of(norms=(1.0,), means=(0.0,), thresholds=(1.0,), scalars=(1.0,), guarded=())
    figure = draw_adjustment(Adjustment("l4:inf", 1, 1, 0, (plain,)))
    assert legend(figure) == ["unchanged"]
    assert figure.axes[0].collections[0].get_clim() == (0, 1)


def test_nothing_watched_is_said():
    for draw, empty in (
        (draw_statistics, ActivityRecord(1, 1.0, 0, 2, ())),
        (draw_correspondence, Correspondence(1, 1.0, ())),
        (draw_adjustment, Adjustment("l4:1.0", 1, 1, 0, ())),
    ):
        with pytest.raises(UsageError, match="nothing to draw"):
            draw(empty)


def test_names_are_letters_and_figures_the_same_bytes(hostile, tmp_path):
    name = f"$x_1^2$ {hostile}"

    def drawn():
        yield draw_raster(dataclasses.replace(RASTER, populations=(raster_of(name), raster_of(hostile))))
        yield draw_membranes(dataclasses.replace(RASTER, populations=(raster_of(name),)), units=2)
        yield draw_statistics(ActivityRecord(1, 1.0, 0, 2, (statistics_of(name), statistics_of(hostile))))
        yield draw_correspondence(Correspondence(1, 1.0, (correspondence_of(name), correspondence_of(hostile))))
        yield draw_adjustment(Adjustment("l4:1.0", 1, 1, 0, (adjusted_of(name), adjusted_of(hostile))))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first, second in zip(drawn(), drawn(), strict=True):
            paths = [save_figure(figure, tmp_path / f"{n}.svg") for n, figure in enumerate((first, second))]
            assert paths[0].read_bytes() == paths[1].read_bytes()
            assert overflow(first) < 0.03


@pytest.mark.slow
def test_a_real_conversion_has_all_its_figures(tmp_path):
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3, bias=False))
    x = torch.rand(24, 1, 6, 6, generator=generator) * 2 - 1
    more = {"encode": "poisson", "balance": "max-current:images=8,steps=10", "adjust": "l4:1.0,images=8"}
    run = spike(network, (x, torch.arange(24) % 3), neuron="lif:0.9", steps=12, watch=2, early="margin:2", **more)
    found = figures_of(run.record)
    watched = ["statistics", "correspondence", "raster", "membranes", "adjustment"]
    assert list(found) == ["accuracy", "energy", "confusion", "layer-energy", "rivals", "rates", *watched]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, draw in found.items():
            assert save_figure(draw(), tmp_path / f"{name}.png").stat().st_size > 5000


def test_spikes_that_are_taken_back_are_red():
    population = raster_of()
    sizes = np.where(np.arange(len(population.spike_rows)) % 3 == 0, -1, 1).astype(np.int8)
    signed = dataclasses.replace(population, spike_sizes=sizes)
    figure = draw_raster(dataclasses.replace(RASTER, populations=(signed,)))
    drawn = [len(lines.get_segments()) for lines in figure.axes[0].collections]
    of_image = population.spike_images == 0
    assert drawn[:2] == [int((sizes[of_image] > 0).sum()), int((sizes[of_image] < 0).sum())]
    assert "red: taken back" in figure.axes[0].get_title(loc="left")
    assert "taken back" not in draw_raster(RASTER).axes[0].get_title(loc="left")
