from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from weightsmith.networks.layers.norms import unit_norms
from weightsmith.training.penalties import L4Balance, Weight, weights_of


def spread(values: torch.Tensor) -> torch.Tensor:
    """The squared coefficient of variation of the units' L4 norms, as plainly as it can be written."""
    norms = values.flatten(1).pow(4).sum(1).pow(0.25)
    return norms.var(unbiased=False) / norms.mean() ** 2


@pytest.mark.parametrize("shape", [(2, 2), (5, 3), (4, 3, 2, 2), (3, 2, 4)])
def test_value_and_gradient_are_those_of_the_formula(weight, shape):
    item = weight(shape)
    free = item.value.detach().clone().requires_grad_()
    (0.3 * spread(free)).backward()
    penaliser = L4Balance(0.3).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(0.3 * spread(free).item(), rel=1e-10)
    assert torch.allclose(item.value.grad, free.grad, rtol=1e-8, atol=1e-12)


@given(st.integers(0, 2**16), st.integers(-12, 8))
def test_scale_free_and_orthogonal_to_uniform_scaling(seed, exponent):
    values = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
    scale = 10.0**exponent
    answers = []
    for factor in (1.0, scale):
        parameter = nn.Parameter(values * factor)
        parameter.grad = torch.zeros_like(parameter)
        penaliser = L4Balance(1.0).on([Weight("weight", parameter)])
        penaliser.add_gradient()
        answers.append((penaliser.value(), parameter.grad * factor))
        cosine = nn.functional.cosine_similarity(parameter.double().flatten(), parameter.grad.double().flatten(), 0)
        assert abs(cosine.item()) < 1e-5
    assert answers[1][0] == pytest.approx(answers[0][0], rel=1e-4)
    assert torch.allclose(answers[1][1], answers[0][1], rtol=1e-3, atol=1e-6)


def test_zero_when_all_norms_are_equal_and_only_then(weight):
    values = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    equal = values / unit_norms(values, 4)[:, None]
    item = weight(equal)
    penaliser = L4Balance(1.0).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(0, abs=1e-15)
    assert item.value.grad.abs().max() < 1e-12
    item.value.data[0] *= 1.1
    assert penaliser.value() > 1e-4


def test_one_unit_is_always_in_balance(weight):
    item = weight((1, 9))
    penaliser = L4Balance(1.0).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(0, abs=1e-15)
    assert item.value.grad.abs().max() < 1e-12


def test_a_dead_unit_gets_no_gradient_and_the_others_a_finite_one(weight):
    values = weight((4, 3)).value.detach()
    values[2] = 0
    item = weight(values)
    L4Balance(1.0).on([item]).add_gradient()
    assert item.value.grad[2].eq(0).all()
    assert item.value.grad.isfinite().all()
    assert item.value.grad[0].abs().max() > 0


def test_the_first_weight_only_unless_another_is_given():
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 2))
    names = {
        "": ["0.weight"],
        "*": ["0.weight", "1.weight", "2.weight"],
        "[12]": ["1.weight", "2.weight"],
    }
    for glob, expected in names.items():
        penaliser = L4Balance(1.0, layers=glob).on(weights_of(network))
        assert [weight.name for weight in penaliser.weights] == expected


def test_training_with_it_brings_the_norms_together(descend):
    generator = torch.Generator().manual_seed(0)
    x, labels = torch.randn(200, 5, generator=generator), torch.randint(3, (200,), generator=generator)
    results = []
    for penalties in ([], ["l4-balance:5.0"]):
        drawn = torch.Generator().manual_seed(1)
        network = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3))
        for parameter in network.parameters():
            parameter.data = torch.randn(parameter.shape, generator=drawn)
        start = spread(network[0].weight).item(), network[0].weight.norm().item()
        loss = nn.CrossEntropyLoss()
        descend(network, lambda: loss(network(x), labels), penalties, rate=0.1, steps=300)  # noqa: B023
        results.append((spread(network[0].weight).item(), network[0].weight.norm().item()))
    (free, _), (held, size) = results
    assert held < 0.02 * min(free, start[0])
    assert size > 0.8 * start[1], "not by shrinking the weights"
