from __future__ import annotations

import copy
import json

import pytest
import torch

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName
from weightsmith.networks.editing.grafting import Grafted
from weightsmith.networks.editing.resizing import output_units, set_tensors
from weightsmith.networks.models.architecture import Architecture, architecture_of
from weightsmith.networks.models.mlp import Mlp
from weightsmith.networks.models.paper_resnet import PaperResnet
from weightsmith.networks.models.resnet import Resnet
from weightsmith.networks.models.vgg import Vgg

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
    x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))  # equal rows vanish in a batch norm
    assert not torch.equal(network(x), spec.build(seed=4)(x))


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
    with pytest.raises(DataMismatch, match="has 10 classes, the data have 100"):
        fitted.fitted((784,), 100)
    with pytest.raises(OptionError, match="needs input_shape and classes"):
        Architecture.parse("mlp:300").build()


def test_unknown_networks_suggest_the_nearest():
    with pytest.raises(UnknownName, match="unknown network 'resnt'; did you mean 'resnet'"):
        Architecture.parse("resnt:20")
    with pytest.raises(UnknownName, match="unknown activation 'relo'"):
        Architecture.parse("mlp:3,activation=relo").fitted((4,), 2).build()


def cut(network, layers, keep, *, norms=(), readers=()):
    """By hand: the first ``keep`` units of ``layers`` stay, so do those of their norms and of what reads them."""
    units = output_units(network.get_submodule(layers[0]))
    for name in (*layers, *norms):
        module = network.get_submodule(name)
        set_tensors(module, {key: value[:keep] for key, value in module.state_dict().items() if value.dim()})
    for name in readers:
        weight = network.get_submodule(name).weight.detach()
        seen = weight.unflatten(1, (units, -1))[:, :keep].flatten(1, 2)  # a dense layer reads each unit at each pixel
        set_tensors(network.get_submodule(name), {"weight": seen})
    return dict.fromkeys(layers, keep)


def cut_mlp(network):
    return cut(network, ["dense1"], 2, norms=["norm1"], readers=["dense2"]) | cut(
        network, ["dense2"], 3, norms=["norm2"], readers=["output"]
    )


def cut_vgg(network):
    return (
        cut(network, ["features.0"], 7, norms=["features.1"], readers=["features.4"])
        | cut(network, ["features.8"], 9, norms=["features.9"], readers=["classifier.1"])
        | cut(network, ["classifier.1"], 5, readers=["classifier.4"])
    )


def cut_resnet(network):
    return (
        cut(
            network,
            ["conv1", "layer1.0.conv2", "layer1.1.conv1"],
            5,
            norms=["bn1", "layer1.0.bn2", "layer1.1.bn1"],
            readers=["layer1.0.conv1", "layer1.1.conv1", "layer2.0.conv1", "layer2.0.downsample.0"],
        )
        | cut(network, ["layer1.0.conv1"], 3, norms=["layer1.0.bn1"], readers=["layer1.0.conv2"])
        | cut(
            network,
            ["layer2.0.conv2", "layer2.0.downsample.0", "layer2.1.conv2"],
            4,
            norms=["layer2.0.bn2", "layer2.0.downsample.1", "layer2.1.bn2"],
            readers=["layer2.1.conv2", "layer3.0.conv1", "layer3.0.downsample.0"],
        )
        | cut(network, ["layer3.1.conv1"], 6, norms=["layer3.1.bn1"], readers=["layer3.1.conv2"])
    )


def cut_padded(network):
    return cut(network, ["layer2.0.conv1"], 6, norms=["layer2.0.bn1"], readers=["layer2.0.conv2"])


def cut_paper(network):
    return (
        cut(network, ["stem.0"], 3, readers=["stem.3"])
        | cut(
            network,
            ["stem.6", "stages.0.residual.3", "stages.1.residual.3"],
            2,
            readers=["stages.0.residual.0", "stages.1.residual.0", "stages.2.residual.0", "stages.2.identity"],
        )
        | cut(network, ["stages.1.residual.0"], 1, readers=["stages.1.residual.3"])
        | cut(
            network,
            ["stages.2.residual.3", "stages.2.identity", "stages.3.residual.3"],
            6,
            readers=["stages.3.residual.0", "classifier.1"],
        )
    )


def cut_graft(network):
    return (
        cut(
            network,
            ["base.conv1", "base.layer1.0.conv2"],
            9,
            norms=["base.bn1", "base.layer1.0.bn2"],
            readers=["base.layer1.0.conv1", "head.dense1"],
        )
        | cut(network, ["base.layer1.0.conv1"], 4, norms=["base.layer1.0.bn1"], readers=["base.layer1.0.conv2"])
        | cut(network, ["head.dense1"], 3, readers=["head.output"])
    )


IMAGE = {"input_shape": (1, 8, 8), "classes": 3}
CUTS = {
    "mlp": (SMALL[0], cut_mlp),
    "vgg": (SMALL[1], cut_vgg),
    "resnet": (Resnet(14, "conv", removed=("layer1.1.conv2", "layer2.1.conv1"), **IMAGE), cut_resnet),
    "resnet, padded": (Resnet(8, **IMAGE), cut_padded),
    "paper-resnet": (SMALL[3], cut_paper),
    "grafted": (Grafted(str(Resnet(14, **IMAGE)), 2, (6,), **IMAGE), cut_graft),
}


def shapes_of(network):
    return {name: tuple(value.shape) for name, value in network.state_dict().items()}


@pytest.mark.parametrize("case", CUTS)
def test_the_resized_spec_builds_what_cutting_by_hand_leaves(case):
    spec, by_hand = CUTS[case]
    network = spec.build(seed=0)
    units = by_hand(network)
    resized = spec.resized(units)
    built = resized.build(seed=1)
    assert shapes_of(built) == shapes_of(network) != shapes_of(spec.build())
    built.load_state_dict(network.state_dict())
    x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(built.eval()(x), network.eval()(x))
    assert Architecture.parse(str(resized)) == resized
    before = {
        name: output_units(module) for name, module in spec.outline().named_modules() if name in spec.width_slots()
    }
    assert resized.resized(before).widths_in_use() == spec.widths_in_use()


@pytest.mark.parametrize("case", CUTS)
def test_every_free_layer_can_be_resized_alone_and_coupled_ones_together(case):
    spec, _ = CUTS[case]
    slots = spec.width_slots()
    modules = dict(spec.outline().named_modules())
    for slot in {*slots.values()}:
        together = [layer for layer in slots if slots[layer] == slot]
        number = output_units(modules[together[0]]) - 1
        built = spec.resized(dict.fromkeys(together, number)).build()
        changed = {
            name: output_units(module)
            for name, module in built.named_modules()
            if name in slots and output_units(module) != output_units(modules[name])
        }
        assert changed == dict.fromkeys(together, number)
        built(torch.zeros(2, 1, 8, 8))
        if len(together) > 1:
            with pytest.raises(OptionError, match="must have the same number of units"):
                spec.resized({together[-1]: number})


def test_nothing_changed_is_the_same_spec():
    spec = Vgg(5, (64, 128, 128), (4096, 4096), input_shape=(1, 8, 8), classes=3)
    assert spec.resized({}) is spec
    assert spec.resized({"features.0": 64}) is spec


def test_widths_are_written_as_short_as_they_can_be():
    vgg = Vgg(5, input_shape=(1, 8, 8), classes=3)
    assert str(vgg.resized({"classifier.4": 7})) == "vgg:5,classifier=[4096,7],input_shape=[1,8,8],classes=3"
    stage = ("conv1", "layer1.0.conv2")
    resnet = Resnet(8, **IMAGE)
    assert resnet.resized(dict.fromkeys(stage, 9)).inner == (16, 32, 64)
    assert resnet.resized(dict.fromkeys((*stage, "layer1.0.conv1"), 9)).inner == ()


@pytest.mark.parametrize(
    ("spec", "units", "error", "message"),
    [
        (SMALL[0], {"output": 2}, OptionError, r"output \(Linear\) has no width of its own: the output layer"),
        (SMALL[1], {"classifier.4": 2}, OptionError, "classifier.4"),
        (SMALL[2], {"fc": 2}, OptionError, "fc"),
        (SMALL[2], {"bn1": 2}, OptionError, r"bn1 \(BatchNorm2d\)"),
        (SMALL[0], {"dense9": 2}, UnknownName, "unknown layer of mlp 'dense9'; did you mean 'dense"),
        (SMALL[0], {"dense1": 0}, OptionError, "hidden must be ≥ 1, not 0"),
        (SMALL[0], {"dense1": 1.5}, OptionError, "hidden must be a whole number"),
        (Resnet(8, "conv", removed=("layer1.0.conv1",), **IMAGE), {"layer1.0.conv1": 3}, UnknownName, "layer1.0.conv1"),
        (Resnet(8, **IMAGE), dict.fromkeys(("layer2.0.conv2",), 15), OptionError, "must not fall .* shortcut=pad"),
        (Resnet(8, **IMAGE), {"conv1": 15}, OptionError, "conv1 and layer1.0.conv2 .* not 15 and 16"),
        (CUTS["grafted"][0], {"base.layer1.1.conv1": 3}, UnknownName, "unknown layer of grafted"),
        (Mlp((3,)), {"output": 2}, OptionError, "needs input_shape and classes"),
    ],
)
def test_what_cannot_be_resized_is_named(spec, units, error, message):
    with pytest.raises(error, match=message):
        spec.resized(units)


def test_an_architecture_without_widths_says_so():
    class Fixed(Architecture, name="fixed"):
        def assemble(self):
            return torch.nn.Linear(4, 2)

    try:
        with pytest.raises(OptionError, match="fixed cannot be built with other layer widths"):
            Fixed(input_shape=(4,), classes=2).resized({"": 1})
    finally:
        del Architecture.members["fixed"]
