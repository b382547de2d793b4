"""Networks of 8 bits: the sums are whole numbers, the answers stay, and the file comes back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.networks.editing.int8 import Int8Layer
from weightsmith.networks.operations import count_operations
from weightsmith.networks.rounding import tensor_bytes, to_int8
from weightsmith.networks.weights import open_weights


def images(count: int = 12) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_batch_norms_are_folded_and_nothing_of_the_network_changes():
    network = ws.networks.build("resnet:20", input_shape=(3, 32, 32), classes=10, seed=0).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    made = to_int8(network, x)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in made.modules())
    assert 0.25 < tensor_bytes(made) / tensor_bytes(network) < 0.26
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert float((made(x) - network(x)).detach().abs().max()) < 0.1 * float(network(x).detach().abs().max())


def test_the_file_comes_back_with_the_same_answers(tmp_path):
    digits = ws.data.load("digits")
    network = ws.train("mlp:16", digits, epochs=1).network
    made = to_int8(network, digits.train.x[:100])
    ws.save(made, tmp_path / "small.safetensors")
    again = ws.load(tmp_path / "small.safetensors")
    x = digits.test.x[:20]
    assert torch.equal(again(x), made(x))
    assert weights_digest(again) == weights_digest(open_weights(tmp_path / "small.safetensors")) == weights_digest(made)
    assert ws.evaluate(again, digits).correct == ws.evaluate(made, digits).correct
    assert [each.operation for each in again.card.lineage.ancestors][-1] != again.card.lineage.operation
    assert again.card.lineage.operation == "rounded to int8"


def test_a_module_that_cannot_be_traced_keeps_its_norms_and_is_rounded():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.out = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

        def forward(self, x):
            h = self.norm(self.conv(x))
            if float(h.sum()) > 1e9:
                h = -h
            return self.out(h.mean((2, 3)))

    made = to_int8(Odd().eval(), images())
    assert isinstance(made.conv, Int8Layer)
    assert isinstance(made.norm, nn.BatchNorm2d)


def test_a_network_without_such_layers_is_refused():
    with pytest.raises(UsageError, match="no dense layer"):
        to_int8(nn.Sequential(nn.ReLU(), nn.Flatten()), images())


def test_its_parameters_and_operations_are_those_of_the_network_without_its_norms():
    network = ws.networks.build("vgg:5", input_shape=(3, 8, 8), classes=10, seed=0).eval()
    x = images(2)
    made = to_int8(network, x)
    assert count_operations(made, x[:1]).layers == count_operations(network, x[:1]).layers
    weights = sum(value.numel() for name, value in network.named_parameters() if value.dim() > 1)
    assert sum(value.numel() for value in made.parameters() if value.dim() > 1) == weights
    rounded = count_operations(made, x[:1], zeros=False).total
    assert 0.9 * rounded < count_operations(made, x[:1]).total
    assert rounded < count_operations(network, x[:1], zeros=False).total  # some weights became 0
