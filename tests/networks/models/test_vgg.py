from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.models.vgg import LISTS, Vgg, vgg

# Inputs of the first dense layer for 32×32 images: channels × pixels left (SPEC D).
FLAT = {5: 8192, 9: 2048, 11: 8192, 13: 2048, 16: 2048, 19: 2048}


@pytest.mark.parametrize("depth", sorted(LISTS))
def test_every_depth_runs_and_flattens_to_the_right_size(depth):
    network = vgg(depth, classifier=(8,), classes=7)
    assert network.classifier[1].in_features == FLAT[depth]
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_default_classifiers_are_the_papers():
    with torch.device("meta"):
        five = Vgg(5, input_shape=(3, 32, 32), classes=10).assemble()
        eleven = Vgg(11, input_shape=(3, 32, 32), classes=100).assemble()
    assert [m.out_features for m in five.classifier if isinstance(m, nn.Linear)] == [4096, 4096, 10]
    assert [m.out_features for m in eleven.classifier if isinstance(m, nn.Linear)] == [1024, 1024, 100]


def test_the_key_names_of_the_pretrained_vgg5():
    keys = list(vgg(5, classifier=(512, 512)).state_dict())
    assert keys == [f"features.{n}.weight" for n in (0, 3, 6)] + [f"classifier.{n}.weight" for n in (1, 4, 7)]


def test_no_dropout_stands_before_a_pool_and_none_after_the_output():
    network = vgg(16, classifier=(8,), dropout=0.2)
    features = list(network.features)
    for this, following in itertools.pairwise(features):
        assert not (isinstance(this, Dropout) and isinstance(following, nn.AvgPool2d))
    assert isinstance(network.classifier[-1], nn.Linear)


def test_options_change_what_they_name():
    network = vgg(5, classifier=(), bias=True, batch_norm=True, pool="max", activation="elu", statistics="seed")
    kinds = [type(m).__name__ for m in network.features[:4]]
    assert kinds == ["Conv2d", "SeedBatchNorm2d", "ELU", "MaxPool2d"]
    selu = vgg(5, classifier=(8,), activation="selu")
    assert {m.kind for m in selu.modules() if isinstance(m, Dropout)} == {"alpha"}
    assert network.features[0].bias is not None
    assert len(network.classifier) == 2


def test_it_can_be_rebuilt_at_other_widths():
    spec = architecture_of(vgg(5, classifier=(16, 16)))
    thin = dataclasses.replace(spec, widths=(8, 12, 9), classifier=(5, 6)).build()
    assert [m.out_channels for m in thin.features if isinstance(m, nn.Conv2d)] == [8, 12, 9]
    assert thin(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    assert Vgg.from_dict(architecture_of(thin).to_dict()) == architecture_of(thin)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"depth": 7}, "depth must be one of 5, 9, 11, 13, 16, 19"),
        ({"depth": 5, "widths": (1, 2)}, "3 convolutions, widths has 2"),
        ({"depth": 16, "input_shape": (3, 8, 8)}, "at least 16×16"),
        ({"depth": 5, "input_shape": (784,)}, "channels, height, width"),
    ],
)
def test_wrong_values_are_named(values, message):
    with pytest.raises(OptionError, match=message):
        Vgg.from_values(values)
