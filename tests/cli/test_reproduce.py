from __future__ import annotations

import dataclasses
import functools
import json

import pytest

import weightsmith as ws
from weightsmith.papers import course
from weightsmith.papers.course import CourseTable


@pytest.fixture
def small(monkeypatch):
    """The course on 200 digits and for two epochs, in place of Fashion-MNIST."""
    data = ws.data.load("digits")
    data = dataclasses.replace(data, train=data.train.take(range(200)))
    monkeypatch.setattr(course, "run_course", functools.partial(course.run_course, data=data, epochs=2))
    return data


def test_one_command_makes_one_table(run, tmp_path, small):
    words = ("reproduce", "course", "--seeds", "0,1", "--only", "constant", "--only", "SELU", "--out", tmp_path)
    answer = run(*words)
    table = CourseTable.from_json((tmp_path / "course.json").read_text())
    assert [row.experiment for row in table.rows] == ["constant", "SELU"]
    assert (tmp_path / "course.csv").read_text() == table.to_csv()
    page = (tmp_path / "course.md").read_text()
    for row in table.rows:
        ours = f"{100 * row.accuracy:.2f} ± {100 * row.deviation:.2f}"
        assert ours in answer.out
        assert ours in page
    assert "course: 4 of 4" in answer.err
    # Two hundred digits for two epochs do not come near 87.28 %, and the command says so.
    assert answer.code == 1
    assert answer.lines[-1] == "weightsmith: further than 1.5 points from the course's figure: constant"
    told = run(*words, "--json", "--quiet")
    assert CourseTable.from_dict(json.loads(told.out)) == table


def test_rows_without_a_figure_of_the_course_are_no_reason_to_look(run, tmp_path, small):
    answer = run("reproduce", "course", "--seeds", "0", "--only", "ELU", "--out", tmp_path, "--quiet")
    assert (answer.code, answer.err) == (0, "")


def test_an_interrupt_says_how_to_go_on(run, tmp_path, monkeypatch):
    def interrupted(*, on_row, **_):
        on_row({})
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "run_course", interrupted)
    answer = run("reproduce", "course", "--out", tmp_path)
    assert answer.code == 130
    assert f"1 of {3 * len(course.EXPERIMENTS)} runs are done and kept in {tmp_path}" in answer.err


def test_an_unknown_experiment_suggests_the_nearest(run, tmp_path):
    answer = run("reproduce", "course", "--only", "dropuot", "--out", tmp_path, "--quiet")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert "did you mean 'dropout'" in answer.err
