from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.copying import copied


def test_a_copy_is_equal_and_independent():
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    copy = copied(network)
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), copy.state_dict().values(), strict=True)
    )
    copy[0].weight.data.zero_()
    assert bool(network[0].weight.any())


def test_parametrised_networks_are_copied():
    network = nn.Sequential(parametrizations.weight_norm(nn.Linear(2, 3)))
    x = torch.ones(1, 2)
    assert torch.equal(copied(network)(x), network(x))


def test_pruning_masks_are_refused_with_the_way_out():
    network = nn.Sequential(nn.Flatten(), prune.l1_unstructured(nn.Linear(2, 3), "weight", 0.5))
    with pytest.raises(UsageError, match=r"^1: its weight is recomputed in each pass .* \(prune.remove"):
        copied(network)
    prune.remove(network[1], "weight")
    assert torch.equal(copied(network)[1].weight, network[1].weight)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_gradient_hooks_which_a_copy_would_lose_are_refused(register):
    network = nn.Sequential(nn.Linear(2, 3))
    handle = getattr(network[0].weight, register)(lambda gradient: None)
    with pytest.raises(UsageError, match=r"^0\.weight: has a gradient hook"):
        copied(network)
    handle.remove()
    copied(network)


def test_layers_without_a_size_are_refused():
    with pytest.raises(UsageError, match=r"^0\.weight: has no size yet"):
        copied(nn.Sequential(nn.LazyLinear(3)))
