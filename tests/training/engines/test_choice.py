from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weightsmith.core.errors import DataMismatch
from weightsmith.networks import mlp
from weightsmith.training.engines.choice import AutogradEngine, engine_for
from weightsmith.training.engines.dense import DenseEngine
from weightsmith.training.engines.flat import Flat
from weightsmith.training.losses import CrossEntropy, SquaredError

X = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def convolutional() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3))


@pytest.mark.parametrize(
    "loss", [CrossEntropy(0.2), SquaredError("softmax"), F.cross_entropy], ids=["smoothed", "squared", "a function"]
)
def test_autograd_leaves_the_gradient_of_this_batch_alone_in_the_vector(loss):
    network = convolutional()
    plain = copy.deepcopy(network)
    flat = Flat(network)
    engine = AutogradEngine(network, loss, flat)
    for rows in (slice(0, 6), slice(1, 4)):
        flat.gradient.fill_(5)
        value, scores = engine(X[rows], Y[rows])
        expected_scores = plain(X[rows])
        expected = loss(expected_scores, Y[rows])
        gradients = torch.autograd.grad(expected, list(plain.parameters()))
        assert torch.equal(value, expected.detach())
        assert torch.equal(scores, expected_scores.detach())
        assert not value.requires_grad
        assert not scores.requires_grad
        for ours, theirs in zip(flat.gradients, gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def test_a_tied_weight_gets_the_sum_of_both_gradients():
    network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    network[2].weight = network[0].weight
    x, y = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 3, 0])
    one, two = (network[0].weight.detach().clone().requires_grad_() for _ in range(2))
    expected = torch.autograd.grad(F.cross_entropy(torch.tanh(x @ one.t()) @ two.t(), y), (one, two))
    flat = Flat(network)
    engine_for(network, CrossEntropy(), flat)(x, y)
    torch.testing.assert_close(flat.gradients[0], expected[0] + expected[1])


def test_the_dense_engine_is_chosen_where_it_applies_and_only_there():
    plain, normed = mlp(7, 6, 4), mlp(7, 6, 4, batch_norm="before")
    assert isinstance(engine_for(plain, CrossEntropy(), Flat(plain)), DenseEngine)
    assert isinstance(engine_for(normed, CrossEntropy(), Flat(normed)), AutogradEngine)


@pytest.mark.parametrize(
    ("network", "given"),
    [
        (nn.Conv2d(3, 5, 3), r"\(6, 5, 2, 2\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(48, 1), nn.Flatten(0)), r"\(6,\)"),
        (nn.Sequential(nn.Flatten(), nn.GRU(48, 3)), "tuple"),
    ],
)
def test_what_is_not_one_score_per_class_is_refused(network, given):
    engine = AutogradEngine(network, CrossEntropy(), Flat(network))
    with pytest.raises(DataMismatch, match=f"the network gives {given}, not one score per class"):
        engine(X, Y)
