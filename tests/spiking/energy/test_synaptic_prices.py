from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.energy.synaptic_prices import synaptic_prices
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.monitors.unit_counts import UnitCounts
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF


def drawn(*shape, seed):
    weight = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    weight[weight.abs() < 0.3] = 0
    return weight


def inputs(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(7))


def watched(network, x, steps=10):
    counts = UnitCounts(network)
    network.run(x, steps, seed=1, observers=[counts])
    return counts


def test_prices_of_a_dense_network_by_hand():
    first, second, last = drawn(5, 4, seed=0), drawn(3, 5, seed=1), drawn(2, 3, seed=2)
    network = SpikingNetwork(
        (
            Synapses("a", INPUT, first),
            Neurons("relu", "a", torch.full((5,), 0.5), layer="a"),
            Synapses("b", "relu", second),
            Neurons("relu_1", "b", torch.full((3,), 0.5)),
            Synapses("c", "relu_1", last),
        ),
        (4,),
        IF(),
        Poisson(),
    )
    counts = watched(network, inputs(8, 4))
    fed, one, two = (counts.units(name)[0] / 8 for name in (INPUT, "relu", "relu_1"))
    connected = [(weight != 0).numpy().astype(float) for weight in (first, second, last)]
    found = synaptic_prices(network, counts)
    assert list(found) == ["a", "relu_1"]
    assert np.allclose(found["a"], connected[0] @ fed + connected[1].sum(axis=0) * one, rtol=1e-6)
    assert np.allclose(found["relu_1"], connected[1] @ one + connected[2].sum(axis=0) * two, rtol=1e-6)
    assert one.min() >= 0 < one.max()


def conv_net(pooling=Pool, encode=None):
    return SpikingNetwork(
        (
            Synapses("a", INPUT, drawn(4, 2, 3, 3, seed=0), padding=(1, 1)),
            Pool("early", "a", (2, 2), (1, 1)),
            Neurons("one", "early", torch.full((4,), 0.6), layer="a"),
            pooling("pool", "one", (2, 2), (2, 2)),
            Synapses("b", "pool", drawn(4, 2, 2, 2, seed=1), groups=2, padding=(1, 1)),
            Scale("scaled", "pool", torch.tensor([1.0, 0.0, 0.5, 0.5])),
            Synapses("same", "scaled", drawn(4, 4, 2, 2, seed=3), padding=(1, 1)),
            Add("sum", ("b", "same")),
            Neurons("two", "sum", torch.full((4,), 0.6), layer="b"),
            Flatten("flat", "two"),
            Synapses("out", "flat", drawn(3, 36, seed=2)),
        ),
        (2, 5, 5),
        IF(),
        encode or Poisson(),
    )


def without(network, changes):
    """The network with some weights set to zero: (layer, axis, channels)."""
    nodes = []
    for name, axis, channels in changes:
        node = network.node(name)
        weight = node.weight.clone()
        weight.index_fill_(axis, torch.tensor(channels), 0)
        nodes.append(Synapses(name, node.source, weight, None, node.stride, node.padding, node.dilation, node.groups))
    return network.replaced(nodes)


def accumulates(network, counts):
    """All accumulates of an image for the counted spikes, by the reaches of ``network``."""
    reaches = UnitCounts(network).landings
    return sum((counts.units(root) * reach).sum() for item in reaches for root, reach in item.reach.items()) / 6


@pytest.mark.parametrize("pooling", [Pool, Gate])
def test_the_price_of_a_channel_is_what_falls_away_with_it(pooling):
    network = conv_net(pooling)
    counts = watched(network, inputs(6, 2, 5, 5))
    found = synaptic_prices(network, counts)
    whole = accumulates(network, counts)
    for channel in range(4):
        inside = [("a", 0, [channel]), ("same", 1, [channel])]
        smaller = without(network, inside)
        # Grouped weights are addressed within their group.
        node = smaller.node("b")
        weight = node.weight.clone()
        weight[channel // 2 * 2 : channel // 2 * 2 + 2, channel % 2] = 0
        smaller = smaller.replaced([Synapses("b", "pool", weight, None, (1, 1), (1, 1), groups=2)])
        assert found["a"][channel] == pytest.approx(whole - accumulates(smaller, counts), rel=1e-6)
        features = list(range(9 * channel, 9 * channel + 9))
        smaller = without(network, [("b", 0, [channel]), ("same", 0, [channel]), ("out", 1, features)])
        assert found["b"][channel] == pytest.approx(whole - accumulates(smaller, counts), rel=1e-6)
    assert found["a"].min() > 0


def test_direct_spikes_are_in_the_price_of_both_ends():
    network = SpikingNetwork(
        (
            Synapses("a", INPUT, torch.ones(2, 3)),
            Neurons("one", "a", torch.ones(2), layer="a"),
            Scale("more", "one", torch.tensor([2.0, 3.0])),
            Neurons("two", "more", torch.ones(2), layer="b"),
            Synapses("out", "two", torch.ones(4, 2)),
        ),
        (3,),
        IF(),
        Constant(),
    )
    counts = watched(network, inputs(5, 3))
    one, two = counts.units("one")[0] / 5, counts.units("two")[0] / 5
    found = synaptic_prices(network, counts)
    assert np.allclose(found["a"], one)  # a constant input is not accumulated
    assert np.allclose(found["b"], one + 4 * two)


def test_populations_of_one_layer_are_added_up():
    network = conv_net()
    shared = network.replaced([Neurons("two", "sum", torch.full((4,), 0.6), layer="a")])
    apart, together = (synaptic_prices(net, watched(net, torch.ones(2, 2, 5, 5))) for net in (network, shared))
    assert list(together) == ["a"]
    assert np.allclose(together["a"], apart["a"] + apart["b"])


def test_channels_flattened_before_they_fire_keep_their_accumulates():
    network = SpikingNetwork(
        (
            Synapses("a", INPUT, torch.ones(2, 1, 2, 2)),
            Flatten("flat", "a"),
            Neurons("one", "flat", torch.ones(8), layer="a"),
            Synapses("out", "one", torch.ones(1, 8)),
        ),
        (1, 3, 3),
        IF(),
        Poisson(),
    )
    counts = UnitCounts(network)
    fired = np.random.default_rng(0).integers(0, 2, (4, 10, 9), np.uint8)
    counts.see(INPUT, np.arange(4), 0, fired[..., None], None)
    counts.see("one", np.arange(4), 0, fired[:, :, None, :8], None)
    fed = torch.from_numpy(counts.units(INPUT) / 4).T.reshape(1, 1, 3, 3)
    landed = functional.conv2d(fed, torch.ones(2, 1, 2, 2, dtype=torch.float64)).flatten().numpy()
    assert np.allclose(synaptic_prices(network, counts)["a"], landed + counts.units("one")[0] / 4)


def test_nothing_counted_is_refused():
    with pytest.raises(UsageError, match="no spikes were counted"):
        synaptic_prices(conv_net(), UnitCounts(conv_net()))
