from __future__ import annotations

import dataclasses

import pytest

from weightsmith.cli.course_page import course_cells, course_page
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.core.sweep import SweepTable
from weightsmith.papers.course import CourseRow, CourseTable


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
