from __future__ import annotations

import json

import torch
from safetensors.torch import save_file

import weightsmith as ws
from weightsmith.core.records import Lineage


def test_the_ancestry_is_drawn_oldest_first(run, tmp_path):
    network = ws.networks.mlp(4, 3, 2)
    lineage = Lineage("initialised").then("trained on [x]", "a" * 64).then("reduced", "b" * 64)
    path = ws.save(network, tmp_path / "n.safetensors", lineage=lineage)
    answer = run("log", path)
    digest = ws.networks.weights_digest(network)
    order = [
        answer.out.index(text) for text in ("a" * 12, "initialised", "b" * 12, "trained on [x]", digest[:12], "reduced")
    ]
    assert order == sorted(order)
    told = json.loads(run("log", path, "--json").out)
    assert told["weights"] == digest
    assert Lineage.from_dict(told["lineage"]) == lineage


def test_a_file_of_another_tool_has_no_ancestors(run, tmp_path):
    save_file({"w": torch.ones(2, 2)}, tmp_path / "w.safetensors")
    answer = run("log", tmp_path / "w.safetensors")
    assert answer.code == 0
    assert "names no ancestors" in answer.out
    assert json.loads(run("log", tmp_path / "w.safetensors", "--json").out)["lineage"] is None
