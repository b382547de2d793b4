from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.data.normalise import HALF
from weightsmith.networks.card import Card, card_of, weights_digest, with_card
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.networks.editing.tracing import trace
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg

NETWORKS = {
    "mlp before": (lambda: mlp(6, 5, 4, 3, batch_norm="before", dropout=0.3), (6,), 2, 0),
    "mlp seed": (lambda: mlp(6, 5, 3, batch_norm="before", statistics="seed"), (6,), 1, 0),
    "mlp after": (lambda: mlp(6, 5, 4, 3, batch_norm="after", input_norm=True), (6,), 0, 3),
    "vgg": (lambda: vgg(5, (1, 8, 8), 3, classifier=(8,), batch_norm=True), (1, 8, 8), 3, 0),
    "resnet pad": (lambda: resnet(8, (1, 8, 8), 3, removed=("layer1.0.conv2",)), (1, 8, 8), 6, 0),
    "resnet conv": (lambda: resnet(8, (1, 8, 8), 3, shortcut="conv"), (1, 8, 8), 9, 0),
    "no affine": (lambda: nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3, affine=False)), (2, 9), 1, 0),
}


def lived_in(network, shape):
    """The network with running statistics and affine parameters that are not those of birth."""
    generator = torch.Generator().manual_seed(0)
    network.train()
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine:
            nn.init.uniform_(module.weight, 0.5, 2.0, generator=generator)
            nn.init.uniform_(module.bias, -1.0, 1.0, generator=generator)
    for _ in range(3):
        network(torch.randn(16, *shape, generator=generator) * 2 + 1)
    return network


@pytest.mark.parametrize("name", NETWORKS)
def test_the_folded_twin_computes_the_same(name):
    make, shape, folded, kept = NETWORKS[name]
    network = lived_in(make(), shape)
    before = weights_digest(network)
    result = fold_batch_norm(network)
    x = torch.randn(8, *shape, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(result.network(x), network.eval()(x), atol=1e-5)
    assert (len(result.folded), len(result.kept)) == (folded, kept)
    remaining = [m for m in result.network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert len(remaining) == kept
    assert weights_digest(network) == before


def test_what_stays_says_why():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.norm, self.own = (
                nn.Linear(3, 3),
                nn.BatchNorm1d(3),
                nn.BatchNorm1d(3, track_running_stats=False),
            )

        def forward(self, x):
            z = self.dense(x)
            return self.norm(z) + z + self.own(x)

    kept = fold_batch_norm(Shared()).kept
    assert kept == {
        "norm": "the output of dense is also used elsewhere",
        "own": "does not follow a dense layer or convolution",
    }


def test_the_twin_keeps_the_card():
    network = with_card(mlp(6, 5, 3, batch_norm="before"), Card(normalisation=HALF, classes=("a", "b", "c")))
    assert card_of(fold_batch_norm(network).network) == card_of(network)


def test_a_layer_or_norm_that_is_used_twice_is_left_alone():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)
            self.tied, self.other, self.narrow = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(2)

        def forward(self, x):
            y = self.norm(self.first(x)) + self.norm(input=self.second(x))
            y = nn.functional.linear(self.other(self.tied(y)), self.tied.weight)
            return nn.functional.batch_norm(y, None, None, training=True)

    network = Twice()
    result = fold_batch_norm(network)
    assert result.folded == {}
    assert result.kept["norm"] == "norm is used more than once"
    assert result.kept["other"] == "the weight of tied is also used elsewhere"
    assert result.kept["batch_norm"] == "is a function, not a module"


def test_a_module_that_cannot_be_traced_is_refused_by_name():
    class Choosy(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Counting(nn.Module):
        def forward(self, x):
            return x / len(x)

    for module in (Choosy, Counting):
        with pytest.raises(UsageError, match=f"{module.__name__}: its data flow cannot be traced"):
            trace(module())
