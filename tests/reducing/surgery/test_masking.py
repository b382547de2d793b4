"""Masks by hooks: what readers are given, by hand, and nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import nn

from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.masking import masked, silenced, unit_axis
from weightsmith.reducing.surgery.sites import find_sites


def test_silent_units_are_read_as_zeros() -> None:
    whole, x = mlp(4, 3, 2, activation="sigmoid"), torch.randn(5, 4)
    sites = find_sites(whole, x[:2]).sites
    with torch.no_grad():
        hidden = torch.sigmoid(whole.dense1(x)) * torch.tensor([1.0, 0.0, 1.0])
        with silenced(whole, sites, {"dense1": np.array([True, False, True])}):
            torch.testing.assert_close(whole(x), whole.output(hidden))


@pytest.mark.parametrize("kind", ["vgg", "resnet conv"])
def test_silence_is_a_removal_without_a_stand_in(kind: str) -> None:
    whole, x = network(kind), inputs(kind)
    sites = find_sites(whole, x[:2]).sites
    on = {site.name: np.arange(site.units) % 3 > 0 for site in sites}
    choices = [
        Choice(site.name, site.units, tuple(Removal(int(unit)) for unit in np.flatnonzero(~on[site.name])))
        for site in sites
    ]
    with torch.no_grad():
        with silenced(whole, sites, on):
            first = whole(x)
        with masked(whole, sites, choices):
            second = whole(x)
        assert not torch.allclose(first, whole(x))
    torch.testing.assert_close(first, second)


def test_constants_reach_into_the_padding() -> None:
    """A 3×3 convolution with padding reads a constant channel at every position alike, as a bias would be added."""
    conv = nn.Conv2d(2, 3, 3, padding=1)
    whole = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), conv, nn.Flatten(), nn.Linear(48, 2)).eval()
    x = torch.randn(2, 1, 4, 4)
    sites = find_sites(whole, x).sites
    seen: list[torch.Tensor] = []
    handle = whole[3].register_forward_pre_hook(lambda _m, given: seen.append(given[0]))
    with torch.no_grad(), masked(whole, sites, [Choice("0", 2, (Removal(1, constant=2.0),))]):
        whole(x)
        plain = nn.functional.conv2d(torch.relu(whole[0](x))[:, :1], conv.weight[:, :1], conv.bias, padding=1)
        expected = plain + 2.0 * conv.weight[:, 1].sum(dim=(1, 2)).reshape(1, 3, 1, 1)
    handle.remove()
    torch.testing.assert_close(seen[0], expected)


def test_hooks_go_even_when_the_block_fails() -> None:
    whole, x = network("vgg"), inputs("vgg")
    sites = find_sites(whole, x[:2]).sites
    with pytest.raises(ZeroDivisionError), masked(whole, sites, [Choice("features.0", 6, (Removal(1, (0,), (1.0,)),))]):
        1 / 0  # noqa: B018
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in whole.modules())


def test_units_lie_along_channels_or_the_last_axis() -> None:
    assert unit_axis(nn.Conv2d(1, 1, 1), torch.zeros(2, 3, 4, 5)) == 1
    assert unit_axis(nn.Linear(1, 1), torch.zeros(2, 3, 4)) == 2
