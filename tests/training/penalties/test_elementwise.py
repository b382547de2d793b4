from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.training.optimisers import Sgd
from weightsmith.training.penalties import L1, L2, MaxNorm, Weight


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


@given(st.integers(0, 2**16), st.floats(0.1, 5), st.sampled_from([(4, 3), (3, 2, 2, 2), (2, 1)]))
def test_long_units_land_on_the_ball_and_short_ones_keep_every_bit(seed, most, shape):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    parameter = nn.Parameter(values.clone())
    MaxNorm(most).on([Weight("weight", parameter)]).after_step(0.1)
    for before, after in zip(values, parameter.detach(), strict=True):
        length = before.norm().item()
        if length <= most * (1 - 1e-6):
            assert torch.equal(before, after)
        elif length > most * (1 + 1e-6):
            assert after.norm().item() == pytest.approx(most, rel=1e-6)
            assert torch.allclose(after / most, before / length, rtol=1e-5, atol=1e-7)


def test_bits_of_short_units_survive_a_long_neighbour(weight):
    short = [1e-30, -0.0, 0.1, 0.7]
    item = weight(torch.tensor([short, [30.0, 0.0, 40.0, 0.0]]))
    before = item.value.detach()[0].numpy().tobytes()
    penaliser = MaxNorm(1.0).on([item])
    for _ in range(50):
        penaliser.after_step(0.1)
    assert item.value.detach()[0].numpy().tobytes() == before
    assert item.value[1].tolist() == pytest.approx([0.6, 0.0, 0.8, 0.0], rel=1e-6)


def test_units_whose_squares_overflow_are_projected_not_lost(weight):
    item = weight(torch.tensor([[3e25, 4e25], [0.1, 0.1]]))
    MaxNorm(1.0).on([item]).after_step(0.1)
    assert item.value[0].tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_projected_descent_finds_the_nearest_point_of_the_ball(descend):
    goal = torch.tensor([[3.0, 4.0], [0.1, 0.2]])
    layer = nn.Linear(2, 2, bias=False)
    descend(layer, lambda: (layer.weight - goal).square().sum(), ["max-norm:2"], rate=0.1, steps=100)
    assert torch.allclose(layer.weight, torch.tensor([[1.2, 1.6], [0.1, 0.2]]), atol=1e-5)


def test_it_costs_nothing_and_has_a_range(weight):
    item = weight((3, 3))
    penaliser = MaxNorm(0.1).on([item])
    penaliser.add_gradient()
    assert (penaliser.value(), item.value.grad.abs().sum().item(), penaliser.removed()) == (0.0, 0.0, ())
    with pytest.raises(OptionError, match="most must be > 0"):
        MaxNorm(0)
