from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.networks.models.paper_resnet import PaperResnet, paper_resnet


def test_it_is_the_papers_network():
    """SPEC D: three conv-64 stem layers, four stages of two blocks, 1×1 shortcuts, classifier 2048 → 10, no bias."""
    network = paper_resnet()
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert len([m for m in convolutions if m.kernel_size == (3, 3)]) == 3 + 16
    assert len([m for m in convolutions if m.kernel_size == (1, 1)]) == 3
    assert all(m.bias is None for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear))
    assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())
    assert network.classifier[1].in_features == 2048
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_block_in_long_hand():
    network = paper_resnet(seed=1).eval()
    block, x = network.stages[2], torch.randn(1, 64, 8, 8, generator=torch.Generator().manual_seed(0))
    residual = block.residual[3](torch.relu(block.residual[0](x)))
    assert torch.allclose(block(x), torch.relu(residual + block.identity(x)), atol=1e-6)
    assert isinstance(network.stages[1].identity, nn.Identity)


def test_it_can_be_rebuilt_thinner_and_for_other_images():
    thin = PaperResnet((8, 16), inner=(5, 6, 7, 9), input_shape=(1, 28, 28), classes=10).build()
    assert thin(torch.zeros(1, 1, 28, 28)).shape == (1, 10)
    with pytest.raises(OptionError, match="at least 16×16"):
        PaperResnet(input_shape=(3, 8, 8))
    with pytest.raises(OptionError, match="inner needs 8 values"):
        PaperResnet(inner=(1,))


def test_the_start_of_the_stem_has_widths_of_its_own():
    network = paper_resnet((3, 16, 16), widths=(4, 8), stem=(5, 6))
    assert [network.stem[i].weight.shape[:2] for i in (0, 3, 6)] == [(5, 3), (6, 5), (4, 6)]
    assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 10)
    with pytest.raises(OptionError, match="stem needs 2 values"):
        paper_resnet((3, 16, 16), widths=(4, 8), stem=(5, 6, 7))
