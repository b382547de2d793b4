from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spiking.networks import NEURONS, SIGNED, SpikeRecorder, chain

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Flatten, Gate, Neurons, Scale, Synapses
from weightsmith.spiking.neurons import IF, LIF, Devices, Graded, Mismatch, Neuron
from weightsmith.spiking.simulation.chunked import ChunkEngine
from weightsmith.spiking.simulation.reference import Stepper
from weightsmith.spiking.simulation.sources import source_of


def _by_hand(current, steps, threshold, neuron):
    """Spikes and tested membranes of one neuron, with Python's own numbers."""
    v, n, spikes, tested = 0.0, 0, [], []
    for step in range(steps):
        if neuron.signed:
            v += current if isinstance(current, float) else current[step]
            tested.append(v)
            fires = 1 if v > threshold else -1 if v < 0 and n > 0 else 0
            v, n = v - fires * threshold, n + fires
        elif neuron.delay:
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
@pytest.mark.parametrize("neuron", [*NEURONS, SIGNED], ids=str)
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


def _graded_by_hand(currents, threshold, sizes):
    """Spikes of one graded neuron as signed powers of two of a threshold, by the formula with its logarithm."""
    z, m, spikes = 0.0, 0.0, []
    for current in currents:
        z += current
        e = (max(z, 0.0) - m) / threshold
        if abs(e) < 0.5 * 2.0 ** -(sizes - 1):
            spikes.append(0.0)
            continue
        size = 2.0 ** min(0, max(-(sizes - 1), math.floor(math.log2(abs(e) / 0.75))))
        spikes.append(math.copysign(size, e))
        m += spikes[-1] * threshold
    return spikes


@pytest.mark.parametrize("sizes", [1, 2, 5, 7])
@pytest.mark.parametrize("path", ["auto", "steps"])
def test_a_graded_neuron_sends_the_nearest_size_of_what_is_missing(sizes, path):
    generator = np.random.default_rng(sizes)
    currents = np.round(generator.normal(0, 0.6, (40, 9)) * 64) / 64
    nodes = [Neurons("n", INPUT, torch.full((40,), 0.75)), Synapses("o", "n", torch.eye(40))]
    found = chain(nodes, (40,), neuron=Graded(sizes), encode=Constant())
    stepper = Stepper(found, torch.float64)
    state, sent = stepper.begin(1), []
    node = found.populations[0]
    if path == "steps":
        sent = [stepper._fire(node, state, torch.from_numpy(currents[:, step])[None])[0][0] for step in range(9)]
        got = torch.stack(sent, dim=1).numpy()
    else:
        # The engine reads the currents of a population's source where they are given.
        scaled = [Scale("s", INPUT, torch.ones(40)), dataclasses.replace(node, source="s"), nodes[1]]
        given = chain(scaled, (40,), neuron=Graded(sizes), encode=Constant())
        engine = ChunkEngine(given, source_of(given, torch.zeros(1, 40), 0, 0), "float64", 9)
        engine.begin(np.arange(1))
        values = engine.compute("n", 0, 9, {"s": currents.T[None, :, None]})
        assert values.data.dtype == np.int8
        got = values.floats(np.float64)[0, :, 0].T
    expected = np.array([_graded_by_hand(row, 0.75, sizes) for row in currents.tolist()])
    assert np.array_equal(got, expected)
    assert (expected < 0).any()
    assert len(np.unique(np.abs(expected))) == sizes + 1


def test_graded_neurons_get_biases_and_inputs_once():
    """The sum of what is sent comes to the activation and stays there, however many steps follow."""
    nodes = [
        Synapses("a", INPUT, torch.eye(3), torch.tensor([0.25, 0.5, -2.0])),
        Neurons("n", "a", torch.ones(3)),
        Synapses("o", "n", torch.eye(3), torch.tensor([1.0, 0.0, 0.0])),
    ]
    found = chain(nodes, (3,), neuron=Graded(7), encode=Constant())
    x = torch.tensor([[0.5, -0.25, 1.0]])
    for path in ("auto", "steps"):
        assert np.abs(found.run(x, 30, path=path).scores - [[1.75, 0.25, 0.0]]).max() <= 0.5 / 64
        assert found.run(x, 30, path=path).spikes() == found.run(x, 6, path=path).spikes()


@pytest.mark.parametrize("path", ["auto", "steps"])
def test_a_signed_neuron_takes_back_what_later_input_shows_to_be_too_much(path):
    """Its inhibition comes two steps late: a plain neuron has fired by then and can never say zero again.

    By hand: v = 2 (+1), 2.5 (+1), −3 (−1), −0.5 (−1), 2 (+1), −3.5 (−1).
    """
    nodes = [
        Neurons("first", INPUT, torch.tensor([1.0, 2.5])),
        Synapses("a", "first", torch.tensor([[1.5, -6.0]])),
        Neurons("second", "a", torch.ones(1), start=0.5),
        Synapses("o", "second", torch.ones(1, 1)),
    ]
    x = torch.tensor([[1.25, 1.0]])  # one fires at every step, the other at steps 3 and 6
    plain = chain(nodes, (2,), encode=Constant()).run(x, 6, path=path)
    signed = chain(nodes, (2,), neuron=SIGNED, encode=Constant())
    recorder = SpikeRecorder()
    assert signed.run(x, 6, path=path, observers=[recorder]).scores.tolist() == [[0.0]]
    assert recorder.trains["second"].reshape(-1).tolist() == [1, 1, -1, -1, 1, -1]
    assert plain.scores.tolist() == [[2.0]]


@given(st.lists(st.integers(-200, 200), min_size=1, max_size=30))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_signed_sums_are_never_negative_and_follow_the_input(currents):
    """Once input has stopped, the sum of the spikes becomes the input's sum in thresholds, rounded, or zero."""
    total = sum(currents) / 64
    spikes, tested = _by_hand([current / 64 for current in currents] + [0.0] * 200, len(currents) + 200, 1.0, SIGNED)
    sums = np.cumsum(spikes)
    assert sums.min() >= 0
    assert sums[-1] in (max(0, math.ceil(total) - 1), max(0, math.floor(total)))
    assert len(tested) == len(spikes)


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
        ("if:signed=true", IF(signed=True)),
        ("graded:4", Graded(4)),
    ],
)
def test_text_forms(text, neuron):
    assert Neuron.parse(text) == neuron
    assert Neuron.parse(str(neuron)) == neuron


def test_what_an_event_carries():
    """A sign, and for K sizes the number of the size: log₂ K bits, rounded up."""
    assert [IF().payload_bits, LIF(0.9).payload_bits, SIGNED.payload_bits] == [0, 0, 1]
    assert [Graded(sizes).payload_bits for sizes in range(1, 8)] == [1, 2, 3, 3, 4, 4, 4]
    assert [Graded(sizes).largest for sizes in (1, 5, 7)] == [1, 16, 64]


def test_what_graded_neurons_refuse():
    nodes = [
        Synapses("c", INPUT, torch.ones(2, 1, 1, 1)),
        Neurons("n", "c", torch.ones(2)),
        Gate("g", "n", (2, 2), (2, 2)),
        Flatten("f", "g"),
        Synapses("o", "f", torch.ones(2, 8)),
    ]
    with pytest.raises(UsageError, match=r"g: max pooling of graded spikes.*if:signed=true"):
        chain(nodes, (1, 4, 4), neuron=Graded(5), encode=Constant())
    with pytest.raises(UsageError, match=r"graded:5 reads the input once.*encode=constant"):
        chain(nodes, (1, 4, 4), neuron=Graded(5))
    plain = chain([Neurons("n", INPUT, torch.ones(2)), Synapses("o", "n", torch.eye(2))], (2,), encode=Constant())
    with pytest.raises(UsageError, match="graded:5: spikes of several sizes run on the dense path"):
        plain.with_neuron(Graded(5)).run(torch.ones(1, 2), 2, path="events")


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
        ("if:signed=true,reset=hard", "signed=true needs a soft reset without delay, not reset=hard"),
        ("if:signed=true,delay=true", "signed=true needs a soft reset without delay, not delay=true"),
        ("lif:0.9,signed=true", "signed"),
        ("graded", "sizes"),
        ("graded:0", "sizes must be ≥ 1"),
        ("graded:8", "sizes must be ≤ 7"),
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
