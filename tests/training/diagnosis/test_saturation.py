"""Which sigmoids and tanhs count as flat, and which calls are seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.training.diagnosis.saturation import SaturationWatch, flat_share


@pytest.mark.parametrize(("kind", "bend"), [("sigmoid", 4.36), ("tanh", 2.18)])
def test_flat_is_below_a_twentieth_of_the_largest_slope(kind, bend):
    n = torch.linspace(-9, 9, 1801, requires_grad=True)
    answers = getattr(torch, kind)(n)
    (slope,) = torch.autograd.grad(answers.sum(), n)
    assert flat_share(kind, answers) == pytest.approx(float((slope < slope.max() / 20).double().mean()), abs=0.002)
    inside, outside = (getattr(torch, kind)(torch.tensor([value])) for value in (bend - 0.02, bend + 0.02))
    assert (flat_share(kind, inside), flat_share(kind, outside)) == (0.0, 1.0)


def test_modules_functions_methods_and_operations_in_place_are_seen():
    x = torch.full((4,), 9.0)
    for call in (
        nn.Tanh(),
        torch.tanh,
        nn.functional.tanh,
        torch.Tensor.tanh,
        lambda x: x.clone().tanh_(),
        nn.Sigmoid(),
    ):
        watch = SaturationWatch(["layer"])
        with watch:
            call(x)
        assert watch.share("layer") == 1.0


def test_a_share_belongs_to_the_layer_called_last():
    calls = []
    watch = SaturationWatch(calls)
    with watch:
        torch.tanh(torch.ones(3))  # before any layer
        calls.append("a")
        torch.tanh(torch.zeros(3))
        torch.tanh(torch.full((3,), 9.0))
        calls.append("b")
        torch.relu(torch.ones(3))
    assert watch.share("a") == 0.5
    assert watch.share("b") is None
