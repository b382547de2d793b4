from __future__ import annotations

import dataclasses
import functools
import json

import pytest

import weightsmith as ws
from weightsmith.cli.reproduce import course_cells, course_page
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.core.sweep import SweepTable
from weightsmith.papers import course
from weightsmith.papers.course import CourseRow, CourseTable
from weightsmith.papers.reproduction import EXPERIMENTS


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
    printed = run(*words, "--json", "--quiet")
    assert CourseTable.from_dict(json.loads(printed.out)) == table


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


def test_without_a_name_all_experiments_are_listed(run):
    answer = run("reproduce")
    assert answer.code == 0
    for name in (*EXPERIMENTS, "course"):
        assert name.replace("_", "-") in answer.out
    listed = json.loads(run("reproduce", "--json").out)
    assert [each["name"].replace("-", "_") for each in listed] == list(EXPERIMENTS)


def test_a_quick_run_prints_verdicts_and_writes_pages(run, tmp_path):
    answer = run("reproduce", "membrane", "--quick", "--out", tmp_path)
    assert answer.code == 0
    assert "in part" in answer.out
    assert "a quick run" in answer.out
    assert {"membrane.md", "membrane.csv", "membrane.json", "membrane.svg", "index.md", "reproduction.html"} <= {
        path.name for path in tmp_path.iterdir()
    }
    printed = run("reproduce", "membrane", "--quick", "--out", tmp_path, "--json", "--quiet")
    assert [finding["verdict"] for finding in json.loads(printed.out)[0]["findings"]] == ["holds", "holds", "in part"]


def test_unknown_names_and_options_of_others_are_refused(run):
    answer = run("reproduce", "membran", "--quick")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert "did you mean 'membrane'" in answer.err
    assert "--only and --seeds" in run("reproduce", "course", "--quick").err


@pytest.fixture
def row():
    return CourseRow(
        experiment="power",
        network="mlp:50,50",
        schedule="power:0.01,10000.0",
        clip="value",
        seeds=3,
        diverged=0,
        epochs=(10, 10, 8),
        accuracy=0.8653,
        deviation=0.0042,
        best=0.8672,
        course=0.8663,
        course_best=0.8665,
        difference=-0.001,
        within=True,
        test=wilson(8512, 10_000),
        course_test=0.85,
        check="it | falls",
        remark="as in the slides",
    )


def table_of(*rows):
    runs = SweepTable("f", ("network",), ("network", "seed", "test_images"), ({"test_images": 10_000},), Origin())
    return CourseTable({"batch": "16"}, 0.015, rows, runs)


def test_the_figures_of_a_row(row):
    assert course_cells(row) == ["86.63", "86.53 ± 0.42", "-0.10", "yes", "85.12 (84.41 – 85.80)"]
    lost = dataclasses.replace(row, accuracy=None, deviation=None, difference=None, within=None, test=None, course=None)
    assert course_cells(lost) == ["", "diverged", "", "", ""]
    outside = dataclasses.replace(row, within=False)
    assert course_cells(outside)[3] == "no"
    assert "| **no** " in course_page(table_of(outside))


def test_the_page_says_what_was_done_and_what_to_know(row):
    other = dataclasses.replace(row, experiment="plain", check=None, remark="", clip=None, diverged=1, epochs=(9,))
    page = course_page(table_of(row, other))
    lines = page.splitlines()
    assert "no further than 1.5 points" in page.replace("\n", " ")
    assert "the 10,000 test images" in page.replace("\n", " ")
    assert "All rows: batch `16`." in lines
    assert "- **power**: as in the slides; the schedule check says: *it | falls*." in lines
    assert "- **plain**: 1 of 3 runs diverged and are left out." in lines
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| p")]
    assert cells[0] == [
        *("power", "86.63", "86.53 ± 0.42", "-0.10", "yes"),
        *("86.65", "86.72", "85.00", "85.12 (84.41 – 85.80)"),
    ]
    assert "warns of *power*." in page
    assert cells[2][1:] == ["`mlp:50,50`", "`power:0.01,10000.0`", "`value`", "8 to 10"]
    assert cells[3][1:] == ["`mlp:50,50`", "`power:0.01,10000.0`", "", "9"]
    assert len({len(line) for line in lines if line.startswith("|")}) == 2  # two tables, each of one width
