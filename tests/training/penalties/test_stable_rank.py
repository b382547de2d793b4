from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.networks.layers.norms import frobenius, spectral, stable_rank
from weightsmith.training.penalties import StableRank, weights_of


@pytest.mark.parametrize("shape", [(1, 4), (5, 3), (4, 3, 2, 2)])
def test_value_and_gradient_are_those_of_the_formula(weight, shape):
    item = weight(shape)
    item.value.data.add_(1.0)
    free = item.value.detach().clone().requires_grad_()
    formula = 0.3 * free.square().sum() / torch.linalg.matrix_norm(free.flatten(1), 2).square()
    formula.backward()
    penaliser = StableRank(0.3).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(formula.item(), rel=1e-10)
    assert torch.allclose(item.value.grad, free.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_the_weights_plays_no_part(weight, scale):
    item = weight((6, 9))
    item.value.data.mul_(scale)
    penaliser = StableRank(1.0).on([item])
    penaliser.add_gradient()
    inner = (item.value * item.value.grad).sum().item()
    assert abs(inner) < 1e-12
    assert item.value.grad.norm().item() * scale > 0.01
    assert penaliser.value() == pytest.approx(stable_rank(item.value).item(), rel=1e-6)


def test_a_matrix_of_rank_one_has_reached_the_least(weight):
    item = weight(torch.outer(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -1.0])).double())
    penaliser = StableRank(1.0).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(1.0, abs=1e-12)
    assert item.value.grad.abs().max() < 1e-12


def trained(descend, strength: float) -> tuple[nn.Module, float]:
    """A small classifier of points by the sign of a product, with or without the penalty."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 6, generator=generator)
    labels = (x[:, 0] * x[:, 1] > 0).long()
    network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.4
    loss = nn.CrossEntropyLoss()
    descend(
        network,
        lambda: loss(network(x), labels),
        [f"stable-rank:{strength}"],
        rate=0.1,
        steps=400,
        optimiser="momentum",
    )
    return network, (network(x).argmax(1) == labels).float().mean().item()


def test_training_with_it_really_lowers_the_stable_rank(descend):
    (free, plain), (held, accuracy) = trained(descend, 0.0), trained(descend, 0.02)
    before = [stable_rank(weight.value).item() for weight in weights_of(free)]
    after = [stable_rank(weight.value).item() for weight in weights_of(held)]
    assert all(low < high for low, high in zip(after, before, strict=True))
    assert sum(after) < 0.7 * sum(before)
    assert min(plain, accuracy) > 0.95
    middle = weights_of(held)[1].value
    assert 1 <= (frobenius(middle) / spectral(middle)).square().item() < 2.5
