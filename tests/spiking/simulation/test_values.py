from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spiking.networks import chain, levels, network

from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.neurons import LIF
from weightsmith.spiking.simulation._kernels import list_events
from weightsmith.spiking.simulation.values import NeuronRows, Values, span_of


def _drawn(shape, seed, signed, most=1):
    generator = np.random.default_rng(seed)
    low = -most if signed else 0
    data = generator.integers(low, most + 1, shape) * (generator.random(shape) < 0.3)
    return Values(data.astype(np.int8 if signed else np.uint8), most=most)


def _events(row, channels, code):
    """The codes of one run of channels, written out."""
    for channel, value in enumerate(row.astype(int)):
        yield from [code + channel + (channels if value < 0 else 0)] * abs(value)


shapes = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 12), st.sampled_from([1, 3, 5, 8, 10, 16, 17, 64])
)


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(0, 99), st.booleans(), st.sampled_from([1, 1, 4, 9]))
def test_events_position_by_position(shape, seed, signed, most):
    values = _drawn(shape, seed, signed, most)
    images, steps, positions, channels = shape
    across = max(size for size in (1, 2, 3, 5) if positions % size == 0)
    depth = values.depth
    assert depth == channels * (1 + signed)
    starts, codes = values.listed(across)
    expected, begins = [], [0]
    for number, row in enumerate(values.data.reshape(-1, channels)):
        expected += _events(row, channels, number % positions % across * depth)
        begins.append(len(expected))
    assert codes.tolist() == expected
    assert starts.tolist() == begins
    assert images * steps * positions + 1 == len(starts)
    assert values.listed(across)[0] is starts


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_lists_end_at_most_eight_places_behind_the_last_event(share):
    spikes = (np.random.default_rng(0).random((50, 16)) < share).astype(np.uint8)
    spikes[40:] = 0  # words without spikes behind the last event
    total = int(spikes.sum())
    codes, starts = np.full(total + 20, -1, np.int32), np.empty(51, np.int64)
    assert list_events(spikes.reshape(-1), 16, 50, 16, starts, codes) == total
    assert (codes[total + 8 :] == -1).all()
    assert codes[:total].tolist() == np.flatnonzero(spikes).tolist()


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(0, 99), st.booleans(), st.sampled_from([1, 1, 4]))
def test_events_part_by_part(shape, seed, signed, most):
    whole = _drawn(shape, seed, signed, most)
    images, steps, positions, channels = shape
    values = whole.in_parts()
    rows, (parts, part) = images * steps, values.data.shape[2:]
    assert parts * part == positions * channels
    assert parts == 1 or 16 <= part <= 128
    assert np.array_equal(values.data.reshape(rows, -1), whole.data.reshape(rows, -1))
    starts, codes = values.listed(None)
    expected, begins = [], [0]
    for number in range(parts):
        for row in values.data.reshape(rows, parts, part)[:, number]:
            expected += _events(row, part, number * values.depth)
            begins.append(len(expected))
    assert codes.tolist() == expected
    assert starts.tolist() == begins


@pytest.mark.parametrize(
    ("features", "part", "half"),
    [
        (128, 128, 256),
        (256, 128, 256),
        (200, 100, 200),
        (254, 127, 254),
        (61, 61, 61),
        (244, 122, 244),
        (4096, 128, 256),
        (2036, 2036, 2036),
        (592, 74, 148),
    ],
)
def test_sizes_of_parts(features, part, half):
    values = Values(np.zeros((1, 1, 1, features), np.uint8))
    assert values.in_parts().data.shape == (1, 1, features // part, part)
    half = min(half, features)
    assert values.in_parts(half=True).data.shape == (1, 1, features // half, half)


def test_features_channel_by_channel():
    data = np.arange(24, dtype=np.uint8).reshape(1, 1, 6, 4)
    flat = Values(data, unit=0.5, most=3).by_channel()
    assert flat.data.reshape(-1).tolist() == data.reshape(6, 4).T.reshape(-1).tolist()
    assert (flat.data.shape, flat.unit, flat.most) == ((1, 1, 1, 24), 0.5, 3)


def test_kinds_of_values():
    spikes, signed, floats = (Values(np.zeros((1, 1, 1, 3), kind)) for kind in (np.uint8, np.int8, np.float32))
    assert (spikes.discrete, signed.discrete, floats.discrete) == (True, True, False)
    assert (spikes.signed, signed.signed) == (False, True)
    assert (spikes.depth, signed.depth) == (3, 6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_values_as_floats(kind):
    counts = Values(np.array([-3, 0, 2], np.int8).reshape(1, 1, 1, 3), unit=1 / 9, most=9)
    assert counts.floats(kind).dtype == kind
    assert counts.floats(kind).reshape(-1).tolist() == [float(kind(n) * kind(1 / 9)) for n in (-3, 0, 2)]
    plain = Values(np.ones((1, 1, 1, 3), kind))
    assert plain.floats(kind) is plain.data
    assert plain.floats(np.float64).dtype == np.float64


def test_neurons_position_by_position():
    found = network("units", LIF(0.75))
    for node in found.populations:
        shape = found.shapes[node.name]
        rows = NeuronRows.of(node, found, np.float64)
        positions = int(np.prod(shape[1:]))
        for values, got in ((node.threshold, rows.threshold), (node.leak, rows.leak)):
            whole = values.reshape(*values.shape, *[1] * (len(shape) - values.dim())).expand(shape)
            expected = whole.reshape(shape[0], positions).t().numpy()
            assert np.array_equal(np.broadcast_to(got, (positions, shape[0])), expected)
        assert rows.threshold.shape == rows.leak.shape
        begun = rows.begin(2, shape)
        thresholds = node.threshold.reshape(*node.threshold.shape, *[1] * (len(shape) - node.threshold.dim())).expand(
            shape
        )
        first = (node.start * thresholds).reshape(shape[0], -1).t().reshape(-1)
        assert begun.shape == (2, first.numel())
        assert np.array_equal(begun, np.stack([first.numpy()] * 2))


def test_the_leak_of_the_network():
    nodes = [
        Neurons("n", INPUT, levels(3, seed=1)),
        Flatten("f", "n"),
        Synapses("o", "f", torch.ones(2, 12)),
    ]
    found = chain(nodes, (3, 2, 2), neuron=LIF(0.3))
    rows = NeuronRows.of(found.populations[0], found, np.float32)
    assert rows.leak.tolist() == [[float(np.float32(0.3))] * 3]
    assert rows.threshold.shape == (1, 3)


@pytest.mark.parametrize(("positions", "channels", "span"), [(1024, 16, 16), (49, 16, 7), (1, 4096, 1), (7, 300, 1)])
def test_positions_that_make_a_row_of_neurons(positions, channels, span):
    assert span_of(positions, channels) == span


def test_thresholds_of_several_positions_in_a_row():
    one = NeuronRows(np.array([[1.0, 2.0]]), np.array([[0.5]]), 0.0)
    threshold, leak = one.over(3)
    assert threshold.tolist() == [[[1, 2, 1, 2, 1, 2]]]
    assert leak.tolist() == [[[0.5] * 3]]
    each = NeuronRows(np.arange(8.0).reshape(4, 2), np.ones((4, 2)), 0.0)
    assert each.over(2)[0].tolist() == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
