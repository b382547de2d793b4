from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch

import weightsmith as ws
from weightsmith.chain.diff.diff import diff
from weightsmith.chain.diff.differences import NetworkDiff, SettingDiff
from weightsmith.cli.terminal import show
from weightsmith.reporting.describe import describe
from weightsmith.reporting.sections._wording import accuracy, points


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A network, and the same with one layer doubled."""
    folder = tmp_path_factory.mktemp("networks")
    network = ws.networks.mlp(64, 20, 12, 10, seed=0)
    first = ws.save(network, folder / "a.safetensors")
    with torch.no_grad():
        network.dense2.weight.mul_(2)
    return first, ws.save(network, folder / "b.safetensors")


def cells(shown, word):
    (line,) = [line for line in shown.splitlines() if line.startswith(word)]
    return line.split()


def test_the_doubled_layer_is_the_one_that_differs(run, pair):
    answer = run("diff", *pair, "--evidence", "none", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert cells(answer.out, "parameters") == ["parameters", "1,682", "1,682", "1"]
    assert cells(answer.out, "MACs") == ["MACs", "1,640", "1,640", "1"]
    assert [cells(answer.out, name)[-1] for name in ("dense1", "dense2", "output")] == ["0", "1", "0"]
    assert "→" not in " ".join(cells(answer.out, "dense1"))
    report = json.loads(run("diff", *pair, "--json", "--evidence", "none", "-q").out)
    assert NetworkDiff.from_dict(report) == diff(*pair, evidence="none")


def test_with_data_both_answer_the_same_rows(run, pair):
    answer = run("diff", *pair, "--data", "digits", "--test-rows", 60, "--evidence", "none", "-q", "--seed", 2)
    paired = diff(*pair, "digits", test_rows=60, seed=2, evidence="none", latency=False).accuracy
    assert f"B − A {points(paired.difference.value)} points [" in " ".join(answer.out.split())
    assert f"only A {paired.only_a}, only B {paired.only_b}, neither {paired.neither}" in answer.out
    _, _, _, first, unit, second, _, ratio, *_ = cells(answer.out, "time, batch 1 ")
    assert unit in ("µs", "ms")
    assert min(float(first), float(second), float(ratio)) > 0
    assert any(
        line.startswith("dense1") and "20" in line.split() for line in answer.out.split("Activations")[1].splitlines()
    )
    assert "time" not in run("diff", *pair, "--data", "digits", "--evidence", "none", "-q", "--no-latency").out


def test_a_quiet_call_still_says_why_a_number_is_missing(run, pair, tmp_path):
    other = ws.save(ws.networks.mlp(5, 4, 10), tmp_path / "other.safetensors")
    answer = run("diff", pair[0], other, "--data", "digits", "--test-rows", 20, "--evidence", "none", "--quiet")
    assert "accuracy of B  –" in answer.out
    assert "accuracy" in answer.out[answer.out.index("note  ") :]
    assert answer.err == ""


@pytest.mark.parametrize("columns", ["60", "100", "200"])
def test_a_layer_takes_one_line_however_narrow_the_terminal(pair, monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    show(describe(diff(*pair, evidence="none")))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    (heads,) = [line.split() for line in lines if line.split() == ["dense1", "dense2", "output"]] or [None]
    rows = [line.split()[0] for line in lines if line.startswith(("dense", "output"))]
    assert heads or rows == ["dense1", "dense2", "output"]  # a table of few rows may be turned on its side


def test_names_from_files_stay_in_their_line(pair, capsys):
    found = diff(*pair, evidence="none")
    nasty = "[red]\x1b[2J\n\u202e" + "x" * 10_000
    layer = dataclasses.replace(found.layers[0], name=nasty)
    description = describe(
        dataclasses.replace(
            found,
            layers=(layer,),
            settings=(SettingDiff(nasty, nasty, None),),
            relation=nasty,
            notes=(nasty,),
            a=dataclasses.replace(found.a, name=nasty),
        )
    )
    show(description)
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    assert shown.count("[red]") == 7
    assert len(shown) < 20_000


def test_nan_must_be_looked_at(run, pair, tmp_path):
    network = ws.load(pair[0])
    with torch.no_grad():
        network.dense1.weight[0, 0] = math.nan
    path = ws.save(network, tmp_path / "nan.safetensors")
    answer = run("diff", pair[0], path, "--evidence", "none", "-q")
    assert answer.code == 1
    assert answer.lines == ["weightsmith: NaN or infinity in dense1 of B"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--test-rows", "5"), 2, "--test-rows belongs to --data"),
        (("--evidence", "some"), 2, "some"),
        (("--data", "digit"), 2, "digits"),
    ],
)
def test_wrong_usage_is_one_line(run, pair, words, code, message):
    answer = run("diff", *pair, *words, "-q")
    assert answer.code == code
    assert len(answer.lines) == 1
    assert message in answer.lines[0]


def test_a_missing_file_is_named(run, pair, tmp_path):
    answer = run("diff", pair[0], tmp_path / "none.safetensors")
    assert answer.code == 3
    assert "none.safetensors" in answer.lines[-1]


def test_one_kind_of_minus_and_no_power_of_ten_for_p(pair, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # all columns, however long the names of the files are
    found = diff(*pair, "digits", test_rows=40, evidence="none", latency=False)
    worse = dataclasses.replace(found.accuracy.difference, value=-0.3, low=-0.4, high=-0.2)
    facts = dataclasses.replace(found.layers[0].a, log_norm=-1.25, stable_rank=1.5e-7)
    description = describe(
        dataclasses.replace(
            found,
            accuracy=dataclasses.replace(found.accuracy, difference=worse, p=3e-20),
            layers=(dataclasses.replace(found.layers[0], a=facts),),
        )
    )
    show(description)
    shown = capsys.readouterr().out
    assert "−30.0 points [−40.0, −20.0], p < 0.0001 (McNemar)" in shown
    assert "−1.25 → " in shown
    assert "1.5e−07 → " in shown
    assert "-" not in shown.split("accuracy")[1]
    assert "(−40.00 to −20.00 points)" in str(
        dataclasses.replace(found, accuracy=dataclasses.replace(found.accuracy, difference=worse))
    )


OWN = """
from torch import nn
def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
"""


def test_networks_of_ones_own_are_compared_with_network(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_of_diff.py").write_text(OWN)
    for name in ("a", "b"):
        network = ws.networks.build("own_of_diff:build", seed=ord(name))
        ws.save(network, tmp_path / f"{name}.safetensors")
    words = ("diff", "a.safetensors", "b.safetensors", "--data", "digits", "--evidence", "none", "--no-latency")
    answer = run(*words)
    notes = [line for line in answer.out.splitlines() if line.startswith("note")]
    assert (answer.code, len(notes), answer.out.count("--network own_of_diff:build")) == (0, 1, 1)
    quiet = run(*words, "-q")  # why numbers are missing is said in any case
    assert (quiet.err, quiet.out.count("--network own_of_diff:build")) == ("", 1)
    answer = run(*words, "--network", "own_of_diff:build", "--normalise", "0.5/0.5", "-q")
    wanted = diff(
        "a.safetensors", "b.safetensors", "digits", evidence="none", network="own_of_diff:build", normalise="0.5/0.5"
    ).accuracy
    assert f"only A {wanted.only_a}, only B {wanted.only_b}, neither {wanted.neither}" in answer.out


def test_one_accuracy_is_better_than_none(run, pair, tmp_path):
    other = ws.save(ws.networks.mlp(30, 4, 10), tmp_path / "other.safetensors")
    words = ("--data", "digits", "--evidence", "none", "--no-latency", "-q")
    right = diff(pair[0], pair[0], "digits", evidence="none", latency=False).accuracy.a
    for files, one, none in (((pair[0], other), "A", "B"), ((other, pair[0]), "B", "A")):
        shown = run("diff", *files, *words).out
        assert f"accuracy of {one}  {accuracy(right, 360, 'test')} of digits" in shown
        assert f"accuracy of {none}  –" in shown
