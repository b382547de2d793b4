from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from weightsmith.core.errors import OptionError
from weightsmith.data.normalise import HALF, IMAGENET, NONE
from weightsmith.networks.models.catalogue import bare_names, expected_shapes, recognise
from weightsmith.networks.models.mlp import Mlp, mlp
from weightsmith.networks.models.resnet import Resnet, resnet
from weightsmith.networks.models.vgg import Vgg, vgg
from weightsmith.networks.weights import open_weights


def stored(tmp_path, state):
    path = tmp_path / "weights.safetensors"
    save_file({name: tensor.contiguous().clone() for name, tensor in state.items()}, path)
    return open_weights(path)


def renamed(network, *pairs, prefix="module."):
    state = {name: tensor for name, tensor in network.state_dict().items() if "num_batches" not in name}
    for old, new in pairs:
        state = {name.replace(old, new): tensor for name, tensor in state.items()}
    return {prefix + name: tensor for name, tensor in state.items()}


@pytest.mark.parametrize("depth", [20, 56])
def test_akamaster(tmp_path, depth):
    match = recognise(stored(tmp_path, renamed(resnet(depth), ("fc.", "linear."))))
    assert match.architecture == Resnet(depth, input_shape=(3, 32, 32), classes=10)
    assert (match.normalisation, match.layout) == (IMAGENET, "akamaster/pytorch_resnet_cifar10")
    assert match.keys["module.linear.bias"] == "fc.bias"


def test_distiller_with_removed_layers_skipped_or_kept(tmp_path):
    network = resnet(20, shortcut="conv")
    gone = ("layer1.0.conv1", "layer1.0.conv2", "layer2.2.conv2")
    for name in gone:
        torch.nn.init.zeros_(network.get_submodule(name).weight)
    weights = stored(tmp_path, renamed(network))
    skipped, kept = recognise(weights), recognise(weights, removed="zero")
    assert skipped.architecture.removed == gone
    assert skipped.normalisation == HALF
    assert "removed layers are skipped: layer1.0.conv1" in " ".join(skipped.notes)
    assert not any(key.startswith("layer1.0.") for key in skipped.keys.values())
    assert kept.architecture.removed == ()


def test_thinned_blocks(tmp_path):
    inner = (11, 8, 9, 22, 20, 32, 52, 56, 64)
    match = recognise(stored(tmp_path, renamed(resnet(20, shortcut="conv", inner=inner))))
    assert match.architecture.inner == inner


def test_a_resnet_of_unknown_origin_says_that_its_normalisation_is_not_known(tmp_path):
    match = recognise(
        stored(tmp_path, renamed(resnet(20, shortcut="conv"), (".downsample.", ".shortcut."), ("fc.", "linear.")))
    )
    assert match.normalisation == NONE
    assert "normalisation unknown" in match.notes[0]


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"batch_norm": True}, {"widths": (8, 16, 12)}])
def test_vgg(tmp_path, options):
    match = recognise(stored(tmp_path, vgg(5, classifier=(32, 16), **options).state_dict()))
    spec = Vgg(5, classifier=(32, 16), input_shape=(3, 32, 32), classes=10, **options)
    assert match.architecture == spec
    assert match.normalisation == HALF


def test_dense_chains_whatever_they_are_called(tmp_path):
    ours = mlp(6, 5, 4, 3).state_dict()
    plain = {
        f"{2 * i}.{kind}": ours[f"{name}.{kind}"]
        for i, name in enumerate(("dense1", "dense2", "output"))
        for kind in ("weight", "bias")
    }
    for state in (
        ours,
        plain,
        {name.replace("2.", "fc2.").replace("0.", "fc1.").replace("4.", "fc10."): t for name, t in plain.items()},
    ):
        match = recognise(stored(tmp_path, state))
        assert match.architecture == Mlp((5, 4), input_shape=(6,), classes=3)
        assert sorted(match.keys.values()) == sorted(ours)


def test_dense_layers_are_put_in_order_only_where_that_is_certain(tmp_path):
    square, last = torch.zeros(8, 8), torch.zeros(3, 8)
    assert (
        recognise(stored(tmp_path, {"fc_in.weight": square, "fc_hidden.weight": square, "fc_out.weight": last})) is None
    )
    assert recognise(stored(tmp_path, {f"{n}.weight": square for n in "qkvo"})) is None
    assert recognise(stored(tmp_path, {"lora_A.weight": torch.zeros(2, 8), "lora_B.weight": torch.zeros(8, 2)})) is None
    match = recognise(stored(tmp_path, {"z.weight": torch.zeros(5, 4), "a.weight": torch.zeros(3, 5)}))
    assert match.keys == {"z.weight": "dense1.weight", "a.weight": "output.weight"}
    prefixed = {f"mlp.{name}": tensor for name, tensor in mlp(8, 8, 8, 8).state_dict().items()}
    assert recognise(stored(tmp_path, prefixed)).keys["mlp.dense1.weight"] == "dense1.weight"


def test_no_activation_is_guessed_for_a_file_that_tells_it(tmp_path):
    tanh = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    torch.onnx.export(tanh, (torch.zeros(1, 4),), tmp_path / "t.onnx", dynamo=True, verbose=False)
    assert recognise(open_weights(tmp_path / "t.onnx")) is None


def test_zero_layers_that_cannot_have_been_removed_stay(tmp_path):
    network = resnet(20, shortcut="conv")
    torch.nn.init.zeros_(network.layer2[0].conv1.weight)
    match = recognise(stored(tmp_path, renamed(network)))
    assert match.architecture.removed == ()
    assert "all-zero layers are kept" in match.notes[-1]
    with pytest.raises(OptionError, match="removed must be skip or zero, not 'skpi'"):
        recognise(stored(tmp_path, renamed(network)), removed="skpi")


def test_odd_shapes_are_no_network(tmp_path):
    state = renamed(resnet(20), ("fc.", "linear."))
    for name in ("module.conv1.weight", "module.linear.weight"):
        assert recognise(stored(tmp_path, {**state, name: torch.tensor(1.0)})) is None
    empty = {**vgg(5, classifier=(8,)).state_dict(), "features.6.weight": torch.zeros(0, 128, 3, 3)}
    assert recognise(stored(tmp_path, empty)) is None


def test_what_only_looks_alike_is_not_recognised(tmp_path):
    state = renamed(resnet(20), ("fc.", "linear."))
    assert recognise(stored(tmp_path, {**state, "module.extra.weight": torch.zeros(3)})) is None
    state.pop("module.layer3.2.bn2.weight")
    assert recognise(stored(tmp_path, state)) is None
    assert recognise(stored(tmp_path, {"a.weight": torch.zeros(3, 4), "b.weight": torch.zeros(5, 4)})) is None


def test_wrappers_prefixes_are_taken_off_only_if_all_have_them():
    assert bare_names({"module.model.a": 0, "module.model.b": 0}) == {"module.model.a": "a", "module.model.b": "b"}
    assert bare_names({"module.a": 0, "b": 0}) == {"module.a": "module.a", "b": "b"}
    assert bare_names({}) == {}


def test_expected_shapes_are_those_of_the_built_network():
    spec = Vgg(5, classifier=(8,), input_shape=(1, 16, 16), classes=3)
    assert expected_shapes(spec) == {name: tuple(t.shape) for name, t in spec.build().state_dict().items()}


KNOWN = {
    "akamaster_resnet20": "resnet:20",
    "akamaster_resnet56": "resnet:56",
    "distiller_resnet20_dense": "resnet:20,shortcut=conv",
    "distiller_resnet20_4D_regularized_5Lremoved_finetuned": (
        "removed=[layer1.0.conv1,layer1.0.conv2,layer1.1.conv1,layer1.1.conv2,layer2.2.conv2]"
    ),
    "distiller_resnet20_channel_regularized_resnet20": "inner=[11,8,9,22,20,32,52,56,64]",
    "vgg5_fc512": "vgg:5,classifier=[512,512]",
}


@pytest.mark.data
@pytest.mark.parametrize("name", KNOWN)
def test_real_files(name, shared_data):
    match = recognise(open_weights(shared_data / "weights" / f"{name}.safetensors"))
    assert KNOWN[name] in str(match.architecture)
    assert match.normalisation == (IMAGENET if "akamaster" in name else HALF)


@pytest.mark.data
def test_every_real_file_is_known(shared_data):
    for path in (shared_data / "weights").glob("*.safetensors"):
        assert recognise(open_weights(path)) is not None, path
