from __future__ import annotations

import weightsmith as ws
from weightsmith.networks import Evaluation


def test_the_demo_ends_with_a_good_network_and_its_record(run, tmp_path):
    answer = run("demo", "--out", tmp_path / "demo")
    assert answer.code == 0
    record = Evaluation.from_json((tmp_path / "demo" / "evaluation.json").read_text())
    assert record.accuracy.value > 0.95
    network = ws.load(tmp_path / "demo")
    assert ws.evaluate(network, ws.data.load("digits")) == record
    for told in ("weightsmith inspect", "weightsmith evaluate", "weightsmith log", "fitted to digits"):
        assert told in answer.out


def test_the_same_seed_gives_the_same_bytes(run, tmp_path):
    for folder in ("a", "b"):
        run("demo", "--out", tmp_path / folder, "--seed", 3)
    files = [(tmp_path / folder / "network.safetensors").read_bytes() for folder in ("a", "b")]
    assert files[0] == files[1]
