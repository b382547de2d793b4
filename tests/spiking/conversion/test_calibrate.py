from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion import calibrate
from weightsmith.spiking.conversion.balance import MaxCurrent, Mse, Percentile, balanced
from weightsmith.spiking.conversion.calibrate import (
    Calibrate,
    CalibrateBias,
    CalibrateWeights,
    Calibration,
    calibrated,
)
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Neurons, Pool, Synapses
from weightsmith.spiking.monitors.correspondence import Rates
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, Graded

STEPS = 4
NEURONS = [IF(signed=True), Graded(3)]


def _exact(neuron, hidden):
    """Inputs that are multiples of a quarter pass the first neurons without any error; ``hidden`` reads them."""
    ones = torch.ones(6)
    nodes = (
        Synapses("first", INPUT, torch.eye(6)),
        Neurons("n1", "first", ones, 0.0 if isinstance(neuron, Graded) else 0.5, amplitude=ones, layer="first"),
        *hidden,
    )
    x = torch.randint(0, 5, (64, 6), generator=torch.Generator().manual_seed(0)) / 4
    return SpikingNetwork(nodes, (6,), neuron, Constant()), x


def _shifted(network, name, by):
    node = network.node(name)
    return network.replaced([dataclasses.replace(node, bias=(0 if node.bias is None else node.bias) + by)])


@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_a_shifted_bias_of_a_linear_layer_is_recovered_exactly(neuron):
    """The last layer only adds up: its inputs are exact here, so all that is wrong is the bias."""
    weight = torch.randint(-8, 9, (3, 6), generator=torch.Generator().manual_seed(1)) / 8
    bias = torch.tensor([0.5, -0.25, 1.0])
    plain, x = _exact(neuron, [Synapses("out", "n1", weight, bias)])
    wrong = _shifted(plain, "out", torch.tensor([2.0, -0.5, 0.125]))
    found, record, notes = calibrated(wrong, plain, CalibrateBias(), x, steps=STEPS)
    assert torch.equal(found.node("out").bias, bias)
    assert torch.equal(found.node("out").weight, weight)
    assert found.node("first").bias.abs().max() == 0  # nothing was wrong there
    assert notes == ()
    last = record.layers[-1]
    assert (last.layer, last.population, last.weights, last.after) == ("out", "", None, 0.0)
    scores = 2.0**2 + 0.5**2 + 0.125**2
    target = x @ weight.T + bias
    assert last.bias == pytest.approx((scores / 3) ** 0.5 / float(target.square().mean().sqrt()))


@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_weights_of_a_hidden_layer_are_recovered(neuron):
    """Where all values are positive a ReLU is linear, and least squares find the weights that were disturbed."""
    generator = torch.Generator().manual_seed(2)
    weight, bias = torch.rand(4, 6, generator=generator), torch.full((4,), 0.25)
    big = torch.full((4,), 16.0)
    hidden = [
        Synapses("middle", "n1", weight, bias),
        Neurons("n2", "middle", big, 0.0 if isinstance(neuron, Graded) else 0.5, amplitude=big, layer="middle"),
        Synapses("out", "n2", torch.eye(4) * 16),
    ]
    plain, x = _exact(neuron, hidden)
    reference = plain.replaced([dataclasses.replace(plain.node("out"), weight=torch.eye(4))])  # a spike is worth 16
    middle = plain.node("middle")
    wrong = _shifted(
        plain.replaced([dataclasses.replace(middle, weight=weight + torch.rand(4, 6, generator=generator) / 4)]),
        "middle",
        torch.tensor([0.5, -0.125, 0.0, 0.25]),
    )
    found, record, _ = calibrated(wrong, reference, CalibrateWeights(ridge=1e-7), x, steps=STEPS)
    assert torch.allclose(found.node("middle").weight, weight, atol=1e-3)
    moved = float((wrong.node("middle").weight - weight).norm() / wrong.node("middle").weight.norm())
    assert record.layers[1].layer == "middle"
    assert record.layers[1].weights == pytest.approx(moved, rel=1e-2)
    assert record.layers[0].weights is None  # it reads the input, which is exact


class _Net(nn.Module):
    """Convolutions with a residual add, average or max pooling, and two dense layers."""

    def __init__(self, pool):
        super().__init__()
        torch.manual_seed(3)
        self.one, self.two = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.pool, self.three, self.four = pool, nn.Linear(96, 20), nn.Linear(20, 5)

    def forward(self, x):
        x = self.one(x).relu()
        x = (x + self.two(x)).relu()
        return self.four(self.three(self.pool(x).flatten(1)).relu())


def _mean_error(network, converted, x, steps):
    """Root mean square over all channels of the mean error of what a layer says, by an observer of a run."""
    rates = Rates(network, images=len(x))
    network.run(x, steps, observers=[rates])
    errors = []
    for name, values in converted.activations(x).items():
        said = rates.of(name).mean(axis=(0, 1)) * network.node(name).amplitude.numpy()
        errors.append(values.transpose(0, 1).flatten(1).mean(dim=1).numpy() - said)
    return [float(np.sqrt(np.square(error).mean())) for error in errors]


@pytest.mark.parametrize("how", ["bias", "weights"])
@pytest.mark.parametrize(
    ("neuron", "pool"),
    [
        (IF(signed=True), nn.AvgPool2d(2)),
        (IF(signed=True), nn.MaxPool2d(2)),
        (IF(), nn.AvgPool2d(2)),
        (Graded(3), nn.AvgPool2d(2)),
    ],
    ids=str,
)
def test_layers_come_to_say_what_the_network_says(neuron, pool, how):
    converted = convert(_Net(pool), neuron, Constant(), input_shape=(2, 8, 8))
    x = torch.rand(48, 2, 8, 8, generator=torch.Generator().manual_seed(4)) * 2 - 1
    balance = Percentile() if isinstance(neuron, Graded) else Mse()
    given = balanced(converted, balance, x, steps=3).network
    found, record, notes = calibrated(given, converted.network, Calibrate.of(how), x, steps=3)
    before, after = (_mean_error(network, converted, x, 3) for network in (given, found))
    assert sum(after) < sum(before) / 2
    assert notes == ()
    assert [layer.layer for layer in record.layers] == ["one", "two", "three", "four"]
    assert [layer.weights is not None for layer in record.layers] == [False, *[how == "weights"] * 2, False]
    assert all(layer.after <= layer.before for layer in record.layers)
    # What the record says of the last population is what a run of the network shows.
    size = float(converted.activations(x)["relu_2"].square().mean().sqrt())
    assert record.layers[2].after == pytest.approx(after[2] / size, rel=1e-3, abs=1e-6)
    assert Calibration.from_json(record.to_json()) == record
    assert (record.images, record.steps) == (48, 3)


def test_the_same_seed_gives_the_same_weights():
    converted = convert(_Net(nn.AvgPool2d(2)), IF(signed=True), Constant(), input_shape=(2, 8, 8))
    x = torch.rand(16, 2, 8, 8, generator=torch.Generator().manual_seed(4))
    given = balanced(converted, Mse(), x, steps=3).network
    how = CalibrateWeights(positions=64)
    one, two, other = (calibrated(given, converted.network, how, x, steps=3, seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(one.node("two").weight, two.node("two").weight)
    assert not torch.equal(one.node("two").weight, other.node("two").weight)


def test_poisson_inputs_are_calibrated_on_the_spikes_they_give():
    converted = convert(_Net(nn.AvgPool2d(2)), IF(signed=True), Poisson(), input_shape=(2, 8, 8))
    x = torch.rand(32, 2, 8, 8, generator=torch.Generator().manual_seed(4))
    given = balanced(converted, Mse(), x, steps=8).network
    found, _, _ = calibrated(given, converted.network, CalibrateBias(), x, steps=8)
    assert sum(_mean_error(found, converted, x, 8)) < sum(_mean_error(given, converted, x, 8)) / 2


def test_layers_that_cannot_be_calibrated_are_named():
    ones = torch.ones(2)
    nodes = (
        Synapses("c", INPUT, torch.ones(2, 1, 1, 1)),
        Pool("p", "c", (2, 2), (2, 2)),
        Neurons("n", "p", ones, 0.5, amplitude=ones, layer="c"),
        Pool("all", "n", (2, 2), (2, 2), average=False),
        Synapses("g", "all", torch.ones(4, 1, 1, 1), groups=2),
        Neurons("m", "g", torch.ones(4), 0.5, amplitude=torch.ones(4), layer="g"),
        Synapses("d", "m", torch.ones(4, 4, 1, 1)),
        dataclasses.replace(Neurons("unnamed", "d", torch.ones(4), 0.5, amplitude=torch.ones(4)), layer="d*"),
    )
    end = Synapses("o", "flat", torch.ones(2, 4))
    from weightsmith.spiking.graph import Flatten

    found = SpikingNetwork((*nodes, Flatten("flat", "unnamed"), end), (1, 4, 4), IF(signed=True), Constant())
    _, record, notes = calibrated(found, found, CalibrateWeights(), torch.rand(8, 1, 4, 4), steps=2)
    assert [layer.layer for layer in record.layers] == ["g", "o"]
    assert [note.split(":")[0] for note in notes] == [
        "c was not calibrated",
        "g",
        "d* was not calibrated",
    ]


def test_what_cannot_be_calibrated_is_refused():
    free = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    converted = convert(free, IF(signed=True), Constant(), input_shape=(3,))
    x = torch.rand(8, 3)
    given = balanced(converted, MaxCurrent(steps=4), x).network
    with pytest.raises(UsageError, match=r"the value of a spike is not known.*balance=percentile or mse"):
        calibrated(given, converted.network, CalibrateBias(), x, steps=2)
    given = balanced(converted, Mse(), x, steps=2).network
    with pytest.raises(UsageError, match="no calibration images"):
        calibrated(given, converted.network, CalibrateBias(), x[:0], steps=2)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [((1, 1), (1, 1), (1, 1)), ((2, 1), (0, 2), (1, 2))])
def test_windows_times_weights_are_the_convolution(stride, padding, dilation):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(5, 3, 3, 2, generator=generator)
    x = torch.randn(4, 3, 9, 7, generator=generator)
    layer = Synapses("conv", INPUT, weight, stride=stride, padding=padding, dilation=dilation)
    windows = calibrate._windows(layer, x.flatten(2).transpose(1, 2).numpy(), (3, 9, 7))
    made = torch.from_numpy(windows.reshape(*windows.shape[:3], -1)) @ weight.flatten(1).T
    expected = nn.functional.conv2d(x, weight, None, stride, padding, dilation)
    torch.testing.assert_close(made.permute(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_parts_of_images_give_what_all_at_once_give(neuron, monkeypatch):
    """One image at a time, or all: the same spikes, and so the same weights up to the order of sums."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    )
    made = convert(module.eval(), neuron, Constant(), input_shape=(1, 6, 6))
    x = torch.rand(7, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    network = balanced(made, Percentile(), x).network
    found = []
    for near in (1, 10**9):
        monkeypatch.setattr(calibrate, "_NEAR", near)
        found.append(calibrated(network, made.network, CalibrateWeights(), x, steps=STEPS)[0])
    for one, other in zip(found[0].synapses, found[1].synapses, strict=True):
        torch.testing.assert_close(one.weight, other.weight, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(one.bias, other.bias, rtol=1e-4, atol=1e-6)
    assert not torch.equal(found[0].synapses[1].weight, network.synapses[1].weight)
