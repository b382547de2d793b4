"""Units folded by their weights alone."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import nn

from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.folding import Folding
from weightsmith.reducing.surgery.removal import cut_out
from weightsmith.reducing.surgery.sites import find_sites


def _context(whole: nn.Module, x: torch.Tensor) -> PruningContext:
    return PruningContext(whole, find_sites(whole, x[:2]).sites, x, torch.zeros(len(x), dtype=torch.int64))


@pytest.mark.parametrize("kind", ["mlp with batch norm", "vgg with batch norm", "vgg with bias", "resnet conv"])
def test_every_fold_agrees_with_the_masked_network(kind: str) -> None:
    whole, x = network(kind), inputs(kind)
    context = _context(whole, x)
    counts = {site.name: (site.units + 1) // 2 for site in context.sites}
    decision = Folding().choose(context, counts)
    cut = cut_out(whole, context.sites, decision.choices, x)
    assert not cut.refused
    assert {choice.site: len(choice.kept) for choice in cut.done} == counts
    assert all(removal.inputs == "fold" for choice in cut.done for removal in choice.removals)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["vgg", "vgg with batch norm"])
def test_copies_of_a_unit_fold_into_it_exactly(kind: str) -> None:
    """Equal but for what the batch norm behind makes equal."""
    whole, x = copy.deepcopy(network(kind)), inputs(kind)
    context = _context(whole, x)
    site = next(site for site in context.sites if len(site.writers) == 1 and site.units > 3)
    layer = whole.get_submodule(site.name)
    scale = 1.0
    if site.norms:
        norm = whole.get_submodule(site.norms[site.name])
        for value in (norm.weight, norm.bias, norm.running_var, norm.running_mean):
            value[1] = value[0]
        norm.running_mean[1] *= 2.0
        norm.weight[1] /= 2.0
        scale = 2.0
    layer.weight[1] = scale * layer.weight[0]
    if layer.bias is not None:
        layer.bias[1] = scale * layer.bias[0]
    counts = {each.name: each.units - (each.name == site.name) for each in context.sites}
    cut = cut_out(whole, context.sites, Folding().choose(context, counts).choices, x)
    assert [set(range(site.units)) - set(choice.kept) for choice in cut.done] in ([{0}], [{1}])
    torch.testing.assert_close(cut.network(x), whole(x), rtol=1e-4, atol=1e-5)


def test_a_folded_row_is_the_mean_with_the_length_of_its_cluster() -> None:
    whole = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        whole[0].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0], [-9.0, -9.0]]))
        whole[0].bias.copy_(torch.tensor([1.0, 2.0, 5.0]))
        whole[2].weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    context = _context(whole, torch.randn(8, 2))
    cut = cut_out(whole, context.sites, Folding().choose(context, {"0": 2}).choices, context.x)
    row = np.array([1.5, 2.0]) * np.sqrt((9 + 16) / 2) / 2.5
    np.testing.assert_allclose(cut.network[0].weight[0].detach().numpy(), row, rtol=1e-6)
    assert cut.network[0].bias.tolist() == [1.5, 5.0]
    assert cut.network[2].weight.tolist() == [[3.0, 3.0], [9.0, 6.0]]
