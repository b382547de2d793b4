from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from weightsmith.core.errors import UsageError
from weightsmith.networks.models.mlp import mlp
from weightsmith.papers.study.shallow import Shallow
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.removal import cut_out
from weightsmith.reducing.surgery.sites import find_sites


@pytest.fixture
def network():
    random = np.random.default_rng(5)
    shapes = (6, 3), (6,), (4, 6), (4,)
    return Shallow(*(random.normal(size=shape).astype(np.float32) for shape in shapes), "sigmoid")


@pytest.fixture
def x():
    return np.random.default_rng(6).normal(size=(50, 3)).astype(np.float32)


def module_of(network):
    module = mlp(3, network.units, 4, activation=network.activation)
    network.write_into(module)
    return module.eval()


def scores(network, x):
    return network.hidden(x) @ network.outward.T + network.outward_bias


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
def test_it_computes_what_the_module_computes(network, x, activation):
    network = dataclasses.replace(network, activation=activation)
    answers = module_of(network)(torch.from_numpy(x)).detach().numpy()
    assert np.abs(scores(network, x) - answers).max() < 1e-5
    labels = np.random.default_rng(7).integers(0, 4, 50)
    assert network.accuracy(network.hidden(x), labels) == 100 * (answers.argmax(axis=1) == labels).mean()


@pytest.mark.parametrize("inputs", ["keep", "sum", "mean"])
def test_a_choice_does_what_surgery_does(network, x, inputs):
    removals = (
        Removal(5, (1,), (0.7,), 0.2, inputs),
        Removal(1, (0,), (-1.0,), 1.0),
        Removal(3, (0, 2, 4), (0.3, -0.2, 0.5), -0.1),
        Removal(4),
    )
    choice = Choice("dense1", 6, removals)
    smaller = network.reduced(choice)
    module = module_of(network)
    cut = cut_out(module, find_sites(module, torch.from_numpy(x[:2])).sites, [choice], torch.from_numpy(x))
    assert not cut.refused
    assert smaller.units == cut.network.dense1.out_features == 2
    assert np.abs(scores(smaller, x) - cut.network(torch.from_numpy(x)).detach().numpy()).max() < 1e-5


def test_a_choice_leaves_the_network_itself_alone(network, x):
    before = scores(network, x)
    network.reduced(Choice("dense1", 6, (Removal(5, (1,), (0.7,), 0.2, "sum"),)))
    assert (scores(network, x) == before).all()


def test_a_choice_for_another_network_is_refused(network):
    with pytest.raises(UsageError, match="for 7 units, the network has 6"):
        network.reduced(Choice("dense1", 7, ()))


def test_it_tells_when_training_left_no_numbers(network):
    assert network.finite
    network.outward[2, 3] = np.nan
    assert not network.finite
