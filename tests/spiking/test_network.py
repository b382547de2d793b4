from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.spiking.networks import chain, inputs, levels, network, weights

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.neurons import IF, LIF, Mismatch
from weightsmith.spiking.simulation.exits import Margin


def test_what_it_is_made_of():
    found = network("conv")
    assert [node.name for node in found.populations] == ["relu1", "relu2"]
    assert [node.name for node in found.synapses] == ["conv1", "conv2", "out"]
    assert found.classes == 10
    assert found.shapes["conv2"] == (17, 3, 7)
    assert found.node("relu2") is found.populations[1]
    with pytest.raises(UnknownName, match="unknown node 'relu2x'; did you mean 'relu2'"):
        found.node("relu2x")


def _nodes(**changes):
    """Two layers, with some nodes changed."""
    nodes = {
        "one": Synapses("one", INPUT, weights(3, 4, seed=1)),
        "relu": Neurons("relu", "one", levels(3, seed=2)),
        "two": Synapses("two", "relu", weights(2, 3, seed=3)),
    }
    return [dataclasses.replace(node, **changes.get(name, {})) for name, node in nodes.items()]


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (_nodes(one={"weight": torch.full((3, 4), torch.nan)}), DataMismatch, "one holds NaN or infinity"),
        (_nodes(relu={"threshold": torch.tensor([1.0, 0.0, 1.0])}), DataMismatch, "relu: a threshold is not positive"),
        (_nodes(relu={"threshold": torch.tensor([1.0, -1.0, 1.0])}), DataMismatch, "relu: a threshold is not positive"),
        (_nodes(two={"source": "one"})[:1] + _nodes(two={"source": "one"})[2:], UsageError, "has no neurons"),
        (_nodes()[:2], UsageError, "the last node 'relu' must give one score per class"),
        (
            _nodes(two={"weight": torch.ones(2, 4)}),
            DataMismatch,
            r"two \(Synapses\) cannot read .* \(3,\)",
        ),
    ],
)
def test_networks_that_cannot_be(nodes, error, message):
    with pytest.raises(error, match=message):
        chain(nodes, (4,))


def test_scores_are_one_number_per_class():
    nodes = [Neurons("n", INPUT, torch.ones(2)), Synapses("c", "n", torch.ones(3, 2, 1, 1))]
    with pytest.raises(UsageError, match="the last node 'c' must give one score per class"):
        chain(nodes, (2, 3, 3))
    assert chain([*nodes, Flatten("f", "c")], (2, 3, 3)).classes == 27


def test_replacing_nodes_makes_another_network():
    found = network("mlp")
    other = found.replaced([dataclasses.replace(found.node("relu2"), threshold=levels(100, seed=77))])
    assert torch.equal(other.populations[1].threshold, levels(100, seed=77))
    assert torch.equal(found.populations[1].threshold, levels(100, seed=5))
    assert [node.name for node in other.nodes] == [node.name for node in found.nodes]
    assert other.node("two") is found.node("two")
    with pytest.raises(UnknownName, match="unknown node 'relu3'"):
        found.replaced([Neurons("relu3", "two", torch.ones(100))])
    with pytest.raises(DataMismatch, match="threshold is not positive"):
        found.replaced([dataclasses.replace(found.node("relu2"), threshold=torch.zeros(100))])


def test_other_neurons_and_thresholds():
    found = network("mlp")
    leaky = found.with_neuron(LIF(0.5))
    assert (found.neuron, leaky.neuron) == (IF(), LIF(0.5))
    assert leaky.nodes is found.nodes
    halved = found.with_factor(0.5)
    for before, after in zip(found.populations, halved.populations, strict=True):
        assert torch.equal(after.threshold, before.threshold / 2)
        assert (after.start, after.layer) == (before.start, before.layer)


def test_every_run_starts_afresh():
    found = network("gates", LIF(0.9))
    x = inputs(found)
    before = [node.threshold.clone() for node in found.populations]
    first, again = (found.run(x, 12, seed=4) for _ in range(2))
    assert np.array_equal(first.answers, again.answers)
    assert np.array_equal(first.scores, again.scores)
    assert first.spikes() == again.spikes()
    assert all(torch.equal(old, node.threshold) for old, node in zip(before, found.populations, strict=True))


def test_inputs_are_normalised_by_the_card():
    half = Card(input_shape=(127,), normalisation=Normalisation((0.5,), (0.5,)))
    plain = network("mlp", encode=Constant())
    found = dataclasses.replace(plain, card=half)
    x = (inputs(plain) + 1) / 2
    assert np.array_equal(found.run(x, 9).scores, plain.run(inputs(plain), 9).scores)
    with pytest.raises(DataMismatch, match="between −1 and 1"):
        dataclasses.replace(found, encode=Poisson()).run(3 * x, 9)


def test_run_hands_on_all_arguments():
    found = network("mlp")
    x = inputs(found, 6)
    part = found.run(x[2:4], 20, seed=1, first=2, precision="float64", path="dense")
    whole = found.run(x, 20, seed=1, precision="float64", path="steps")
    assert np.array_equal(part.answers, whole.answers[2:4])
    assert set(part.paths.values()) == {"dense"}
    assert set(whole.paths.values()) == {"steps"}
    assert found.run(x, 64, early=Margin(1.0, least=2)).ended.max() < 64
    with pytest.raises(UsageError, match="device 'abacus'"):
        found.run(x[:1], 3, device="abacus")


def test_a_neuron_that_the_engines_do_not_step_is_refused():
    found = network("mlp")
    with pytest.raises(UsageError, match=r"mismatch.*: the engines simulate if, lif and graded"):
        found.with_neuron(Mismatch(0.1))
