from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.chain import _running as module
from weightsmith.chain.recipe import example
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.reducing.results import ReductionRecord
from weightsmith.spiking.results import SpikeRecord


@pytest.mark.slow
def test_the_demo_ends_with_a_report_and_networks_that_load(run, tmp_path):
    answer = run("demo", "--out", tmp_path / "demo")
    assert answer.code == 0, answer.err
    folder = tmp_path / "demo"
    page = (folder / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert len(page) < 3_000_000
    assert 0 < page.index("In short: tailored") < page.index("Overview")
    assert (folder / "recipe.toml").read_text() == example("digits")
    assert ws.evaluate(ws.load(folder / "train"), "digits").accuracy.value > 0.93
    small = ReductionRecord.from_json((folder / "reduced" / "record.json").read_text())
    assert small.reduced.parameters <= small.whole.parameters / 4
    assert small.measured.reduced.value > 0.9
    spiking = SpikeRecord.from_json((folder / "spiking" / "record.json").read_text())
    assert spiking.cost.ratio < 1
    assert spiking.decisions.images == small.measured.images == 360
    found = TailorRecord.from_json((folder / "tailored" / "record.json").read_text())
    assert found.best.kind == "reduced, int8"
    assert found.judged.energy <= 0.02 * found.energy
    assert found.judged.accuracy.value > 0.9
    assert ws.evaluate(folder / "tailored", "digits").accuracy == found.judged.accuracy
    text = " ".join(answer.out.split())
    for words in ("train", "grade", "reduced", "spiking", "in all", "points", "360 rows", "int8", "try next"):
        assert words in text
    again = json.loads(run("demo", "--out", folder, "--json", "--quiet").out)
    assert [stage["stage"] for stage in again["stages"]][-1] == "spiking"
    assert again["tailored"]["result"] == found.result


def test_an_interrupted_demo_can_go_on(run, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_stage", interrupted)
    answer = run("demo", "--out", tmp_path / "demo", "--quiet")
    assert answer.code == 130
    assert "the same command resumes" in answer.err


def test_other_data_are_named(run):
    answer = run("demo", "--data", "imagenet")
    assert answer.code == 2
    assert "fashion-mnist" in answer.err
