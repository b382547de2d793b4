from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.networks.models.batchnorm import SeedBatchNorm1d
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.models.mlp import Mlp, mlp


def names(network):
    return [name for name, _ in network.named_children()]


def test_the_course_network_has_the_course_parameter_counts():
    """Seed 002's MLP 784-50-50-10: 42,310 parameters; 45,846 with batch norm on the input and after both layers."""
    plain = mlp(784, 50, 50, 10)
    normed = mlp(784, 50, 50, 10, batch_norm="after", input_norm=True)
    assert sum(p.numel() for p in plain.parameters()) == 42_310
    # Keras counts running means and variances as parameters.
    running = sum(b.numel() for n, b in normed.named_buffers() if "running" in n)
    assert sum(p.numel() for p in normed.parameters()) + running == 45_846


def test_layers_stand_where_they_should():
    before = mlp(4, 3, 3, 2, batch_norm="before", dropout=0.5, dropout_layers=1, input_dropout=0.1, activation="elu")
    assert names(before) == (
        [
            "flatten",
            "input_dropout",
            "dense1",
            "norm1",
            "activation1",
            "dense2",
            "norm2",
            "activation2",
            "dropout2",
            "output",
        ]
    )
    after = mlp(4, 3, 2, batch_norm="after", statistics="seed")
    assert names(after) == ["flatten", "dense1", "activation1", "norm1", "output"]
    assert isinstance(after.norm1, SeedBatchNorm1d)


def test_dropout_falls_on_the_last_three_hidden_layers_and_never_on_the_output():
    network = mlp(4, 5, 5, 5, 5, 5, 2, dropout=0.3)
    assert [n for n in names(network) if "dropout" in n] == ["dropout3", "dropout4", "dropout5"]
    assert names(network)[-1] == "output"


def test_selu_brings_alpha_dropout_and_lecun_weights():
    network = mlp(784, 300, 10, activation="selu", dropout=0.1)
    assert next(m for m in network if isinstance(m, Dropout)).kind == "alpha"
    assert network.dense1.weight.std().item() == pytest.approx(784**-0.5, rel=0.01)


def test_the_initialiser_can_be_chosen():
    network = mlp(784, 300, 10, initialiser="torch-default")
    assert network.dense1.weight.std().item() == pytest.approx((3 * 784) ** -0.5, rel=0.01)


def test_it_computes_what_a_plain_torch_network_computes():
    ours = mlp(6, 5, 4, 3, activation="tanh", seed=2)
    plain = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    plain.load_state_dict(dict(zip(plain.state_dict(), ours.state_dict().values(), strict=True)))
    x = torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(ours(x), plain(x.flatten(1)))


def test_a_network_without_hidden_layers_is_allowed_and_one_without_outputs_is_not():
    assert names(mlp(4, 2)) == ["flatten", "output"]
    with pytest.raises(OptionError, match="at least its inputs and outputs"):
        mlp(4)
    with pytest.raises(OptionError, match="hidden must be ≥ 1"):
        mlp(4, 0, 2)


def test_text_form():
    assert str(Mlp((300, 100), activation="selu")) == "mlp:300,100,activation=selu"
    assert Mlp.parse(str(Mlp((), classes=3))) == Mlp((), classes=3)
