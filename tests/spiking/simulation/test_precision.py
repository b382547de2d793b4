from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spiking.networks import KINDS, chain, levels, network

from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.neurons import IF, LIF, Graded
from weightsmith.spiking.simulation.precision import kinds_of


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_asked_for(kind):
    found = network(kind)
    names = {INPUT, *(node.name for node in found.nodes)}
    assert kinds_of(found, "float32", 10) == dict.fromkeys(names, np.float32)
    assert kinds_of(found, "float64", 10) == dict.fromkeys(names, np.float64)


def _whole(weight, threshold=1.0, features=4, **options):
    """One layer of whole numbers before a population, and one behind it."""
    nodes = [
        Synapses("one", INPUT, torch.full((3, features), float(weight)), options.pop("bias", None)),
        Neurons("n", "one", torch.full((3,), threshold), options.pop("start", 0.0), options.pop("leak", None)),
        Synapses("two", "n", torch.ones(2, 3)),
    ]
    return chain(nodes, (features,), **options)


def _kinds(found, steps=10):
    kinds = kinds_of(found, "int8", steps)
    return [name for name, kind in kinds.items() if kind is np.float64 and name not in (INPUT, found.nodes[-1].name)]


def test_whole_numbers_that_float32_holds():
    found = _whole(100)
    assert _kinds(found) == []
    assert kinds_of(found, "int8", 10)["two"] is np.float64  # what is added up at the end


def test_sums_beyond_24_bits():
    assert _kinds(_whole(127, features=132_000)) == ["n"]
    assert _kinds(_whole(127, features=132_104)) == ["n"]
    assert _kinds(_whole(127, features=132_105)) == ["one", "n"]
    assert 127 * 132_104 < 2**24 <= 127 * 132_105


def test_membranes_grow_with_the_steps():
    found = _whole(100)  # at most 400 at a step, and the threshold
    most = (2**23 - 2) // 400 - 1
    assert _kinds(found, most) == []
    assert _kinds(found, most + 1) == ["n"]
    assert _kinds(_whole(100, threshold=2.0**23)) == ["n"]


def test_leaks_and_broken_numbers_need_float64():
    assert _kinds(_whole(5, neuron=LIF(0.9))) == ["n"]
    assert _kinds(_whole(5, leak=torch.full((3,), 0.9))) == ["n"]
    assert _kinds(_whole(5, threshold=1.5)) == ["n"]
    assert _kinds(_whole(5, threshold=3.0, start=0.5)) == []
    assert _kinds(_whole(5, threshold=3.0, start=0.25)) == ["n"]
    assert _kinds(_whole(5, bias=torch.tensor([1.0, 0.5, 2.0]))) == ["one", "n"]
    assert _kinds(_whole(5, bias=torch.tensor([1.0, 2.0, 2.0]))) == []


def test_constant_currents_are_no_whole_numbers():
    found = quantised(network("residual", IF(), Constant()))
    assert _kinds(found) == ["conv1", "relu1"]
    deep = network("pools", IF(), Constant())
    assert _kinds(quantised(deep))[:2] == ["conv1", "relu1"]


def test_inputs_in_8_bits_are_whole_numbers_up_to_127():
    found = _whole(100, encode=Constant(step=0.01))
    most = (2**23 - 2) // (127 * 400) - 1
    assert _kinds(found, most) == []
    assert _kinds(found, most + 1) == ["n"]
    assert _kinds(_whole(127, features=1040, encode=Constant(step=0.01)), 1) == ["n"]
    assert _kinds(_whole(127, features=1041, encode=Constant(step=0.01)), 1) == ["one", "n"]
    assert 127 * 127 * 1040 < 2**24 <= 127 * 127 * 1041


def test_graded_spikes_leave_less_room():
    """Their sums are multiples of 1/16: four bits of the 24 that float32 has."""
    found = _whole(100, neuron=Graded(5), encode=Constant(step=1.0))
    most = (2**23 // 16 - 2) // (127 * 400) - 1
    assert _kinds(found, most) == []
    assert _kinds(found, most + 1) == ["n"]


@given(st.integers(1, 2**23 - 1), st.integers(1, 2**20), st.integers(0, 3))
@settings(max_examples=500, derandomize=True)
def test_the_division_of_a_graded_neuron_decides_as_integers_do(total, threshold, near):
    """Totals as near to a boundary n + ½ as integers can be, on it, and anywhere."""
    if near:
        total = min(2**23 - 1, max(1, (2 * (total // threshold) + 1) * threshold // 2 + near - 2))
    sent = total // threshold
    missing = np.float32(total) / np.float32(threshold) - np.float32(sent)
    assert bool(missing >= np.float32(0.5)) == (2 * (total - sent * threshold) >= threshold)


def test_reach_of_every_kind_of_node():
    """The largest value, by which the bound on steps is found, of a chain with pools, gates, scales and sums."""
    nodes = [
        Pool("p", INPUT, (2, 2), (2, 2), average=False),  # 4
        Synapses("c", "p", torch.full((2, 2, 1, 1), -3.0), torch.tensor([5.0, -7.0])),  # 4 · 6 + 7 = 31
        Neurons("n", "c", levels(2, seed=1).ceil()),  # 1
        Gate("g", "n", (2, 2), (2, 2)),  # 1
        Scale("s", "g", torch.tensor([2.0, -9.0])),  # 9
        Add("a", ("s", "g", "s")),  # 19
        Flatten("f", "a"),  # 19
        Neurons("m", "f", torch.full((2,), 10.0)),
        Synapses("o", "m", torch.ones(2, 2)),
    ]
    found = chain(nodes, (2, 4, 4))
    first, second = ((2**23 - top) / reach for top, reach in ((float(nodes[2].threshold.max()), 31), (10, 19)))
    assert _kinds(found, int(first) - 1) == []
    assert _kinds(found, int(first)) == ["n"]
    assert _kinds(found, int(second) - 1) == ["n"]
    assert _kinds(found, int(second)) == ["n", "m"]


def test_a_fraction_goes_on_to_the_next_population():
    found = network("residual")
    whole = quantised(found)
    odd = dataclasses.replace(whole.node("conv2"), bias=torch.full((4,), 0.5))
    assert _kinds(whole) == []
    assert _kinds(whole.replaced([odd])) == ["conv2", "sum2", "relu2"]
