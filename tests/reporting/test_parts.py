"""Parts are checked where they are made, so that a page never meets a ragged row or a choice of nothing."""

from __future__ import annotations

import math
import sys
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import pytest

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.reporting.parts import Choice, Column, Section, Shown, Table

COLUMNS = (Column("layer"), Column("units", "hidden units", numeric=True))


def test_a_table_keeps_its_rows():
    table = Table("Sizes", COLUMNS, (("fc1", 64), ("fc2", Shown(1e6, "1 M"))))
    assert table.rows[1][1] == (1e6, "1 M")
    assert (table.caption, table.file) == ("", "")


@pytest.mark.parametrize(
    ("row", "message"), [(("a",), "1 cell for 2"), (("a", 1, 2), "3 cells for 2"), ((), "0 cells for 2")]
)
def test_ragged_rows_are_refused_and_named(row, message):
    with pytest.raises(UsageError, match=f"table 'Sizes': row 2 has {message} columns"):
        Table("Sizes", COLUMNS, (("fc1", 64), row))


def test_a_table_without_columns_is_refused():
    with pytest.raises(UsageError, match="'Sizes' has no columns"):
        Table("Sizes", (), ())


def test_a_choice_of_nothing_or_beyond_its_options_is_refused():
    with pytest.raises(UsageError, match="'Layer' has no options"):
        Choice("Layer", ())
    for first in (-1, 1):
        with pytest.raises(UsageError, match=f"no option {first} to show first"):
            Choice("Layer", (("fc1", ()),), first)


def test_parts_cannot_be_changed():
    section = Section("Training", "It learnt.", ())
    with pytest.raises(FrozenInstanceError):
        section.title = "Grading"


TABLE = Table("Sizes", (Column("layer"), Column("left", numeric=True)), (("fc1", Shown(0.5, "50 %")), ("=x", None)))


def test_a_table_is_csv_without_formulas():
    assert TABLE.to_csv() == "layer,left\nfc1,0.5\n'=x,\n"


def test_a_table_is_a_data_frame_where_pandas_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    assert TABLE.to_pandas() == ("frame", [{"layer": "fc1", "left": 0.5}, {"layer": "=x", "left": None}])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        TABLE.to_pandas()


def test_parts_are_found_by_title_inside_choices_too():
    section = Section("T", "", (Choice("c", (("one", (TABLE,)),)),))
    assert section["Sizes"] is TABLE
    with pytest.raises(UnknownName, match="unknown part 'sizes'; did you mean 'Sizes'"):
        section["sizes"]


def test_values_that_json_has_not_are_none():
    table = Table("t", (Column("a"), Column("b")), ((math.nan, math.inf),))
    assert Section("T", "", (table,)).to_dict()["tables"][0]["rows"] == [{"a": None, "b": None}]


def test_empty_columns_can_be_left_out():
    columns = (Column("a"), Column("b", spare=1), Column("c", spare=2), Column("d"))
    filled = Table("t", columns, ((1, None, Shown(0, "0"), None), (2, Shown(None, "–"), None, None))).filled()
    assert [column.head for column in filled.columns] == ["a", "c"]
    assert filled.rows == ((1, (0, "0")), (2, None))
