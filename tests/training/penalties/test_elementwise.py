from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.training.optimisers import Sgd
from weightsmith.training.penalties import L1, L2


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2, 2)])
@pytest.mark.parametrize(
    ("option", "formula"),
    [(L1(0.3), lambda w: 0.3 * w.abs().sum()), (L2(0.3), lambda w: 0.3 * w.square().sum())],
)
def test_value_and_gradient_are_those_of_the_formula(weight, shape, option, formula):
    item = weight(shape)
    item.value.data[0, 0] = 0.0
    free = item.value.detach().clone().requires_grad_()
    formula(free).backward()
    penaliser = option.on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(formula(free).item(), rel=1e-12)
    assert torch.allclose(item.value.grad, free.grad, rtol=1e-12, atol=0)


def test_several_weights_are_summed(weight):
    items = [weight(torch.full((2, 2), 3.0), "a.weight"), weight(torch.full((1, 2), -2.0), "b.weight")]
    assert L1(0.5).on(items).value() == 0.5 * (12 + 4)
    assert L2(0.5).on(items).value() == 0.5 * (36 + 8)
    assert L2(0.5, layers="b").on(items).value() == 0.5 * 8


def test_half_of_torchs_weight_decay(weight):
    ours, theirs = weight((3, 4)), weight((3, 4))
    peer = torch.optim.SGD([theirs.value], lr=0.1, weight_decay=0.3)
    mine = Sgd().build(ours.value, 0.1)
    penaliser = L2(0.3 / 2).on([ours])
    for _ in range(5):
        for one in (ours, theirs):
            one.value.grad = torch.ones_like(one.value)
        penaliser.add_gradient()
        mine.step()
        peer.step()
    assert torch.allclose(ours.value, theirs.value, rtol=1e-12)


def test_l1_finds_which_inputs_matter(descend):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 6, generator=generator)
    y = x[:, :2] @ torch.tensor([[2.0], [-1.0]])
    layer = nn.Linear(6, 1, bias=False)
    descend(layer, lambda: (layer(x) - y).square().mean(), ["l1:0.2"], rate=0.05, steps=400)
    assert layer.weight[0, 2:].abs().max() < 0.02
    # Each weight that matters is pulled in by λ / 2 (and the inputs are not quite uncorrelated).
    assert layer.weight[0, :2].tolist() == pytest.approx([1.9, -0.9], abs=0.05)
