from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.data.normalise import HALF
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.paper_resnet import paper_resnet
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg
from weightsmith.spiking.conversion.balance import (
    Balance,
    MaxCurrent,
    Mse,
    Percentile,
    RunningPercentile,
    activation_levels,
    balanced,
)
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.conversion.max_current import largest_currents
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import Scale, Synapses
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation.sources import source_of


def images(count, shape=(3, 8, 8), seed=0):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def lively(network, seed=0):
    """The network with statistics and biases that are not those of birth."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in (*network.named_parameters(), *network.named_buffers()):
            if name.endswith("running_var"):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
            elif value.dim() == 1 and value.is_floating_point():
                value.add_(0.2 * torch.randn(value.shape, generator=generator))
    return network


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: resnet(8, (3, 8, 8), 4, widths=(4, 5, 6)),
        lambda: vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), bias=True, batch_norm=True),
    ],
)
def test_rates_times_thresholds_are_the_activations(make, per_channel):
    converted = convert(lively(make()), IF(), Constant())
    x = images(6)
    result = balanced(converted, Percentile(100, per_channel=per_channel), x)
    steps = 400
    responses = result.network.run(x, steps, precision="float64")
    expected = converted.outputs(x).double().numpy()
    scale = np.abs(expected).max()
    assert np.abs(responses.scores / steps - expected).max() < 0.05 * scale
    counts = {name: count.sum() for name, count in responses.spikes_per_image.items()}
    activations = converted.activations(x)
    for node in result.network.populations:
        if not per_channel:
            mean = float(activations[node.name].sum() / node.amplitude[0])
            assert counts[node.name] / steps == pytest.approx(mean, rel=0.05)


def test_thresholds_are_percentiles_and_spikes_are_worth_them():
    network = lively(vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), bias=True))
    with torch.no_grad():
        for layer in (network.features[0], network.features[3], network.features[6], network.classifier[1]):
            layer.weight.mul_(0.1)
            layer.bias.fill_(0.5)  # every channel fires
    converted = convert(network, LIF(0.9), Constant())
    x = images(20)
    result = balanced(converted, Percentile(95, factor=0.5), x)
    levels = activation_levels(converted, x, 95)
    before = converted.network
    for node in result.network.populations:
        assert torch.equal(node.threshold, (levels[node.name].percentile * 0.5).float())
        assert torch.equal(node.threshold, node.amplitude)
        assert node.start == 0.5
        thresholds = result.thresholds[node.name]
        assert (thresholds.layer, thresholds.least, thresholds.largest) == (
            node.layer,
            node.threshold.min(),
            node.threshold.max(),
        )
    first, second = result.network.populations[:2]
    assert torch.equal(result.network.node(first.layer).weight, before.node(first.layer).weight)
    expected = before.node(second.layer).weight * first.amplitude[:, None, None]
    assert torch.allclose(result.network.node(second.layer).weight, expected)
    assert torch.equal(result.network.node(second.layer).bias, before.node(second.layer).bias)
    assert result.notes == ()
    assert balanced(converted, Percentile(95, half=False), x).network.populations[0].start == 0.0
    one = balanced(converted, Percentile(95, per_channel=False), x).network
    assert all(len(node.threshold.unique()) == 1 for node in one.populations)


def test_input_spikes_that_are_rarer_are_worth_more():
    network = lively(mlp(6, 5, 3))
    x = images(30, (6,))
    plain = balanced(convert(network, IF(), Poisson()), Percentile(), x).network
    rarer = balanced(convert(network, IF(), Poisson(0.5)), Percentile(), x).network
    assert torch.equal(rarer.node("dense1").weight, 2 * plain.node("dense1").weight)
    assert torch.equal(rarer.node("dense1").bias, plain.node("dense1").bias)
    assert torch.equal(rarer.node("output").weight, plain.node("output").weight)


def test_channels_that_fire_rarely_or_never_are_reported():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]]))
        network[0].bias.zero_()
    x = torch.zeros(100, 3)
    x[:, 0], x[:, 1], x[7, 2] = torch.linspace(0, 1, 100), torch.linspace(0, 2, 100), 0.25
    converted = convert(network, IF(), Constant(), input_shape=(3,))
    result = balanced(converted, Percentile(90), x)
    assert result.network.populations[0].threshold.tolist() == pytest.approx([0.9, 1.8, 0.25, 1.8])
    assert result.notes == (
        "1 (after 0): 1 of 4 threshold(s) are the largest activation, because percentile 90 is zero",
        "1 (after 0): 1 of 4 channel(s) never fire on the calibration images and have the largest threshold of the "
        "layer",
    )


def test_a_layer_that_never_fires_is_dead():
    network = vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), bias=True)
    with torch.no_grad():
        network.features[3].bias.fill_(-1e6)
    with pytest.raises(DataMismatch, match=r"dead layer: features\.4 \(after features\.3\) gives only zeros"):
        balanced(convert(network, IF(), Constant()), Percentile(), images(4))


@pytest.mark.parametrize("how", [Percentile(), Mse()], ids=str)
def test_a_dead_layer_with_a_shortcut_around_it_stays_silent(how):
    network = resnet(8, (3, 8, 8), 4)
    with torch.no_grad():
        network.layer2[0].bn1.bias.fill_(-1e6)
    x = images(4)
    converted = convert(network.eval(), IF(signed=True), Constant())
    result = balanced(converted, how, x, steps=8)
    dead = next(node for node in result.network.populations if node.layer == "layer2.0.conv1")
    assert dead.threshold.tolist() == [1.0] * len(dead.threshold)
    assert f"{dead.name} (after layer2.0.conv1) gives only zeros on the calibration images" in result.notes[0]
    assert result.network.run(x, 8).spikes()[dead.name] == 0


def test_max_current_sets_the_largest_current_times_the_factor():
    converted = convert(vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,)), LIF(0.9), Poisson())
    x = images(10)
    result = balanced(converted, MaxCurrent(steps=7, factor=0.7), x, seed=3)
    found = largest_currents(converted.network, source_of(converted.network, x, 3, 0), 7)
    for node in result.network.populations:
        assert torch.allclose(node.threshold, torch.full_like(node.threshold, 0.7 * found[node.name]))
        assert node.start == 0.0
    for name in (node.name for node in result.network.synapses):
        assert torch.equal(result.network.node(name).weight, converted.network.node(name).weight)
    other = balanced(converted, MaxCurrent(steps=7, factor=0.7), x, seed=4)
    assert other.thresholds["features.1"] != result.thresholds["features.1"]


def test_neurons_of_residual_blocks_can_keep_threshold_one():
    network = paper_resnet((3, 8, 8), 4, widths=(4, 6))
    with torch.no_grad():
        for value in network.parameters():
            value.add_(value.abs())  # so that spikes reach the last layer within a few steps
    converted = convert(network, IF(), Poisson())
    x = images(5)
    every = balanced(converted, MaxCurrent(steps=30), x)
    stem = balanced(converted, MaxCurrent(steps=30, blocks="one", factor=0.5), x)
    for name, thresholds in stem.thresholds.items():
        if name.startswith("stem"):
            assert thresholds.least == thresholds.largest == pytest.approx(0.5 * every.thresholds[name].least)
        else:
            assert thresholds.least == thresholds.largest == 0.5
    assert stem.notes == ("8 population(s) of residual blocks were not searched: theirs is 1 times the factor",)
    assert every.notes == ()


def test_max_current_refuses_biases_by_name():
    biased = convert(vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), bias=True), IF(), Poisson())
    zeros = tuple(
        dataclasses.replace(node, bias=torch.zeros_like(node.bias)) if isinstance(node, Synapses) else node
        for node in biased.network.nodes
    )
    lifted = dataclasses.replace(biased, network=dataclasses.replace(biased.network, nodes=zeros))
    assert balanced(lifted, MaxCurrent(steps=30), images(3)).thresholds
    nodes = [dataclasses.replace(node, bias=node.bias + 1) if node.name == "classifier.1" else node for node in zeros]
    one = dataclasses.replace(biased, network=dataclasses.replace(biased.network, nodes=tuple(nodes)))
    with pytest.raises(UsageError, match=r"^classifier\.1 has a bias .*use balance=percentile"):
        balanced(one, MaxCurrent(steps=3), images(3))


def test_calibration_images_are_drawn_by_the_seed():
    converted = convert(lively(mlp(6, 5, 3)), IF(), Constant())
    x = images(50, (6,))
    result = balanced(converted, Percentile(100, images=8), x, seed=9)
    rows = stream(9, "calibration").choice(50, 8, replace=False)
    largest = converted.activations(x[rows])["activation1"].max(dim=0).values
    largest[largest == 0] = largest.max()
    assert torch.equal(result.network.populations[0].threshold, largest)
    again = balanced(converted, Percentile(100, images=8), x, seed=9)
    assert torch.equal(again.network.node("output").weight, result.network.node("output").weight)


def test_data_that_do_not_fit_are_refused():
    converted = convert(lively(mlp(6, 5, 3)), IF(), Poisson())
    for balance in (Percentile(), MaxCurrent()):
        with pytest.raises(UsageError, match="no calibration images"):
            balanced(converted, balance, torch.empty(0, 6))
    with pytest.raises(DataMismatch, match="poisson spikes need inputs between"):
        balanced(converted, Percentile(), images(3, (6,)) + 2)
    broken = images(3, (6,))
    broken[1, 2] = float("nan")
    with pytest.raises(DataMismatch, match="image 1 holds NaN"):
        balanced(converted, Percentile(), broken)
    with pytest.raises(DataMismatch, match="takes inputs of shape"):
        balanced(converted, Percentile(), images(3, (7,)))


@pytest.mark.parametrize(
    "text",
    [
        *("percentile:0", "percentile:100.1", "percentile:images=0", "percentile:factor=0"),
        *("max-current:0", "max-current:steps=0", "max-current:factor=-1", "max-current:blocks=all"),
    ],
)
def test_options_out_of_range_are_refused(text):
    with pytest.raises(OptionError):
        Balance.parse(text)


def test_options_read_as_they_are_written():
    assert Balance.parse("percentile:99,half=false") == Percentile(99, half=False)
    assert Balance.parse("max-current:64,40,0.7,one") == MaxCurrent(64, 40, 0.7, "one")
    assert str(MaxCurrent(factor=0.7)) == "max-current:factor=0.7"


def test_residual_nets_get_scales_where_spikes_are_added():
    converted = convert(lively(resnet(8, (3, 8, 8), 4, widths=(4, 5, 6))), IF(), Constant())
    network = balanced(converted, Percentile(), images(8)).network
    scales = [node for node in network.nodes if isinstance(node, Scale)]
    assert [node.name for node in scales] == ["activation*scale"]
    assert torch.equal(scales[0].factor, network.node("activation").threshold)


@settings(max_examples=200, deadline=None)
@given(
    percent=st.floats(0, 100, exclude_min=True) | st.sampled_from([99.9, 99.0, 50.0, 100.0]),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    rows=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_parts_give_the_percentile_of_the_whole(percent, sizes, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(rows, size, generator=generator).relu() for size in sizes]
    whole = torch.cat(parts, dim=1).double().numpy()
    running = RunningPercentile(percent, whole.shape[1])
    for part in parts:
        running.add(part)
    np.testing.assert_allclose(running.value().numpy(), np.percentile(whole, percent, axis=1), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(running.largest().numpy(), whole.max(axis=1))


def test_only_the_upper_end_is_kept():
    running = RunningPercentile(99.9, 100_000)
    for part in torch.rand(1, 100_000, generator=torch.Generator().manual_seed(0)).split(10_000, dim=1):
        running.add(part)
        assert running._kept.numel() <= 101
    with pytest.raises(UsageError, match="3 values have not been added yet"):
        RunningPercentile(50, 3).value()


@pytest.mark.parametrize("per_channel", [True, False])
def test_levels_are_percentiles_over_images_and_positions(per_channel):
    network = vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), batch_norm=True, bias=True, seed=3)
    with_card(network, card_of(network).__class__(input_shape=(3, 8, 8), normalisation=HALF))
    found = convert(network, IF(), Constant())
    x = torch.randint(0, 256, (70, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    calls = []
    levels = activation_levels(found, x, 97.5, per_channel=per_channel, progress=lambda *parts: calls.append(parts))
    assert calls == [(32, 70), (64, 70), (70, 70)]
    values = found.activations((x.float() / 255 - 0.5) / 0.5)
    assert list(levels) == list(values)
    for name, level in levels.items():
        array = values[name].transpose(0, 1).flatten(1).double().numpy()
        array = array if per_channel else array.reshape(1, -1)
        np.testing.assert_allclose(level.percentile, np.percentile(array, 97.5, axis=1), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(level.largest, array.max(axis=1), rtol=1e-5, atol=1e-7)
