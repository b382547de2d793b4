from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.networks.card import weights_digest
from weightsmith.spiking.files import spiking_digest

pytestmark = pytest.mark.choice

QUICK = ("--rows", 200, "--test-rows", 100, "--quiet")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    ws.train("mlp:32", "digits", optimiser="adam", schedule=0.01, epochs=5, seed=0, out=folder)
    return folder


def test_a_network_that_keeps_to_the_limits_is_written(run, trained, tmp_path):
    folder, figures = tmp_path / "out", tmp_path / "figures"
    answer = run(
        "tailor", trained, "--accuracy", "-20", "--params", "40%", *QUICK, "--out", folder, "--figures", figures
    )  # fmt: skip
    assert answer.code == 0, answer.err
    record = TailorRecord.from_json((folder / "record.json").read_text())
    assert record.met
    assert record.best.params_share <= 0.4
    assert weights_digest(ws.load(folder)) == record.result
    assert {path.name for path in figures.iterdir()} == {"kept.svg", "front.svg"}
    for words in (
        "at most 20 points below the network, parameters at most 964 (40.0 %)", "cut to 40 % of the parameters (taken)",
        "of 100 rows (test), that of the original", "in int8 costs 5.0 % of that energy",
    ):  # fmt: skip
        assert words in " ".join(answer.out.split())


def test_json_holds_the_record_and_the_description(run, trained):
    answer = run("tailor", trained, "--accuracy", "50", "--params", 0.4, *QUICK, "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    record = TailorRecord.from_dict(found["record"])
    assert (found["met"], found["look_at"], found["files"]) == (True, [], [])
    assert record.limits.params == 964
    assert record.limits.accuracy == 0.5
    assert found["description"]["try_next"] == ["--out FOLDER: the network was not kept"]


def test_limits_that_are_not_kept_to_end_with_code_1(run, trained):
    answer = run("tailor", trained, "--params", "3", *QUICK)
    assert answer.code == 1
    assert "not met" in answer.out
    assert "no network meets the limits; the nearest misses params by" in answer.lines[-1]
    assert "100.0 %: what the nearest network needs" not in answer.out  # the network itself is no advice


def followed(limits: dict[str, str | None], hint: str) -> list[str]:
    """The limits of a call after a hint: ``--params 4% --accuracy 20% without --energy: why``."""
    to, _, without = hint.partition(":")[0].partition("without")
    words = to.split()
    limits = limits | dict(zip(words[::2], words[1::2], strict=True))
    left = {name: value for name, value in limits.items() if name not in without.split()}
    return [word for item in left.items() for word in item if word is not None]


@pytest.mark.parametrize(
    "limits",
    [
        {"--params": "1%", "--energy": "1%", "--accuracy": "99"},
        {"--params": "1%", "--energy": "1%", "--accuracy": "70"},
        {"--params": "1%", "--accuracy": "-2"},
        {"--params": "1%", "--energy": "0.01%"},
        {"--params": "10%", "--accuracy": "99", "--margin": "none"},
        {"--energy": "2%", "--accuracy": "-10", "--spiking": None},
        {"--accuracy": "99.9"},
        {"--accuracy": "-0.1"},
    ],
    ids=lambda limits: " ".join(f"{name[2:]} {value or ''}" for name, value in limits.items()),
)
def test_what_is_to_be_tried_next_meets_its_limits(run, trained, limits):
    first = run("tailor", trained, *followed(limits, ""), *QUICK, "--json")
    assert first.code == 1, first.err
    hints = [each for each in json.loads(first.out)["description"]["try_next"] if each.startswith(("--", "without"))]
    tried = [followed(limits, hint) for hint in hints if "FOLDER" not in hint]
    assert tried
    for call in tried:
        answer = run("tailor", trained, *call, *QUICK)
        assert answer.code == 0, (call, answer.err)


def test_an_accuracy_above_that_of_the_original_is_said_beside_other_limits(run, trained):
    for limits in (("--params", "1%"), ("--params", "30%"), ()):
        answer = run("tailor", trained, *limits, "--accuracy", "99.9", *QUICK)
        assert "a lower limit, as the original network has an accuracy of" in " ".join(answer.out.split())


def test_a_spiking_network_is_written_as_one_and_run_for_its_steps(run, trained, tmp_path):
    answer = run("tailor", trained, "--energy", "90%", "--spiking", *QUICK, "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    record = TailorRecord.from_json((tmp_path / "out" / "record.json").read_text())
    assert spiking_digest(ws.load_spiking(tmp_path / "out")) == record.result
    printed = run("evaluate", tmp_path / "out", "--data", "digits", "--json", "--quiet")
    assert printed.code == 0, printed.err
    assert len(json.loads(printed.out)["steps"]) == record.best.steps


def test_an_int8_network_is_evaluated_from_its_folder(run, trained, tmp_path):
    answer = run("tailor", trained, "--bytes", "30%", *QUICK, "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    record = TailorRecord.from_json((tmp_path / "out" / "record.json").read_text())
    assert record.best.kind == "int8"
    printed = run("evaluate", tmp_path / "out", "--data", "digits", "--json", "--quiet")
    assert printed.code == 0, printed.err


def test_the_onnx_file_of_an_int8_network_is_among_the_files(run, trained, tmp_path):
    pytest.importorskip("onnxruntime")
    for limit, before in (
        ("30%", "the class of the original network on "),
        ("15%", "cut network before rounding, not"),
    ):
        answer = run("tailor", trained, "--bytes", limit, *QUICK, "--out", tmp_path / limit, "--json")
        assert answer.code == 0, answer.err
        found = json.loads(answer.out)
        assert str(tmp_path / limit / "network-int8.onnx") in found["files"]
        assert before in found["record"]["notes"][-1]


def test_a_budget_says_what_was_not_tried(run, trained):
    answer = run("tailor", trained, "--params", 0.4, *QUICK, "--budget", "1e-9s")
    assert answer.code == 1
    assert "Not tried: int8" in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "at least one"),
        (("--energy", "5"), "an amount needs its unit"),
        (("--accuracy", "101%"), "at most 100 %"),
        (("--accuracy", 0.9, "--budget", "soon"), "budget"),
        (("--accuracy", 0.9, "--figures", "front.gif"), "give a .svg, .png or .pdf file"),
        (("--accuracy", 0.9, "--margin", "1.5"), "--margin"),
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
    assert "never overwritten" in answer.err


def test_a_file_that_is_not_there_is_code_3(run, tmp_path):
    assert run("tailor", tmp_path / "none", "--data", "digits", "--accuracy", 0.9, "--quiet").code == 3


def test_a_spiking_network_is_refused(run, trained, tmp_path):
    ws.spike(trained, "digits", steps=4, test_rows=4, watch=0, out=tmp_path / "snn")
    answer = run("tailor", tmp_path / "snn", "--data", "digits", "--accuracy", 0.9, "--quiet")
    assert answer.code == 2
    assert "spiking network already" in answer.err


def test_an_interrupt_before_anything_is_known_says_whether_it_is_kept(run, trained, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("weightsmith.chain.tailor.runner.CandidateRunner.go", stop)
    words = ("--accuracy", 0.9, "--test-rows", 50)
    kept = run("tailor", trained, *words, "--out", tmp_path / "out")
    assert kept.code == 130
    assert "the same command resumes" in kept.err
    assert "nothing is kept without --out" in run("tailor", trained, *words).err
