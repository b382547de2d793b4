"""ReLU behind the pool gives the numbers of ReLU before it, to the last bit, and only where it may."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.training.engines.pooling import pooled_first
from weightsmith.training.loop import train


def stack(pool=None, **options):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        inner = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(**options), pool or nn.MaxPool2d(2))
        return nn.Sequential(inner, nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))


def images(rows=12):
    x = torch.randn(rows, 1, 9, 9, generator=torch.Generator().manual_seed(1))
    x[0] = 0.0  # every window a tie
    x[1] = -1.0
    return x


@pytest.mark.parametrize(
    "pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True), nn.MaxPool2d(2, dilation=2)]
)
@pytest.mark.parametrize("bias", [0.0, -1.0])
def test_outputs_and_gradients_are_equal(pool, bias):
    network, x = stack(pool), images()
    network(x)
    nn.init.constant_(network[0][0].bias, bias)
    answers, gradients = [], []
    for run in (network, pooled_first(network)):
        answers.append(run(x))
        gradients.append(torch.autograd.grad(answers[-1].square().sum(), list(network.parameters())))
    assert pooled_first(network) is not network
    assert torch.equal(*answers)
    for plain, swapped in zip(*gradients, strict=True):
        assert torch.equal(plain, swapped)


def test_networks_with_hooks_or_without_a_pool_behind_relu_run_as_they_are():
    class Own(nn.Sequential):
        pass

    hooked = stack()
    hooked[0][1].register_forward_hook(lambda *_: None)
    for network in (hooked, stack(nn.AvgPool2d(2)), Own(*stack()), nn.Sequential(nn.Linear(2, 2), nn.ReLU())):
        assert pooled_first(network) is network
    pool = nn.MaxPool2d(2, return_indices=True)
    assert pooled_first(nn.Sequential(nn.ReLU(), pool)) is not None
    unswapped = nn.Sequential(nn.ReLU(), pool)
    assert pooled_first(unswapped) is unswapped


def test_a_trained_network_is_the_one_that_autograd_gives_in_the_order_as_written(monkeypatch):
    network, x = stack(), images(64)
    network(x)
    data = (x, torch.arange(64) % 3)
    swapped = train(network, data, schedule=0.05, epochs=2).network
    monkeypatch.setattr("weightsmith.training.engines.choice.pooled_first", lambda network: network)
    plain = train(network, data, schedule=0.05, epochs=2).network
    for one, other in zip(swapped.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
