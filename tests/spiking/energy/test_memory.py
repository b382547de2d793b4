from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.energy.cost import UnitCounts, spike_cost
from weightsmith.spiking.energy.memory import MemoryAccess, access_price, mac_accesses, together
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF


def network_of(encode, neuron):
    """Two inputs that reach three neurons, which reach two outputs; every weight makes every neuron fire."""
    return SpikingNetwork(
        (
            Synapses("one", INPUT, torch.full((3, 2), 2.0)),
            Neurons("relu", "one", torch.ones(3), layer="one"),
            Synapses("two", "relu", torch.ones(2, 3), torch.tensor([0.5, 0.5])),
        ),
        (2,),
        neuron,
        encode,
    )


def accesses(network, steps=4, precision="float32"):
    counts = UnitCounts(network)
    responses = network.run(torch.ones(5, 2), steps, observers=[counts])
    found = spike_cost(network, responses, counts, precision=precision)
    return found, {each.kind: (each.reads, each.writes) for each in found.memory}


def test_prices_are_the_line_through_the_caches_of_horowitz_up_to_dram():
    slope, at_zero = np.polyfit([8192, 32768, 2**20], [10, 20, 100], 1)
    for size in (0, 8192, 10**6):
        assert access_price(size) == pytest.approx(at_zero + slope * size, rel=1e-4)
    assert access_price(2**40) == 1300


def test_a_hand_made_run_of_spikes():
    """Both inputs spike at each of 4 steps (probability 1), and so do the three neurons: 8 spikes in, 12 on."""
    cost, found = accesses(network_of(Poisson(), IF()))
    assert found["weights"] == (8 * 3 + 12 * 2, 0)
    added = 8 * 3 + 12 * 2 + 4 * 2  # two biases at every step
    assert found["membranes"] == (added, added + 12)  # and a reset for each spike
    assert found["events"] == (8 + 12, 12)
    assert found["values"] == (4 * 2 + 4 * 2, 0)  # biases, and pixels drawn from
    expected = 24 * access_price(24) + 24 * access_price(24)  # 6 weights of 4 bytes each
    expected += 48 * access_price(12) + 64 * access_price(8) + 12 * access_price(12)
    expected += 8 * access_price(2 / 8) + 24 * access_price(3 / 8) + 8 * access_price(8) + 8 * access_price(8)
    assert cost.memory_energy == pytest.approx(expected)


def test_a_leak_visits_every_membrane_at_every_step():
    _, still = accesses(network_of(Poisson(), IF()))
    _, leaky = accesses(network_of(Poisson(), LIF(0.99)))
    assert np.subtract(leaky["membranes"], still["membranes"]).tolist() == [4 * 3, 4 * 3]


def test_a_constant_input_is_multiplied_once_and_its_currents_read_at_every_step():
    cost, found = accesses(network_of(Constant(), IF()))
    assert cost.layers[0].multiplies_once == 6
    assert found["weights"] == (6 + 12 * 2, 0)
    assert found["values"] == (2 + 4 * 3 + 4 * 2, 3)  # two pixels, three currents, two biases; the currents written
    assert found["membranes"][0] == 4 * 3 + 12 * 2 + 4 * 2


def test_weights_of_8_bits_lie_in_a_quarter_of_the_memory():
    network = network_of(Poisson(), IF())
    whole, rounded = (
        {each.kind: each.energy for each in accesses(network, precision=precision)[0].memory}
        for precision in ("float32", "int8")
    )
    assert rounded["weights"] == pytest.approx(48 * access_price(6))
    assert {kind for kind in whole if whole[kind] != rounded[kind]} == {"weights"}


def test_a_layer_that_multiplies():
    """A convolution reads a value and a weight for each MAC, a dense layer each value once (Lemaire, eqs. 3, 4, 6)."""
    network = SpikingNetwork(
        (
            Synapses("conv", INPUT, torch.ones(2, 1, 3, 3), torch.ones(2), padding=(1, 1)),
            Neurons("relu", "conv", torch.ones(2)),
            Flatten("flat", "relu"),
            Synapses("out", "flat", torch.ones(3, 32)),
        ),
        (1, 4, 4),
        IF(),
        Constant(),
    )
    conv, out = network.synapses
    weights, entering, leaving = mac_accesses(network, conv, 200, weight_bytes=1, value_bytes=0.5)
    assert weights == MemoryAccess("weights", 200, 0, 200 * access_price(18))
    assert entering == MemoryAccess("values", 200, 0, 200 * access_price(8))
    assert leaving == MemoryAccess("values", 32, 32, 64 * access_price(16))
    _, entering, leaving = mac_accesses(network, out, 96, weight_bytes=4, value_bytes=4)
    assert (entering.reads, leaving.reads, leaving.writes) == (32, 0, 3)
    assert [each.reads for each in together((weights, entering, weights))] == [400, 32]
