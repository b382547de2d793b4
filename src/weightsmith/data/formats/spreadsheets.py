"""Rows of cells from CSV and XLSX files, with the row numbers a spreadsheet shows.

A CSV file is UTF-8 text separated by commas, semicolons or tabs, whichever is most frequent in its first line. An XLSX
file is read from its first sheet, or the named one; formulas give the values stored with them.
"""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from weightsmith.core.csv_text import unguarded
from weightsmith.core.errors import FileRefused, UnknownName
from weightsmith.core.storage import DAMAGED_ZIP, reading
from weightsmith.data.arrays import checked_size

__all__ = ["Row", "read_csv", "read_xlsx"]


# What openpyxl raises on a damaged workbook: it trusts the parts of a file and their links.
_DAMAGED_WORKBOOK = (*DAMAGED_ZIP, SyntaxError, LookupError, TypeError, AttributeError, AssertionError)
_MOST_ROWS = 1 << 20  # of a sheet, the limit of the format


class Row(NamedTuple):
    """One row: its number in the file, counted from 1, and its cells (text, numbers, None)."""

    number: int
    cells: tuple[Any, ...]


def read_csv(path: Path) -> list[Row]:
    """The rows of a CSV file that are not blank."""
    with reading(path):
        checked_size(path, path.stat().st_size, "the table")
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileRefused(path, f"is not UTF-8 text (byte {error.start})") from error
    first = text.lstrip().partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    rows = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append(Row(reader.line_num, tuple(unguarded(cell.strip()) for cell in cells)))  # noqa: PERF401
    except csv.Error as error:
        raise FileRefused(path, f"line {reader.line_num} is not CSV ({error})") from error
    return rows


def read_xlsx(path: Path, sheet: str = "") -> list[Row]:
    """The rows of one sheet that are not blank, all as long as the longest."""
    from openpyxl.utils.exceptions import CellCoordinatesException, InvalidFileException

    with reading(path):
        try:
            with zipfile.ZipFile(path) as archive:
                # A workbook is a zip: a few kilobytes can unpack to any size.
                checked_size(path, sum(member.file_size for member in archive.infolist()), "the workbook, unpacked,")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # openpyxl warns of styles and forms that are not read anyway
                rows = _sheet_rows(path, sheet)
        except UnknownName:
            raise
        except (*_DAMAGED_WORKBOOK, CellCoordinatesException, InvalidFileException) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise FileRefused(path, f"is not a readable workbook ({reason})") from error
    width = max((len(row.cells) for row in rows), default=0)
    return [Row(row.number, row.cells + (None,) * (width - len(row.cells))) for row in rows]


def _sheet_rows(path: Path, sheet: str) -> list[Row]:
    from openpyxl import load_workbook

    workbook = load_workbook(path, read_only=True, data_only=True)
    try:
        if sheet and sheet not in workbook.sheetnames:
            raise UnknownName(f"sheet of {path.name}", sheet, workbook.sheetnames)
        if not workbook.sheetnames:
            raise FileRefused(path, "is a workbook without a sheet")
        chosen = workbook[sheet or workbook.sheetnames[0]]
        chosen.reset_dimensions()  # ignore the size stated in the file: some tools write a wrong one
        rows = []
        for number, values in enumerate(chosen.iter_rows(values_only=True), 1):
            if number > _MOST_ROWS:
                raise FileRefused(path, f"has a row beyond {_MOST_ROWS:,}, where sheets end")
            cells = [value.strip() if isinstance(value, str) else value for value in values]
            while cells and cells[-1] in (None, ""):
                cells.pop()
            if cells:
                rows.append(Row(number, tuple(cells)))
        return rows
    finally:
        workbook.close()
