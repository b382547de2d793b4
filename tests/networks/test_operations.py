from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.networks.operations import Operations, count_operations, operations


def test_an_mlp():
    assert operations(ws.networks.mlp(784, 300, 100, 10), torch.zeros(1, 784)) == 784 * 300 + 300 * 100 + 100 * 10


def test_vgg_5_of_the_paper():
    """3×3 convolutions 3→64 on 32×32, 64→128 and 128→128 on 16×16, then 8192 values into 4096, 4096, 10."""
    found = count_operations(ws.networks.vgg(5), torch.zeros(1, 3, 32, 32))
    assert list(found.layers.values()) == [
        32 * 32 * 64 * 3 * 9,
        16 * 16 * 128 * 64 * 9,
        16 * 16 * 128 * 128 * 9,
        128 * 8 * 8 * 4096,
        4096 * 4096,
        4096 * 10,
    ]


@pytest.mark.parametrize("shortcut", ["pad", "conv"])
def test_resnet_20(shortcut):
    """Stem 3→16 on 32×32; stages of six convolutions at 32, 16 and 8 pixels, each later one entered by half the
    channels; 64→10 at the end: 40.55 million, as the field has it."""
    stem = 32 * 32 * 16 * 3 * 9
    first = 6 * 32 * 32 * 16 * 16 * 9
    second = 16 * 16 * 32 * 9 * (16 + 5 * 32)
    third = 8 * 8 * 64 * 9 * (32 + 5 * 64)
    whole = stem + first + second + third + 64 * 10
    assert round(whole / 1e6, 2) == 40.55
    shortcuts = 16 * 16 * 32 * 16 + 8 * 8 * 64 * 32 if shortcut == "conv" else 0
    assert operations(ws.networks.resnet(20, shortcut=shortcut), torch.zeros(1, 3, 32, 32)) == whole + shortcuts


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Conv1d(4, 6, 3), (4, 10), 8 * 6 * 4 * 3),
        (nn.Conv2d(4, 6, (3, 2), groups=2, padding=1), (4, 5, 5), 5 * 6 * 6 * 2 * 6),
        (nn.Conv2d(8, 8, 3, groups=8, stride=2), (8, 7, 7), 3 * 3 * 8 * 9),
        (nn.Conv3d(2, 3, 2), (2, 4, 4, 4), 27 * 3 * 2 * 8),
        (nn.ConvTranspose2d(4, 6, 3, stride=2), (4, 5, 5), 5 * 5 * 4 * 6 * 9),
        (nn.ConvTranspose1d(4, 6, 3, groups=2), (4, 5), 5 * 4 * 3 * 3),
        (nn.Linear(8, 3), (5, 8), 5 * 8 * 3),
    ],
)
def test_each_kind_of_layer(layer, shape, expected):
    assert operations(nn.Sequential(layer), torch.zeros(7, *shape)) == expected


def test_without_zeros_padding_and_weights_of_0_do_not_count():
    layer = nn.Conv2d(2, 3, 3, padding=1)
    inside = 3 * 2 * (4 + 3 + 3) ** 2  # along an axis the middle of the kernel fits 4 times, its ends 3 times
    found = count_operations(nn.Sequential(layer), torch.zeros(1, 2, 4, 4), zeros=False)
    assert (found.total, operations(layer, torch.zeros(1, 2, 4, 4))) == (inside, 3 * 2 * 9 * 16)
    with torch.no_grad():
        layer.weight[0, 0] = 0
        layer.weight[1, 1, 1, 1] = 0
    found = count_operations(nn.Sequential(layer), torch.zeros(1, 2, 4, 4), zeros=False)
    assert found.total == inside - 10**2 - 16
    dense = nn.Linear(4, 3)
    with torch.no_grad():
        dense.weight[0, :3] = 0
    assert count_operations(dense, torch.zeros(1, 4), zeros=False).total == 9
    mirrored = nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")  # what it pads with are values of the image
    assert count_operations(mirrored, torch.zeros(1, 2, 4, 4), zeros=False).total == 3 * 2 * 9 * 16


def test_resnet_20_without_zeros():
    """Along an axis of n pixels a kernel of 3 covers 3n − 2 of them; entered with stride 2 the near border only."""
    full = {size: (3 * size - 2) ** 2 for size in (32, 16, 8)}
    halved = {size: (3 * size - 1) ** 2 for size in (16, 8)}
    whole = full[32] * (3 * 16 + 6 * 16 * 16) + 32 * (16 * halved[16] + 5 * 32 * full[16])
    whole += 64 * (32 * halved[8] + 5 * 64 * full[8]) + 64 * 10
    net, example = ws.networks.resnet(20, shortcut="pad"), torch.zeros(1, 3, 32, 32)
    assert count_operations(net, example, zeros=False).total == whole
    assert round(4.6e-6 * whole, 1) == 170.0  # µJ in float32, and 186.5 with zeros
    assert round(4.6e-6 * operations(net, example), 1) == 186.5


def test_a_layer_used_twice_counts_twice_and_one_that_is_not_reached_is_named():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared, self.idle = nn.Linear(4, 4), nn.Linear(4, 9)
            self.rest = nn.GRU(4, 5, batch_first=True)
            self.norm = nn.LayerNorm((1, 4))

        def forward(self, x):
            return self.rest(self.shared(self.shared(x))[:, None])[0]

    found = count_operations(Own(), torch.zeros(2, 4))
    assert found == Operations({"shared": 32}, ("idle (Linear)", "rest (GRU)"))
    assert found.total == 32
    assert Operations.from_json(found.to_json()) == found


def test_the_network_is_left_as_it_is():
    network = ws.networks.mlp(6, 4, 3, batch_norm="before").train()
    before = weights_digest(network)
    operations(network, torch.ones(3, 6))
    assert (weights_digest(network), network.training, network.norm1.training) == (before, True, True)
    assert not any(module._forward_hooks for module in network.modules())


def test_double_precision_takes_the_example_in_its_own_type():
    assert operations(nn.Linear(4, 2).double(), torch.zeros(1, 4)) == 8


def test_examples_that_do_not_fit():
    with pytest.raises(DataMismatch, match=r"cannot take inputs of shape \(5,\)"):
        operations(nn.Linear(4, 2), torch.zeros(1, 5))
    with pytest.raises(UsageError, match="must be a batch of at least one input"):
        operations(nn.Linear(4, 2), torch.zeros(4))
