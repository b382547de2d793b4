from __future__ import annotations

import weightsmith as ws
from weightsmith.networks import Evaluation
from weightsmith.training.run import Stopped, TrainRecord


def test_the_demo_ends_with_a_good_network_and_its_records(run, tmp_path):
    answer = run("demo", "--out", tmp_path / "demo")
    assert answer.code == 0
    result = Evaluation.from_json((tmp_path / "demo" / "evaluation.json").read_text())
    assert result.accuracy.value > 0.95
    network = ws.load(tmp_path / "demo")
    assert ws.evaluate(network, ws.data.load("digits")) == result
    record = TrainRecord.from_json((tmp_path / "demo" / "record.json").read_text())
    assert record.stopped is Stopped.EARLY
    assert record.network == ws.networks.weights_digest(network)
    for told in ("weightsmith train", "weightsmith inspect", "weightsmith evaluate", "weightsmith log", "← best"):
        assert told in answer.out
    assert "trained on digits" in answer.out
    assert "gradients healthy" in answer.out


def test_the_same_seed_gives_the_same_bytes_and_a_folder_may_be_used_again(run, tmp_path):
    for folder, seed in (("a", 3), ("b", 4), ("b", 3)):
        assert run("demo", "--out", tmp_path / folder, "--seed", seed).code == 0
    files = [(tmp_path / folder / "network.safetensors").read_bytes() for folder in ("a", "b")]
    assert files[0] == files[1]


def test_the_command_it_shows_trains_the_same_network(run, tmp_path):
    shown = run("demo", "--out", tmp_path / "demo").out
    command = next(line for line in shown.splitlines() if "weightsmith train" in line).partition("weightsmith ")[2]
    run(*command.split(), "--out", tmp_path / "run", "--no-figures", "--quiet")
    files = [(tmp_path / folder / "network.safetensors").read_bytes() for folder in ("demo", "run")]
    assert files[0] == files[1]
