from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.training.penalties import MaxNorm, Weight


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
