from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weightsmith.core.errors import DataMismatch, UnknownName
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg
from weightsmith.spiking.conversion.amplitudes import with_amplitudes
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation.reference import Stepper


def spikes_of_a_size(network, amplitudes, x, steps):
    """The outputs of every step if neurons give spikes of the size of their amplitude: nothing is folded."""
    membranes, counts, outputs = {}, {}, []
    for _ in range(steps):
        values = {INPUT: torch.einsum("nc...,c->nc...", x, amplitudes.get(INPUT, torch.ones(x.shape[1]).double()))}
        for node in network.nodes:
            entering = [values[name] for name in node.sources]
            match node:
                case Synapses() if node.weight.dim() == 2:
                    value = F.linear(entering[0], node.weight, node.bias)
                case Synapses():
                    value = F.conv2d(entering[0], node.weight, node.bias, node.stride, node.padding, 1, node.groups)
                case Pool():
                    value = F.avg_pool2d(entering[0], node.kernel, node.stride, node.padding)
                case Gate():
                    counts[node.name] = counts.get(node.name, 0) + (entering[0] != 0).double()
                    _, best = F.max_pool2d(counts[node.name], node.kernel, node.stride, return_indices=True)
                    value = entering[0].flatten(2).gather(2, best.flatten(2)).reshape(best.shape)
                case Flatten():
                    value = entering[0].flatten(1)
                case Scale():
                    value = torch.einsum("nc...,c->nc...", entering[0], node.factor)
                case Add():
                    value = sum(entering)
                case Neurons():
                    membrane = membranes.get(node.name, 0) * network.neuron.leak + entering[0]
                    fired = (membrane > 1).double()
                    membranes[node.name] = membrane - fired
                    size = amplitudes.get(node.name, torch.ones(fired.shape[1]).double())
                    value = torch.einsum("nc...,c->nc...", fired, size)
            values[node.name] = value
        outputs.append(value)
    return torch.stack(outputs)


def on_a_grid(values, bits=4):
    """Values with few bits behind the point: all sums of them are exact, whatever their order."""
    return torch.round(values.double() * 2**bits) / 2**bits


def exact(network, seed):
    """The network with weights on a grid, in float64, large enough for its neurons to fire."""
    generator = torch.Generator().manual_seed(seed)

    def moved(node):
        if isinstance(node, Synapses):
            weight = on_a_grid(torch.randn(node.weight.shape, generator=generator))
            bias = None if node.bias is None else on_a_grid(torch.rand(node.bias.shape, generator=generator))
            return dataclasses.replace(node, weight=weight, bias=bias)
        return dataclasses.replace(node, factor=on_a_grid(node.factor)) if isinstance(node, Scale) else node

    return dataclasses.replace(network, nodes=tuple(map(moved, network.nodes)))


class Everything(nn.Module):
    """Groups, gates, pools, factors, shortcuts with and without weights, a ReLU right behind a pool."""

    def __init__(self, spikes_last):
        super().__init__()
        self.stem, self.grouped = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1, groups=2)
        self.deep, self.wide = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 4, 1)
        self.dense, self.head, self.spikes_last = nn.Linear(16, 4), nn.Linear(4, 3), spikes_last

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(F.max_pool2d(self.grouped(x), 2)) * 0.5
        x = F.relu(self.deep(x) + x)
        x = F.relu(F.avg_pool2d(x, 2) + F.max_pool2d(x, 2))
        y = self.wide(x).relu()
        if self.spikes_last:
            return y.mean((2, 3))
        z = F.relu(self.dense(y.flatten(1)))
        return self.head(F.relu(z + z))


@pytest.mark.parametrize("spikes_last", [False, True])
@pytest.mark.parametrize("neuron", [IF(), LIF(0.5)])
@pytest.mark.parametrize("seed", range(3))
def test_folded_amplitudes_act_like_spikes_of_that_size(spikes_last, neuron, seed):
    network = exact(convert(Everything(spikes_last), neuron, Constant(), input_shape=(2, 8, 8)).network, seed)
    generator = torch.Generator().manual_seed(seed)
    names = [INPUT, *(node.name for node in network.populations)]
    names.remove("relu_2")  # one that keeps its size
    amplitudes = {
        name: torch.randint(1, 13, (network.shapes[name][0],), generator=generator).double() / 4 for name in names
    }
    folded = with_amplitudes(network, amplitudes)
    x = on_a_grid(torch.rand(4, 2, 8, 8, generator=generator))
    expected = spikes_of_a_size(network, amplitudes, x, 12)
    stepper = Stepper(folded, torch.float64)
    state = stepper.begin(len(x))
    found = torch.stack([stepper.step(state, x)[0][folded.nodes[-1].name] for _ in range(12)])
    assert torch.equal(found, expected)
    assert float(expected.abs().sum()) > 0
    for node in folded.populations:
        assert (node.amplitude is None) == (node.name not in amplitudes)
        assert node.amplitude is None or torch.equal(node.amplitude, amplitudes[node.name])


def test_ones_change_nothing_and_amplitudes_multiply():
    network = convert(resnet(8, (3, 8, 8), 4, widths=(2, 3, 4)), IF(), Constant()).network
    ones = {node.name: torch.ones(network.shapes[node.name][0]) for node in network.populations}
    same = with_amplitudes(network, ones)
    assert [node.name for node in same.nodes] == [node.name for node in network.nodes]
    assert all(torch.equal(a.weight, b.weight) for a, b in zip(same.synapses, network.synapses, strict=True))
    twos = {name: 2 * values for name, values in ones.items()}
    fours = {name: 4 * values for name, values in ones.items()}
    twice, once = with_amplitudes(with_amplitudes(network, twos), twos), with_amplitudes(network, fours)
    assert [node.name for node in twice.nodes] == [node.name for node in once.nodes]
    for a, b in zip(twice.nodes, once.nodes, strict=True):
        for field in ("weight", "factor", "amplitude"):
            if getattr(a, field, None) is not None:
                assert torch.equal(getattr(a, field), getattr(b, field))


def test_new_scales_stand_where_spikes_are_added():
    network = convert(resnet(8, (3, 8, 8), 4, widths=(2, 3, 4)), IF(), Constant()).network
    worth = {node.name: torch.arange(1.0, network.shapes[node.name][0] + 1) for node in network.populations}
    folded = with_amplitudes(network, worth)
    new = {node.name for node in folded.nodes} - {node.name for node in network.nodes}
    assert new == {"activation*scale"}  # other shortcuts have weights, and the mean leads to a dense layer
    head, before = folded.node("fc"), network.node("fc")
    assert torch.allclose(head.weight, before.weight * worth["layer3.0.activation2"])
    assert torch.equal(folded.node("activation*scale").factor, worth["activation"])
    assert torch.equal(network.node("fc").weight, before.weight)


def test_what_does_not_fit_is_refused():
    network = convert(vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,)), IF(), Constant()).network
    with pytest.raises(UnknownName, match="unknown population 'features.0'"):
        with_amplitudes(network, {"features.0": torch.ones(4)})
    for bad in (torch.ones(3), torch.zeros(4), torch.tensor([1.0, 1, 1, float("inf")]), torch.tensor([1.0, 1, 1, -1])):
        with pytest.raises(DataMismatch, match=r"features\.1: amplitudes must be 4 positive numbers"):
            with_amplitudes(network, {"features.1": bad})
