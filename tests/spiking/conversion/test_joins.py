from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.spiking.networks import SpikeRecorder
from torch import nn
from torch.nn import functional as F

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion.balance import Percentile, balanced
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.energy.cost import UnitCounts, spike_cost
from weightsmith.spiking.energy.prices import Prices
from weightsmith.spiking.files import load_spiking, save_spiking
from weightsmith.spiking.graph import Add, Gate, Neurons, Synapses
from weightsmith.spiking.neurons import IF, Graded
from weightsmith.spiking.portable.export import export_torch


class Fire(nn.Module):
    """The module of SqueezeNet: two convolutions side by side, joined."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.squeeze, self.relu = nn.Conv2d(inputs, 3, 1), nn.ReLU(inplace=True)
        self.one, self.three = nn.Conv2d(3, outputs, 1), nn.Conv2d(3, outputs, 3, padding=1)

    def forward(self, x):
        x = self.relu(self.squeeze(x))
        return torch.cat([self.relu(self.one(x)), self.relu(self.three(x))], 1)


class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), Fire(4, 3), Fire(6, 5)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(160, 3)

    def forward(self, x):
        x = self.first(F.relu(self.stem(x)))
        x = self.second(self.pool(x))
        return self.head(x.view(x.size(0), -1))


class Reading(nn.Module):
    """Two branches, joined, and a reader of one's own."""

    def __init__(self, reader):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)
        self.next, self.head, self.grouped = nn.Conv2d(6, 6, 3), nn.Linear(6, 3), nn.Conv2d(6, 6, 3, groups=2)
        self.reader = reader

    def forward(self, x):
        joined = torch.cat((self.a(x), self.b(x)), dim=1)
        return self.head(self.reader(self, joined).mean((2, 3)))


READERS = {
    "relu and pool": (lambda s, x: F.avg_pool2d(F.relu(x), 2), 0),
    "max pool": (lambda s, x: F.relu(F.max_pool2d(x, 2)), 0),
    "scaled": (lambda s, x: F.relu(x * 0.5), 0),
    "convolution": (lambda s, x: F.relu(s.next(x)), 0),
    "joined again": (lambda s, x: F.relu(s.next(torch.cat([x[:, :2], F.relu(x)], 1)[:, 2:])), 2),
    "sum": (lambda s, x: F.relu(x + F.relu(x)), 2),
    "slice": (lambda s, x: F.relu(s.next(x[:, :, ::2, ::2])), 2),
}


def _converted(network, neuron=None):
    torch.manual_seed(3)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return convert(network.eval(), neuron or IF(), Constant(), input_shape=(2, 8, 8))


@pytest.mark.parametrize("name", READERS)
def test_what_reads_joined_channels_computes_the_same(name):
    """``convert`` compares the scores with those of the network itself."""
    reader, padded = READERS[name]
    found = _converted(Reading(reader)).network
    ones = [
        node
        for node in found.synapses
        if node.weight.shape[2:] == (1, 1) and set(node.weight.unique().tolist()) <= {0, 1}
    ]
    assert bool(ones) == bool(padded)


def test_weights_are_split_by_the_channels_they_read():
    network = Reading(lambda s, x: F.relu(s.next(F.relu(x))))
    found = _converted(network).network
    parts = [found.node(f"next_{number}") for number in (0, 1)]
    assert torch.equal(torch.cat([part.weight for part in parts], 1), network.next.weight)
    assert torch.equal(parts[0].bias, network.next.bias)
    assert parts[1].bias is None
    assert [type(found.node(part.source)) for part in parts] == [Neurons, Neurons]


def test_joined_features_go_into_a_dense_layer():
    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = nn.Linear(5, 4), nn.Linear(5, 3), nn.Linear(7, 2)

        def forward(self, x):
            return self.head(torch.concat([F.relu(self.a(x)), F.relu(self.b(x))], -1))

    found = convert(Features().eval(), IF(), Constant(), input_shape=(5,)).network
    assert [type(node) for node in found.nodes[-3:]] == [Synapses, Synapses, Add]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            Reading(lambda s, x: torch.cat([F.relu(x), F.relu(x)], 2)),
            r"cat_1 \(the function cat\).*only signals joined along ch",
        ),
        (Reading(lambda s, x: F.relu(s.grouped(x))), r"grouped \(Conv2d\).*has groups and reads joined signals"),
    ],
)
def test_other_joins_are_refused_by_name(network, message):
    with pytest.raises(UsageError, match=message):
        _converted(network)


@pytest.fixture(scope="module")
def squeeze():
    torch.manual_seed(0)
    x, network = torch.rand(32, 2, 8, 8), Squeeze().eval()
    for layer in (network.first.squeeze, network.second.squeeze):
        nn.init.uniform_(layer.weight, 0.0, 0.5)  # so that no layer is silent
    made = convert(network, IF(signed=True), Constant(), input_shape=(2, 8, 8))
    return balanced(made, Percentile(), x, seed=0).network, x[:3]


def test_a_squeezenet_runs_alike_on_every_path_and_elsewhere(squeeze, tmp_path):
    network, x = squeeze
    assert sum(isinstance(node, Gate) for node in network.nodes) == 2
    trains = []
    for path in ("steps", "dense", "events"):
        trains.append(SpikeRecorder())
        network.run(x, 12, path=path, precision="float64", observers=[trains[-1]])
    for name, train in trains[0].trains.items():
        assert train.any(), name
        assert all(np.array_equal(other.trains[name], train) for other in trains[1:]), name
    again = load_spiking(save_spiking(network, tmp_path / "net.safetensors"))
    assert np.array_equal(again.run(x, 12).scores, network.run(x, 12).scores)
    assert export_torch(network, tmp_path / "net.py", x=x, steps=6).differ == 0


def test_every_connection_of_joined_channels_is_counted_once(squeeze):
    network, x = squeeze
    counts = UnitCounts(network)
    cost = spike_cost(network, network.run(x, 4, observers=[counts]), counts, Prices())
    macs = 0
    for side, inputs, outputs, kernel in [
        (8, 2, 4, 3),
        (8, 4, 3, 1),
        (8, 3, 3, 1),
        (8, 3, 3, 3),
        (4, 6, 3, 1),
        (4, 3, 5, 1),
        (4, 3, 5, 3),
    ]:
        taps = (kernel * side - (kernel - 1)) ** 2  # those that lie in the image
        macs += taps * inputs * outputs
    assert cost.macs == macs + 160 * 3


def test_graded_neurons_read_joined_channels():
    network = Reading(lambda s, x: F.relu(s.next(F.relu(x))))
    found = _converted(network, Graded(5)).network
    assert isinstance(found.neuron, Graded)
