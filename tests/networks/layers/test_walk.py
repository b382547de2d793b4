from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks.layers.walk import Walk, find_layers, opened, walk
from weightsmith.networks.weights import open_weights


class Zoo(nn.Module):
    """One layer of every kind that can be inferred from a state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.grouped = nn.Conv2d(8, 12, 3, groups=4)
        self.up = nn.ConvTranspose2d(12, 6, 2, groups=2)
        self.line = nn.Conv1d(6, 5, 4)
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11)
        self.head.weight = self.embedding.weight
        self.lstm = nn.LSTM(5, 4, 2, bidirectional=True, proj_size=3)
        self.gru = nn.GRU(5, 4)
        self.attention = nn.MultiheadAttention(8, 2, add_bias_kv=True)
        self.apart = nn.MultiheadAttention(8, 2, kdim=5, vdim=6)
        self.norm = nn.LayerNorm((4, 3))
        self.weighted = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    torch.manual_seed(0)
    return Zoo().eval()


def stored(zoo: nn.Module, kind: str, folder: Path) -> object:
    values = zoo.state_dict()
    match kind:
        case "state dict":
            return values
        case "DataParallel":
            return nn.DataParallel(zoo)
        case "zip":
            torch.save(values, folder / "zoo.pt")
        case "legacy":
            torch.save({"epoch": 3, "model": values}, folder / "zoo.pt", _use_new_zipfile_serialization=False)
        case "safetensors":
            del values["head.weight"]
            save_file({name: value.contiguous() for name, value in values.items()}, folder / "zoo.pt")
        case "npz":
            np.savez(folder / "zoo.npz", **{name: value.numpy() for name, value in values.items()})
    return next(folder.iterdir())


@pytest.mark.parametrize("kind", ["state dict", "DataParallel", "zip", "legacy", "safetensors", "npz"])
def test_the_same_matrices_whichever_way_they_come(zoo, kind, tmp_path):
    expected = {layer.name: layer for layer in walk(zoo)}
    source = stored(zoo, kind, tmp_path)
    prefix = "module." if kind == "DataParallel" else ""
    given = None if kind == "DataParallel" else ["grouped=4"]  # a module has it
    found = {layer.name.removeprefix(prefix): layer for layer in walk(source, conv_groups=given)}
    if kind == "npz":
        # Two copies of the tied weight: the information is not there.
        assert torch.equal(found.pop("head").matrices, expected["embedding"].matrices)
    assert set(found) == set(expected)
    for name, layer in expected.items():
        assert found[name].kind == layer.kind
        assert found[name].shape == layer.shape
        torch.testing.assert_close(found[name].matrices, layer.matrices, rtol=0, atol=1e-7)
    if kind not in ("safetensors", "npz"):
        tied = tuple(other.removeprefix(prefix) for other in found["embedding"].tied_with)
        assert tied == expected["embedding"].tied_with == ("head",)


@pytest.mark.parametrize("kind", ["state dict", "DataParallel", "zip", "legacy"])
def test_parameters_add_up(zoo, kind, tmp_path):
    found = walk(stored(zoo, kind, tmp_path))
    total = sum(parameter.numel() for parameter in zoo.parameters())
    assert found.parameters == total
    assert found.covered == sum(layer.parameters for layer in found.layers)
    assert found.covered + sum(item.parameters for item in found.left_out) == total
    assert any("buffer" in item.reason for item in found.left_out)


def test_outline_is_known_before_reading_and_true(zoo):
    found = walk(zoo)
    for outline, layer in zip(found.layers, found, strict=True):
        assert outline.matrices == layer.matrices.shape
        assert (outline.name, outline.kind, outline.shape) == (layer.name, layer.kind, layer.shape)
        assert outline.notes == layer.notes
    assert len(found) == len(found.layers)


def test_a_walk_can_be_repeated(zoo):
    found = walk(zoo.state_dict())
    first, second = list(found), list(found)
    assert all(torch.equal(a.matrices, b.matrices) for a, b in zip(first, second, strict=True))
    assert len(first) == len(found.layers) > 10


def test_a_glob_chooses_layers_and_the_rest_is_left_out(zoo):
    found = walk(zoo, layers="lstm.*_l0")
    assert [layer.name for layer in found] == ["lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.weight_hr_l0"]
    assert found.parameters == sum(parameter.numel() for parameter in zoo.parameters())
    assert any("not selected" in item.reason and item.name == "conv" for item in found.left_out)
    with pytest.raises(UnknownName, match="layer 'layer9"):
        walk(zoo, layers="layer9*")


def test_state_dict_is_not_copied_nor_changed():
    weight = torch.randn(4, 3)
    (layer,) = walk({"fc.weight": weight})
    assert layer.matrices.data_ptr() == weight.data_ptr()


def test_state_dict_ties_need_the_same_view():
    base = torch.randn(6, 3)
    found = walk({"a.weight": base, "b.weight": base[:3], "c.weight": base, "d.weight": base.clone()})
    assert [(layer.name, layer.tied_with) for layer in found] == [("a", ("c",)), ("b", ()), ("d", ())]


def test_integers_and_truth_values_are_named_as_such():
    found = walk({"a.weight": torch.ones(4, 4, dtype=torch.int64), "b.weight": torch.ones(4, 4) > 0, "c": torch.eye(3)})
    reasons = {item.name: item.reason for item in found.left_out}
    assert reasons == {"a.weight": "integers (int64), no scale", "b.weight": "truth values (bool): a mask, no weights"}


def test_a_convolution_of_one_channel_is_a_filter_per_row_in_a_module_and_in_a_file():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 12, 5), nn.Conv2d(12, 12, 3, groups=12), nn.Conv2d(12, 8, 3))
    for found in (walk(network), walk(network.state_dict())):
        first, depthwise, last = found
        assert torch.equal(first.matrices[0], network[0].weight.flatten(1))
        assert any("one input channel: graded as out × (in·k)" in note for note in first.notes)
        assert (depthwise.matrices.shape, last.matrices.shape) == ((12 * 9, 1, 1), (9, 8, 12))
        assert [outline.matrices for outline in found.layers] == [layer.matrices.shape for layer in found]


def test_scaled_integers_are_layers_and_unscaled_ones_are_named():
    codes = torch.tensor([[1, -2], [3, 4]], dtype=torch.int8)
    found = walk({"a.weight": codes, "a.weight_scale": torch.tensor([0.5, 2.0]), "b.weight": codes})
    (layer,) = found
    assert layer.matrices.tolist() == [[[0.5, -1.0], [6.0, 8.0]]]
    assert found.layers[0].dtype == "int8"
    assert {item.name: item.reason for item in found.left_out}["b.weight"] == "integer-quantised (int8), no scale"
    assert found.parameters == 8


def test_what_is_no_tensor_is_named():
    found = walk({"fc.weight": torch.ones(3, 2), "version": 3, "q": torch.ones(2, 2, device="meta")})
    reasons = {item.name: (item.parameters, item.reason) for item in found.left_out}
    assert reasons == {"version": (0, "a int, not a tensor"), "q": (4, "has no values (meta device)")}


@pytest.mark.parametrize("wrong", [3, None, [torch.ones(2, 2)], {}])
def test_what_cannot_be_walked(wrong):
    with pytest.raises(UsageError):
        walk(wrong)


def test_module_of_one_layer_has_a_name():
    assert [layer.name for layer in walk(nn.Linear(3, 2))] == ["weight"]


def files() -> list[Path]:
    folder = os.environ.get("WEIGHTSMITH_DATA")
    return sorted(Path(folder, "weights").glob("*.safetensors")) if folder else []


@pytest.mark.data
@pytest.mark.skipif(not files(), reason="needs the pretrained networks: WEIGHTSMITH_DATA is not set")
def test_real_networks_read_and_walk():
    depths = {"akamaster_resnet20": 20, "akamaster_resnet56": 56, "distiller_resnet20_dense": 22, "vgg5_fc512": 6}
    seen = {}
    for path in files():
        weights = open_weights(path)
        found = walk(weights)
        assert isinstance(found, Walk)
        for layer in found:
            assert torch.isfinite(layer.matrices).all()
            assert layer.notes == ()
        trained = [e for e in weights.entries.values() if "running_" not in e.name and "num_batches" not in e.name]
        assert found.parameters == sum(entry.parameters for entry in trained)
        seen[path.stem] = len(found)
    assert depths.items() <= seen.items()


def test_whatever_is_given_is_opened_once(zoo, tmp_path):
    save_file({"a.weight": torch.ones(2, 3)}, tmp_path / "a.safetensors")
    weights = opened(tmp_path / "a.safetensors")
    assert opened(weights) is weights
    assert opened(zoo) is zoo
    assert opened({"a.weight": torch.ones(2, 3)}).format == "state dict"
    with pytest.raises(UsageError, match="a list cannot be walked"):
        opened([1])


def test_plans_are_what_is_walked(zoo):
    findings = find_layers(zoo, layers="lstm.*")
    assert [plan.name for plan in findings.plans] == [layer.name for layer in walk(zoo, layers="lstm.*").layers]
    assert findings.left_out == list(walk(zoo, layers="lstm.*").left_out)
