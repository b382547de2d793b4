from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.networks.layers.norms import spectral
from weightsmith.training.penalties import SpectralNorm


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 3), (4, 3, 2, 2)])
def test_value_and_gradient_are_those_of_the_formula(weight, shape):
    item = weight(shape)
    item.value.data.add_(1.0)
    free = item.value.detach().clone().requires_grad_()
    formula = 0.3 * torch.linalg.matrix_norm(free.flatten(1), 2).square()
    formula.backward()
    penaliser = SpectralNorm(0.3).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(formula.item(), rel=1e-10)
    assert torch.allclose(item.value.grad, free.grad, rtol=1e-6, atol=1e-9)


def test_the_map_of_a_trained_layer_stretches_less(descend):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 8, generator=generator)
    y = x @ torch.randn(8, 6, generator=generator)
    norms = []
    for strength in ("0.0", "0.3"):
        layer = nn.Linear(8, 6, bias=False)
        layer.weight.data = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
        descend(layer, lambda: (layer(x) - y).square().mean(), [f"spectral:{strength}"], rate=0.05, steps=300)  # noqa: B023
        norms.append(spectral(layer.weight).item())
    assert norms[1] < 0.7 * norms[0]


def test_only_the_largest_singular_value_is_pulled(weight):
    item = weight(torch.diag(torch.tensor([5.0, 2.0, 1.0])))
    SpectralNorm(0.1).on([item]).add_gradient()
    assert torch.allclose(item.value.grad, torch.diag(torch.tensor([1.0, 0.0, 0.0])), atol=1e-4)
