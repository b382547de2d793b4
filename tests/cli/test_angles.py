from __future__ import annotations

import csv
import json
import sys

import pytest
from safetensors.torch import save_file

import weightsmith as ws
from weightsmith.reducing.inspecting import AnglesRecord, angles


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Ten sigmoids, of which 7 is a twin of 2, 8 the opposite of 3, and 9 always the same."""
    data = ws.data.load("digits")
    made = ws.networks.mlp(64, 10, 10, activation="sigmoid", seed=2)
    weight, bias = made.dense1.weight.data, made.dense1.bias.data
    weight[7], bias[7] = weight[2], bias[2]
    weight[8], bias[8] = -weight[3], -bias[3]
    weight[9], bias[9] = 0.0, 2.0
    path = tmp_path_factory.mktemp("nets") / "network.safetensors"
    return ws.save(made, path, classes=data.classes, normalisation=data.normalisation)


def test_the_pairs_are_those_of_the_library(run, network):
    answer = run("angles", network, "--data", "digits", "--angle", 10, "--top", 4, "--rows", 300, "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert found.pop("files") == []
    assert AnglesRecord.from_dict(found) == angles(network, "digits", angle=10, top=4, rows=300).record


def test_twins_opposites_and_constant_units_are_shown(run, network):
    answer = run("angles", network, "--data", "digits", "--angle", 5, "--top", 3, "--quiet")
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert "2, 7 0.00° similar yes" in lines
    assert "3, 8 180.00° complementary yes" in lines
    assert any(line.endswith(" no") for line in lines)
    assert any("2: 2 + 7, 3 + 8" in line for line in lines)
    assert any(line.startswith("units that hardly vary 1: 9") for line in lines)
    assert any(line.startswith("dense1 10 1,437 sigmoid, from 0.5 0.0° 1 1 7 2 1") for line in lines)
    assert any("--by angles:5" in line for line in lines)


def test_more_pairs_than_shown_are_counted(run, network):
    answer = run("angles", network, "--data", "digits", "--angle", 5, "--top", 1, "--quiet")
    assert "1 more lies within 5° (--top 2)" in answer.out
    nothing = run("angles", network, "--data", "digits", "--angle", 5, "--top", 0, "--quiet")
    assert (nothing.code, "similar  " in nothing.out) == (0, False)


def test_csv_and_figures_are_written(run, network, tmp_path, monkeypatch):
    words = ("--data", "digits", "--angle", 5, "--top", 3, "--quiet")
    answer = run("angles", network, *words, "--csv", tmp_path / "p.csv", "--figures", tmp_path / "figures")
    assert answer.code == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [(row["layer"], row["a"], row["b"], row["kind"], row["below"]) for row in rows[:2]] == [
        ("dense1", "2", "7", "similar", "True"),
        ("dense1", "3", "8", "complementary", "True"),
    ]
    assert rows[2]["below"] == "False"
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "001-dense1-angles.svg",
        "001-dense1-tree.svg",
    }
    assert run("angles", network, *words, "--figures", tmp_path / "a.pdf").code == 0
    monkeypatch.chdir(tmp_path)
    assert run("angles", network, *words, "--figures", "none").code == 0
    assert not (tmp_path / "none").exists()
    assert (tmp_path / "a-001-dense1-angles.pdf").read_bytes().startswith(b"%PDF")


def test_a_folder_of_figures_may_be_used_again(run, network, tmp_path):
    for _ in range(2):
        assert run("angles", network, "--data", "digits", "--figures", tmp_path, "--quiet").code == 0


def test_progress_goes_to_stderr(run, network):
    assert "angles: 1,437 of 1,437" in run("angles", network, "--data", "digits").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--angle", "200"), "--angle must be a number ≥ 0, ≤ 90, not 200"),
        (("--angle", "0"), "angle must be > 0"),
        (("--centre", "median"), "centre must be auto, mean, none or a finite number"),
        (("--layers", "dense4"), "unknown layer 'dense4'"),
        (("--short", "2"), "short must be a number ≥ 0, < 1"),
        (("--top", "-1"), "--top"),
        (("--figures", "a.gif"), "give a .svg, .png or .pdf file"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, network, words, message):
    answer = run("angles", network, "--data", "digits", *words, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, ""), answer.err
    assert message in answer.err


def test_a_missing_file_ends_with_code_3(run, tmp_path):
    assert run("angles", tmp_path / "none.safetensors", "--data", "digits").code == 3


def test_channels_need_the_extra_and_are_listed_with_it(run, tmp_path, monkeypatch):
    made = ws.networks.build("resnet:8,widths=[4,4,4]", input_shape=(1, 8, 8), classes=10)
    path = ws.save(made, tmp_path / "n.safetensors")
    answer = run("angles", path, "--data", "digits", "--rows", 40, "--top", 1, "--quiet")
    assert answer.code == 0, answer.err
    assert "layer1.0.conv1 4 2,560 relu, from " in " ".join(answer.out.split())
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    missing = run("angles", path, "--data", "digits", "--quiet")
    assert (missing.code, ".[prune]" in missing.err) == (2, True)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(run, network, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    answer = run("angles", network, "--data", "digits", "--quiet")
    assert max(map(len, answer.out.splitlines())) <= width


def test_a_folder_holds_what_a_report_is_made_of(run, tmp_path):
    import weightsmith as ws
    from weightsmith.chain.reading.results import read_results

    ws.save(ws.networks.mlp(64, 12, 10, seed=0), tmp_path / "net.safetensors")
    answer = run("angles", tmp_path / "net.safetensors", "--data", "digits", "--out", tmp_path / "near", "--quiet")
    assert answer.code == 0, answer.err
    (found,) = read_results(tmp_path / "near")
    expected = ws.angles(tmp_path / "net.safetensors", "digits")
    assert found.record == expected.record
    assert abs(found.detail.degrees("dense1") - expected.degrees("dense1")).max() < 1e-4


def test_no_layer_becomes_a_formula(run, tmp_path, monkeypatch):
    (tmp_path / "strange_layers.py").write_text(
        "from collections import OrderedDict\n"
        "from torch import nn\n"
        "def net():\n"
        "    parts = {'flat': nn.Flatten(), '=cmd()': nn.Linear(64, 8), 'f': nn.Sigmoid(), '@o': nn.Linear(8, 10)}\n"
        "    return nn.Sequential(OrderedDict(parts))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from strange_layers import net

    save_file(net().state_dict(), tmp_path / "n.safetensors")
    words = (tmp_path / "n.safetensors", "--network", "strange_layers:net", "--data", "digits", "--quiet")
    assert run("angles", *words, "--csv", tmp_path / "p.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert {row["layer"] for row in rows} == {"'=cmd()"}
    answer = run("reduce", *words, "--by", "angles:80", "--no-latency", "--out", tmp_path / "o")
    assert answer.code == 0, answer.err
    (row,) = csv.DictReader((tmp_path / "o" / "sites.csv").read_text().splitlines())
    assert "'=cmd()" in row.values()
