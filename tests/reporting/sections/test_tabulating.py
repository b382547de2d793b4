from __future__ import annotations

import statistics

import pytest

from weightsmith.core.records import Origin
from weightsmith.core.sweep import SweepTable
from weightsmith.reporting.parts import Shown
from weightsmith.reporting.sections.tabulating import table_section


def sweep(*rows, names=("rate",)):
    columns = (*names, "seed", "accuracy", "stopped")
    shown = tuple(dict(zip(columns, row, strict=True)) for row in rows)
    return SweepTable("training.once", names, columns, shown, Origin(inputs={"data": "d" * 64}))


ROWS = ((0.1, 0, 0.5, "done"), (0.1, 1, 0.75, "done"), (0.01, 0, 0.25, "early"), (0.01, 1, None, "diverged"))


def test_every_run_and_every_setting_over_its_seeds():
    section = table_section(sweep(*ROWS), "mine")
    summary, runs, facts = section.parts
    assert section.title == "Table: mine"
    assert section.lead == "4 runs: 2 settings, 2 seeds. Varied: rate."
    assert [column.head for column in summary.columns] == ["setting", "seeds", "accuracy"]
    assert summary.rows[0] == ("rate = 0.1", 2, Shown(0.625, f"0.625 ± {statistics.stdev([0.5, 0.75]):.2g}"))
    assert summary.rows[1] == ("rate = 0.01", 1, Shown(0.25, "0.25"))  # of one value there is no deviation
    assert runs.rows[3] == (4, 0.01, 1, None, "diverged")
    assert [column.numeric for column in runs.columns] == [False, False, True, True, False]
    assert ("SHA-256 of data", "d" * 64) in facts.pairs


def test_one_seed_is_not_summarised():
    assert table_section(sweep(ROWS[0], ROWS[2]), "mine").parts[0].title == "Runs"


@pytest.mark.parametrize("value", [True, None, [1, 2], {"a": 1}, "text"])
def test_values_of_any_kind_can_be_shown(value):
    section = table_section(sweep((0.1, 0, value, "done"), (0.1, 1, 0.5, "done")), "mine")
    runs = next(part for part in section.parts if getattr(part, "title", "") == "Runs")
    assert isinstance(runs.rows[0][3], float | int | str | None)


def test_rows_that_miss_columns_are_shown_with_gaps():
    expected = ({"rate": 0.1, "seed": 0}, {"rate": 0.1, "seed": 1, "accuracy": 0.5, "stopped": "done"})
    table = SweepTable("f", ("rate",), ("rate", "seed", "accuracy", "stopped"), expected, Origin())
    section = table_section(table, "mine")
    assert section.parts[0].title == "Runs"
    assert section.parts[0].rows[0] == (1, 0.1, 0, None, None)


def test_an_empty_table_has_a_section():
    assert table_section(sweep(), "mine").lead == "0 runs: 0 settings, 0 seeds. Varied: rate."
