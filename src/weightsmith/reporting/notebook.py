"""A description in a notebook: what the page shows of one result, without its drawings."""

from __future__ import annotations

import dataclasses
import enum
import io
import re
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.reporting.describe import describe
from weightsmith.reporting.page import fragment
from weightsmith.reporting.parts import Column, Drawing, Section, Shown, Table

__all__ = ["html"]


def html(result: Any) -> str | None:
    """A result, a description, or one table or drawing of it as HTML; None for what has no description."""
    match result:
        case Section():
            return fragment(result)
        case Table():
            return fragment(Section(result.title, "", (result,)))
        case Drawing():
            return _svg(result)
    try:
        return fragment(describe(result))
    except UsageError:
        return _tables(result)


def _tables(result: Any) -> str | None:
    """A record without a description by its rows, such as the epochs of a history; None without any."""
    if not dataclasses.is_dataclass(result):
        return None
    found = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    parts = tuple(_table(name, rows) for name, rows in found.items() if _are_records(rows))
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(result).__name__).capitalize()
    return fragment(Section(title, str(getattr(result, "sentence", "")), parts)) if parts else None


def _are_records(rows: Any) -> bool:
    return isinstance(rows, tuple) and bool(rows) and all(isinstance(row, Record) for row in rows)


def _table(name: str, rows: tuple[Any, ...]) -> Table:
    """A row for each record, in the columns in which all have one value and at least one is not None."""
    names = [field.name for field in dataclasses.fields(rows[0])]
    cells = {key: [_cell(getattr(row, key)) for row in rows] for key in names}
    shown = {key: own for key, own in cells.items() if ... not in own and any(cell is not None for cell in own)}
    columns = tuple(
        Column(key.replace("_", " "), numeric=isinstance(own[0], float | int)) for key, own in shown.items()
    )
    return Table(name.capitalize(), columns, tuple(zip(*shown.values(), strict=True)))


def _cell(value: Any) -> Any:
    """The value if a cell can hold it, else an ellipsis."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, float):
        return Shown(value, f"{value:.4g}")
    return value if value is None or isinstance(value, str | int) else ...


def _svg(drawing: Drawing) -> str:
    content = io.StringIO()
    drawing.figure().savefig(content, format="svg", metadata={"Date": None})
    text = content.getvalue()
    return text[text.index("<svg") :]
