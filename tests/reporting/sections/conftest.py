"""What tests of sections ask of them: their parts by kind and title, and every word they would show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weightsmith.reporting.parts import Choice, Drawing, Facts, Notes, Part, Prose, Section, Shown, Table


def flat(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Choice):
            for _, inside in part.options:
                yield from flat(inside)


class Reader:
    """A section as a reader looks at it; every drawing of it can be drawn."""

    def __init__(self, section: Section) -> None:
        self.section, self.parts = section, list(flat(section.parts))
        self.chips = dict(section.chips)

    def of(self, kind):
        return [part for part in self.parts if isinstance(part, kind)]

    def table(self, title: str) -> list[dict[str, object]]:
        """The rows of a table by the heads of its columns: values, not texts."""
        (found,) = [part for part in self.of(Table) if part.title == title]
        heads = [column.head for column in found.columns]
        return [
            dict(zip(heads, (cell.value if isinstance(cell, Shown) else cell for cell in row), strict=True))
            for row in found.rows
        ]

    def texts(self, title: str) -> list[dict[str, str]]:
        """The same table as it is shown."""
        (found,) = [part for part in self.of(Table) if part.title == title]
        heads = [column.head for column in found.columns]
        return [
            dict(zip(heads, (cell.text if isinstance(cell, Shown) else str(cell) for cell in row), strict=True))
            for row in found.rows
        ]

    def drawing(self, title: str) -> Drawing:
        (found,) = [part for part in self.of(Drawing) if part.title == title]
        return found

    @property
    def drawings(self) -> list[str]:
        return [part.title for part in self.of(Drawing)]

    @property
    def facts(self) -> dict[str, str]:
        (found,) = [part for part in self.of(Facts) if part.detail]
        assert self.section.parts[-1] is found
        return dict(found.pairs)

    @property
    def notes(self) -> list[str]:
        return [line for part in self.of(Notes) for line in part.lines]

    @property
    def prose(self) -> str:
        return " ".join(part.text for part in self.of(Prose))

    def draw_all(self) -> None:
        """Every figure can be drawn, says how to be read in whole sentences, and has its numbers beside it."""
        for part in self.of(Drawing):
            assert part.how.startswith("How to read it: ")
            assert part.how.endswith(".")
            assert part.rows
            assert part.figure().axes


@pytest.fixture(autouse=True)
def numbers_stand_in_columns_of_numbers(monkeypatch):
    """In every table that a test makes; not what names its rows: first columns, and the settings of runs."""
    checked = Table.__post_init__

    def check(table: Table) -> None:
        checked(table)
        for column, *cells in list(zip(table.columns, *table.rows, strict=True))[1:]:
            kinds = {type(cell.value if isinstance(cell, Shown) else cell) for cell in cells} - {type(None)}
            if kinds and kinds <= {int, float} and table.title != "Runs":
                assert column.numeric, (table.title, column.head)

    monkeypatch.setattr(Table, "__post_init__", check)


@pytest.fixture(scope="session")
def read():
    return Reader
