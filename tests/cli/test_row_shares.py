from __future__ import annotations

import json

import pytest

from weightsmith.cli._row_shares import with_shares
from weightsmith.core.errors import UsageError


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{1000 + row},{row % 2 + row % 5 / 10},{('bad', 'good')[row % 2]},s{row % 8}" for row in range(80)]
    (tmp_path / "rows.csv").write_text("weight,size,state,subject\n" + "\n".join(lines) + "\n")
    return tmp_path / "rows.csv"


def test_shares_are_options_of_the_source(rows):
    assert with_shares("rows.csv", {"test": 0.2}) == "table:rows.csv,test=0.2"
    assert (
        with_shares("table:rows.csv,label=state", {"split_by": "subject"})
        == "table:rows.csv,label=state,split_by=subject"
    )
    for data, asked, message in (
        (None, {"test": 0.2}, "--test belongs to --data"),
        ("digits", {"test": 0.2}, "digits comes with its own splits"),
        (".", {"split_by": "a"}, "--split-by is for tables"),
        ("table:rows.csv,test=0.1", {"test": 0.2}, "give it once"),
    ):
        with pytest.raises(UsageError, match=message):
            with_shares(data, asked)


def test_a_table_goes_from_training_to_its_tests_by_its_record_alone(run, rows):
    trained = run(
        "train", "rows.csv", "--test", "0.25", "--split-by", "subject", "--network", "mlp:6", "--epochs", "8",
        "--schedule", "0.1", "--out", "run", "--quiet",
    )  # fmt: skip
    assert trained.code == 0
    record = json.loads((rows.parent / "run" / "record.json").read_text())
    assert record["settings"]["data"] == "table:rows.csv,split_by=subject,test=0.25"
    assert record["settings"]["normalise"] == "standard"
    assert any("standardised by means and deviations of the training rows" in note for note in record["notes"])
    measured = run("evaluate", "run", "--json")
    assert measured.code == 0
    found = json.loads(measured.out)
    assert (found["images"], found["split"]) == (20, "test")
    assert run("reduce", "run", "--by", "magnitude", "--target", "params:0.8", "--out", "small", "-q").code == 0
    assert json.loads(run("evaluate", "small", "--json").out)["images"] == 20


def test_a_record_whose_data_are_gone_says_so(run, rows):
    assert (
        run("train", "rows.csv", "--test", "0.25", "--network", "mlp:4", "--epochs", "1", "--out", "run", "-q").code
        == 0
    )
    rows.rename(rows.with_name("moved.csv"))
    gone = run("evaluate", "run")
    assert gone.code == 2
    assert "names the data table:rows.csv,test=0.25, which is not in" in gone.err


def test_data_info_takes_what_data_takes_and_a_missing_file_is_missing(run, rows):
    assert "test 16" in run("data", "info", "rows.csv", "--test", "0.2").out
    for name in ("nothing.csv", "table:nothing.csv", "folder:nothing", "parquet:nothing.parquet", "table:nothing.xlsx"):
        answer = run("data", "info", name)
        assert answer.code == 3
        assert "no such f" in answer.err


def test_folds_of_a_study_keep_subjects_together(run, rows):
    options = ("--hidden", "4", "--epochs", "2", "--folds", "4", "--repeats", "1", "--random", "0", "--no-scratch")
    answer = run("study", "rows.csv", "--split-by", "subject", "--by", "angles:45", *options, "--json")
    assert answer.code == 0
    assert any("keep the rows of each subject together: 8" in note for note in json.loads(answer.out)["notes"])
    assert "cannot be split into 10 parts" in run("study", "rows.csv", "--split-by", "subject", "--by", "angles:45").err
