from __future__ import annotations

import csv
import dataclasses
import io

import pytest
import torch
from torch import nn

from weightsmith.cli.grading_report import (
    PlanFile,
    alpha_line,
    rows_as_csv,
    show_comparison,
    show_files,
    show_grades,
    show_plans,
)
from weightsmith.grading.comparison import compare
from weightsmith.grading.grade import grade
from weightsmith.grading.plans import alpha_plan
from weightsmith.networks.layer_plan import LayerPlan


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # a test runner may set it; a pipe has no columns


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(16, 16, 2), nn.Linear(16, 16), nn.Linear(16, 12), nn.Linear(12, 3))
    made[1].weight.data.zero_()
    return made


@pytest.fixture(scope="module")
def grades(network):
    return grade(network, evidence="none")


def with_alphas(grades, alphas):
    layers = [
        dataclasses.replace(
            grades["0"],
            name=f"layer{index}",
            fit=None if alpha is None else dataclasses.replace(grades["0"].fit, alpha=alpha),
        )
        for index, alpha in enumerate(alphas)
    ]
    return dataclasses.replace(grades, layers=tuple(layers))


@pytest.mark.parametrize(
    ("alphas", "line"),
    [([2.0, 3.0, None, 9.0], "▁▂·█"), ([None, None], "··"), ([4.0], "▁"), ([], ""), ([8.0, None, 1.0], "█·▁")],
)
def test_the_line_of_alpha_by_layer(grades, alphas, line):
    assert alpha_line(with_alphas(grades, alphas).layers) == line


def test_a_deep_network_has_a_line_of_its_ends_and_some_between(grades):
    line = alpha_line(with_alphas(grades, [1.0 + index for index in range(500)]).layers)
    assert (len(line), line[0], line[-1]) == (60, "▁", "█")


def test_everything_that_is_known_is_printed(grades, capsys):
    show_grades(grades)
    shown = capsys.readouterr().out
    assert "conv pooled · normalise none · evidence none · cut ks · gram float64" in shown
    assert grades.coverage.line in shown
    assert "verdicts    2 cannot be fitted, 2 not judged" in shown
    for measure in grades.measures:
        assert measure.meaning in " ".join(shown.split())
    fit, baselines = shown.split("without any fit")
    assert "alpha_hat_pooled" in fit
    assert "log_spectral_norm" in baselines
    assert "because" not in shown
    assert "not judged: α alone says too little; --evidence fast asks for more" in shown
    assert "cannot be fitted: zero (1), too small (1)" in shown
    assert "eigenvalues of convolutions × 0.5" in shown
    assert "α by depth" not in shown
    low, high = sorted((grades["0"].alpha, grades["2"].alpha))
    (line,) = [line for line in shown.splitlines() if line.startswith("α by layer")]
    assert line.endswith(f"  {low:.2f} – {high:.2f} (order of the file or module)")


def test_the_columns_are_named_once_in_the_last_line(grades, capsys):
    show_grades(grades)
    last = " ".join(" ".join(capsys.readouterr().out.splitlines()[-2:]).split())
    assert last.startswith("N×M size of its matrices · evals ")
    assert last.endswith(" · spectrum log counts by log λ")
    assert "λ_min where the tail begins · D its distance to the law · tail eigenvalues in it" in last


@pytest.mark.parametrize("columns", ["80", "100", "200"])
def test_every_layer_and_the_line_of_alpha_take_one_line_each(grades, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    show_grades(with_alphas(grades, [2.0 + index % 5 for index in range(70)]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("layer")][1:] == [f"layer{n}" for n in range(70)]
    (line,) = [line for line in lines if line.startswith("α by layer")]
    assert line.endswith("2.00 – 6.00 (order of the file or module)")
    assert max(map(len, lines)) <= int(columns)


def test_factors_of_slices_are_told_as_a_range(capsys):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(12, 12, 3), nn.Conv2d(12, 12, 1))
    show_grades(grade(made, evidence="none", conv="slices"))
    assert "eigenvalues of convolutions × 0.5 to 4.5" in capsys.readouterr().out
    show_grades(grade(made, evidence="none", normalise="seed"))
    assert "eigenvalues of convolutions" not in capsys.readouterr().out


def test_what_is_left_out_is_grouped_by_reason(grades, capsys):
    show_grades(grades)
    left = capsys.readouterr().out.split("not graded")[1].splitlines()
    (biases,) = [line.split() for line in left if line.startswith("bias")]
    assert biases == ["bias", "4", "47", "0.bias"]
    assert any(line.startswith("zero: all weights are zero") and "256" in line for line in left)


def test_reasons_on_request(grades, capsys):
    show_grades(grades, why=True)
    shown = " ".join(capsys.readouterr().out.split())
    for layer in grades.layers:
        assert layer.verdict.because in shown


def test_a_network_without_layers_can_be_shown(capsys):
    show_grades(grade(nn.Sequential(nn.BatchNorm1d(3)), evidence="none"))
    assert "0 of 0 layers fitted" in capsys.readouterr().out


def test_csv_has_one_header_and_says_which_network(grades):
    alone = list(csv.DictReader(io.StringIO(rows_as_csv([grades]))))
    assert [row["name"] for row in alone] == ["0", "1", "2", "3"]
    assert "network" not in alone[0]
    assert float(alone[0]["alpha"]) == grades["0"].alpha
    assert alone[1]["alpha"] == ""
    other = dataclasses.replace(grades, source="other")
    both = list(csv.DictReader(io.StringIO(rows_as_csv([grades, other]))))
    assert next(iter(both[0])) == "network"
    assert [row["network"] for row in both] == [grades.source] * 4 + ["other"] * 4


def test_csv_of_nothing_is_nothing():
    assert rows_as_csv([grade(nn.Sequential(nn.BatchNorm1d(3)), evidence="none")]) == ""


def scaled(grades, factor):
    measures = [
        dataclasses.replace(measure, value=None if measure.value is None else measure.value * factor)
        for measure in grades.measures
    ]
    return dataclasses.replace(grades, measures=tuple(measures), source=f"times {factor}")


@pytest.mark.parametrize("columns", ["100", "200"])
def test_several_networks_side_by_side(grades, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    several = [scaled(grades, factor) for factor in (1, 2, 3)]
    show_comparison(several, compare(several, accuracy=(0.5, 0.6, 0.75)))
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in reversed(shown.splitlines()) if line.split()}
    assert rows["accuracy"][1:7] == ["50.00", "%", "60.00", "%", "75.00", "%"]
    alpha = grades.measure("alpha").value
    assert rows["alpha"][1:7] == [f"{alpha:.4g}", f"{2 * alpha:.4g}", f"{3 * alpha:.4g}", "+1.00", "0.33", "+1.00"]
    assert grades.measure("alpha").meaning in shown
    assert [f" {number}  times {number}" in shown for number in (1, 2, 3)] == [True] * 3
    assert "With 3 networks no order whatever can reach p < 0.05." in " ".join(shown.split())


def test_without_accuracies_there_is_no_correlation(grades, capsys):
    several = [scaled(grades, factor) for factor in (1, 2)]
    show_comparison(several, compare(several))
    shown = capsys.readouterr().out
    assert "τ" not in shown
    assert "accuracy" not in shown


def test_plans_side_by_side(network, grades, tmp_path, capsys):
    plans = {"alpha": alpha_plan(grades, 0.5), "uniform": LayerPlan.uniform(network, 0.5)}
    show_plans([PlanFile(rule, tmp_path / rule, plan) for rule, plan in plans.items()])
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["keep", "parameters", "alpha", "%", "uniform", "%"]
    assert lines[1] == ["0", "1,024", f"{100 * plans['alpha'].values['0']:.1f}", "50.0"]
    assert lines[2] == ["1", "256", "50.0", "50.0", "no", "alpha"]
    assert ["all", "1,508", "50.0", "50.0"] in lines
    assert f"alphaplan{tmp_path / 'alpha'}" in "".join(shown.split())  # a long path is broken


def test_many_files_are_counted(tmp_path, capsys):
    show_files([tmp_path / str(number) for number in range(9)])
    shown = "".join(capsys.readouterr().out.split())  # long paths are broken
    assert shown.endswith("and3more")
    assert str(tmp_path / "5") in shown
    assert str(tmp_path / "6") not in shown
