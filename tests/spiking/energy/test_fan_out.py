from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.energy.fan_out import landings_of, root_gates, shown
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses, shapes_of
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF


def network(*nodes, shape=(2, 5, 6), encode=None):
    return SpikingNetwork(nodes, shape, IF(), encode or Poisson())


def neurons(name, source, channels):
    return Neurons(name, source, torch.ones(channels))


def landing(net, name, **options):
    return next(found for found in landings_of(net, **options) if found.name == name)


def looped(node, entering, before, after):
    """Accumulates for a map of events in front of weights, one connection after the other."""
    total = 0
    out, inside, height, width = node.weight.shape
    per_group = out // node.groups
    for o in range(out):
        for row in range(after[1]):
            for column in range(after[2]):
                for i in range(inside):
                    for y in range(height):
                        for x in range(width):
                            at = row * node.stride[0] - node.padding[0] + y * node.dilation[0]
                            to = column * node.stride[1] - node.padding[1] + x * node.dilation[1]
                            if node.weight[o, i, y, x] != 0 and 0 <= at < before[1] and 0 <= to < before[2]:
                                total += entering[(o // per_group) * inside + i, at, to]
    return total


def pooled(node, entering, after):
    """Copies of events behind a pool: one for each window that an event lies in."""
    found = np.zeros(after, int)
    for row in range(after[1]):
        for column in range(after[2]):
            for y in range(node.kernel[0]):
                for x in range(node.kernel[1]):
                    at, to = row * node.stride[0] - node.padding[0] + y, column * node.stride[1] - node.padding[1] + x
                    if 0 <= at < entering.shape[1] and 0 <= to < entering.shape[2]:
                        found[:, row, column] += entering[:, at, to]
    return found


def one_event(shape, unit):
    event = np.zeros(int(np.prod(shape)), int)
    event[unit] = 1
    return event.reshape(shape)


@st.composite
def convolutions(draw):
    groups = draw(st.sampled_from([1, 2]))
    pairs = st.tuples
    kernel = draw(pairs(st.integers(1, 3), st.integers(1, 3)))
    stride = draw(pairs(st.integers(1, 3), st.integers(1, 2)))
    padding = draw(pairs(st.integers(0, 2), st.integers(0, 1)))
    dilation = draw(pairs(st.integers(1, 2), st.integers(1, 2)))
    seed = draw(st.integers(0, 1000))
    weight = torch.randint(-1, 2, (4, 2 // groups, *kernel), generator=torch.Generator().manual_seed(seed)).float()
    return Synapses("conv", INPUT, weight, None, stride, padding, dilation, groups)


def closed(*nodes, shape=(2, 5, 6), encode=None):
    """The nodes with neurons and two scores behind the last."""
    last = shapes_of(nodes, shape)[nodes[-1].name]
    ending = [neurons("last", nodes[-1].name, last[0])]
    ending += [Flatten("flat", "last"), Synapses("out", "flat", torch.ones(2, math.prod(last)))]
    return network(*nodes, *ending, shape=shape, encode=encode)


@settings(max_examples=25, deadline=None)
@given(convolutions())
def test_the_reach_through_any_convolution_is_that_of_a_plain_loop(conv):
    net = closed(conv)
    reach = landing(net, "conv").reach[INPUT].T.reshape(-1)  # by channels first
    every_seventh = range(0, 60, 7)  # comes by all rows and columns
    expected = [looped(conv, one_event((2, 5, 6), at), (2, 5, 6), net.shapes["conv"]) for at in every_seventh]
    assert reach[::7].tolist() == expected


def test_the_reach_of_a_same_convolution_by_hand():
    net = closed(Synapses("conv", INPUT, torch.full((7, 2, 3, 3), -0.5), padding=(1, 1)))
    reach = landing(net, "conv").reach[INPUT].reshape(5, 6, 2)
    assert (reach[1:-1, 1:-1] == 9 * 7).all()
    assert (reach[0, 1:-1] == 6 * 7).all()
    assert (reach[[0, 0, -1, -1], [0, -1, 0, -1]] == 4 * 7).all()


@pytest.mark.parametrize(
    "window", [((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 2), (1, 1)), ((2, 3), (3, 1), (1, 0)), ((2, 2), (4, 4), (0, 0))]
)
def test_a_spike_in_front_of_a_pool_reaches_every_window_it_lies_in(window):
    weight = torch.randn(3, 2, 2, 2, generator=torch.Generator().manual_seed(1))
    weight[weight.abs() < 0.5] = 0
    pool = Pool("pool", "one", *window)
    first = Synapses("first", INPUT, torch.ones(2, 2, 1, 1))
    conv = Synapses("conv", "pool", weight, padding=(1, 1))
    net = closed(first, neurons("one", "first", 2), pool, conv)
    reach = landing(net, "conv").reach["one"].T.reshape(-1)
    for at in range(60):
        behind = pooled(pool, one_event((2, 5, 6), at), net.shapes["pool"])
        assert reach[at] == looped(conv, behind, net.shapes["pool"], net.shapes["conv"])


def test_flattened_units_reach_by_the_columns_of_a_dense_layer():
    weight = torch.zeros(4, 60)
    weight[:3, 7] = 1.5  # channel 0, row 1, column 1
    weight[1, 59] = -2
    net = network(
        Synapses("first", INPUT, torch.ones(2, 2, 1, 1)),
        neurons("one", "first", 2),
        Flatten("flat", "one"),
        Synapses("out", "flat", weight),
    )
    reach = landing(net, "out").reach["one"]
    assert reach.shape == (30, 2)
    assert (reach[7, 0], reach[29, 1], reach.sum()) == (3, 1, 4)


def residual(scale=(1.0, 0.0)):
    """One population read by weights and, beside them, directly: twice by a sum, once with a dead channel."""
    return network(
        Synapses("first", INPUT, torch.ones(2, 2, 1, 1)),
        neurons("one", "first", 2),
        Synapses("branch", "one", torch.ones(2, 2, 3, 3), padding=(1, 1)),
        Scale("scaled", "one", torch.tensor(scale)),
        Add("sum", ("branch", "one", "scaled")),
        neurons("two", "sum", 2),
        Flatten("flat", "two"),
        Synapses("out", "flat", torch.ones(3, 60)),
    )


def test_spikes_on_a_shortcut_land_on_the_population_itself():
    found = {item.name: item for item in landings_of(residual())}
    assert [(name, item.kind) for name, item in found.items()] == [
        ("first", "synapses"), ("branch", "synapses"), ("two", "direct"), ("out", "synapses")
    ]  # fmt: skip
    assert list(found["two"].reach) == ["one"]
    assert (found["two"].reach["one"] == [2, 1]).all()
    assert (found["branch"].reach["one"].reshape(5, 6, 2)[2, 2] == 18).all()
    assert not any(item.constant or item.graded for item in found.values())
    assert all(item.lasting for item in found.values())


def test_an_identity_written_with_weights_reaches_one_unit():
    eye = torch.eye(2)[:, :, None, None] * 0.7
    net = closed(Synapses("copy", INPUT, eye, stride=(2, 2)))
    reach = landing(net, "copy").reach[INPUT].reshape(5, 6, 2)
    assert (reach[::2, ::2] == 1).all()
    assert reach.sum() == 3 * 3 * 2


def test_weights_behind_weights_are_given_no_spikes():
    first, second = Synapses("first", INPUT, torch.ones(3, 4)), Synapses("second", "first", torch.ones(5, 3))
    rest = (neurons("one", "second", 5), Synapses("out", "one", torch.ones(2, 5)))
    found = {item.name: item for item in landings_of(network(first, second, *rest, shape=(4,)))}
    assert (found["second"].graded, found["second"].constant, found["second"].reach) == (True, False, {})
    assert (found["first"].lasting, found["second"].lasting) == (False, True)
    constant = {item.name: item for item in landings_of(network(first, second, *rest, shape=(4,), encode=Constant()))}
    assert (constant["second"].graded, constant["second"].constant) == (False, True)
    assert (constant["first"].constant, constant["first"].reach) == (True, {})


def test_a_constant_input_fires_no_spikes_but_flows():
    net = closed(Pool("small", INPUT, (2, 2), (2, 2)), encode=Constant())
    found = landing(net, "last")
    assert (found.kind, found.constant, found.reach) == ("direct", True, {})


def gated():
    return network(
        Synapses("first", INPUT, torch.ones(2, 2, 1, 1)),
        neurons("one", "first", 2),
        Gate("most", "one", (2, 2), (2, 2)),
        Gate("again", "most", (2, 3), (2, 3)),
        Flatten("flat", "again"),
        Synapses("out", "flat", torch.ones(3, 2)),
    )


def test_gates_behind_populations_are_roots_or_let_everything_pass():
    assert [gate.name for gate in root_gates(gated())] == ["most", "again"]
    assert landing(gated(), "out").reach["again"].tolist() == [[3, 3]]
    assert not landing(gated(), "out").bound
    open_gates = landing(gated(), "out", gates=False)
    assert open_gates.bound
    through = open_gates.reach["one"].reshape(5, 6, 2)
    assert (through[:4] == 3).all()
    assert (through[4] == 0).all()  # below the last window


def test_values_are_shown_position_by_position():
    values = torch.arange(12).reshape(2, 2, 3)
    assert shown(values).tolist() == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]
    assert shown(torch.tensor([1, 2])).tolist() == [[1, 2]]
