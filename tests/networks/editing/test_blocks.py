from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.networks import mlp, paper_resnet, resnet, vgg
from weightsmith.networks.editing.blocks import Chain, without_last_dense

SMALL = {
    "mlp": lambda: mlp(12, 6, 5, 4, batch_norm="before", dropout=0.2),
    "vgg": lambda: vgg(5, (3, 8, 8), widths=(4, 5, 6), classifier=(7,), batch_norm=True),
    "resnet, padded": lambda: resnet(8, (3, 8, 8), widths=(4, 6, 8)),
    "resnet, convolutions": lambda: resnet(8, (3, 8, 8), widths=(4, 6, 8), shortcut="conv"),
    "paper's resnet": lambda: paper_resnet((3, 16, 16), widths=(4, 5)),
}
COUNTS = {"mlp": 3, "vgg": 5, "resnet, padded": 5, "resnet, convolutions": 5, "paper's resnet": 8}


def inputs_of(network: nn.Module) -> torch.Tensor:
    shape = network.architecture.input_shape
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", SMALL)
def test_blocks_hold_every_layer_once_in_order(name):
    network = SMALL[name]()
    blocks = Chain(network).blocks
    assert len(blocks) == COUNTS[name]
    layers = [layer for block in blocks for layer in block.layers]
    holding = [layer for layer, module in network.named_modules() if any(True for _ in module.parameters(False))]
    assert sorted(layers) == sorted(holding)
    first = {layer: index for index, layer in enumerate(holding)}
    assert [first[block.layers[0]] for block in blocks] == sorted(first[block.layers[0]] for block in blocks)


@pytest.mark.parametrize("name", SMALL)
def test_the_lower_part_gives_what_the_next_block_was_fed(name):
    """Whatever enters the first layer of block k + 1 in the whole network leaves the lower part of k blocks."""
    network = SMALL[name]().eval()
    chain, x = Chain(network), inputs_of(network)
    for count in range(1, len(chain.blocks)):
        entered = []
        following = network.get_submodule(chain.blocks[count].layers[0])
        hook = following.register_forward_hook(lambda module, inputs, output, seen=entered: seen.append(inputs[0]))
        with torch.no_grad():
            network(x)
            hook.remove()
            lower = chain.lower(count)
            assert torch.equal(lower(x), entered[0])
        names = {name.rpartition(".")[0] for name in lower.state_dict()}
        assert names == {layer for block in chain.blocks[:count] for layer in block.layers}
        assert all(torch.equal(value, network.state_dict()[key]) for key, value in lower.state_dict().items())


def test_the_network_is_not_changed_and_shares_nothing():
    network = SMALL["resnet, padded"]()
    before = copy.deepcopy(network.state_dict())
    lower = Chain(network).lower(2)
    with torch.no_grad():
        lower.conv1.weight.zero_()
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert network.training


class Diamond(nn.Module):
    """Two branches that meet again: no cut point inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right, self.last = (
            nn.Linear(4, 4),
            nn.Linear(4, 3),
            nn.Linear(4, 3),
            nn.Linear(6, 2),
        )
        self.scale = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        x = torch.relu(self.first(x)) @ self.scale
        return self.last(torch.cat([self.left(x), self.right(x)], dim=1).reshape(x.size(0), -1)).softmax(1)


def test_a_module_of_ones_own_is_cut_where_one_value_passes():
    chain = Chain(Diamond())
    assert [block.layers for block in chain.blocks] == [("first",), ("scale",), ("left", "right"), ("last",)]
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    assert chain.lower(3)(x).shape == (2, 6)


class TwoInputs(nn.Module):
    def forward(self, x, y):
        return x + y


def test_what_cannot_be_cut_is_named():
    with pytest.raises(UsageError, match=r"TwoInputs takes 2 inputs \(x, y\)"):
        Chain(TwoInputs())
    with pytest.raises(UsageError, match="cannot keep 9 blocks: the network can be cut after blocks 1 to 2"):
        Chain(SMALL["mlp"]()).lower(9)
    with pytest.raises(UsageError, match="none of its layers"):
        Chain(nn.Linear(2, 2)).lower(1)


class Winding(nn.Module):
    """Cannot be traced: what it does depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 6))
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        x = self.body(x)
        return self.out(x if x.sum() > 0 else -x)


class Scaled(Winding):
    def forward(self, x):
        return super().forward(x) * 2


def test_the_last_dense_layer_of_an_untraceable_network_is_cut_off():
    network = Winding().eval()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    lower, blocks = without_last_dense(network, torch.zeros(2, 4))
    features = network.body(x)
    assert torch.equal(lower(x), features if features.sum() > 0 else -features)
    assert [block.layers for block in blocks] == [("body.0", "body.1"), ("body.2",)]
    assert isinstance(network.out, nn.Linear)


def test_an_output_that_is_not_the_dense_layers_is_refused():
    with pytest.raises(UsageError, match=r"so only its last dense layer \(out\) could be cut off, but"):
        without_last_dense(Scaled(), torch.ones(2, 4))
    with pytest.raises(UsageError, match="Conv2d has no dense layer"):
        without_last_dense(nn.Conv2d(1, 1, 1), torch.zeros(2, 1, 1, 1))
