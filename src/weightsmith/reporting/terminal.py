"""A description on a terminal: the answer first, then numbers, tables, notes, and what to look at and to try next.

Text from files is never markup here: everything is printed as plain :class:`rich.text.Text`. Drawings, and what is
marked as a detail, are left to the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.table import Table as Grid
from rich.text import Text

from weightsmith.reporting._blocks import paragraphs
from weightsmith.reporting._sparks import for_encoding
from weightsmith.reporting._words import number_text, plain
from weightsmith.reporting.parts import (
    Cell,
    Choice,
    Column,
    Facts,
    Notes,
    Part,
    Prose,
    Section,
    Shown,
    Table,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["named_lines", "show", "show_table"]

_NAMES = 10  # width of "look at", "try next", "files"
_WIDEST_NAME = 30  # of a key number; longer ones wrap
_MOST_LINES = 6  # notes of one kind; the others are counted
_MOST_ROWS = 400  # rows of a table; the others are counted
_MOST_FILES = 12
_WRAPPED = 30  # width at which a column of words wraps, if there is no room for it
_SHORTEST_NAME = 8  # a row's head is cut to no less
_GAP = (0, 1, 0, 0)
_MOST_TURNED = 6  # rows of a table that may be transposed
_TURNED = 13  # width of its columns at least, in which their cells wrap


def show(section: Section, console: Console, files: Sequence[Path] = ()) -> None:
    """Print the description, and the ``files`` that were written."""
    console.print(_text(section.title, console, "bold"))
    for about in filter(None, [section.about]):
        console.print(_text(about, console, "dim"))
    for line in paragraphs(section.lead):
        console.print(_text(line, console))
    if section.chips:
        console.print(_pairs(section.chips, console))
    _show_parts(section.parts, console)
    named_lines("look at", section.look_at, console)
    named_lines("try next", section.try_next, console)
    if files:
        more = f" and {len(files) - _MOST_FILES:,} more" if len(files) > _MOST_FILES else ""
        named_lines("files", [", ".join(map(str, files[:_MOST_FILES])) + more], console)


def named_lines(name: str, lines: Sequence[str], console: Console, most: int | None = None) -> None:
    """Lines of which the first is named, wrapped with indentation; lines beyond ``most`` are counted."""
    shown = lines[:most]
    for index, line in enumerate(shown):
        console.print(_named("" if index else name, line, console, _NAMES))
    if len(shown) < len(lines):
        console.print(_named("", f"and {len(lines) - len(shown):,} more: --json has all", console, _NAMES))


def show_table(table: Table, console: Console) -> None:
    """Print a table in the available width.

    If it does not fit, a table of few rows is transposed; others lose their spare columns, and then the heads of rows
    are cut.
    """
    if table.title:
        console.print()
        console.print(_text(table.title, console, "bold"))
    chosen = [table.rows[place] for place in table.brief] if table.brief else table.rows[:_MOST_ROWS]
    rows = [[_cell(cell, console) for cell in row] for row in chosen]
    columns = _measured(table.columns, rows)
    if _width(columns) > console.width and 0 < len(rows) <= _MOST_TURNED:
        heads = [Column(""), *(Column(row[0], numeric=True) for row in rows)]
        turned = [[each.column.head, *(row[each.place] for row in rows)] for each in columns[1:]]
        first, *others = _measured(heads, turned)
        room = (console.width - first.width) // len(rows) - 1
        if room >= min(_TURNED, max(each.width for each in others)):
            sideways = [first, *(each._replace(width=min(each.width, room)) for each in others)]
            console.print(_grid(sideways, turned, console, wrap=True))
            _show_legend(table.caption, columns, [], console)
            return
    kept = _fitting(columns, console.width)
    if rows:
        narrow = _width(kept[1:]) + _SHORTEST_NAME >= console.width  # even so: heads and cells wrap
        console.print(_grid(kept, rows, console, wrap=narrow))
    if len(rows) < len(table.rows):
        console.print(_text(f"{len(rows):,} of {len(table.rows):,} rows: --json has all", console, "dim"))
    _show_legend(table.caption, kept, [each.column.head for each in columns if each not in kept], console)


class _Fitted(NamedTuple):
    """A column, its place in the rows, and the width it needs at least."""

    column: Column
    place: int
    width: int


def _show_parts(parts: Iterable[Part], console: Console) -> None:
    for part in parts:
        match part:
            case Table(detail=False):
                show_table(part, console)
            case Facts(detail=False, title=title, pairs=pairs):
                console.print()
                console.print(_text(title, console, "bold"))
                console.print(_pairs(pairs, console))
            case Notes(lines=lines):
                named_lines("note", lines, console, _MOST_LINES)
            case Prose(text=text):
                for line in paragraphs(text):
                    console.print(_text(line, console))
            case Choice(label=label, options=options):
                for name, inside in options:
                    if any(isinstance(one, Table | Facts) and not one.detail for one in inside):
                        console.print()
                        console.print(_text(f"{label}: {name}", console, "bold"))
                        _show_parts(inside, console)


def _measured(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[_Fitted]:
    found = []
    for index, column in enumerate(columns):
        width = max(cell_len(text) for text in (column.head, *(row[index] for row in rows)))
        wraps = index > 0 and not column.numeric
        found.append(_Fitted(column, index, min(width, max(_WRAPPED, cell_len(column.head))) if wraps else width))
    return found


def _fitting(columns: list[_Fitted], width: int) -> list[_Fitted]:
    """The columns without spare ones, which are dropped one by one until the rest fits."""
    kept = list(columns)
    for each in sorted((each for each in columns if each.column.spare), key=lambda each: each.column.spare):
        if _width(kept) <= width:
            break
        kept.remove(each)
    return kept


def _width(columns: Sequence[_Fitted]) -> int:
    return sum(each.width + 1 for each in columns) - 1


def _grid(columns: Sequence[_Fitted], rows: Sequence[Sequence[str]], console: Console, *, wrap: bool = False) -> Grid:
    """The rows in these columns; heads of rows that are too long lose their beginning."""
    grid = Grid(box=None, pad_edge=False, padding=_GAP, header_style="bold", collapse_padding=True)
    for index, each in enumerate(columns):
        fixed = not index or (each.column.numeric and not wrap)
        head = _text(each.column.head, console)
        grid.add_column(head, justify="right" if each.column.numeric else "left", no_wrap=fixed, overflow="fold")
    room = max(_SHORTEST_NAME, console.width - _width(columns[1:]) - 1)
    for row in rows:
        first, *others = (row[each.place] for each in columns)
        grid.add_row(_text(_cut_left(first, room), console), *(_text(cell, console) for cell in others))
    return grid


def _show_legend(caption: str, shown: Sequence[_Fitted], missing: Sequence[str], console: Console) -> None:
    """The caption, the meaning of the columns, and which of them were left out."""
    words = [f"{each.column.head}: {each.column.meaning}" for each in shown if each.column.meaning]
    words += [f"a wider terminal has {', '.join(missing)}"] if missing else []
    for line in filter(None, [caption, " · ".join(words)]):
        console.print(_text(line, console, "dim"))


def _pairs(pairs: Sequence[tuple[str, str]], console: Console) -> RenderableType:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=min(_WIDEST_NAME, max(cell_len(name) for name, _ in pairs)))
    grid.add_column(overflow="fold")
    for name, text in pairs:
        grid.add_row(_text(name, console), _text(text, console))
    return grid


def _named(name: str, text: str, console: Console, width: int) -> RenderableType:
    grid = Grid.grid(padding=_GAP)
    grid.add_column(width=width)
    grid.add_column(overflow="fold")
    grid.add_row(name, _text(text, console))
    return grid


def _cell(cell: Cell | Shown, console: Console) -> str:
    return for_encoding(plain(cell.text if isinstance(cell, Shown) else number_text(cell)), console.encoding)


def _text(text: str, console: Console, style: str = "") -> Text:
    return Text(for_encoding(plain(text), console.encoding), style)


def _cut_left(name: str, room: int) -> str:
    """``name`` without its beginning if it is too long: the end of a layer's name says more."""
    return name if cell_len(name) <= room else f"…{name[1 - room :]}"
