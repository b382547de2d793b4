"""What the figures of a conversion show is what its record says: accuracies, energies, rates and answers."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color
from numpy.testing import assert_allclose

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.reporting.figures.spiking import catalogue as spiking
from weightsmith.reporting.figures.spiking.catalogue import (
    draw_accuracy,
    draw_confusion,
    draw_energy,
    draw_layer_energy,
    draw_rates,
    figures_of,
    save_figure,
)
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from weightsmith.spiking.conversion.balance import ThresholdRange
from weightsmith.spiking.energy.cost import LayerCost, NeuronCost, Prices, SpikeCost
from weightsmith.spiking.energy.rivals import Rival
from weightsmith.spiking.monitors.correspondence import confusion
from weightsmith.spiking.results import Decisions, Population, SpikeRecord

IMAGES = 200


def population(layer="conv", name="relu", rate=0.25, units=10, spikes=50.0):
    return Population(name, layer, units, ThresholdRange(layer, 1.0, 1.0, 1.0), rate, spikes)


def layer_cost(name="conv", *, accumulates=(100, 200, 300), macs=40, constants=0, once=0, per_step=0, **more):
    about = {"kind": "synapses", "spikes": 1.0, "basis": "counted"} | more
    return LayerCost(
        name=name,
        macs=macs,
        accumulates=np.array(accumulates, float),
        constants=constants,
        multiplies_once=once,
        multiplies_per_step=per_step,
        **about,
    )


def cost_of(*layers, run=None, prices=None):
    steps = len(layers[0].accumulates)
    ran = np.arange(1.0, steps + 1) if run is None else np.array(run, float)
    return SpikeCost(IMAGES, steps, ran, layers, (NeuronCost("relu", "conv", 10, 4),), prices or Prices(neurons=False))


def decisions_of(correct, undecided=None, network=190, ended=None, images=IMAGES):
    right = np.arange(images) < correct[-1]
    return Decisions(
        split="test",
        images=images,
        network=wilson(network, images),
        spiking=wilson(int(correct[-1]), images),
        cost=mcnemar(right, np.arange(images) < network),
        correct=np.array(correct, np.int64),
        undecided=np.zeros(len(correct), np.int64) if undecided is None else np.array(undecided, np.int64),
        only_network=np.zeros(len(correct), np.int64),
        confusion=confusion(np.zeros(images, int), np.zeros(images, int), 10),
        settled=1,
        ended=float(len(correct) if ended is None else ended),
    )


def record_of(correct=(50, 150, 180), *, settings=None, cost=None, network="mlp:40,input_shape=[1,8,8]", **more):
    steps = len(correct)
    about = {"neuron": "if", "encode": "constant", "adjust": None, "steps": steps, "seed": 0, "watch": 8}
    return SpikeRecord(
        settings=about | (settings or {}),
        network=network,
        steps=steps,
        populations=(population(),),
        decisions=decisions_of(correct, **more),
        cost=cost or cost_of(layer_cost(accumulates=np.linspace(100, 300, steps))),
        adjustment=None,
        watched=None,
        paths={},
        notes=(),
        result="0" * 64,
        origin=Origin(0, {"network": "ab" * 32}),
    )


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def lines(axes, colour, least=1):
    return [
        line for line in axes.get_lines() if same_color(line.get_color(), colour) and len(line.get_xdata()) >= least
    ]


def bars(axes, colour):
    found = [container for container in axes.containers if same_color(container[0].get_facecolor(), colour)]
    return [patch.get_width() for container in found for patch in container]


def written(axes):
    return [text.get_text() for text in axes.texts]


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def overflow(figure):
    """Inches by which anything leaves the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    return max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


def test_accuracy_is_that_after_each_step_with_its_wilson_band():
    figure = draw_accuracy(record_of([50, 150, 180]))
    (axes,) = figure.axes
    (line,) = lines(axes, BLUE)
    assert_allclose(line.get_xdata(), [1, 2, 3])
    assert_allclose(line.get_ydata(), [25, 75, 90])
    band = axes.collections[0].get_paths()[0].vertices
    for step, count in enumerate((50, 150, 180), 1):
        at = band[band[:, 0] == step, 1]
        assert_allclose([at.min(), at.max()], [100 * wilson(count, IMAGES).low, 100 * wilson(count, IMAGES).high])
    (network,) = lines(axes, INK)
    assert_allclose(network.get_ydata(), [95, 95])
    (shade,) = axes.patches
    interval = wilson(190, IMAGES)
    assert_allclose([shade.get_y(), shade.get_y() + shade.get_height()], [100 * interval.low, 100 * interval.high])
    assert legend(figure) == ["network: 95.0 %", "if, constant: 90.0 %"]
    assert axes.get_title(loc="left") == "200 test images, bands: Wilson, 95 %"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time steps", "accuracy (%)")


@pytest.mark.parametrize(("steps", "scale"), [(64, "linear"), (65, "log"), (200, "log")])
def test_many_steps_are_shown_by_powers_of_two(steps, scale):
    axes = draw_accuracy(record_of([100] * steps)).axes[0]
    axes.figure.draw_without_rendering()
    assert axes.get_xscale() == scale
    ticks = axes.get_xticks().tolist()
    if scale == "log":
        assert ticks == [2**k for k in range(7)] if steps == 65 else [*(2**k for k in range(8)), 200]
    low, high = axes.get_xlim()
    assert 0 < low < 1
    assert high > steps


def test_a_single_step_is_a_point_with_a_bar():
    axes = draw_accuracy(record_of([150])).axes[0]
    (line,) = lines(axes, BLUE)
    assert (line.get_marker(), list(line.get_xdata())) == ("o", [1])
    (bar,) = axes.collections
    assert_allclose(bar.get_segments()[0][:, 1], [100 * wilson(150, 200).low, 100 * wilson(150, 200).high])
    assert axes.get_xlim() == (0, 2)
    assert axes.get_xticks().tolist() == [1]


def test_undecided_images_have_a_panel_of_their_own_once_they_are_one_in_a_hundred():
    assert len(draw_accuracy(record_of([50, 150, 180], undecided=[1, 1, 0])).axes) == 1
    upper, lower = draw_accuracy(record_of([50, 150, 180], undecided=[100, 2, 0])).axes
    (line,) = lines(lower, BLUE)
    assert_allclose(line.get_ydata(), [50, 1, 0])
    assert lower.get_ylabel() == "undecided (%)"
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "time steps")


def test_an_early_end_is_marked_at_the_mean_steps():
    figure = draw_accuracy(record_of([50, 150, 180], ended=1.75))
    assert [1.75, 1.75] in [list(line.get_xdata()) for line in lines(figure.axes[0], BLUE)]
    assert legend(figure)[-1] == "mean steps per image"


def test_runs_are_called_by_what_sets_them_apart():
    plain = record_of()
    adjusted = record_of([60, 150, 190], settings={"adjust": "l4:1.0", "watch": 0})
    assert legend(draw_accuracy(plain, adjusted)) == ["network: 95.0 %", "not adjusted: 90.0 %", "l4:1.0: 95.0 %"]
    longer = record_of([50] * 5, settings={"seed": 3})
    assert legend(draw_accuracy(plain, longer))[1:] == ["3 steps, seed 0: 90.0 %", "5 steps, seed 3: 25.0 %"]
    assert legend(draw_accuracy(plain, plain))[1:] == ["run 1: 90.0 %", "run 2: 90.0 %"]
    other = dataclasses.replace(plain, origin=Origin(0, {"network": "cd" * 32}))
    wider = dataclasses.replace(other, network="mlp:80,input_shape=[1,8,8]")
    assert legend(draw_accuracy(plain, wider))[1:] == ["mlp:40: 90.0 %", "mlp:80: 90.0 %"]
    assert legend(draw_accuracy(plain, other))[1:] == ["weights ababab: 90.0 %", "weights cdcdcd: 90.0 %"]


def test_networks_that_differ_have_a_line_each():
    figure = draw_accuracy(record_of(), record_of(network="cnn", settings={"seed": 1}))
    assert legend(figure)[0] == "network: 95.0 %"
    better = dataclasses.replace(record_of(settings={"seed": 1}), decisions=decisions_of((50, 150, 180), network=196))
    figure = draw_accuracy(record_of(), better)
    assert legend(figure)[0] == "network of each run"
    assert [95, 95] in [list(line.get_ydata()) for line in lines(figure.axes[0], BLUE)]
    assert [98, 98] in [list(line.get_ydata()) for line in lines(figure.axes[0], ORANGE)]
    assert not figure.axes[0].patches


def test_nine_runs_can_be_told_apart():
    figure = draw_accuracy(*(record_of(settings={"seed": seed}) for seed in range(9)))
    looks = {
        (line.get_color(), str(line._dash_pattern)) for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 3
    }
    assert len(looks) == 9
    assert overflow(figure) < 0.03


def test_energy_crosses_that_of_the_network_at_the_step_marked():
    # The network: 4.6 pJ · 50,000 = 230,000 pJ; a step: 0.9 pJ · 100,000 = 90,000 pJ, so that the third is too much.
    cost = cost_of(layer_cost(accumulates=[1e5, 2e5, 3e5, 4e5], macs=50_000))
    figure = draw_energy(record_of([50] * 4, cost=cost))
    (axes,) = figure.axes
    curve, diamond = lines(axes, BLUE)
    assert_allclose(curve.get_ydata(), [0.09, 0.18, 0.27, 0.36])
    assert (list(diamond.get_xdata()), diamond.get_marker()) == ([3], "D")
    assert_allclose(diamond.get_ydata(), 0.27)
    assert_allclose(lines(axes, INK)[0].get_ydata(), 0.23)
    assert legend(figure) == ["network: 0.23 µJ", "if, constant: above the network from step 3 on"]
    assert axes.get_ylabel() == "energy per image (µJ)"
    assert axes.get_ylim()[0] == 0
    assert figure.get_suptitle() == "arithmetic alone: 0.9 pJ per accumulate, 4.6 pJ per MAC, neurons left out"


def test_as_many_steps_are_drawn_as_have_an_energy_whatever_a_record_claims():
    cost = cost_of(layer_cost(accumulates=[100, 200, 300], macs=40))
    (axes,) = draw_energy(record_of(cost=dataclasses.replace(cost, steps=2_000_000_000))).axes
    assert max(len(line.get_xdata()) for line in axes.lines) == 3
    assert axes.get_xlim()[1] < 4


def test_energy_that_stays_below_is_said_and_small_ones_are_nanojoules():
    figure = draw_energy(record_of(cost=cost_of(layer_cost(accumulates=[10, 20, 30], macs=5000))))
    assert legend(figure) == ["network: 23 nJ", "if, constant: below the network after 3 steps"]
    (curve,) = lines(figure.axes[0], BLUE)
    assert_allclose(curve.get_ydata(), [0.009, 0.018, 0.027])
    assert figure.axes[0].get_ylabel() == "energy per image (nJ)"


def test_a_network_that_multiplies_nothing_has_no_line():
    figure = draw_energy(record_of(cost=cost_of(layer_cost(macs=0, basis="estimate"))))
    assert legend(figure) == ["if, constant: 0.27 nJ"]
    assert not lines(figure.axes[0], INK)
    assert "partly estimated" in figure.get_suptitle()


def test_each_network_of_several_has_its_energy():
    costs = [cost_of(layer_cost(macs=macs)) for macs in (100, 10_000)]
    figure = draw_energy(*(record_of(cost=cost, settings={"seed": index}) for index, cost in enumerate(costs)))
    assert legend(figure)[0] == "network of each run"
    assert any(np.allclose(line.get_ydata(), 46) for line in lines(figure.axes[0], ORANGE))
    assert (
        "prices differ"
        in draw_energy(
            record_of(), record_of(cost=cost_of(layer_cost(), prices=Prices(1.0)), settings={"prices": "x"})
        ).get_suptitle()
    )


def test_the_cheapest_rival_has_a_line_at_its_energy_if_all_runs_share_it():
    rivals = (Rival("float32", 32, 5e4, 4.6, 2.3e5, 0.0), Rival("int8", 8, 5e4, 0.23, 1.15e4, 0.0))
    cost = dataclasses.replace(cost_of(layer_cost(accumulates=[1e5, 2e5, 3e5], macs=50_000)), rivals=rivals)
    figure = draw_energy(record_of(cost=cost))
    (line,) = lines(figure.axes[0], GREY)
    assert_allclose(line.get_ydata(), 0.0115)
    assert legend(figure)[1] == "cheapest rival (int8): 11.5 nJ"
    other = record_of(cost=dataclasses.replace(cost, rivals=rivals[:1]), settings={"seed": 1})
    assert not lines(draw_energy(record_of(cost=cost), other).axes[0], GREY)


LAYERS = (
    layer_cost("conv", accumulates=(0, 0, 0), macs=4000, constants=10, once=4000),
    layer_cost("add", accumulates=(1000, 2000, 3000), macs=0, kind="direct"),
    layer_cost("fc", accumulates=(2e3, 4e3, 8e3), macs=1000, per_step=100),
)


def test_layers_have_their_operations_and_energies_beside_those_of_the_network():
    cost = cost_of(*LAYERS, run=[1, 2, 2.5])
    figure = draw_layer_energy(cost)
    left, right = figure.axes
    assert names_of(left) == ["conv", "add (direct)", "fc"]
    assert_allclose(bars(left, BLUE), [0.025, 3, 8])
    assert_allclose(bars(left, PURPLE), [4, 0, 0.25])
    assert_allclose(bars(left, GREY), [4, 0, 1])
    assert left.get_xlabel() == "operations per image (thousands)"
    energies = np.add(bars(right, BLUE), bars(right, PURPLE))
    assert_allclose(1e3 * energies, list(cost.layer_energy().values()))
    assert_allclose(1e3 * sum(energies), cost.energy)
    assert_allclose(1e3 * sum(bars(right, GREY)), cost.network_energy)
    assert written(left) == ["4.03", "3", "8.25", "4", "1"]
    assert figure.get_suptitle().startswith("29.5 nJ per image, 1.28 of the network's 23 nJ")


def test_neurons_have_a_row_where_they_have_a_price():
    cost = cost_of(*LAYERS, prices=Prices(neurons=True))
    left, right = draw_layer_energy(cost).axes
    assert names_of(left)[-1] == "all neurons"
    assert_allclose([bars(left, BLUE)[-1], bars(left, PURPLE)[-1]], [0.018, 0.012])
    assert_allclose(1e3 * sum(np.add(bars(right, BLUE), bars(right, PURPLE))), cost.energy)


def test_rates_and_spikes_are_bars_by_layer():
    found = [population(rate=0.5, units=30, spikes=12345.6), population("fc", "relu2", 0.1, 10, 2.5)]
    figure = draw_rates(found)
    left, right = figure.axes
    assert_allclose(bars(left, BLUE), [0.5, 0.1])
    assert_allclose(bars(right, GREEN), [12345.6, 2.5])
    assert names_of(left) == ["conv", "fc"]
    assert left.get_ylim()[0] > left.get_ylim()[1]  # the first layer on top
    assert left.get_title(loc="left") == "Mean rate 0.4"
    assert right.get_title(loc="left") == "12,348 spikes per image"
    assert written(right) == ["12,346", "2.5"]


def test_populations_of_one_layer_are_told_apart_and_silence_has_bars_of_no_length():
    left, right = draw_rates([population(rate=0.0, spikes=0.0), population(name="relu2", rate=0.0, spikes=0.0)]).axes
    assert names_of(left) == ["conv → relu", "conv → relu2"]
    assert left.get_xlim() == right.get_xlim() == (0, 1)
    assert right.get_title(loc="left") == "0 spikes per image"


def test_of_very_many_layers_some_are_named():
    figure = draw_rates([population(f"layer{index}", f"relu{index}") for index in range(150)])
    assert names_of(figure.axes[0]) == [f"layer{index}" for index in range(0, 150, 3)]
    assert figure.axes[0].get_ylabel().endswith("(one in 3 named)")
    assert not written(figure.axes[0])
    assert overflow(figure) < 0.03


def test_disagreement_is_coloured_and_every_cell_numbered():
    found = confusion(np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 2, 1, 1, -1]), 3)
    figure = draw_confusion(found, ["cat", "dog", "$x_1$"])
    (axes,) = figure.axes
    diagonal, apart = (image.get_array() for image in axes.images)
    assert apart.filled(0).tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert diagonal.filled(-1).tolist() == [[2, -1, -1, -1], [-1, 2, -1, -1], [-1, -1, 0, -1]]
    cells = {(round(text.get_position()[1]), round(text.get_position()[0])): text for text in axes.texts}
    assert {position: text.get_text() for position, text in cells.items()} == {
        (0, 0): "2", (0, 2): "1", (1, 1): "2", (2, 3): "1",
    }  # fmt: skip
    assert [position for position, text in cells.items() if text.get_fontweight() == "bold"] == [(0, 2), (2, 3)]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["cat", "dog", r"\$x_1\$", "undecided"]
    assert names_of(axes) == ["cat", "dog", r"\$x_1\$"]
    assert figure.get_suptitle() == "Both agree on 66.7 % [30.0, 90.3] of 6 images"


def test_dark_cells_have_light_numbers():
    found = confusion(np.zeros(13, int), np.array([0] + [1] * 2 + [2] * 10), 3)
    colours = {text.get_text(): text.get_color() for text in draw_confusion(found).axes[0].texts}
    assert colours == {"1": INK, "2": INK, "10": "white"}


@pytest.mark.parametrize(("classes", "named"), [(1, 1), (20, 20), (21, 21), (105, 11), (1000, 10)])
def test_classes_of_any_number(classes, named):
    answers = np.arange(classes)
    silent = np.where(answers == 0, -1, answers[::-1])
    figure = draw_confusion(confusion(answers, silent, classes), [f"class {position}" for position in answers])
    axes = figure.axes[0]
    assert bool(axes.texts) is (classes <= 20)
    assert len(names_of(axes)) == named
    assert axes.get_xticklabels()[-1].get_text() == "undecided"
    assert axes.get_xticks()[-1] == classes
    assert overflow(figure) < 0.03


def test_names_must_be_as_many_as_classes():
    with pytest.raises(UsageError, match="of 3 classes, but 2 names"):
        draw_confusion(confusion(np.array([0]), np.array([0]), 3), ["a", "b"])


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="no runs"):
        draw_accuracy()
    with pytest.raises(UsageError, match="no runs"):
        draw_energy()
    with pytest.raises(UsageError, match="no populations"):
        draw_rates([])
    with pytest.raises(UsageError, match="no layers"):
        draw_layer_energy(dataclasses.replace(cost_of(layer_cost()), layers=()))


def test_a_record_names_the_figures_it_has_something_for():
    record = record_of()
    assert list(figures_of(record)) == ["accuracy", "energy", "confusion", "layer-energy", "rates"]
    bare = dataclasses.replace(record, populations=(), cost=dataclasses.replace(record.cost, layers=()))
    assert list(figures_of(bare)) == ["accuracy", "energy", "confusion"]
    titles = {name: draw().axes[0].get_title(loc="left") for name, draw in figures_of(record).items()}
    assert titles["rates"] == "Mean rate 0.25"
    named = figures_of(record, [f"class {index}" for index in range(10)])["confusion"]()
    assert names_of(named.axes[0])[0] == "class 0"


def test_names_are_letters_and_figures_the_same_bytes(hostile, tmp_path):
    def drawn():
        record = record_of(settings={"neuron": f"$x_1$ {hostile}"}, network=hostile, undecided=[90, 0, 0])
        yield draw_accuracy(record, record_of())
        yield draw_layer_energy(cost_of(layer_cost(hostile), layer_cost("$x_1^2$", kind="direct")))
        yield draw_rates([population(hostile, "a"), population("", f"$x_1${hostile}" * 3)])
        yield draw_confusion(confusion(np.array([0, 1]), np.array([0, 0]), 2), [hostile, "_$x$"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first, second in zip(drawn(), drawn(), strict=True):
            paths = [save_figure(figure, tmp_path / f"{n}.svg") for n, figure in enumerate((first, second))]
            assert paths[0].read_bytes() == paths[1].read_bytes()
            assert overflow(first) < 0.03
        assert overflow(draw_energy(record_of(settings={"neuron": f"$x_1$ {hostile}"}))) < 0.03


def test_all_figures_of_spiking_have_one_home():
    assert all(callable(getattr(spiking, name)) for name in spiking.__all__)
    assert sorted(spiking.__all__) == spiking.__all__
