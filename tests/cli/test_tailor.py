from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.networks.card import weights_digest
from weightsmith.spiking.files import spiking_digest

pytestmark = pytest.mark.choice

QUICK = ("--recover", "none", "--rows", 200, "--steps", 8, "--encode", "constant", "--test-rows", 100, "--quiet")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    ws.train("mlp:32", "digits", optimiser="adam", schedule=0.01, epochs=5, seed=0, out=folder)
    return folder


def test_a_network_that_keeps_to_the_limits_is_written(run, trained, tmp_path):
    folder, figure = tmp_path / "out", tmp_path / "front.png"
    answer = run(
        "tailor", trained, "--accuracy", "60%", "--params", "40%", *QUICK, "--out", folder, "--figures", figure
    )  # fmt: skip
    assert answer.code == 0, answer.err
    record = TailorRecord.from_json((folder / "record.json").read_text())
    assert record.met
    assert record.best.params_share <= 0.4
    assert weights_digest(ws.load(folder)) == record.result
    assert figure.read_bytes().startswith(b"\x89PNG")
    for words in (
        "accuracy ≥ 60 %, parameters ≤ 964 (40.0 %)", "reduced (taken)", "McNemar, row by row", "reduced alone",
        "spiking alone  nothing of the kind was tried", "record.json",
    ):  # fmt: skip
        assert words in answer.out


def test_json_holds_the_record(run, trained):
    answer = run("tailor", trained, "--accuracy", 0.6, "--params", 0.4, *QUICK, "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    record = TailorRecord.from_dict(found["record"])
    assert (found["met"], found["look_at"], found["files"]) == (True, [], [])
    assert record.limits.params == 964


def test_limits_that_are_not_kept_to_end_with_code_1_and_say_what_would_do(run, trained):
    answer = run("tailor", trained, "--accuracy", "99.9%", "--energy", "5%", *QUICK)
    assert answer.code == 1
    assert "not met" in answer.out
    assert "no candidate keeps to the limit on accuracy; the nearest misses accuracy by" in answer.lines[-1]
    assert "accuracy ≥" in answer.out.partition("would do")[2]


def test_a_spiking_network_is_written_as_one(run, trained, tmp_path):
    words = ("--accuracy", 0.5, "--energy", 0.4, "--params", "100%", *QUICK)
    answer = run("tailor", trained, *words, "--encode", "poisson", "--out", tmp_path / "out")
    assert answer.code == 0
    record = TailorRecord.from_json((tmp_path / "out" / "record.json").read_text())
    assert record.best.steps is not None
    assert spiking_digest(ws.load_spiking(tmp_path / "out")) == record.result
    assert f"{record.best.steps} step" in answer.out


def test_a_budget_says_what_there_was_no_time_for(run, trained):
    answer = run("tailor", trained, "--accuracy", 0.5, "--params", 0.4, *QUICK, "--budget", "1e-9s")
    assert answer.code == 1
    assert "no time for" in answer.out
    assert "groups, params:0.4, uniform; " in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "at least one of them"),
        (("--accuracy", 90), "90 per cent are written 90%"),
        (("--energy", "5"), "an amount needs its unit"),
        (("--accuracy", 0.9, "--budget", "soon"), "budget"),
        (("--accuracy", 0.9, "--figures", "front.gif"), "written as .svg"),
        (("--accuracy", 0.9, "--recover", "rewind:2"), "--recover must be one of fine-tune, not rewind:2"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, trained, words, message):
    answer = run("tailor", trained, "--data", "digits", *words, "--quiet")
    assert answer.code == 2
    assert message in answer.lines[-1]
    assert len(answer.lines) == 1


def test_the_network_itself_is_never_written_over(run, trained):
    answer = run("tailor", trained, "--accuracy", 0.9, *QUICK, "--out", trained)
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert "never changed" in answer.err


def test_a_file_that_is_not_there_is_code_3(run, tmp_path):
    assert run("tailor", tmp_path / "none", "--data", "digits", "--accuracy", 0.9, "--quiet").code == 3


def test_a_spiking_network_is_refused(run, trained, tmp_path):
    ws.spike(trained, "digits", steps=4, test_rows=4, watch=0, out=tmp_path / "snn")
    answer = run("tailor", tmp_path / "snn", "--data", "digits", "--accuracy", 0.9, "--quiet")
    assert answer.code == 2
    assert "spiking network already" in answer.err


def test_an_interrupt_says_whether_anything_is_kept(run, trained, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("weightsmith.chain.tailor.runner.reduce", stop)
    words = ("--accuracy", 0.9, "--recover", "none", "--test-rows", 50)
    kept = run("tailor", trained, *words, "--out", tmp_path / "out")
    assert kept.code == 130
    assert "the same command goes on" in kept.err
    assert "nothing is kept without --out" in run("tailor", trained, *words).err


def test_a_spiking_answer_is_run_for_the_steps_it_was_judged_at(run, trained, tmp_path):
    """Later commands take the number of steps from the record: with more of them the limit on energy would be lost."""
    options = ("--energy", "30%", "--steps", 12, "--encode", "constant", "--recover", "none", "--spiking", "--quiet")
    run("tailor", trained, "--accuracy", "60%", *options, "--out", tmp_path)
    record = TailorRecord.from_json((tmp_path / "record.json").read_text())
    assert record.best.steps is not None
    assert record.best.steps < 12
    printed = run("evaluate", tmp_path, "--data", "digits", "--json", "--quiet")
    assert printed.code == 0, printed.err
    assert len(json.loads(printed.out)["steps"]) == record.best.steps
