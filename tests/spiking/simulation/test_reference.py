from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.spiking.networks import KINDS, NEURONS, SIGNED, SpikeRecorder, chain, inputs, network
from torch.nn.functional import conv2d

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.neurons import LIF
from weightsmith.spiking.simulation import reference as stepping
from weightsmith.spiking.simulation.reference import StepEngine, Stepper, convolved
from weightsmith.spiking.simulation.sources import source_of


class _Slow:
    """One image through a network, one value after the other: nothing but loops and sums."""

    def __init__(self, found):
        self.found, self.membranes, self.counts, self.sent = found, {}, {}, {}
        for node in found.nodes:
            if isinstance(node, Neurons):
                shape = found.shapes[node.name]
                self.membranes[node.name] = node.start * _per_unit(node.threshold, shape)
            elif isinstance(node, Gate):
                self.counts[node.name] = np.zeros(found.shapes[node.source])

    def step(self, image):
        values = {INPUT: image}
        for node in self.found.nodes:
            shape, before = self.found.shapes[node.name], values[node.sources[0]]
            match node:
                case Neurons():
                    values[node.name] = self._fire(node, before, shape)
                case Gate():
                    last = self.counts[node.name].copy()
                    self.counts[node.name] += before
                    values[node.name] = _gate(node, before, self.counts[node.name], shape)
                    if self.found.neuron.signed:
                        largest = [_largest(node, counts, shape) for counts in (self.counts[node.name], last)]
                        values[node.name] = largest[0] - largest[1]
                case Pool():
                    values[node.name] = _pool(node, before, shape)
                case Synapses():
                    values[node.name] = _dense(node, before) if node.dense else _convolved(node, before, shape)
                case Flatten():
                    values[node.name] = before.reshape(-1)
                case Scale():
                    values[node.name] = before * _per_unit(node.factor, shape)
                case Add():
                    values[node.name] = sum(values[name] for name in node.sources)
        return values

    def _fire(self, node, current, shape):
        neuron, threshold = self.found.neuron, _per_unit(node.threshold, shape)
        leak = neuron.leak if node.leak is None else _per_unit(node.leak, shape)
        v = self.membranes[node.name]
        if not neuron.delay:
            v = leak * v + current
        if neuron.signed:
            sent = self.sent.setdefault(node.name, np.zeros(shape))
            signs = np.where(v > threshold, 1.0, np.where((v < 0) & (sent > 0), -1.0, 0.0))
            sent += signs
            self.membranes[node.name] = v - threshold * signs
            return signs
        fires = v > threshold
        if neuron.delay:
            v = leak * (v * ~fires if neuron.reset == "hard" else v) + current
        elif neuron.reset == "hard":
            v = v * ~fires
        self.membranes[node.name] = v - threshold * fires if neuron.reset == "soft" else v
        return fires.astype(float)


def _per_unit(values, shape):
    array = values.double().numpy()
    return np.broadcast_to(array.reshape(array.shape + (1,) * (len(shape) - array.ndim)), shape).copy()


def _dense(node, before):
    bias = np.zeros(len(node.weight)) if node.bias is None else node.bias.double().numpy()
    return bias + (node.weight.double().numpy() * before).sum(axis=1)


def _convolved(node, before, shape):
    weight, out = node.weight.double().numpy(), np.zeros(shape)
    inside, outside = weight.shape[1], len(weight) // node.groups
    for unit, row, column in itertools.product(*map(range, shape)):
        total = 0.0 if node.bias is None else float(node.bias[unit])
        for channel, j, i in itertools.product(range(inside), *map(range, weight.shape[2:])):
            y = row * node.stride[0] - node.padding[0] + j * node.dilation[0]
            x = column * node.stride[1] - node.padding[1] + i * node.dilation[1]
            if 0 <= y < before.shape[1] and 0 <= x < before.shape[2]:
                total += weight[unit, channel, j, i] * before[unit // outside * inside + channel, y, x]
        out[unit, row, column] = total
    return out


def _window(node, before, row, column):
    for j, i in itertools.product(*map(range, node.kernel)):
        y, x = row * node.stride[0] - node.padding[0] + j, column * node.stride[1] - node.padding[1] + i
        if 0 <= y < before.shape[1] and 0 <= x < before.shape[2]:
            yield y, x


def _pool(node, before, shape):
    out = np.zeros(shape)
    for unit, row, column in itertools.product(*map(range, shape)):
        out[unit, row, column] = sum(before[unit, y, x] for y, x in _window(node, before, row, column))
    return out / math.prod(node.kernel) if node.average else out


def _gate(node, spikes, counts, shape):
    out = np.zeros(shape)
    for unit, row, column in itertools.product(*map(range, shape)):
        y, x = max(_window(node, spikes, row, column), key=lambda at: counts[unit, at[0], at[1]])
        out[unit, row, column] = spikes[unit, y, x]
    return out


def _largest(node, counts, shape):
    out = np.zeros(shape)
    for unit, row, column in itertools.product(*map(range, shape)):
        out[unit, row, column] = max(counts[unit, y, x] for y, x in _window(node, counts, row, column))
    return out


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("wide mlp", "eights")])
def test_every_value_of_every_node_by_loops(kind):
    steps = 4
    for neuron in (*NEURONS[:: 1 if kind in ("mlp", "flattened") else 5], SIGNED):
        found = network(kind, neuron)
        x = inputs(found, 1)
        source, stepper, slow = source_of(found, x, 1, 0), Stepper(found, torch.float64), _Slow(found)
        state = stepper.begin(1)
        for step in range(steps):
            entering = source.step(slice(None), step)
            values, _ = stepper.step(state, entering)
            expected = slow.step(entering[0].double().numpy())
            assert set(values) == set(expected)
            for name, value in expected.items():
                assert np.array_equal(values[name][0].numpy(), value), (name, step)
        for name, membranes in slow.membranes.items():
            assert np.array_equal(state.membranes[name][0].numpy(), membranes)


def test_nothing_but_the_state_changes():
    found = network("gates")
    stepper, x = Stepper(found), inputs(found)
    one, other = stepper.begin(3), stepper.begin(3)
    for _ in range(3):
        stepper.step(one, x)
    values, tested = stepper.step(other, x)
    again, _ = Stepper(found).step(Stepper(found).begin(3), x)
    assert all(torch.equal(values[name], again[name]) for name in again)
    assert not torch.equal(one.membranes["relu1"], other.membranes["relu1"])
    assert torch.equal(tested["relu1"], values["conv1"])


def test_membranes_are_shown_as_they_are_tested():
    for neuron in NEURONS:
        found = network("units", neuron)
        stepper, state, x = Stepper(found, torch.float64), Stepper(found, torch.float64).begin(3), inputs(found)
        for _ in range(5):
            before = {name: value.clone() for name, value in state.membranes.items()}
            values, tested = stepper.step(state, x)
            for node in found.populations:
                shape = found.shapes[node.name]
                threshold = torch.from_numpy(_per_unit(node.threshold, shape))
                assert torch.equal(values[node.name], (tested[node.name] > threshold).double())
                if neuron.delay:
                    assert torch.equal(tested[node.name], before[node.name])


def test_membranes_start_at_a_share_of_the_threshold():
    found = network("units")
    state = Stepper(found, torch.float64).begin(2)
    for node in found.populations:
        expected = node.start * _per_unit(node.threshold, found.shapes[node.name])
        assert np.array_equal(state.membranes[node.name].numpy(), np.stack([expected] * 2))


def test_precision_is_that_asked_for():
    nodes = [
        Neurons("n", INPUT, torch.full((1,), 0.1, dtype=torch.float64)),
        Synapses("o", "n", torch.ones(1, 1, dtype=torch.float64) / 3),
    ]
    found = chain(nodes, (1,), encode=Constant())
    for dtype in (torch.float32, torch.float64):
        stepper = Stepper(found, dtype)
        values, tested = stepper.step(stepper.begin(1), torch.ones(1, 1))
        assert values["o"].dtype == tested["n"].dtype == dtype
        assert float(values["o"]) == float(torch.tensor(1 / 3, dtype=dtype))


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    kernel=pairs,
    stride=pairs,
    dilation=pairs,
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_no_bias_is_handed_to_windows_that_see_nothing(size, kernel, stride, dilation, padding):
    """torch itself would end the process there; sums are the same, and elsewhere biases go in as usual."""
    node = Synapses("c", INPUT, torch.ones(2, 1, *kernel), torch.tensor([0.5, -1.0]), stride, padding, dilation)
    assume(all(size[k] + 2 * padding[k] > dilation[k] * (kernel[k] - 1) for k in (0, 1)))
    seen = conv2d(torch.ones(1, 1, *size).double(), node.weight[:1].double(), None, stride, padding, dilation)
    given_bias = []

    def watched(maps, weight, bias, *rest):
        given_bias.append(bias)
        return conv2d(maps, weight, bias, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepping.functional, "conv2d", watched)
        found = convolved(node, torch.ones(1, 1, *size), node.weight, node.bias)
    assert (given_bias[0] is None) == bool((seen == 0).any())
    assert torch.equal(found.double(), seen + node.bias.double()[:, None, None])


def _engine(found, x, precision="float64"):
    return StepEngine(found, source_of(found, x, 2, 0), precision, "cpu")


def test_chunks_are_steps_one_after_the_other():
    found = network("gates", LIF(0.9))
    x = inputs(found, 5)
    engine, recorder = _engine(found, x), SpikeRecorder(membranes=True, inputs=True)
    engine.begin(np.array([1, 3, 4]))
    first, counts = engine.advance(0, 4, [recorder])
    engine.keep(np.array([True, False, True]))
    second, more = engine.advance(4, 3, [recorder])
    assert (first.shape, second.shape) == ((3, 4, 10), (2, 3, 10))
    stepper, source = Stepper(found, torch.float64), source_of(found, x, 2, 0)
    state = stepper.begin(5)
    for step in range(7):
        values, tested = stepper.step(state, source.step(slice(None), step))
        alive = [1, 3, 4] if step < 4 else [1, 4]
        part, seen, at = (first, counts, step) if step < 4 else (second, more, step - 4)
        assert np.array_equal(part[:, at], values["out"][alive].numpy())
        for name in ("relu1", "relu2"):
            assert np.array_equal(seen[name][:, at], values[name][alive].flatten(1).sum(dim=1).numpy())
            shape = found.shapes[name]
            shown = values[name].reshape(5, shape[0], -1).transpose(1, 2).numpy()
            assert np.array_equal(recorder.trains[name][alive, step], shown[alive])
            membranes = tested[name].reshape(5, shape[0], -1).transpose(1, 2).numpy()
            assert np.array_equal(recorder.tested[name][alive, step], membranes[alive])
        entering = source.step(slice(None), step).flatten(2).transpose(1, 2).numpy()
        assert np.array_equal(recorder.trains[INPUT][alive, step], entering[alive])
        assert np.array_equal(seen[INPUT][:, at], np.abs(entering).sum(axis=(1, 2))[alive])


def test_a_new_block_has_clean_membranes():
    found = network("mlp")
    x = inputs(found)
    engine = _engine(found, x)
    runs = []
    for _ in range(2):
        engine.begin(np.arange(3))
        runs.append(engine.advance(0, 6, [])[0])
    assert np.array_equal(*runs)


def test_types():
    found = quantised(network("mlp"))
    for precision, dtype in (("float32", np.float32), ("float64", np.float64), ("int8", np.float64)):
        engine = _engine(found, inputs(found), precision)
        engine.begin(np.arange(3))
        assert engine.advance(0, 1, [])[0].dtype == dtype


def test_constant_currents_are_no_spikes():
    found = network("mlp", encode=Constant())
    engine, recorder = _engine(found, inputs(found)), SpikeRecorder(inputs=True)
    engine.begin(np.arange(3))
    _, counts = engine.advance(0, 2, [recorder])
    assert set(counts) == set(recorder.trains) == {"relu1", "relu2"}


def test_several_blocks(monkeypatch):
    found = network("conv")
    x = inputs(found, 5)
    whole = found.run(x, 9, path="steps")
    monkeypatch.setattr(StepEngine, "block", 2)
    monkeypatch.setattr(stepping, "_CHUNK", 4)
    cut = found.run(x, 9, path="steps")
    assert np.array_equal(cut.answers, whole.answers)
    assert cut.scores == pytest.approx(whole.scores, rel=1e-5, abs=1e-5)
    assert cut.spikes() == whole.spikes()
    assert set(cut.paths.values()) == {"steps"}


def test_devices_that_are_unknown():
    found = network("mlp")
    with pytest.raises(UsageError, match="device 'abacus'"):
        found.run(inputs(found), 3, device="abacus")
