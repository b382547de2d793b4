"""The one description of a result: a section of an answer, key numbers, tables, drawings, facts, notes and advice.

Parts hold plain text and numbers, never HTML or markup. Renderers alone set their look and escape their text:
:mod:`weightsmith.reporting.page`, :mod:`weightsmith.reporting.terminal`, :mod:`weightsmith.reporting.notebook`;
:meth:`Section.to_dict` and :meth:`Table.to_csv` are for programs.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from weightsmith.core.csv_text import csv_rows
from weightsmith.core.display import Displayed
from weightsmith.core.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Cell",
    "Choice",
    "Column",
    "Drawing",
    "Facts",
    "Notes",
    "Part",
    "Prose",
    "Section",
    "Shown",
    "Table",
]

Cell: TypeAlias = float | int | str | None


class Shown(NamedTuple):
    """A cell with ``value`` for sorting and CSV, displayed as ``text``."""

    value: Cell
    text: str


@dataclass(frozen=True)
class Column:
    """The head of a column, its meaning in a few words, and whether it holds numbers.

    ``spare`` is the order in which a narrow terminal leaves the column out: 1 first, 0 never.
    """

    head: str
    meaning: str = ""
    numeric: bool = False
    spare: int = 0


@dataclass(frozen=True)
class Table(Displayed):
    """Rows under columns; the first column is the head of each row, and ``file`` the file name of its CSV.

    A terminal leaves out a table that is a ``detail``, and shows only the rows in ``brief`` (by index) of others.

    >>> Table("Sizes", (Column("layer"), Column("units", numeric=True)), (("fc1", 64), ("fc2",)))
    Traceback (most recent call last):
    weightsmith.core.errors.UsageError: table 'Sizes': row 2 has 1 cell for 2 columns
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | Shown, ...], ...]
    caption: str = ""
    file: str = ""
    detail: bool = False
    brief: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise UsageError(f"table {self.title!r} has no columns: give at least the one that names its rows")
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                raise UsageError(f"table {self.title!r}: row {number} has {cells} for {len(self.columns)} columns")

    def filled(self) -> Table:
        """The table without its empty columns."""
        values = [[cell.value if isinstance(cell, Shown) else cell for cell in row] for row in self.rows]
        filled = [any(row[place] is not None for row in values) for place in range(len(self.columns))]
        places = [place for place, has_values in enumerate(filled) if has_values or not place]
        columns = tuple(self.columns[place] for place in places)
        return replace(self, columns=columns, rows=tuple(tuple(row[place] for place in places) for row in self.rows))

    def to_rows(self) -> list[dict[str, Cell]]:
        """The rows as values by the heads of their columns; a repeated head is numbered.

        >>> Table("", (Column("layer"), Column("left"), Column("left")), (("fc1", Shown(0.5, "50 %"), 3),)).to_rows()
        [{'layer': 'fc1', 'left': 0.5, 'left (2)': 3}]
        """
        heads = [column.head for column in self.columns]
        before = [heads[:index].count(head) for index, head in enumerate(heads)]
        keys = [f"{head} ({again + 1})" if again else head for head, again in zip(heads, before, strict=True)]
        return [
            {key: cell.value if isinstance(cell, Shown) else cell for key, cell in zip(keys, row, strict=True)}
            for row in self.rows
        ]

    def to_csv(self) -> str:
        """The rows as CSV text."""
        return csv_rows(self.to_rows())

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame, where pandas is installed."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise UsageError("to_pandas needs pandas: pip install pandas; to_rows and to_csv work without it") from None
        return pandas.DataFrame(self.to_rows())


@dataclass(frozen=True)
class Drawing(Displayed):
    """A figure drawn when the page is rendered, one sentence on how to read it, and its data as rows of a CSV."""

    title: str
    how: str
    figure: Callable[[], Figure]
    rows: Sequence[Mapping[str, Cell]]
    file: str = ""


@dataclass(frozen=True)
class Choice:
    """Several parts by name, of which one is shown at a time; without scripts all are shown, folded.

    >>> Choice("Layer", (("fc1", ()), ("fc2", ())), first=2)
    Traceback (most recent call last):
    weightsmith.core.errors.UsageError: choice 'Layer': there is no option 2 to show first, only 0 to 1
    """

    label: str
    options: tuple[tuple[str, tuple[Part, ...]], ...]
    first: int = 0

    def __post_init__(self) -> None:
        if not self.options:
            raise UsageError(f"choice {self.label!r} has no options: leave it out of the section")
        if not 0 <= self.first < len(self.options):
            last = len(self.options) - 1
            raise UsageError(f"choice {self.label!r}: there is no option {self.first} to show first, only 0 to {last}")


@dataclass(frozen=True)
class Facts:
    """Names and values under a title, folded on a page; a terminal leaves out those that are a ``detail``."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    detail: bool = False


@dataclass(frozen=True)
class Notes:
    """Warnings and remarks, a line each."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Prose:
    """A paragraph; an empty line starts another."""

    text: str


Part: TypeAlias = Table | Drawing | Choice | Facts | Notes | Prose


@dataclass(frozen=True)
class Section(Displayed):
    """The description of one result.

    ``lead`` is the answer in one to three sentences, ``about`` what was done to what, ``chips`` the key numbers.
    ``look_at`` lists what the user must look at (exit code 1), ``try_next`` what to try, each with the number that
    supports it.
    """

    title: str
    lead: str
    parts: tuple[Part, ...]
    chips: tuple[tuple[str, str], ...] = ()
    about: str = ""
    look_at: tuple[str, ...] = ()
    try_next: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Part]:
        """All parts, those inside choices too."""
        return _unfolded(self.parts)

    def __getitem__(self, title: str) -> Table | Drawing | Facts:
        """The table, drawing or list of facts of that title."""
        titled = {part.title: part for part in self if isinstance(part, Table | Drawing | Facts)}
        if title not in titled:
            raise UnknownName("part", title, titled)
        return titled[title]

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON values: plain lists and numbers, without the figures."""
        parts = list(self)
        return {
            "title": self.title,
            "about": self.about,
            "answer": self.lead,
            "numbers": dict(self.chips),
            "notes": [line for part in parts if isinstance(part, Notes) for line in part.lines],
            "tables": [
                {"title": part.title, "caption": part.caption, "rows": _finite(part.to_rows())}
                for part in parts
                if isinstance(part, Table)
            ],
            "facts": {part.title: dict(part.pairs) for part in parts if isinstance(part, Facts)},
            "look_at": list(self.look_at),
            "try_next": list(self.try_next),
        }


def _unfolded(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Choice):
            for _, inside in part.options:
                yield from _unfolded(inside)


def _finite(rows: list[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """The rows with None for NaN and infinity, which JSON does not have."""
    return [
        {key: None if isinstance(cell, float) and not math.isfinite(cell) else cell for key, cell in row.items()}
        for row in rows
    ]
