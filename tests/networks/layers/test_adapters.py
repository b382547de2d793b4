"""Adapters written by hand as PEFT and the tools around Stable Diffusion lay them out."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.networks.layers.adapters import PRODUCT, is_adapter
from weightsmith.networks.layers.walk import Walk, walk
from weightsmith.networks.weights import open_weights

CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "target_modules": ["q_proj"], "bias": "none"}
Q = "base_model.model.model.layers.0.q_proj"


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def pair(layer: str, out: int = 5, inputs: int = 7, rank: int = 2) -> dict[str, Tensor]:
    return {f"{layer}.lora_A.weight": draw(rank, inputs), f"{layer}.lora_B.weight": draw(out, rank)}


def written(folder: Path, tensors: dict[str, Tensor], config: Any = CONFIG, file: str = "adapter_model") -> Path:
    folder.mkdir(exist_ok=True)
    if file.endswith(".bin"):
        torch.save(tensors, folder / file)
    else:
        save_file(tensors, folder / f"{file}.safetensors")
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def only(found: Walk) -> Any:
    (layer,) = found
    return layer


def test_a_folder_is_walked_as_its_product(tmp_path):
    tensors = pair(Q)
    found = walk(written(tmp_path, tensors))
    layer = only(found)
    expected = 4 * tensors[f"{Q}.lora_B.weight"].double() @ tensors[f"{Q}.lora_A.weight"].double()
    assert (layer.name, layer.kind, layer.shape) == ("model.layers.0.q_proj", "Linear", (5, 7))
    torch.testing.assert_close(layer.matrices[0], expected, rtol=1e-12, atol=0)
    assert layer.notes == (f"{PRODUCT} B·A of rank at most 2", "scaling 4 (α/r with α = 8)")
    assert found.covered == found.parameters == 2 * 7 + 5 * 2


@pytest.mark.parametrize("given", ["folder", "file", "bin"])
def test_folder_file_and_pickle_are_the_same(tmp_path, given):
    folder = written(tmp_path, pair(Q), file="adapter_model.bin" if given == "bin" else "adapter_model")
    layer = only(walk(folder / "adapter_model.safetensors" if given == "file" else folder))
    torch.testing.assert_close(layer.matrices, only(walk(written(tmp_path / "other", pair(Q)))).matrices)
    assert "scaling 4 (α/r with α = 8)" in layer.notes


def test_rounding_adds_no_eigenvalues(tmp_path):
    layer = only(walk(written(tmp_path, pair(Q, 300, 200, 4), {**CONFIG, "r": 4})))
    singular = torch.linalg.svdvals(layer.matrices[0])
    assert int((singular > 1e-12 * singular[0]).sum()) == 4


@pytest.mark.parametrize(
    ("more", "scaling"),
    [
        ({}, 4),
        ({"use_rslora": True}, 8 / math.sqrt(2)),
        ({"alpha_pattern": {"q_proj": 3}}, 1.5),
        ({"alpha_pattern": {"k_proj": 3}}, 4),
        ({"alpha_pattern": {"proj": 3}}, 4),
        ({"alpha_pattern": {"^q_proj": 3}}, 4),
        ({"alpha_pattern": {"^model.layers.0.q_proj": 3}}, 1.5),
        ({"alpha_pattern": {r"layers\.\d+\.(q|v)_proj": 6}}, 3),
        ({"rank_pattern": {"q_proj": 2}, "r": 16}, 4),
        ({"r": 64}, 4),  # PEFT scales by the rank the layer has
    ],
)
def test_scaling(tmp_path, more, scaling):
    tensors = pair(Q)
    layer = only(walk(written(tmp_path, tensors, {**CONFIG, **more})))
    plain = tensors[f"{Q}.lora_B.weight"].double() @ tensors[f"{Q}.lora_A.weight"].double()
    torch.testing.assert_close(layer.matrices[0], scaling * plain)
    assert f"scaling {scaling:g}" in layer.notes[1]


def test_convolutions(tmp_path):
    a, b = draw(2, 3, 3, 3), draw(6, 2, 1, 1)
    found = only(walk(written(tmp_path, {f"{Q}.lora_A.weight": a, f"{Q}.lora_B.weight": b})))
    # What two convolutions after each other do to an image is what the product does.
    image = draw(1, 3, 8, 8).double()
    apart = torch.nn.functional.conv2d(torch.nn.functional.conv2d(image, a.double()), b.double())
    weight = found.matrices.reshape(3, 3, 6, 3).permute(2, 3, 0, 1)
    assert (found.kind, found.shape) == ("Conv2d", (6, 3, 3, 3))
    torch.testing.assert_close(torch.nn.functional.conv2d(image, weight), 4 * apart)


def test_embeddings_are_turned(tmp_path):
    a, b = draw(2, 11), draw(5, 2)
    found = only(walk(written(tmp_path, {f"{Q}.lora_embedding_A": a, f"{Q}.lora_embedding_B": b})))
    assert (found.kind, found.shape) == ("Embedding", (11, 5))
    torch.testing.assert_close(found.matrices[0], 4 * (b.double() @ a.double()).T)


def test_what_is_saved_whole_is_graded_as_it_is(tmp_path):
    head, bias = draw(3, 9), draw(3)
    tensors = {**pair(Q), "base_model.model.head.weight": head, "base_model.model.head.bias": bias}
    found = walk(written(tmp_path, tensors))
    product, whole = found
    assert (product.name, whole.name) == ("model.layers.0.q_proj", "head")
    assert torch.equal(whole.matrices[0], head)
    assert whole.notes == ("a whole weight beside the products of an adapter",)
    assert [(item.name, item.reason) for item in found.left_out] == [("head.bias", "bias")]
    assert found.parameters == sum(tensor.numel() for tensor in tensors.values())


def test_a_state_dict_has_no_scaling_and_says_so():
    tensors = {name.replace("_A.", "_A.default.").replace("_B.", "_B.default."): t for name, t in pair(Q).items()}
    tensors["base_model.model.head.modules_to_save.default.weight"] = draw(3, 9)
    product, whole = walk(tensors)
    assert product.name == "model.layers.0.q_proj"
    assert product.notes[1] == "scaling unknown (no configuration): 1 used"
    torch.testing.assert_close(product.matrices[0], (draw(5, 2) @ draw(2, 7)).double())
    assert whole.name == "head"


def test_a_configuration_without_alpha(tmp_path):
    layer = only(walk(written(tmp_path, pair(Q), {"peft_type": "LORA"})))
    assert layer.notes[1] == "scaling unknown (no lora_alpha in its configuration): 1 used"


def test_two_adapters_of_one_layer_are_two_layers():
    tensors = {}
    for adapter in ("default", "french"):
        tensors |= {f"q.lora_A.{adapter}.weight": draw(2, 7), f"q.lora_B.{adapter}.weight": draw(5, 2)}
    assert [layer.name for layer in walk(tensors).layers] == ["q", "q.french"]


@pytest.mark.parametrize(
    ("down", "up"), [("x.lora_down.weight", "x.lora_up.weight"), ("x_lora.down.weight", "x_lora.up.weight")]
)
def test_diffusion_adapters_carry_their_alpha(down, up):
    tensors = {down: draw(4, 7), up: draw(5, 4), "x.alpha": torch.tensor(2.0)}
    found = walk(tensors)
    layer = only(found)
    assert layer.name == "x"
    torch.testing.assert_close(layer.matrices[0], 0.5 * (tensors[up].double() @ tensors[down].double()))
    assert [(item.name, item.parameters) for item in found.left_out] == [("x.alpha", 0)]


def test_dora_is_walked_without_its_magnitudes(tmp_path):
    tensors = {**pair(Q), f"{Q}.lora_magnitude_vector": draw(5)}
    found = walk(written(tmp_path, tensors, {**CONFIG, "use_dora": True}))
    assert only(found).notes[2] == "DoRA: its magnitudes need the base and are not applied"
    assert [(item.name, item.parameters) for item in found.left_out] == [(f"{Q}.lora_magnitude_vector", 5)]
    assert found.parameters == sum(tensor.numel() for tensor in tensors.values())


def test_a_start_from_the_base_is_noted(tmp_path):
    layer = only(walk(written(tmp_path, pair(Q), {**CONFIG, "init_lora_weights": "pissa_niter_16"})))
    assert layer.notes[-1] == "started by pissa_niter_16, which takes a part of the base into the product"


@pytest.mark.parametrize(
    ("tensors", "config", "reason"),
    [
        ({"q.lora_A.weight": draw(2, 7)}, CONFIG, "the other part (lora_B) is missing"),
        ({"q.lora_B.weight": draw(5, 2)}, CONFIG, "the other part (lora_A) is missing"),
        (
            {"q.lora_A.weight": draw(2, 7), "q.lora_B.weight": draw(5, 3)},
            CONFIG,
            "the shapes (5, 3) and (2, 7) do not multiply",
        ),
        (
            {**pair("q"), "q.lora_E": draw(2, 1)},
            CONFIG,
            "the product has a third part (AdaLoRA, Tucker), which is not read",
        ),
        (
            pair("experts", rank=8),
            {**CONFIG, "target_parameters": ["experts.up"]},
            "8 rows where r is 2: an adapter of several parameters at once, which is not read",
        ),
        ({"q.hada_w1_a": draw(5, 2)}, {**CONFIG, "peft_type": "LOHA"}, "part of a LOHA adapter, which is not read"),
    ],
)
def test_what_is_not_read_is_left_out_by_name(tmp_path, tensors, config, reason):
    found = walk(written(tmp_path, tensors, config))
    assert len(found) == 0
    assert {item.reason for item in found.left_out} == {reason}
    assert found.parameters == sum(tensor.numel() for tensor in tensors.values())


def test_a_bias_of_a_part_is_left_out(tmp_path):
    found = walk(written(tmp_path, {**pair(Q), f"{Q}.lora_B.bias": draw(5)}))
    assert [(item.parameters, item.reason) for item in found.left_out] == [(5, "bias")]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([1], "is not the configuration of an adapter: not a JSON object"),
        ({**CONFIG, "lora_alpha": -1}, "lora_alpha is -1: not a number > 0"),
        ({**CONFIG, "r": "2"}, "r is '2': not a number > 0"),
        ({**CONFIG, "alpha_pattern": [1]}, "alpha_pattern is not an object"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path, config, message):
    with pytest.raises(FileRefused) as caught:
        walk(written(tmp_path, pair(Q), config))
    assert message in str(caught.value)
    assert "adapter_config.json" in str(caught.value)


@pytest.mark.parametrize("pattern", ["(q+)+$", "q*q*q*q*", "[", "x" * 400])
def test_a_pattern_that_could_run_for_ever_is_not_run(tmp_path, pattern):
    name = f"base_model.model.{'q' * 60}_proj"
    begin = time.monotonic()
    layer = only(walk(written(tmp_path, pair(name), {**CONFIG, "alpha_pattern": {pattern: 3}})))
    assert time.monotonic() - begin < 5
    assert "is not read" in layer.notes[1]
    assert layer.notes[1].startswith("scaling 4 (α/r with α = 8); the pattern")


def test_a_product_too_large_for_memory_is_refused_when_read(tmp_path):
    tensors = {"q.lora_A.weight": torch.zeros(1, 3_000_000), "q.lora_B.weight": torch.zeros(3_000_000, 1)}
    found = walk(written(tmp_path, tensors))
    assert found.layers[0].matrices == (1, 3_000_000, 3_000_000)
    with pytest.raises(FileRefused, match="the product of q.lora_B.weight and q.lora_A.weight needs 72.0 TB"):
        found.read(0)


def test_a_network_beside_an_adapter_is_none(tmp_path):
    written(tmp_path, pair(Q))
    save_file({"head.weight": draw(3, 9)}, tmp_path / "model.safetensors")
    assert not is_adapter(open_weights(tmp_path / "model.safetensors"))
    assert only(walk(tmp_path / "model.safetensors")).notes == ()
