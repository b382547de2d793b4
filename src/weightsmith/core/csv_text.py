"""Tables as CSV text: the only CSV writer of the package, and how its reader undoes the guard against formulas.

Names of layers, files and classes come from foreign files, and a spreadsheet evaluates a cell that begins like a
formula. Such text gets a leading apostrophe, even if it has one already, so that exactly one can be removed when it is
read; numbers stay numbers, negative ones too.

>>> print(csv_text(["layer", "α"], [["=cmd()", -3.5], ["fc1", None]]), end="")
layer,α
'=cmd(),-3.5
fc1,
>>> [guarded(text) for text in ("@SUM(A1)", "-3.5e-2", "-x", "'=1", "it's")]
["'@SUM(A1)", '-3.5e-2', "'-x", "''=1", "it's"]
>>> unguarded("'=cmd()")
'=cmd()'
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["csv_rows", "csv_text", "guarded", "unguarded"]

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ACTS_AS_FORMULA = re.compile(r"'*(?:[\s\x00-\x20\u200b\ufeff]*[=+\-@＝＋－＠]|[\t\r\n])")


def csv_text(columns: Sequence[Any], rows: Iterable[Iterable[Any]], *, line_end: str = "\n") -> str:
    """A header line and the rows; None is an empty cell."""
    lines: list[str] = []
    # Only with the line end \r\n does the library quote a cell with a lone \r or \n, which would end the line.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerow(map(guarded, columns))
    writer.writerows(map(guarded, row) for row in rows)
    return "".join(line.removesuffix("\r\n") + line_end for line in lines)


def csv_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as mappings; the columns are all names in order of first appearance, and a missing cell is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text(columns, ([row.get(name) for name in columns] for row in rows)) if columns else ""


def guarded(cell: Any) -> Any:
    """Text that a spreadsheet would take for a formula, with an apostrophe in front; anything else as it is."""
    acts = isinstance(cell, str) and _ACTS_AS_FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if acts else cell


def unguarded(text: str) -> str:
    """The text of a cell without the apostrophe that :func:`guarded` put there."""
    return text[1:] if text.startswith("'") and guarded(text[1:]) != text[1:] else text
