from __future__ import annotations

import copy
import json

import pytest
import torch

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName
from weightsmith.networks.architecture import Architecture, architecture_of
from weightsmith.networks.mlp import Mlp
from weightsmith.networks.paper_resnet import PaperResnet
from weightsmith.networks.resnet import Resnet
from weightsmith.networks.vgg import Vgg

SMALL = [
    Mlp((5, 4), input_shape=(1, 8, 8), classes=3, batch_norm="after"),
    Vgg(5, classifier=(8,), input_shape=(1, 8, 8), classes=3, batch_norm=True),
    Resnet(8, input_shape=(1, 8, 8), classes=3),
    PaperResnet((4, 8), input_shape=(1, 8, 8), classes=3),
]


@pytest.mark.parametrize("spec", SMALL, ids=lambda s: s.name)
def test_a_network_is_made_anew_from_its_json_spec(spec):
    network = spec.build(seed=3)
    again = Architecture.from_dict(json.loads(json.dumps(architecture_of(network).to_dict()))).build(seed=3)
    assert architecture_of(again) == spec == architecture_of(copy.deepcopy(network))
    assert Architecture.parse(str(spec)) == spec
    for a, b in zip(network.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)
        assert torch.isfinite(a).all()
    assert not torch.equal(network(x := torch.ones(2, 1, 8, 8)), spec.build(seed=4)(x))


@pytest.mark.parametrize("spec", SMALL, ids=lambda s: s.name)
def test_building_draws_nothing_from_the_global_generator(spec):
    before = torch.random.get_rng_state()
    spec.build(seed=0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_data_complete_what_a_person_typed():
    fitted = Architecture.parse("mlp:300,100").fitted((1, 28, 28), 10)
    assert (fitted.input_shape, fitted.classes) == ((1, 28, 28), 10)
    assert fitted.fitted((784,), 10).input_shape == (1, 28, 28)
    with pytest.raises(DataMismatch, match=r"takes inputs of shape \(1, 28, 28\), the data have \(3, 32, 32\)"):
        fitted.fitted((3, 32, 32), 10)
    with pytest.raises(DataMismatch, match="tells 10 classes apart, the data have 100"):
        fitted.fitted((784,), 100)
    with pytest.raises(OptionError, match="needs input_shape and classes"):
        Architecture.parse("mlp:300").build()


def test_unknown_networks_suggest_the_nearest():
    with pytest.raises(UnknownName, match="unknown network 'resnt'; did you mean 'resnet'"):
        Architecture.parse("resnt:20")
    with pytest.raises(UnknownName, match="unknown activation 'relo'"):
        Architecture.parse("mlp:3,activation=relo").fitted((4,), 2).build()
