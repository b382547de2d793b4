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
from weightsmith.reducing.surgery.removal import cut_out
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


class Normed(nn.Module):
    """A residual block with group norms."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(groups, 8)
        self.inner, self.inner_norm = nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(groups, 8)
        self.back, self.out = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(x + self.back(torch.relu(self.inner_norm(self.inner(x)))))
        return self.out(x.mean((2, 3)))


class Joined(nn.Module):
    """Dense connections: batch norms behind concatenations."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm1, self.grow = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3)
        self.norm2, self.out = nn.BatchNorm2d(12), nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.cat([x[:, :, 1:-1, 1:-1], self.grow(torch.relu(self.norm1(x)))], dim=1)
        return self.out(torch.relu(self.norm2(x)).mean((2, 3)))


def grouped() -> nn.Module:
    """ResNeXt's way: groups between convolutions that read and write all channels."""
    inner = [nn.Conv2d(8, 12, 3, groups=4, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    return nn.Sequential(nn.Conv2d(1, 8, 1), *inner, nn.Conv2d(12, 6, 1), nn.Flatten(), nn.Linear(96, 5))


def dense_with_layer_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 5))


@pytest.mark.parametrize(
    ("build", "units"),
    [
        (lambda: Normed(4), {"stem": 4, "inner": 4}),
        (lambda: Normed(1), {"stem": 8, "inner": 8}),
        (Joined, {"stem": 8, "grow": 4}),
        (dense_with_layer_norm, {"1": 8}),
        (grouped, {"0": 4, "4": 6}),
    ],
    ids=["groups", "one group", "joined", "layer norm", "grouped convolution"],
)
def test_norms_and_groups_of_channels_give_what_the_cut_network_gives(build, units) -> None:
    """Where channels are grouped a unit is a whole group; a single group is normalised over the units that stay."""
    torch.manual_seed(0)
    whole, x = build().eval(), torch.randn(6, 1, 6, 6)
    for layer in whole.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm):
            for value in (*layer.parameters(), *(each for each in layer.buffers() if each.dim())):
                value.data.uniform_(0.5, 1.5)
    sites = find_sites(whole, x[:2]).sites
    assert {site.name: site.units for site in sites} == units
    choices = [Choice(site.name, site.units, (Removal(0, (1,), (0.5,)), Removal(site.units - 1))) for site in sites]
    cut = cut_out(whole, sites, choices, x)
    assert not cut.refused
    with torch.no_grad(), masked(whole, sites, choices):
        torch.testing.assert_close(cut.network(x), whole(x), rtol=1e-4, atol=1e-5)
    for site in sites:
        left = site.widths(whole, site.units - 2)
        assert all(len(cut.network.get_submodule(layer).weight) == width for layer, width in left.items())


def test_a_single_group_is_normalised_over_what_stays() -> None:
    torch.manual_seed(0)
    whole, x = dense_with_layer_norm().eval(), torch.randn(6, 1, 6, 6)
    sites = find_sites(whole, x[:2]).sites
    with torch.no_grad(), masked(whole, sites, [Choice("1", 8, (Removal(2),))]):
        given = whole(x)
    hidden = torch.cat([(values := whole[1](x.flatten(1)))[:, :2], values[:, 3:]], dim=1)
    normed = nn.functional.gelu(nn.functional.layer_norm(hidden, (7,)))
    by_hand = normed @ torch.cat([whole[4].weight[:, :2], whole[4].weight[:, 3:]], dim=1).T + whole[4].bias
    torch.testing.assert_close(given, by_hand)
