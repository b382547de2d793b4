from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.grading.differences import UNCHANGED, difference, pair_layers
from weightsmith.networks.layers.walk import find_layers
from weightsmith.networks.weights import Entry, Weights


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


BASE = {"conv.weight": draw(4, 3, 3, 3), "fc.weight": draw(5, 4), "fc.bias": draw(5), "old.weight": draw(2, 2)}
TUNED = {
    "conv.weight": BASE["conv.weight"].clone(),
    "fc.weight": BASE["fc.weight"] + draw(5, 4, seed=1),
    "fc.bias": draw(5, seed=2),
    "head.weight": draw(7, 5),
}


def test_layers_are_subtracted_and_the_rest_is_named():
    found = difference(TUNED, BASE)
    conv, fc = found
    assert (conv.name, conv.kind, tuple(conv.matrices.shape)) == ("conv", "Conv2d", (9, 4, 3))
    assert not conv.matrices.any()
    assert conv.notes == (UNCHANGED,)
    assert torch.equal(fc.matrices[0], TUNED["fc.weight"] - BASE["fc.weight"])
    assert fc.notes == ()
    assert [(item.name, item.parameters, item.reason) for item in found.left_out] == [
        ("fc.bias", 5, "bias"),
        ("head", 35, "not in the base"),
        ("old", 0, "only in the base"),
    ]
    assert found.parameters == sum(value.numel() for value in TUNED.values())
    assert len(found) == 2
    assert found.read(1).name == "fc"


def test_another_shape_is_left_out():
    found = difference({**TUNED, "fc.weight": draw(6, 4)}, BASE)
    assert ("fc", "has shape (5, 4) in the base") in [(item.name, item.reason) for item in found.left_out]
    assert [layer.name for layer in found.layers] == ["conv"]


def test_a_module_minus_a_file_and_wrappers_do_not_matter(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Linear(4, 3))
    save_file(network.state_dict(), tmp_path / "base.safetensors")
    with torch.no_grad():
        network[0].weight += 1
    first, second = difference(nn.DataParallel(network), tmp_path / "base.safetensors")
    assert first.name == "0"  # as in the network inside the wrapper
    torch.testing.assert_close(first.matrices, torch.ones(18, 2, 1))
    assert second.notes[-1] == UNCHANGED


def test_small_changes_survive_half_precision():
    base = {"a.weight": torch.full((2, 2), 1.0, dtype=torch.bfloat16)}
    tuned = {"a.weight": torch.full((2, 2), 1.0078125, dtype=torch.bfloat16)}
    (layer,) = difference(tuned, base)
    assert layer.matrices.unique().tolist() == [0.0078125]


def test_nan_is_no_equality():
    (layer,) = difference({"a.weight": torch.full((2, 2), torch.nan)}, {"a.weight": torch.zeros(2, 2)})
    assert layer.matrices.isnan().all()
    assert layer.notes == ()


def test_a_glob_selects():
    found = difference(TUNED, BASE, layers="f*")
    assert [layer.name for layer in found.layers] == ["fc"]
    assert "old" not in [item.name for item in found.left_out]
    with pytest.raises(UnknownName, match="unknown layer 'x\\*'"):
        difference(TUNED, BASE, layers="x*")


def test_nothing_in_common_is_refused():
    with pytest.raises(DataMismatch, match="no layer of the network is in the base: a not in the base; the base has b"):
        difference({"a.weight": draw(2, 2)}, {"b.weight": draw(2, 2)})


def test_an_adapter_is_a_difference_already(tmp_path):
    save_file({"q.lora_A.weight": draw(2, 4), "q.lora_B.weight": draw(3, 2)}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "lora_alpha": 4}))
    with pytest.raises(UsageError, match="grade it without a base"):
        difference(tmp_path, BASE)


def test_pairs_are_known_without_reading():
    pairs = pair_layers(find_layers(TUNED).plans, find_layers(BASE).plans)
    assert [(a.name, b.name) for a, b in pairs.matched] == [("conv", "conv"), ("fc", "fc")]
    assert [item.reason for item in pairs.only_first] == ["not in the other network"]
    assert [(item.name, item.parameters) for item in pairs.only_second] == [("old", 4)]


class Counting(Weights):
    """Tensors that tell when they are read."""

    format = "counting"

    def __init__(self, tensors: dict[str, torch.Tensor], log: list[str]) -> None:
        self._tensors, self._log = tensors, log
        super().__init__(Path("counting"), [Entry(n, tuple(t.shape), "float32") for n, t in tensors.items()])

    def _read(self, name: str) -> torch.Tensor:
        self._log.append(name)
        return self._tensors[name]


def test_one_layer_of_each_is_read_when_its_turn_comes():
    log: list[str] = []
    walked = iter(difference(Counting(TUNED, log), Counting(BASE, log)))
    assert log == []
    next(walked)
    assert log == ["conv.weight", "conv.weight"]
    next(walked)
    assert log[2:] == ["fc.weight", "fc.weight"]
