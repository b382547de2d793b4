from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.networks.card import card_of
from weightsmith.networks.models.building import build
from weightsmith.networks.models.factories import is_factory
from weightsmith.networks.models.mlp import Mlp


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(
        "import torch\nvalue = 3\ndef build():\n    return torch.nn.Linear(4, 2)\ndef text():\n    return 'none'\n"
    )
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_nets", None)


def test_architectures_are_fitted_and_seeded():
    network = build("mlp:5", input_shape=(1, 2, 2), classes=3, seed=7)
    again = build(Mlp((5,)), input_shape=(4,), classes=3, seed=7)
    assert torch.equal(network.dense1.weight, again.dense1.weight)
    with pytest.raises(DataMismatch, match="the data have"):
        build("mlp:5,input_shape=[9]", input_shape=(4,), classes=3)


@pytest.mark.usefixtures("own_module")
def test_a_function_of_the_users_own_beside_the_command():
    before = list(sys.path)
    network = build("my_nets:build")
    assert isinstance(network, nn.Linear)
    assert card_of(network).factory == "my_nets:build"
    assert sys.path == before


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_nets:missing", "my_nets has no 'missing'"),
        ("my_nets:text", "gives a str, not a torch.nn.Module"),
        ("my_netz:build", "no module 'my_netz'"),
        ("resnt:x", "did you mean 'resnet'"),
    ],
)
def test_wrong_functions_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        build(text)


def test_which_is_which():
    assert is_factory("package.module:function")
    assert not is_factory("mlp:300,100")
    assert not is_factory("vggg:5")
    assert not is_factory("resnet")
    with pytest.raises(UnknownName, match="did you mean 'vgg'"):
        build("vggg:5")


def test_a_module_of_one_s_own_has_weights_by_the_seed(tmp_path, monkeypatch):
    (tmp_path / "seeded_nets.py").write_text("from torch import nn\ndef build():\n    return nn.Linear(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    state = torch.random.get_rng_state()
    first, again, other = (build("seeded_nets:build", seed=seed).weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)
