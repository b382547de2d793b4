"""Parts are checked where they are made, so that a page never meets a ragged row or a choice of nothing."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from weightsmith.core.errors import UsageError
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
