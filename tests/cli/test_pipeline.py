from __future__ import annotations

import json

import pytest

from weightsmith.chain import _running as module
from weightsmith.core.records import unsealed

RECIPE = """
data = "digits"
seeds = [0, 1]
[train]
network = "mlp:20"
epochs = 2
[[grade]]
[[reduce]]
name = "small"
by = "angles:60"
random = 2
[[spike]]
steps = 8
test_rows = 50
"""


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def test_a_recipe_is_carried_out_with_a_line_for_each_stage(run, recipe, tmp_path):
    answer = run("pipeline", recipe, "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    rows = [line.split() for line in answer.out.splitlines()]
    expected = ["train", "grade", "small", "spike"] * 2
    stages = [row[0] for row in rows if row[:1] and row[0] in expected and row[1] in ("0", "1")]
    assert stages == expected
    assert "in all" in answer.out
    assert str(tmp_path / "out" / "report.html") in "".join(answer.out.split())
    assert (tmp_path / "out" / "seed-1" / "small" / "network.safetensors").exists()
    assert "train" in answer.err  # progress
    again = run("pipeline", recipe, "--out", tmp_path / "out", "--json", "--quiet")
    report = json.loads(again.out)
    assert again.err == ""
    assert [stage["stage"] for stage in report["stages"]] == ["train", "grade", "small", "spike"] * 2
    assert report["stages"][2]["accuracy"]["method"] == "Wilson"
    assert report["stages"][3]["energy"] > 0
    assert report["record"] == unsealed(json.loads((tmp_path / "out" / "record.json").read_text()))


def test_an_evaluation_of_another_network_is_not_shown_as_the_accuracy_of_a_stage(run, recipe, tmp_path):
    recipe.write_text(RECIPE.partition("[[grade]]")[0])
    assert run("pipeline", recipe, "--out", tmp_path / "out").code == 0
    ours, other = (tmp_path / f"out/seed-{seed}/train/evaluation.json" for seed in (0, 1))
    report = json.loads(run("pipeline", recipe, "--out", tmp_path / "out", "--json").out)["stages"]
    assert report[0]["accuracy"] == json.loads(ours.read_text())["accuracy"]
    assert report[0]["doubt"] is None
    ours.write_bytes(other.read_bytes())
    answer = run("pipeline", recipe, "--out", tmp_path / "out")
    note = "train (seed 0): evaluation.json is of the network"
    assert note in " ".join(answer.out.split())
    report = json.loads(run("pipeline", recipe, "--out", tmp_path / "out", "--json").out)["stages"]
    assert report[0]["accuracy"] is None
    assert report[0]["doubt"].startswith(note.partition(": ")[2])
    assert report[1]["accuracy"] == json.loads(other.read_text())["accuracy"]


def test_nothing_runs_before_the_recipe_is_right(run, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "run_stage", lambda *_: pytest.fail("something ran"))
    recipe.write_text(RECIPE.replace("angles:60", "angels:60"))
    answer = run("pipeline", recipe, "--out", tmp_path / "out")
    assert answer.code == 2
    assert "line 10, reduce.1.by" in answer.err
    assert len(answer.lines) == 1
    assert not (tmp_path / "out").exists()


def test_an_interrupt_says_that_the_same_command_goes_on(run, recipe, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_stage", interrupted)
    answer = run("pipeline", recipe, "--out", tmp_path / "out")
    assert answer.code == 130
    assert "the same command resumes" in answer.err
