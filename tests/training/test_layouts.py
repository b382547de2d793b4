"""Channels come last in training only where the network computes the same; one that cannot be trained is refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.normalise import NONE
from weightsmith.data.tensors import Split
from weightsmith.networks.card import Card
from weightsmith.training.layouts import plain_layout, trained_layout

IMAGES = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
PART = Split(IMAGES, torch.arange(8) % 2)


class Standardised(nn.Conv2d):
    """Weight standardisation, as it is usually written: it views its filters."""

    def forward(self, x):
        flat = self.weight.view(len(self.weight), -1)
        weight = (flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + 1e-5)
        return functional.conv2d(x, weight.view_as(self.weight), self.bias)


class Auxiliary(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 8)

    def forward(self, x):
        scores = self.conv(x).flatten(1)
        return (scores, scores) if self.training else scores


class Calling(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.conv, self.function = nn.Conv2d(3, 2, 8), function

    def forward(self, x):
        return self.function(self.conv(x).flatten(1))


def _overwritten(x):
    y = torch.sigmoid(x)
    y += 1
    return y * 2


def _layout(network):
    return trained_layout(network.train(), PART, NONE, plain_layout(network, Card(), "cpu"))


@pytest.mark.parametrize(
    ("network", "last"),
    [
        (nn.Sequential(nn.Conv2d(3, 2, 8), nn.Flatten()), True),
        (nn.Sequential(Standardised(3, 2, 8), nn.Flatten()), False),
        (nn.Sequential(nn.Conv2d(3, 2, 8), nn.Flatten(), nn.Dropout(0.5)), True),
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), False),
    ],
)
def test_channels_come_last_where_the_scores_stay_the_same(network, last):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    assert _layout(network).channels_last is last
    first = next(network.parameters())
    assert first.is_contiguous(memory_format=torch.channels_last) is last or first.dim() != 4
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(value.grad is None for value in network.parameters())


@pytest.mark.parametrize(
    ("network", "kind", "message"),
    [
        (Auxiliary(), DataMismatch, "in training mode the network gives a tuple, not one score per class"),
        (Calling(torch.detach), UsageError, "its scores depend on no trainable parameter"),
        (Calling(_overwritten), UsageError, "its gradient cannot be computed .*an in-place operation"),
    ],
)
def test_a_network_that_cannot_take_a_step_is_refused_with_the_reason(network, kind, message):
    with pytest.raises(kind, match=message):
        _layout(network)


def test_a_network_that_views_its_filters_trains():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(Standardised(3, 2, 8), nn.Flatten())
    run = ws.train(network, (IMAGES, PART.y), epochs=10, schedule=0.01, batch=4)
    assert run.history.rows[-1].train_loss < run.history.rows[0].train_loss


def test_frozen_networks_are_left_to_the_refusal_that_names_it():
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)).requires_grad_(False)
    assert not _layout(network).channels_last
    with pytest.raises(UsageError, match="no trainable parameter"):
        ws.train(network, (IMAGES, PART.y), epochs=1)
