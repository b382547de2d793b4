"""A folder for the Hugging Face Hub: written, read back, and read by the cache's layout."""

from __future__ import annotations

import json

import pytest
import torch

import weightsmith as ws
from weightsmith.chain.huggingface import export_huggingface
from weightsmith.core.errors import FileRefused
from weightsmith.networks.weights import open_weights


@pytest.fixture(scope="module")
def run():
    return ws.train("mlp:12", "digits", epochs=1, seed=0)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return export_huggingface(run, tmp_path_factory.mktemp("hub") / "digits")


def test_the_network_comes_back_with_the_same_answers(run, folder):
    again = ws.load(folder)
    x = ws.data.load("digits").test.x[:5]
    assert torch.equal(again(x), run.network(x))


def test_the_configuration_says_how_to_build_and_read_it(folder):
    found = json.loads((folder / "config.json").read_text())
    assert found["architectures"] == ["mlp:12,input_shape=[1,8,8],classes=10"]
    assert found["weightsmith"]["input_shape"] == [1, 8, 8]
    assert found["id2label"]["3"] == "3"
    assert found["label2id"]["3"] == 3


def test_the_card_has_front_matter_the_description_and_figures_that_are_there(folder):
    text = (folder / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: weightsmith\n")
    assert "pipeline_tag: image-classification" in text
    assert "mlp:12" in text
    named = [line.partition("(")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert named
    assert all((folder / name).stat().st_size > 1000 for name in named)


def test_a_network_without_a_result_has_a_short_card(tmp_path):
    ws.save(ws.networks.mlp(8, 4, 2), tmp_path / "net.safetensors")
    made = export_huggingface(tmp_path / "net.safetensors", tmp_path / "out")
    assert "ws.load" in (made / "README.md").read_text()
    assert not (made / "figures").exists()


def test_the_cache_of_hugging_face_is_read(folder, tmp_path):
    cache = tmp_path / "models--me--digits"
    (cache / "blobs").mkdir(parents=True)
    blob = cache / "blobs" / "0a1b"
    blob.write_bytes((folder / "model.safetensors").read_bytes())
    for name in ("abc", "def"):
        (cache / "snapshots" / name).mkdir(parents=True)
        (cache / "snapshots" / name / "model.safetensors").symlink_to("../../blobs/0a1b")
    with pytest.raises(FileRefused, match="several snapshots"):
        open_weights(cache)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    assert set(open_weights(cache).entries) == {"dense1.weight", "dense1.bias", "output.weight", "output.bias"}
    assert ws.grade(cache).layers[0].name == "dense1"


def test_the_hub_client_reads_card_and_weights(folder):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not among our packages")
    card = hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "weightsmith"
    assert card.data.pipeline_tag == "image-classification"
