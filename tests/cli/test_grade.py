from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import weightsmith as ws
from weightsmith.cli.grade import read_accuracies
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.grading.comparison import GradeComparison
from weightsmith.grading.grade import grade
from weightsmith.grading.margins import margins
from weightsmith.grading.results import Grades
from weightsmith.networks.layer_plan import LayerPlan

FAST = ("--evidence", "none", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three small networks: ``a`` and ``b`` alike in shape, ``c`` another one."""
    path = tmp_path_factory.mktemp("networks")
    for seed, name in enumerate("ab"):
        ws.save(ws.networks.mlp(64, 24, 10, seed=seed), path / f"{name}.safetensors")
    ws.save(ws.networks.mlp(30, 20, 10, seed=2), path / "c.safetensors")
    return path


@pytest.fixture(scope="module")
def a(folder):
    return folder / "a.safetensors"


@pytest.fixture(scope="module")
def b(folder):
    return folder / "b.safetensors"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def broken(tmp_path):
    save_file({"x.weight": torch.full((20, 20), math.nan), "y.weight": torch.randn(20, 20)}, tmp_path / "n.safetensors")
    return tmp_path / "n.safetensors"


def strict(text):
    """JSON as the standard has it: no NaN."""

    def refuse(word):
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


def test_json_is_what_the_library_says_and_nothing_else(run, a):
    answer = run("grade", a, "--json")
    report = strict(answer.out)
    expected = grade(a)
    assert answer.code == 0
    assert report["layers"] == [layer.row() for layer in expected.layers]
    assert report["summary"] == expected.summary
    assert report["coverage"]["line"] == expected.coverage.line
    needed = [
        "name",
        "status",
        "N",
        "M",
        "evals",
        "alpha",
        "alpha_low",
        "alpha_high",
        "xmin",
        "D",
        "tail",
        "lambda_max",
    ]
    assert set(needed) <= set(report["layers"][0])
    assert report["source"] == str(a)
    assert "grade a.safetensors: 2 of 2" in answer.err
    assert run("grade", a, "--json", "--quiet").err == ""


def test_options_reach_the_library(run, tmp_path):
    torch.manual_seed(0)
    path = tmp_path / "n.pt"
    torch.save({"c.weight": torch.randn(12, 12, 3, 3), "d.weight": torch.randn(30, 20)}, path)
    words = ("--conv", "slices", "--normalise", "seed", "--cut", "hill:share=0.4", "--precision", "float32")
    report = strict(run("grade", path, *FAST, *words, "--method", "svd", "--layers", "c", "--json").out)
    options = {"conv": "slices", "normalise": "seed", "cut": "hill:share=0.4", "precision": "float32", "method": "svd"}
    expected = grade(path, evidence="none", layers="c", **options)
    assert report["layers"] == [layer.row() for layer in expected.layers]
    assert len(report["layers"]) == 9
    assert report["settings"] == expected.settings


def test_groups_of_convolutions_are_a_guess_until_they_are_given(run, tmp_path):
    torch.manual_seed(0)
    shapes = {"stem": (32, 3, 3, 3), "block.conv2": (32, 16, 3, 3)}
    save_file({f"{name}.weight": torch.randn(shape) for name, shape in shapes.items()}, tmp_path / "net.safetensors")
    told = run("grade", tmp_path / "net.safetensors")
    assert "--conv-groups NAME=N" in " ".join(told.err.split())
    assert "groups: a guess" in told.out
    settled = run("grade", tmp_path / "net.safetensors", "--conv-groups", "block.*=2", "--json")
    assert "guess" not in settled.err
    assert [layer["matrices"] for layer in strict(settled.out)["layers"]] == [18, 9]


def test_the_seed_and_the_evidence_reach_the_library(run, a):
    expected = [
        strict(run("grade", a, "--evidence", "fast:resamples=50", "--seed", seed, "--json", "-q").out) for seed in "01"
    ]
    assert expected[0]["layers"][0]["alpha_low"] != expected[1]["layers"][0]["alpha_low"]
    assert expected[0]["origin"]["seed"] == 0
    assert expected[1]["settings"]["evidence"] == "fast:resamples=50"


def test_the_table_in_the_terminal(run, a):
    shown = run("grade", a, *FAST).out
    expected = grade(a, evidence="none")
    assert all(f"{layer.alpha:.2f}" in shown for layer in expected.layers)
    assert expected.coverage.line in shown
    assert run("grade", a, *FAST, "--why").out.count("but no evidence was computed") == 2


def test_csv_in_and_out(run, a, b):
    rows = list(csv.DictReader(io.StringIO(run("grade", a, *FAST, "--csv", "-").out)))
    assert [float(row["alpha"]) for row in rows] == [layer.alpha for layer in grade(a, evidence="none").layers]
    both = list(csv.DictReader(io.StringIO(run("grade", a, b, *FAST, "--csv", "-").out)))
    assert [row["network"] for row in both] == [str(a)] * 2 + [str(b)] * 2


def test_several_networks_are_compared(run, a, b):
    report = strict(run("grade", a, b, *FAST, "--json", "--accuracy", "91.5,92").out)
    assert [network["source"] for network in report["networks"]] == [str(a), str(b)]
    comparison = GradeComparison.from_dict(report["comparison"])
    assert comparison.accuracy == (0.915, 0.92)
    assert comparison.measure("alpha").values == tuple(network["summary"]["alpha"] for network in report["networks"])
    shown = run("grade", a, b, *FAST, "--accuracy", ".915,.92").out
    assert "91.5 %" in shown
    assert "With 2 networks" in shown


@pytest.mark.slow
def test_the_same_bytes_with_two_workers(run, a):
    words = ("grade", a, "--json", "--quiet", "--evidence", "none")
    assert run(*words).out == run(*words, "--workers", 2).out


def test_a_difference_to_a_base(run, a, b):
    report = strict(run("grade", a, *FAST, "--base", b, "--json").out)
    assert report["layers"] == [layer.row() for layer in grade(a, base=b, evidence="none").layers]
    assert report["settings"]["base"] == str(b)


def test_batch_norm_is_folded_in_a_network_of_ones_own(run, tmp_path, monkeypatch):
    (tmp_path / "graded_nets.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20))\n"
    )
    monkeypatch.chdir(tmp_path)
    made = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20))
    made[1].running_var.uniform_(0.1, 9)
    path = ws.save(made, tmp_path / "n.safetensors")
    plain, folded = (
        strict(run("grade", path, *FAST, "--network", "graded_nets:build", *more, "--json").out)
        for more in ((), ("--fold",))
    )
    assert plain["layers"][0]["alpha"] == grade(path, evidence="none").layers[0].alpha
    assert folded["layers"][0]["alpha"] == grade(made, evidence="none", fold=True).layers[0].alpha
    assert folded["layers"][0]["alpha"] != plain["layers"][0]["alpha"]
    assert folded["source"] == str(path)


def test_margins_with_data(run, tmp_path):
    data = ws.data.load("digits")
    trained = ws.train("mlp:24", data, schedule=0.05, epochs=4).network
    path = ws.save(trained, tmp_path / "n.safetensors")
    answer = run("grade", path, *FAST, "--data", "digits", "--json")
    report, expected = strict(answer.out), margins(trained, data)
    assert report["margins"]["margin"] == pytest.approx(expected.margin)
    assert report["summary"]["margin_spectral_norm"] == pytest.approx(expected.margin_spectral)
    assert report["summary"]["margin_norm"] == pytest.approx(expected.margin_frobenius)
    assert report["margins"]["split"] == "train"
    shown = run("grade", path, *FAST, "--data", "digits", "--split", "test").out
    assert "10 % quantile of the margin on digits (test)" in " ".join(shown.split())


def test_a_margin_that_is_not_positive_is_told(run, a):
    answer = run("grade", a, "--evidence", "none", "--data", "digits", "--json")
    report = strict(answer.out)
    assert (answer.code, report["summary"]["margin_norm"]) == (0, None)
    assert report["margins"]["status"] == "margin not positive"
    assert "quantile of the margins is" in answer.err
    assert any("no margin-normalised norm" in note for note in report["notes"])
    assert "quantile of the margins is" in run("grade", a, *FAST, "--data", "digits").err  # a quiet call says it too


def test_plans_are_written_side_by_side(run, a, tmp_path):
    answer = run("grade", a, *FAST, "--plan", tmp_path / "plan.json", "--keep", "0.3")
    plans = [LayerPlan.load(tmp_path / name) for name in ("plan.json", "plan-uniform.json", "plan-norm.json")]
    assert [plan.mean for plan in plans] == pytest.approx([0.3] * 3)
    assert len({plan.origin.inputs["network"] for plan in plans}) == 1
    assert plans[0].source.startswith("alpha")
    assert all(f"{100 * share:.1f}" in answer.out for plan in plans for share in plan.values.values())
    report = strict(run("grade", a, *FAST, "--plan", tmp_path / "plan.json", "--layers", "*1", "--json").out)
    assert list(report["plans"]) == ["alpha", "uniform", "norm"]
    assert report["plans"]["alpha"]["target"] == 0.5
    assert len(report["plans"]["norm"]["values"]) == 1


def test_records_and_tables_in_a_folder(run, a, b, tmp_path):
    answer = run("grade", a, *FAST, "--out", tmp_path / "one")
    assert Grades.from_json((tmp_path / "one" / "record.json").read_text()) == grade(a, evidence="none")
    assert (tmp_path / "one" / "layers.csv").read_text() == run("grade", a, *FAST, "--csv", "-").out
    assert str(tmp_path / "one" / "record.json") in "".join(answer.out.split("\n"))
    report = strict(run("grade", a, b, *FAST, "--out", tmp_path / "two", "--json").out)
    assert [path.removeprefix(str(tmp_path)) for path in report["files"]] == [
        "/two/1-a/record.json",
        "/two/2-b/record.json",
        "/two/layers.csv",
        "/two/comparison.json",
    ]
    comparison = GradeComparison.from_json((tmp_path / "two" / "comparison.json").read_text())
    assert comparison.to_dict() == report["comparison"]


def test_figures_of_all_fitted_layers_stay_in_their_folder(run, tmp_path):
    torch.manual_seed(0)
    weights = {"../up/x.weight": torch.randn(20, 20), "small.weight": torch.randn(3, 3)}
    save_file(weights, tmp_path / "n.safetensors")
    run("grade", tmp_path / "n.safetensors", *FAST, "--figures", tmp_path / "in" / "figures")
    drawn = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.svg"))
    names = ("001-.._up_x-cut", "001-.._up_x-spectrum", "alpha", "alpha_histogram")
    assert drawn == [f"in/figures/{name}.svg" for name in names]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_figures_are_what_is_asked_for(run, a, tmp_path, suffix, start):
    words = ("--layers", "output", "--figures", tmp_path / f"f.{suffix}", "--json")
    report = strict(run("grade", a, *FAST, *words).out)
    assert {Path(file).suffix for file in report["files"]} == {f".{suffix}"}
    names = ("alpha", "alpha_histogram", "001-output-spectrum", "001-output-cut")
    assert {Path(file).stem for file in report["files"]} == {f"f-{name}" for name in names}
    assert all(Path(file).read_bytes().startswith(start) for file in report["files"])


@pytest.mark.slow
def test_a_page(run, a, b, tmp_path):
    page = tmp_path / "page.html"
    assert run("grade", a, b, *FAST, "--layers", "dense1", "--html", page).code == 0
    text = page.read_text().replace("<wbr>", "")
    assert text.lower().startswith("<!doctype html>")
    assert all(path.name in text for path in (a, b))
    assert "dense1" in text
    assert "output" not in [layer.strip() for layer in text.split(">")]


def test_a_layer_that_is_not_finite_ends_with_code_1(run, broken):
    answer = run("grade", broken, *FAST, "--json")
    assert (answer.code, answer.lines) == (1, ["weightsmith: NaN or infinity in x: not graded"])
    report = strict(answer.out)
    assert [(row["status"], row["alpha"] is None) for row in report["layers"]] == [
        ("non-finite", True),
        ("fitted", False),
    ]
    assert all(value is None or math.isfinite(value) for value in report["summary"].values())


def test_a_layer_that_is_too_small_does_not(run, tmp_path):
    save_file({"x.weight": torch.randn(3, 3)}, tmp_path / "n.safetensors")
    answer = run("grade", tmp_path / "n.safetensors", "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert strict(answer.out)["layers"][0]["status"] == "too small"


def test_a_network_without_layers(run, tmp_path):
    save_file({"bias": torch.zeros(3)}, tmp_path / "n.safetensors")
    answer = run("grade", tmp_path / "n.safetensors", "--json")
    assert (answer.code, strict(answer.out)["layers"]) == (1, [])
    assert "nothing to grade" in answer.err
    assert run("grade", tmp_path / "n.safetensors", "--csv", "-", "-q").out == ""
    assert run("grade", tmp_path / "n.safetensors", "--figures", tmp_path / "f", "-q").code == 1


def test_several_patterns_choose_several_layers(run, folder):
    report = strict(
        run("grade", folder / "a.safetensors", *FAST, "--layers", "dense1", "--layers", "out*", "--json").out
    )
    assert [layer["name"] for layer in report["layers"]] == ["dense1", "output"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--html", "."), 2, "--html writes a file, but . is a folder"),
        (("--plan", "{folder}"), 2, "--plan writes a file"),
        (("--out", "{a}"), 2, "--out writes into a folder"),
        (("--figures", "{a}/figures"), 3, "cannot be written"),
        (("{b}", "--why"), 2, "--why explains the layers of one network"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(run, folder, words, code, message):
    positions = {"folder": folder, "a": folder / "a.safetensors", "b": folder / "b.safetensors"}
    answer = run("grade", folder / "a.safetensors", *(word.format(**positions) for word in words))
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--json", "--csv", "-"), "--json and --csv - both print to stdout"),
        (("--accuracy", "91,92"), "--accuracy needs one value for each of several networks: 2 for 1"),
        (("--layers", "conv*"), "unknown layer 'conv*'"),
        (("--base", "{c}"), "no layer of the network is in the base"),
        (("--evidence", "ful"), "did you mean 'full'"),
        (("--cut", "hil"), "did you mean 'hill'"),
        (("--cut", "hill:share=2"), "share must be ≤ 1"),
        (("--conv", "pool"), "--conv"),
        (("--keep", "0.5"), "--keep belongs to --plan"),
        (("--figures", "f.gif"), "give a .svg, .png or .pdf file"),
        (("--keep", "0", "--plan", "p.json"), "--keep must be > 0 and ≤ 1"),
        (("--plan", "p.json", "--fold"), "--plan is made for the network as it is, not folded"),
        (("--plan", "p.json", "--base", "{b}"), "not for a difference"),
        (("--split", "test"), "--split belongs to --data"),
        (("--data", "digit"), "did you mean 'digits'"),
        (("--data", "digits", "--base", "{b}"), "a difference of two networks"),
        (("--workers", "2", "--threads", "2"), "workers or threads"),
        (("{b}", "--plan", "p.json"), "--plan is made for one network, not for 2"),
        (("{b}", "--accuracy", "0.9,92"), "all as fractions (up to 1) or all in per cent (above 1)"),
        (("{b}", "--accuracy", "90,x"), "--accuracy takes numbers such as 91.73,92.63"),
        (("{b}", "--accuracy", "90,101"), "101 is neither a fraction nor a percentage"),
        (("--device", "gpu"), "device"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, folder, here, words, message):
    positions = {name: folder / f"{name}.safetensors" for name in "abc"}
    answer = run("grade", positions["a"], *FAST, *(word.format(**positions) for word in words))
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err
    assert list(here.iterdir()) == []


def test_unreadable_files_are_code_3_before_any_work(run, a, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"no")
    for words in ((tmp_path / "gone",), (a, tmp_path / "bad.safetensors"), (a, "--base", tmp_path / "gone")):
        answer = run("grade", *words)
        assert (answer.code, len(answer.lines), answer.out) == (3, 1, "")


@pytest.mark.parametrize(
    ("text", "values"),
    [("91.73,92.63", (0.9173, 0.9263)), (".9,.5", (0.9, 0.5)), ("1,0", (1.0, 0.0)), ("100,50", (1.0, 0.5))],
)
def test_accuracies_are_fractions_or_per_cent(text, values):
    assert read_accuracies(text, 2) == pytest.approx(values)


def test_accuracies_that_are_none():
    assert read_accuracies(None, 1) is None
    with pytest.raises(OptionError, match="all as fractions"):
        read_accuracies("1,50", 2)
    with pytest.raises(UsageError, match="3 for 2"):
        read_accuracies("1,1,1", 2)


@pytest.mark.data
def test_the_series_of_the_seed_document(run, shared_data):
    paths = [shared_data / "weights" / f"akamaster_resnet{depth}.safetensors" for depth in (20, 32, 44, 56)]
    report = strict(run("grade", *paths, *FAST, "--accuracy", "91.73,92.63,93.10,93.39", "--json").out)
    hats = [network["summary"]["alpha_hat_raw"] for network in report["networks"]]
    assert [round(value, 1) for value in hats] == [128.9, 72.8, -45.2, -158.2]
    row = GradeComparison.from_dict(report["comparison"]).measure("alpha_hat_raw")
    assert (row.kendall.value, round(row.kendall.p, 3)) == (-1.0, 0.083)


@pytest.mark.data
def test_zeroed_layers_have_a_status_and_no_number(run, shared_data):
    name = "distiller_resnet20_4D_regularized_5Lremoved_finetuned.safetensors"
    answer = run("grade", shared_data / "weights" / name, *FAST, "--json")
    report = strict(answer.out)
    zero = [row for row in report["layers"] if row["status"] == "zero"]
    assert (answer.code, len(zero)) == (0, 5)
    assert all(row["alpha"] is row["lambda_max"] is None for row in zero)
    assert report["coverage"]["line"].startswith("17 of 22 layers fitted")
    assert all(value is None or math.isfinite(value) for value in report["summary"].values())


@pytest.fixture
def four_gigabytes(tmp_path):
    """A sharded folder of 4 GB with real values: 59 tall layers and a square one, each of 67 MB."""
    if shutil.disk_usage(tmp_path).free < 6e9:
        pytest.skip("needs 6 GB on the disk")
    shapes, positions = [(32_768, 512)] * 59 + [(4096, 4096)], {}
    values = np.random.default_rng(0).standard_t(3, shapes[0]).astype(np.float32).tobytes()
    for number in range(0, len(shapes), 15):
        name = f"model-{number // 15 + 1:05}-of-00004.safetensors"
        header = {
            f"layers.{number + index}.weight": {
                "dtype": "F32",
                "shape": list(shape),
                "data_offsets": [index * len(values), (index + 1) * len(values)],
            }
            for index, shape in enumerate(shapes[number : number + 15])
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (tmp_path / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _ in header:
                file.write(values)
        positions |= dict.fromkeys(header, name)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": positions}))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > 4e9
    yield tmp_path
    for file in tmp_path.iterdir():
        file.unlink()


PEAK = """
import sys
from weightsmith.cli import main
try: main(["grade", sys.argv[1], "--json", "--quiet"])
finally:
    # Not ru_maxrss, which a child takes over from the process that started it.
    status = dict(line.split(":") for line in open("/proc/self/status"))
    sys.stderr.write(status["VmHWM"].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_pass_over_four_gigabytes_takes_less_than_one_and_a_half_of_memory(four_gigabytes):
    command = [sys.executable, "-c", PEAK, str(four_gigabytes)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    peak = int(answer.stderr) * 1024
    assert peak < 1.5e9
    assert json.loads(answer.stdout)["coverage"]["fitted"] == 60


@pytest.mark.parametrize("name", ["=cmd()", "@SUM(A1)", "-x", "+x"])
def test_no_layer_becomes_a_formula(run, tmp_path, name):
    for file in ("=a.safetensors", "b.safetensors"):
        save_file({f"{name}.weight": torch.randn(60, 50, generator=torch.Generator().manual_seed(0))}, tmp_path / file)
    rows = list(csv.DictReader(io.StringIO(run("grade", tmp_path / "b.safetensors", *FAST, "--csv", "-").out)))
    assert [row["name"] for row in rows] == [f"'{name}"]
    answer = run("grade", tmp_path / "=a.safetensors", tmp_path / "b.safetensors", *FAST, "--out", tmp_path / "o")
    assert answer.code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "o" / "layers.csv").read_text())))
    assert all(cell[:1] not in "=+-@" or float(cell) for row in rows for cell in row.values() if cell)
