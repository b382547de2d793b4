"""The parts of a page: sections of tables, drawings, choices, facts, notes and prose.

Parts hold plain text and numbers, never HTML: sections define the content, and
:func:`weightsmith.reporting.page.render` alone sets its look and escapes all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cell", "Choice", "Column", "Drawing", "Facts", "Notes", "Part", "Prose", "Section", "Shown", "Table"]

Cell: TypeAlias = float | int | str | None


class Shown(NamedTuple):
    """A cell with ``value`` for sorting and CSV, displayed as ``text``."""

    value: Cell
    text: str


@dataclass(frozen=True)
class Column:
    """The head of a column, its meaning in a few words, and whether it holds numbers."""

    head: str
    meaning: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first column is the head of each row, and ``file`` the file name of its CSV.

    >>> Table("Sizes", (Column("layer"), Column("units", numeric=True)), (("fc1", 64), ("fc2",)))
    Traceback (most recent call last):
    weightsmith.core.errors.UsageError: table 'Sizes': row 2 has 1 cell for 2 columns
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | Shown, ...], ...]
    caption: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise UsageError(f"table {self.title!r} has no columns: give at least the one that names its rows")
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                raise UsageError(f"table {self.title!r}: row {number} has {cells} for {len(self.columns)} columns")


@dataclass(frozen=True)
class Drawing:
    """A figure drawn when the page is rendered, one sentence on how to read it, and its data as rows of a CSV."""

    title: str
    how: str
    figure: Callable[[], Figure]
    rows: Sequence[Mapping[str, Cell]]
    file: str = ""


@dataclass(frozen=True)
class Choice:
    """Several parts by name, of which one is shown at a time; without scripts all of them, folded.

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
    """Settings, seeds, versions, digests: names and values under a title, folded."""

    title: str
    pairs: tuple[tuple[str, str], ...]


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
class Section:
    """One result: its title, a summary sentence, the key numbers, and the rest."""

    title: str
    lead: str
    parts: tuple[Part, ...]
    chips: tuple[tuple[str, str], ...] = ()
