from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UnknownName
from weightsmith.networks import resnet
from weightsmith.networks.models.batchnorm import SeedBatchNorm1d
from weightsmith.training.freezing import freeze, frozen, train_mode, unfreeze


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4), nn.BatchNorm1d(4))


def step(network: nn.Module, batch: torch.Tensor) -> None:
    optimiser = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.1)
    network(batch).square().mean().backward()
    optimiser.step()


@pytest.fixture(autouse=True)
def global_generator_kept():
    with torch.random.fork_rng(devices=[]):
        yield


def test_a_frozen_batch_norm_does_not_move_and_in_plain_torch_it_does():
    batch = torch.randn(16, 3, generator=torch.Generator().manual_seed(1)) + 5
    ours, plain = small(), small()
    before = copy.deepcopy(ours.state_dict())
    for network in (ours, plain):
        freeze(network, ["0", "1"])
    train_mode(ours)
    plain.train()
    for network in (ours, plain):
        step(network, batch)
    for key in ("0.weight", "0.bias", "1.weight", "1.bias"):
        assert torch.equal(ours.state_dict()[key], before[key])
        assert torch.equal(plain.state_dict()[key], before[key])
    for key in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
        assert torch.equal(ours.state_dict()[key], before[key])
        assert not torch.equal(plain.state_dict()[key], before[key])  # the reason why train_mode exists
    for key in ("3.weight", "4.running_mean", "4.num_batches_tracked"):
        assert not torch.equal(ours.state_dict()[key], before[key])


def test_a_frozen_batch_norm_gives_what_it_gave_before():
    network, batch = small(), torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    expected = network[:3].eval()(batch)
    freeze(network, "[01]")
    train_mode(network)
    assert torch.equal(network[:3](batch), expected)


@pytest.mark.parametrize(
    "norm",
    [nn.BatchNorm1d(4), SeedBatchNorm1d(4), nn.SyncBatchNorm(4), nn.InstanceNorm1d(4, True, track_running_stats=True)],
)
def test_every_norm_with_running_statistics_is_held(norm):
    norm = copy.deepcopy(norm)
    if norm.affine:
        freeze(norm, ["weight", "bias"])
    else:
        freeze(nn.Sequential(norm), "0")
    train_mode(norm)
    assert not norm.training


def test_a_batch_norm_without_parameters_is_held_only_when_named():
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, affine=False))
    train_mode(network)
    assert network[1].training
    freeze(network, "0")
    train_mode(network)
    assert network[1].training
    assert freeze(network, "1") == ()
    train_mode(copy.deepcopy(network))
    train_mode(network)
    assert not network[1].training
    unfreeze(network, "1")
    train_mode(network)
    assert network[1].training


def test_a_half_frozen_batch_norm_moves():
    network = small()
    freeze(network, "1.weight")
    train_mode(network)
    assert network[1].training


def test_dropout_of_a_frozen_part_stays_on():
    network = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    freeze(network)
    train_mode(network)
    assert network[1].training


def test_globs_name_parameters_layers_and_parts():
    network = resnet(8)
    every = [name for name, _ in network.named_parameters()]
    assert freeze(network, "layer1") == tuple(name for name in every if name.startswith("layer1."))
    assert freeze(network, "*.bias") == tuple(name for name in every if name.endswith(".bias"))
    assert frozen(network) == tuple(name for name in every if name.startswith("layer1.") or name.endswith(".bias"))
    assert unfreeze(network) == tuple(every)
    assert frozen(network) == ()
    assert freeze(network, ["layer2.0.bn?", "conv1"]) == (
        "conv1.weight",
        "layer2.0.bn1.weight",
        "layer2.0.bn1.bias",
        "layer2.0.bn2.weight",
        "layer2.0.bn2.bias",
    )


def test_a_glob_that_matches_nothing_is_named_and_nothing_is_frozen():
    network = small()
    with pytest.raises(UnknownName, match="layer to freeze or unfreeze 'layer7'"):
        freeze(network, ["0", "layer7"])
    assert frozen(network) == ()
