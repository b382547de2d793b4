"""Layers of 8 bits: their sums are those of whole numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.networks.editing.int8 import Int8Layer, has_int8, int8_outline, is_int8_file


@pytest.mark.parametrize("groups", [1, 3])
def test_a_convolution_is_that_of_whole_numbers(groups):
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 6, 3, padding=1, stride=2, groups=groups)
    x = torch.randn(12, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    made = Int8Layer(layer)
    made.set_range(float(x.min()), float(x.max()))
    zero, scale = int(made.input_zero), float(made.input_scale)
    whole = torch.clamp(torch.round(x.double() / torch.tensor(scale)) + zero, 0, 255) - zero
    sums = nn.functional.conv2d(whole.long(), made.weight.long(), padding=1, stride=2, groups=groups)
    expected = sums * (scale * made.weight_scale).reshape(1, -1, 1, 1) + layer.bias.detach().reshape(1, -1, 1, 1)
    assert torch.allclose(made(x), expected.float(), rtol=1e-6, atol=1e-6)
    assert float((made(x) - layer(x)).detach().abs().max()) < 0.05


def test_sums_that_float32_cannot_hold_are_exact_too():
    layer = nn.Linear(4000, 1)
    torch.nn.init.constant_(layer.weight, 1.0)
    torch.nn.init.zeros_(layer.bias)
    made = Int8Layer(layer)
    made.set_range(0.0, 255.0)
    x = torch.full((1, 4000), 255.0)
    x[0, 0] = 254.0  # the sum is odd: 127 (255 · 4000 − 1) > 2²⁴
    sums = made._sums(x)
    assert sums.item() == float(torch.tensor(127 * (255 * 4000 - 1), dtype=torch.float64).float())
    assert made(x).item() == pytest.approx(255 * 4000 - 1, rel=1e-6)


def test_the_names_of_its_tensors_tell_an_outline():
    plain = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    outline = int8_outline(plain)
    assert has_int8(outline)
    assert not has_int8(plain)
    assert is_int8_file(outline.state_dict())
    assert not is_int8_file(plain.state_dict())
