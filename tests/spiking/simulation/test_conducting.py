"""Layers by patterns spike as the reference does; which path is taken; currents that others read too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spiking.networks import SpikeRecorder, weights

from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation import conducting
from weightsmith.spiking.simulation._patterns import pack
from weightsmith.spiking.simulation.conducting import Conductor
from weightsmith.spiking.simulation.values import Values


def _residual(channels, outputs, kernel, stride, *, neuron, dilation=1, side=7, per_unit=False):
    """A convolution between neurons with another one around it, whose sums are exact in single precision."""
    one = Synapses("one", INPUT, weights(channels, 3, 3, 3, seed=1), weights(channels, seed=2), padding=(1, 1))
    reach = dilation * (kernel - 1) // 2
    two = Synapses(
        "two",
        "f1",
        weights(outputs, channels, kernel, kernel, seed=3),
        weights(outputs, seed=4),
        stride=(stride, stride),
        padding=(reach, reach),
        dilation=(dilation, dilation),
    )
    around = Synapses("around", "f1", weights(outputs, channels, 1, 1, seed=5), stride=(stride, stride))
    shape = (outputs, (side - 1) // stride + 1, (side - 1) // stride + 1)
    threshold = torch.full(shape, 0.75) + torch.arange(shape[2]) / 8 if per_unit else torch.full((outputs,), 0.75)
    nodes = (
        one,
        Neurons("f1", "one", torch.full((channels,), 0.5)),
        two,
        around,
        Add("sum", ("two", "around")),
        Neurons("f2", "sum", threshold),
        Scale("scaled", "f2", torch.arange(outputs) / 8 - 0.5),
        Synapses("three", "f2", weights(outputs, outputs, 3, 3, seed=6), padding=(1, 1)),
        Add("sum2", ("scaled", "three")),
        Neurons("f3", "sum2", torch.full((outputs,), 0.5)),
        Flatten("flat", "f3"),
        Synapses("out", "flat", weights(4, outputs * shape[1] * shape[2], seed=7)),
    )
    return SpikingNetwork(nodes, (3, side, side), neuron, Poisson(0.75))


def _spikes(network, path, **options):
    recorder = SpikeRecorder()
    x = torch.rand((3, *network.input_shape), generator=torch.Generator().manual_seed(0)) * 2 - 1
    network.run(x, 9, path=path, observers=[recorder], **options)
    return recorder.trains


LAYERS = st.fixed_dictionaries(
    {
        "channels": st.integers(1, 20),
        "outputs": st.sampled_from([1, 3, 8, 16, 17, 40, 72]),
        "kernel": st.sampled_from([1, 3]),
        "stride": st.integers(1, 2),
        "dilation": st.integers(1, 2),
        "side": st.integers(4, 9),
        "neuron": st.sampled_from([IF(), IF("hard"), IF(signed=True), LIF(0.5), IF(delay=True)]),
        "per_unit": st.booleans(),
    }
)


@settings(max_examples=25, deadline=None)
@given(layers=LAYERS)
def test_patterns_spike_as_the_reference_does(layers):
    network = _residual(**layers)
    expected = _spikes(network, "steps", precision="float64")
    assert expected["f1"].any()
    for precision in ("float32", "float64"):
        for name, train in _spikes(network, "patterns", precision=precision).items():
            assert np.array_equal(train, expected[name]), name


def test_bits_of_spikes_channel_by_channel():
    """Two maps of 1 × 2 positions and nine channels, a border of one: 3 × 4 positions of two bytes."""
    spikes = np.zeros((2, 1, 2, 9), np.int8)
    spikes[0, 0, 0, [0, 3]] = 1
    spikes[0, 0, 1, 8] = 1
    spikes[1, 0, 1, [7, 8]] = -1
    bits = np.zeros((2, 2, 3, 4, 2), np.uint8)
    pack(spikes.reshape(-1), 2, np.array([1, 2, 9, 1, 1]), bits.reshape(-1))
    expected = np.zeros_like(bits)
    expected[0, 0, 1, 1, 0] = 0b1001
    expected[0, 0, 1, 2, 1] = 1
    expected[1, 1, 1, 2] = 0b10000000, 1
    assert np.array_equal(bits, expected)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_bits_of_eight_channels_at_once_are_those_one_by_one(kind):
    generator = np.random.default_rng(0)
    spikes = generator.integers(-1 if kind == np.int8 else 0, 2, (5, 4, 3, 16)).astype(kind)
    planes = 2 if kind == np.int8 else 1
    bits = np.zeros((planes, 5, 6, 3, 2), np.uint8)
    pack(spikes.reshape(-1), 5, np.array([4, 3, 16, 1, 0]), bits.reshape(-1))
    for plane, sign in zip(bits, (1, -1), strict=False):
        expected = np.packbits(spikes == sign, axis=-1, bitorder="little")
        assert np.array_equal(plane[:, 1:-1], expected)
        assert not plane[:, [0, -1]].any()


def test_membranes_before_the_threshold_are_the_same_on_all_paths():
    network = _residual(8, 16, 3, 1, neuron=IF())
    x = torch.rand((3, 3, 7, 7), generator=torch.Generator().manual_seed(0))
    tested = {}
    for path in ("steps", "patterns", "dense"):
        recorder = SpikeRecorder(membranes=True)
        network.run(x, 9, path=path, precision="float64", observers=[recorder])
        tested[path] = recorder.tested
    assert tested["steps"]["f2"].any()
    for name, membranes in tested["steps"].items():
        assert np.array_equal(tested["patterns"][name], membranes)
        assert np.array_equal(tested["dense"][name], membranes)


def _route(network, name, spikes, route="auto", **options):
    kinds = dict.fromkeys([INPUT, *(node.name for node in network.nodes)], np.float32)
    return Conductor(network, kinds, False, route).route(network.node(name), Values(spikes, **options))


def test_the_path_follows_the_spikes():
    network = _residual(16, 16, 3, 1, neuron=IF(), side=16)
    spikes = np.ones((4, 16, 256, 16), np.uint8)
    assert _route(network, "two", spikes) == "patterns"
    assert _route(network, "two", spikes, "events") == "events"
    assert _route(network, "two", spikes, most=4) != "patterns"  # counts of a pool are not bits
    assert _route(network, "two", spikes, "patterns", most=4) == "dense"
    assert _route(network, "two", spikes.astype(np.float32), "patterns") == "dense"
    assert _route(_residual(16, 16, 3, 1, neuron=IF(), side=16, dilation=2), "two", spikes, "patterns") == "dense"


def test_large_tables_are_not_made(monkeypatch):
    network = _residual(16, 16, 3, 1, neuron=IF(), side=16)
    spikes = np.ones((4, 16, 256, 16), np.uint8)
    monkeypatch.setattr(conducting, "_LARGEST", 18 * 257 * 16 * 4)
    assert _route(network, "two", spikes) == "patterns"
    monkeypatch.setattr(conducting, "_LARGEST", 18 * 257 * 16 * 4 - 1)
    assert _route(network, "two", spikes) != "patterns"


def test_currents_with_several_readers_are_computed_once():
    one = Synapses("one", INPUT, weights(8, 3, 3, 3, seed=1), padding=(1, 1))
    nodes = (
        one,
        Neurons("f1", "one", torch.full((8,), 0.5)),
        Synapses("two", "f1", weights(8, 8, 3, 3, seed=2), padding=(1, 1)),
        Neurons("f2", "two", torch.full((8,), 0.5)),
        Add("sum", ("two", "f2")),
        Add("twice", ("sum", "sum")),
        Neurons("f3", "twice", torch.full((8,), 0.5)),
        Synapses("four", "f3", weights(8, 8, 3, 3, seed=4), padding=(1, 1)),
        Add("stream", ("four", "f3")),
        Neurons("f4", "stream", torch.full((8,), 0.5)),
        Add("longer", ("stream", "f4")),
        Neurons("f5", "longer", torch.full((8,), 0.5)),
        Flatten("flat", "f5"),
        Synapses("out", "flat", weights(4, 8 * 49, seed=3)),
    )
    network = SpikingNetwork(nodes, (3, 7, 7), IF(), Constant())
    expected = _spikes(network, "steps", precision="float64")
    for name, train in _spikes(network, "patterns").items():
        assert train.any()
        assert np.array_equal(train, expected[name])
