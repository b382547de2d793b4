from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from weightsmith.core.errors import OptionError
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.networks.models.resnet import Resnet, resnet

# He et al. 2016 and common knowledge of the option-A CIFAR networks.
PARAMETERS = {20: 269_722, 32: 464_154, 44: 658_586, 56: 853_018, 110: 1_727_962}


@pytest.mark.parametrize("depth", sorted(PARAMETERS))
def test_parameter_counts(depth):
    assert sum(p.numel() for p in resnet(depth).parameters()) == PARAMETERS[depth]


def test_option_b_of_depth_20_has_the_count_torch_pruning_users_know():
    assert sum(p.numel() for p in resnet(20, shortcut="conv").parameters()) == 272_474


@pytest.mark.parametrize("shortcut", ["pad", "conv"])
def test_a_block_in_long_hand(shortcut):
    network = resnet(8, shortcut=shortcut, seed=1).eval()
    block, x = network.layer2[0], torch.randn(2, 16, 8, 8, generator=torch.Generator().manual_seed(0))

    def norm(layer, y):
        return F.batch_norm(y, layer.running_mean, layer.running_var, layer.weight, layer.bias, eps=layer.eps)

    out = F.relu(norm(block.bn1, F.conv2d(x, block.conv1.weight, stride=2, padding=1)))
    out = norm(block.bn2, F.conv2d(out, block.conv2.weight, padding=1))
    if shortcut == "pad":
        short = torch.zeros(2, 32, 4, 4)
        short[:, 8:24] = x[:, :, ::2, ::2]
    else:
        short = norm(block.downsample[1], F.conv2d(x, block.downsample[0].weight, stride=2))
    assert torch.allclose(block(x), F.relu(out + short), atol=1e-6)


def test_a_block_without_both_convolutions_computes_relu_of_twice_its_input():
    network = resnet(20, removed=("layer1.0.conv1", "layer1.0.conv2", "layer2.2.conv2")).eval()
    x = torch.randn(1, 16, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(network.layer1[0](x), F.relu(2 * x))
    assert not any(name.startswith("layer1.0.") for name in network.state_dict())
    block, y = network.layer2[2], torch.randn(1, 32, 4, 4, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(block(y), F.relu(F.relu(block.bn1(block.conv1(y))) + y))


def test_activation_and_statistics_are_options():
    network = resnet(8, activation="elu", statistics="seed")
    kinds = [type(m).__name__ for m in network.modules()]
    assert (kinds.count("ELU"), kinds.count("ReLU")) == (7, 0)
    assert (kinds.count("SeedBatchNorm2d"), kinds.count("BatchNorm2d")) == (7, 0)


def test_thinned_blocks_and_other_widths_build_and_run():
    inner = (11, 8, 9, 22, 20, 32, 52, 56, 64)
    network = resnet(20, shortcut="conv", inner=inner)
    assert [b.conv1.out_channels for s in (network.layer1, network.layer2, network.layer3) for b in s] == list(inner)
    assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    wide = dataclasses.replace(architecture_of(network), widths=(8, 12, 20), inner=()).build()
    assert wide(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"depth": 21}, "depth must be 6n"),
        ({"depth": 20, "widths": (16, 32)}, "widths must be three"),
        ({"depth": 20, "inner": (1, 2)}, "inner needs 9 values"),
        ({"depth": 20, "removed": ("layer4.0.conv1",)}, "removed names 'layer4.0.conv1'"),
        ({"depth": 20, "removed": ("layer2.0.conv1",)}, "layer2.0.conv1 changes the shape"),
    ],
)
def test_wrong_values_are_named(values, message):
    with pytest.raises(OptionError, match=message):
        Resnet.from_values({"input_shape": (3, 32, 32), "classes": 10, **values}).build()


def test_widths_may_fall_where_convolutions_are_the_shortcuts():
    network = resnet(8, (3, 8, 8), widths=(8, 4, 6), shortcut="conv")
    assert network(torch.zeros(2, 3, 8, 8)).shape == (2, 10)
    with pytest.raises(OptionError, match=r"must not fall \(\(8, 4, 6\)\): shortcut=pad can only add channels"):
        resnet(8, (3, 8, 8), widths=(8, 4, 6))
    with pytest.raises(OptionError, match="must be three"):
        resnet(8, (3, 8, 8), widths=(8, 4))
