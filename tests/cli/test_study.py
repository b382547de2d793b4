from __future__ import annotations

import json

import numpy as np
import pytest

from weightsmith.core.statistics import holm
from weightsmith.papers.study import study as verb
from weightsmith.papers.study.study import reduction_study
from weightsmith.reducing.study_table import Study
from weightsmith.reporting.figures.studies import figures_of_study
from weightsmith.reporting.sections._wording import chance, points


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(0)
    lines = ["label,a,b,c"]
    for number in range(60):
        a, b, c = random.normal(size=3) + 2 * np.eye(3)[number % 3]
        lines.append(f"{['angry', 'sad', 'happy'][number % 3]},{a},{b},{c}")
    lines[5] = "sad,1,NaN,2"
    path = tmp_path / "faces.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


_SMALL = ("--epochs", 3, "--folds", 3, "--repeats", 1, "--random", 3)


def test_one_command_prints_the_table_and_writes_its_files(run, tmp_path, table):
    out = tmp_path / "out"
    words = (
        "study",
        table,
        "--hidden",
        "6,9",
        "--by",
        "angles:50",
        "--by",
        "angles:80",
        "--by",
        "angles:65",
        "--out",
        out,
        *_SMALL,
    )
    answer = run(*words, "--figures", out)
    assert answer.code == 0
    study = Study.from_json((out / "study.json").read_text())
    assert (out / "study.csv").read_text() == study.to_csv()
    assert study.settings["methods"] == ["angles:50.0", "angles:80.0", "angles:65.0"]
    assert "59 rows, 3 features, 3 classes; scaling zscore, fitted on training rows" in answer.out
    for found in study.summaries:
        assert f"{found.test_accuracy:.1f} ± {found.test_deviation:.1f}" in answer.out
    against = [found.against_random for found in study.summaries if found.against_random is not None]
    for each, p in zip(against, holm([each.p for each in against]), strict=True):
        assert f"{points(each.difference, 1)} ({'in every fold' if p is None else chance(p)})" in answer.out
    assert "1 of 60 rows left out for missing values" in answer.out
    assert sorted(path.name for path in out.glob("*.svg")) == ["accuracy.svg", "angle.svg", "size.svg"]
    assert answer.err.count("study: ") == 2
    printed = run(*words, "--json", "--quiet")
    assert (printed.code, printed.err) == (0, "")
    assert Study.from_dict(json.loads(printed.out)) == study


def test_sweeps_are_drawn_apart_where_more_than_the_parameter_differs():
    y = np.arange(60) % 3
    x = np.random.default_rng(0).normal(size=(60, 3)) + np.eye(3)[y]
    small = "population=8,generations=2"
    methods = [f"genetic:{penalty},{small}{per}" for penalty in (0, 5, 9) for per in ("", ",per=units")]
    study = reduction_study((x, y), hidden=[6], methods=methods, epochs=1, folds=3, repeats=1, scratch=False)
    assert sorted(figure.name for figure in figures_of_study(study)) == ["penalty", "penalty-2"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--hidden", "0"), 2, "hidden must be"),
        (("--hidden", "a"), 2, "--hidden must be a whole number ≥ 1, not 'a'"),
        (("--scaling", "z"), 2, "'z' is not one of 'zscore'"),
        (("--by", "angle:5"), 2, "did you mean 'angles'"),
        (("--folds", "25"), 2, "too few for 25 folds"),
        (("--figures", "f.gif"), 2, "give a .svg, .png or .pdf file"),
    ],
)
def test_wrong_usage_is_one_line(run, table, words, code, message):
    answer = run("study", table, *words, "--quiet")
    assert (answer.code, len(answer.lines)) == (code, 1)
    assert message in answer.err


def test_a_missing_table_is_one_line(run, tmp_path):
    answer = run("study", tmp_path / "none.csv", "--quiet")
    assert len(answer.lines) == 1
    assert answer.code in (2, 3)


def test_an_interrupt_says_how_to_go_on(run, tmp_path, table, monkeypatch):
    def interrupted(_data, *, progress, **_):
        progress(1, 4)
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "reduction_study", interrupted)
    answer = run("study", table, "--out", tmp_path / "out")
    assert answer.code == 130
    assert "1 of 4 groups of networks are done" in answer.err
    assert "run again to resume" in answer.err
