from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spiking.networks import KINDS, network
from torch.nn import functional

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.spiking.graph import (
    INPUT,
    Add,
    Flatten,
    Gate,
    Neurons,
    Pool,
    Scale,
    Synapses,
    is_finite,
    shapes_of,
)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_name_what_they_read(kind):
    seen = {INPUT}
    for node in network(kind).nodes:
        assert set(node.sources) <= seen
        seen.add(node.name)


sizes = st.tuples(st.integers(1, 12), st.integers(1, 12))
small = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(deadline=None, max_examples=100)
@given(size=sizes, kernel=small, stride=small, padding=st.tuples(st.integers(0, 3), st.integers(0, 3)), dilation=small)
def test_convolutions_have_the_shape_that_torch_gives(size, kernel, stride, padding, dilation):
    node = Synapses("conv", INPUT, torch.zeros(4, 1, *kernel), None, stride, padding, dilation, groups=2)
    if any(size[k] + 2 * padding[k] < dilation[k] * (kernel[k] - 1) + 1 for k in (0, 1)):
        with pytest.raises(DataMismatch, match=r"conv \(Synapses\) cannot read values of shape \(2, "):
            shapes_of([node], (2, *size))
        return
    expected = functional.conv2d(torch.zeros(1, 2, *size), node.weight, None, stride, padding, dilation, 2).shape
    assert shapes_of([node], (2, *size)) == {INPUT: (2, *size), "conv": tuple(expected[1:])}


@settings(deadline=None, max_examples=60)
@given(size=sizes, kernel=small, stride=small, data=st.data())
def test_pools_have_the_shape_that_torch_gives(size, kernel, stride, data):
    padding = tuple(data.draw(st.integers(0, side // 2)) for side in kernel)
    for kind in (Pool, Gate):
        node = kind("pool", INPUT, kernel, stride, padding)
        if any(size[k] + 2 * padding[k] < kernel[k] for k in (0, 1)):
            with pytest.raises(DataMismatch, match="pool"):
                shapes_of([node], (3, *size))
            continue
        expected = functional.avg_pool2d(torch.zeros(1, 3, *size), kernel, stride, padding).shape
        assert shapes_of([node], (3, *size))["pool"] == tuple(expected[1:])


def test_the_other_shapes():
    nodes = (
        Neurons("n", INPUT, torch.ones(2), leak=torch.ones(2, 3, 4)),
        Scale("s", "n", torch.ones(2)),
        Add("a", ("n", "s", INPUT)),
        Flatten("f", "a"),
        Synapses("d", "f", torch.zeros(5, 24), torch.zeros(5)),
        Flatten("g", "d"),
        Scale("t", "g", torch.ones(5)),
    )
    assert shapes_of(nodes, (2, 3, 4)) == {
        **dict.fromkeys((INPUT, "n", "s", "a"), (2, 3, 4)),
        "f": (24,),
        **dict.fromkeys(("d", "g", "t"), (5,)),
    }
    assert nodes[4].dense
    assert not Synapses("c", INPUT, torch.zeros(1, 1, 1, 1)).dense


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (Synapses("x", INPUT, torch.zeros(3, 5)), (4,)),
        (Synapses("x", INPUT, torch.zeros(3, 48)), (3, 4, 4)),
        (Synapses("x", INPUT, torch.zeros(3, 5), torch.zeros(2)), (5,)),
        (Synapses("x", INPUT, torch.zeros(3, 2, 1, 1)), (3, 4, 4)),
        (Synapses("x", INPUT, torch.zeros(3, 2, 1, 1), groups=2), (4, 4, 4)),
        (Synapses("x", INPUT, torch.zeros(3, 2, 1)), (2, 4, 4)),
        (Pool("x", INPUT, (2, 2), (2, 2)), (16,)),
        (Gate("x", INPUT, (5, 5), (1, 1)), (1, 4, 4)),
        (Scale("x", INPUT, torch.ones(3)), (4,)),
        (Neurons("x", INPUT, torch.ones(3)), (4,)),
        (Neurons("x", INPUT, torch.ones(4, 2, 2)), (4, 2, 3)),
        (Neurons("x", INPUT, torch.ones(4), leak=torch.ones(3)), (4,)),
        (Neurons("x", INPUT, torch.ones(4), amplitude=torch.ones(4, 2, 2)), (4, 2, 2)),
    ],
)
def test_what_does_not_fit_is_refused_by_name(node, shape):
    with pytest.raises(DataMismatch, match=rf"^x \({type(node).__name__}\) cannot read values of shape \({shape[0]},"):
        shapes_of([node], shape)


def test_sums_of_different_shapes_are_refused():
    nodes = [Flatten("f", INPUT), Add("a", (INPUT, "f"))]
    with pytest.raises(DataMismatch, match=r"a \(Add\) cannot read values of shape \(8,\)"):
        shapes_of(nodes, (2, 2, 2))


@pytest.mark.parametrize(
    ("nodes", "shape", "message"),
    [
        ([Flatten("f", INPUT), Flatten("f", INPUT)], (2,), "the node 'f' occurs twice in the network"),
        ([Flatten(INPUT, INPUT)], (2,), "the node 'input' occurs twice"),
        ([Flatten("f", "g"), Flatten("g", INPUT)], (2,), "the node 'f' reads 'g', which does not come before it"),
        ([Flatten("f", "f")], (2,), "the node 'f' reads 'f', which does not come before it"),
        ([], (2, 3), r"one or three dimensions, not the shape \(2, 3\)"),
        ([], (), r"one or three dimensions, not the shape \(\)"),
        ([], (2, 0, 3), r"not the shape \(2, 0, 3\)"),
    ],
)
def test_orders_that_cannot_be_computed(nodes, shape, message):
    with pytest.raises(UsageError, match=message):
        shapes_of(nodes, shape)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_finite(bad):
    one, odd = torch.ones(2), torch.tensor([1.0, bad])
    assert is_finite(Synapses("a", INPUT, torch.ones(2, 2), one))
    assert is_finite(Add("a", (INPUT, INPUT)))
    for node in (
        Synapses("a", INPUT, odd[None]),
        Synapses("a", INPUT, torch.ones(2, 2), odd),
        Scale("a", INPUT, odd),
        Neurons("a", INPUT, odd),
        Neurons("a", INPUT, one, leak=odd),
        Neurons("a", INPUT, one, amplitude=odd),
    ):
        assert not is_finite(node)
