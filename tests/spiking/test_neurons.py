from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.spiking.networks import NEURONS, SpikeRecorder, chain

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Neurons, Synapses
from weightsmith.spiking.neurons import IF, LIF, Devices, Mismatch, Neuron


def _by_hand(current, steps, threshold, neuron):
    """Spikes and tested membranes of one neuron, with Python's own numbers."""
    v, spikes, tested = 0.0, [], []
    for _ in range(steps):
        if neuron.delay:
            fires = v > threshold
            tested.append(v)
            kept = 0.0 if fires and neuron.reset == "hard" else v
            v = neuron.leak * kept + current - (threshold if fires and neuron.reset == "soft" else 0.0)
        else:
            v = neuron.leak * v + current
            fires = v > threshold
            tested.append(v)
            if fires:
                v = v - threshold if neuron.reset == "soft" else 0.0
        spikes.append(int(fires))
    return spikes, tested


@pytest.mark.parametrize("path", ["auto", "steps"])
@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_a_step_is_what_the_formula_says(neuron, path):
    currents, threshold = [0.3, -0.2, 0.75, 1.7, 1.0, 2.5, 0.01], 1.1
    nodes = [
        Neurons("n", INPUT, torch.full((7,), threshold, dtype=torch.float64)),
        Synapses("o", "n", torch.eye(7)),
    ]
    found, recorder = chain(nodes, (7,), neuron=neuron, encode=Constant()), SpikeRecorder(membranes=True)
    x = torch.tensor([currents])
    found.run(x, 25, precision="float64", path=path, observers=[recorder])
    for unit in range(7):
        spikes, tested = _by_hand(float(x[0, unit]), 25, threshold, neuron)
        assert recorder.trains["n"][0, :, 0, unit].tolist() == spikes
        assert recorder.tested["n"][0, :, 0, unit].tolist() == tested


def test_the_rate_is_the_current_through_the_threshold():
    """Soft reset without leak: after T steps the spikes are ⌈T·I/θ⌉ − 1 or so, never off by more than one."""
    x = torch.arange(1, 65)[None] / 64
    found = chain([Neurons("n", INPUT, torch.ones(64)), Synapses("o", "n", torch.eye(64))], (64,), encode=Constant())
    got = found.run(x, 1000)
    assert np.abs(got.scores - 1000 * x.numpy()).max() <= 1


def test_a_membrane_at_its_threshold_does_not_fire():
    found = chain([Neurons("n", INPUT, torch.ones(2)), Synapses("o", "n", torch.eye(2))], (2,), encode=Constant())
    assert found.run(torch.tensor([[1.0, 0.5]]), 2).scores.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "neuron"),
    [
        ("if", IF()),
        ("if:hard", IF(reset="hard")),
        ("lif:0.95,reset=hard", LIF(0.95, reset="hard")),
        ("lif:1,delay=true", LIF(1.0, delay=True)),
    ],
)
def test_text_forms(text, neuron):
    assert Neuron.parse(text) == neuron
    assert Neuron.parse(str(neuron)) == neuron


def test_leaks():
    assert IF().leak == 1.0
    assert LIF(0.5).leak == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lif:0", r"leak must be > 0"),
        ("lif:1.1", r"leak must be > 0 and ≤ 1|≤ 1"),
        ("lif:nan", "leak"),
        ("lif", "leak"),
        ("lif:0.9,reset=sharp", "reset"),
        ("izhikevich", "izhikevich"),
    ],
)
def test_neurons_that_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        Neuron.parse(text)


def test_mismatch_option():
    assert Devices.parse("mismatch:0.1,leak=0.2") == Mismatch(threshold=0.1, leak=0.2)
    for bad in ("mismatch:-0.1", "mismatch:leak=2"):
        with pytest.raises(OptionError, match="must be"):
            Devices.parse(bad)
