from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional

from weightsmith.networks.card import Card
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.energy.memory import mac_accesses
from weightsmith.spiking.energy.rivals import Rival, active_macs, connections, rivals_of
from weightsmith.spiking.graph import INPUT, Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF


def module(pooling=nn.AvgPool2d):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, stride=2),
        nn.ReLU(),
        pooling(2),
        nn.Conv2d(4, 3, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12, 5),
    )


def rows(images=70):
    x = torch.randn(images, 2, 8, 8, generator=torch.Generator().manual_seed(1))
    return x * (x.abs() > 0.5)


@pytest.mark.parametrize("pooling", [nn.AvgPool2d, nn.MaxPool2d])
def test_macs_with_an_activation_that_is_not_zero_are_counted_place_by_place(pooling):
    net, x = module(pooling), rows()
    found = active_macs(convert(net, IF(), Constant(), input_shape=(2, 8, 8)).network, x)
    entering, totals = x, {}
    for name, layer in net.named_children():
        if isinstance(layer, nn.Conv2d):
            kept = torch.ones_like(layer.weight)
            stride, padding = layer.stride, layer.padding
            totals[name] = float(functional.conv2d((entering != 0).float(), kept, None, stride, padding).sum())
        elif isinstance(layer, nn.Linear):
            totals[name] = float((entering != 0).sum() * layer.out_features)
        entering = layer(entering)
    assert list(found.values()) == pytest.approx([total / 70 for total in totals.values()])
    assert 0.2 < sum(found.values()) / (16 * 4 * 2 * 9) < 1


def test_rivals_by_hand():
    """Two inputs, one of which is always zero in half of the rows, into two ReLUs of which one is dead."""
    network = SpikingNetwork(
        (
            Synapses("one", INPUT, torch.tensor([[1.0, 1.0], [-1.0, -1.0]])),
            Neurons("relu", "one", torch.ones(2)),
            Synapses("two", "relu", torch.ones(3, 2)),
        ),
        (2,),
        IF(),
        Constant(),
        Card(),
    )
    x = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    found = {rival.name: rival for rival in rivals_of(network, x, levels=9)}
    assert list(found) == ["float32", "int8", "int8, zeros skipped", "4 bits", "4 bits, zeros skipped"]
    every, active = 4 + 6, (4 + 2) / 2 + 3
    assert [(each.bits, each.macs, each.rows) for each in found.values()] == [
        (32, every, None), (8, every, None), (8, active, 2), (4, every, None), (4, active, 2)
    ]  # fmt: skip
    assert [each.energy for each in found.values()] == pytest.approx(
        [4.6 * every, 0.23 * every, 0.23 * active, 0.13 * every, 0.13 * active]
    )
    accesses = [
        each.energy
        for node, macs in zip(network.synapses, (4, 6), strict=True)
        for each in mac_accesses(network, node, macs, weight_bytes=4, value_bytes=4)
    ]
    assert found["float32"].memory == pytest.approx(sum(accesses))
    assert found["float32"].memory > found["int8"].memory > found["int8, zeros skipped"].memory
    assert Rival.from_json(found["4 bits"].to_json()) == found["4 bits"]


@pytest.mark.parametrize(("levels", "names"), [(2, "1 bit"), (3, "2 bits"), (5, "3 bits"), (65, "7 bits")])
def test_bits_are_enough_for_the_levels(levels, names):
    network = convert(module(), IF(), Constant(), input_shape=(2, 8, 8)).network
    assert rivals_of(network, rows(2), levels)[3].name == names
    assert IF().levels(64) == 65


def test_with_8_bits_and_more_the_int8_network_is_that_rival():
    network = convert(module(), IF(), Constant(), input_shape=(2, 8, 8)).network
    assert [rival.bits for rival in rivals_of(network, rows(2), 250)] == [32, 8, 8]


def test_inputs_in_8_bits_are_read_as_the_network_reads_them():
    """A bias decides which activations are zero: inputs in another unit would give other counts."""
    x = torch.tensor([[0.5], [1.5], [-1.5]])
    nodes = (
        Synapses("one", INPUT, torch.ones(1, 1) / 4, torch.tensor([-0.25])),  # whole inputs are in quarters: 2, 6, −6
        Neurons("relu", "one", torch.ones(1)),
        Synapses("out", "relu", torch.ones(2, 1)),
    )
    whole = SpikingNetwork(nodes, (1,), IF(), Constant(step=0.25))
    assert active_macs(whole, x) == {"one": 1.0, "out": pytest.approx(2 * 2 / 3)}
    assert active_macs(dataclasses.replace(whole, encode=Constant()), x)["out"] == pytest.approx(2 / 3)


def test_a_layer_that_copies_multiplies_nothing():
    network = SpikingNetwork(
        (
            Synapses("copy", INPUT, torch.eye(3)),
            Neurons("relu", "copy", torch.ones(3)),
            Synapses("out", "relu", torch.ones(2, 3)),
        ),
        (3,),
        IF(),
        Constant(),
    )
    assert connections(network, network.synapses[0]) == (0, 0)
    assert [rival.macs for rival in rivals_of(network, torch.ones(4, 3), 4)] == [6.0] * 5
