"""Tables of numbers with a target in each row: CSV, XLSX, or NPZ with the arrays ``x`` and ``y``.

The label column is the named one; else it is guessed by its name or kind (:func:`_label`), with a note. A column
``split`` (of train, validation, test) divides the rows, a column ``path`` only states where a row came from, a column
``id`` or ``index`` whose values all differ only numbers the rows; all others are inputs. Labels are whole
numbers or text; classes are their distinct values, numbers in numeric order, text in alphabetical order. An input
column of text becomes a column of 0 and 1 for each of its values. Numbers with fractions are values to be predicted
(:mod:`weightsmith.data.formats.cells`). A row with a missing value (an empty cell, NaN, or one of the words nan, na,
n/a, null, none) is left out and reported; anything else in a column of numbers that is not a finite number is refused
with its row and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weightsmith.core.errors import FileRefused, UnknownName, brief
from weightsmith.core.options import param
from weightsmith.data.arrays import Arrays
from weightsmith.data.formats.cells import (
    Task,
    as_float,
    classes_of,
    is_missing,
    is_value,
    number,
    target_arrays,
    targets_of,
    whole_number,
)
from weightsmith.data.formats.npz import read_npz
from weightsmith.data.formats.spreadsheets import Row, read_csv, read_xlsx
from weightsmith.data.normalise import STANDARD
from weightsmith.data.sources import Source, held_back
from weightsmith.data.tensors import SPLITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Table"]

_SPLIT, _IGNORED = "split", ("path",)
_COUNTERS = ("id", "index")  # names of columns that number the rows, in any case
_LABELS = ("label", "class", "target", "y")  # names of label columns, in any case
_MOST_VALUES = 50  # of a text column that is an input
_READERS = {".csv", ".tsv", ".txt", ".xlsx", ".npz"}


class Table(Source, name="table"):
    """A table of numbers with a target in each row; all rows are ``train`` unless a column divides them."""

    path: str = param(doc="a .csv, .tsv, .txt, .xlsx or .npz file")
    label: str = param(default="", doc="the label column; default: guessed by name and kind, with a note")
    sheet: str = param(default="", doc="the sheet of an .xlsx file; by default the first")
    header: Literal["auto", "yes", "no"] = param(default="auto", doc="whether the first row names the columns")
    split: str = param(default=_SPLIT, doc='the column of train, validation and test, if there is one; "": none')
    ignore: tuple[str, ...] = param(default=_IGNORED, doc="columns that are not inputs, if present")
    split_by: str = param(
        default="", doc="a column such as subject: rows with the same value go to the same split or fold"
    )
    task: Task = param(default="auto", doc="the kind of target; default: inferred from its cells, with a note")
    targets: tuple[str, ...] = param(default=(), doc="several target columns: labels of 0 and 1, or numbers to predict")
    weights: str = param(default="", doc="a column of weights by which the loss of a row is multiplied")
    test: float = held_back("test")
    validation: float = held_back("validation")

    normalisation = STANDARD

    def read(self) -> dict[str, Arrays]:
        """Rows ``(n, f)`` (from an NPZ also images) and their labels."""
        path = Path(self.path).expanduser()
        suffix = path.suffix.lower()
        if suffix not in _READERS:
            raise FileRefused(path, f"is not a table that can be read; use {', '.join(sorted(_READERS))}")
        if suffix == ".npz":
            return {"train": _complete(path, *read_npz(path), self.task)}
        rows = read_xlsx(path, self.sheet) if suffix == ".xlsx" else read_csv(path)
        return self._parts(path, rows)

    def _parts(self, path: Path, rows: list[Row]) -> dict[str, Arrays]:
        names, rows, unnamed = _named(path, rows, self.header)
        divider = () if self.split == _SPLIT else (self.split,)
        asked = self.targets or ((self.label,) if self.label else ())
        given = (*asked, self.split_by, self.weights, *divider, *set(self.ignore).difference(_IGNORED))
        for name in filter(None, given):
            if name not in names:
                raise UnknownName(f"column of {path.name}", name, names)
        laid_aside = {*self.ignore, self.split_by, self.weights} - set(asked)
        ignored = [i for i, name in enumerate(names) if name in laid_aside]
        # A first column without a name (as pandas writes it) or one called id, whose values all differ, names the rows.
        counters = (*unnamed, *(i for i, name in enumerate(names) if name.lower() in _COUNTERS and name not in asked))
        ignored += [
            i
            for i in counters
            if _values(rows, i) == len(rows) > 1 and (_is_text(rows, i) or _values(rows, i, whole=True))
        ]
        others = (*ignored, *(i for i, n in enumerate(names) if n == self.split))
        labels, why, sure = [names.index(name) for name in asked], None, True
        if not asked:
            label, why, sure = _label(names, rows, self.task, others)
            labels = [label]
        split = names.index(self.split) if self.split in names and names.index(self.split) not in labels else None
        aside = [i for i in ignored if i not in (*labels, split)]
        inputs = [i for i in range(len(names)) if i not in (*labels, split, *aside)]
        used = [names.index(name) for name in (self.split_by, self.weights) if name]
        kept, notes = _without_gaps(path, names, rows, [i for i in aside if i not in used])
        if not kept or not inputs:
            raise FileRefused(path, f"has {len(kept)} complete rows and {len(inputs)} input columns; nothing to learn")
        if not sure and is_value(kept, labels[0], self.task) and self.task == "auto":
            raise FileRefused(
                path,
                f"no column is called {', '.join(_LABELS)}, and the first, {brief(names[labels[0]])}, holds numbers "
                f"with fractions; name what to predict: table:{path.name},label={names[-1]}",
            )
        y, classes, remarks = targets_of(path, kept, names, labels, self.task)
        x, categories = _inputs(path, names, kept, inputs)
        if aside:
            notes = (f"no inputs: the columns {', '.join(names[i] for i in aside)}", *notes)
        notes = (*filter(None, (why,)), *remarks, *categories, *notes)
        weights = None
        if self.weights:
            column = names.index(self.weights)
            weights = np.array([number(path, row, names, column) for row in kept], np.float32)
        return self._divided(path, kept, names, split, Arrays(x, y, classes, notes, None, weights))

    def _divided(
        self, path: Path, kept: list[Row], names: list[str], split: int | None, whole: Arrays
    ) -> dict[str, Arrays]:
        """All rows with their groups, divided into splits by the split column."""
        groups, notes = None, whole.notes
        group = names.index(self.split_by) if self.split_by else None
        if group is not None:
            groups = np.unique([str(row.cells[group]) for row in kept], return_inverse=True)[1].astype(np.int64)
            notes = (
                *notes,
                f"splits and folds keep the rows of each {self.split_by} together: {groups.max() + 1} of them",
            )
        whole = whole._replace(groups=groups, notes=notes)
        if split is None:
            return {"train": whole}
        parts = np.array([_part(path, row, names, split) for row in kept])
        return {part: whole.taken(of) for part in SPLITS if (of := parts == part).any()}


def _label(names: list[str], rows: list[Row], task: Task, others: Sequence[int]) -> tuple[int, str | None, bool]:
    """The label column, how it was found, and whether that leaves no doubt.

    By its name (label, class, target, y); else, for a value, the last column; else the only column of text, or the last
    column if it is text; else the first column, unless that numbers the rows and the last one holds few whole numbers.
    """
    for name in _LABELS:
        found = next((i for i, known in enumerate(names) if known.lower() == name), None)
        if found is not None:
            return found, None if names[found] == "label" else _guess(names[found], "by its name"), True
    columns = [i for i in range(len(names)) if i not in others] or list(range(len(names)))
    texts = [i for i in columns if _is_text(rows, i)]
    last = columns[-1]
    if task == "regression":
        return last, _guess(names[last], "the last"), True
    if texts and (len(texts) == 1 or last in texts):
        chosen = last if last in texts else texts[0]
        how = "the only column of text" if len(texts) == 1 else "the last, of text"
        return chosen, _guess(names[chosen], how), True
    if not texts and len(rows) > 2 and _values(rows, columns[0]) == len(rows) > 2 * _values(rows, last, whole=True) > 0:
        return last, _guess(names[last], "the last, of few whole numbers; the first differs in every row"), True
    return columns[0], f"the first column, {names[columns[0]]!r}, is taken for the label (label=… names another)", False


def _guess(name: str, why: str) -> str:
    return f"the column {name!r} is taken for the label, {why} (label={name} says so, label=… names another)"


def _is_text(rows: list[Row], column: int) -> bool:
    """Whether no cell of the column is a number, and some are text."""
    cells = [row.cells[column] for row in rows if column < len(row.cells) and not is_missing(row.cells[column])]
    return bool(cells) and all(isinstance(cell, str) and as_float(cell) is None for cell in cells)


def _values(rows: list[Row], column: int, *, whole: bool = False) -> int:
    """The number of different values in a column; 0 if ``whole`` numbers are required and it has others."""
    cells = [row.cells[column] for row in rows if column < len(row.cells) and not is_missing(row.cells[column])]
    return 0 if whole and any(whole_number(cell) is None for cell in cells) else len(set(cells))


def _inputs(
    path: Path, names: list[str], rows: list[Row], columns: list[int]
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The inputs, with a column of 0 and 1 for each value of a text column, and a note on each text column."""
    made: list[NDArray[np.float32]] = []
    notes: list[str] = []
    for column in columns:
        if not _is_text(rows, column):
            made.append(np.array([number(path, row, names, column) for row in rows], np.float32)[:, None])
            continue
        cells = [str(row.cells[column]) for row in rows]
        values = sorted(set(cells))
        if len(values) > _MOST_VALUES:
            raise FileRefused(
                path,
                f"column {names[column]} holds {len(values)} different texts, more than the {_MOST_VALUES} that become "
                f"categories; leave it out with ignore=[{names[column]}]",
            )
        made.append(np.array([[cell == value for value in values] for cell in cells], np.float32))
        shown = ", ".join(values[:10]) + ("…" if len(values) > 10 else "")
        notes.append(f"the text in column {names[column]!r} becomes {len(values)} inputs of 0 and 1: {shown}")
    return np.concatenate(made, axis=1), tuple(notes)


def _complete(path: Path, x: NDArray[Any], y: NDArray[Any], task: Task) -> Arrays:
    """The rows of an NPZ file without NaN; row numbers count from 0 there."""
    gaps = np.isnan(x).reshape(len(x), -1).any(axis=1)
    if y.dtype.kind == "f":
        gaps |= np.isnan(y).reshape(len(y), -1).any(axis=1)
    if gaps.all():
        raise FileRefused(path, "has no row of x and y without nan")
    y, names = y[~gaps], tuple(map(str, range(y.shape[1]))) if y.ndim == 2 else ("y",)
    if y.dtype.kind not in "fb" and y.ndim == 1 and task != "regression":
        y, names = classes_of(y.tolist(), path)
    targets = target_arrays(path, y, names, task)
    left_out = _note(np.flatnonzero(gaps).tolist(), ["x"], len(x))
    return Arrays(x[~gaps], targets.y, targets.names, (*targets.notes, *left_out))


def _named(path: Path, rows: list[Row], header: str) -> tuple[list[str], list[Row], list[int]]:
    """The column names, the rows below them, and the first columns that had no name.

    Cells of a header that are merged leave all but the first empty: ``LPQ, , `` are the columns LPQ, LPQ 2 and LPQ 3. A
    second row of names below such a header is read together with it.
    """
    if not rows:
        raise FileRefused(path, "holds no rows")
    first = rows[0].cells
    numeric = [as_float(cell) is not None for cell in first]
    if header == "auto" and any(numeric) and not all(numeric):
        raise FileRefused(path, "the first row holds names and numbers; give header=yes or header=no")
    if header == "no" or (header == "auto" and all(numeric)):
        return [f"column {i}" for i in range(1, len(first) + 1)], rows, []
    names = ["" if cell is None else str(cell).strip() for cell in first]
    below = 1
    if (
        "" in names[1:]
        and len(rows) > 2
        and not any(map(_is_number, rows[1].cells))
        and any(map(_is_number, rows[2].cells))
    ):
        second = ["" if cell is None else str(cell).strip() for cell in rows[1].cells]
        second += [""] * (len(names) - len(second))
        names, below = [f"{a} {b}".strip() for a, b in zip(_filled(names), second, strict=True)], 2
    unnamed = [i for i, name in enumerate(_filled(names)) if not name]
    for position, name in enumerate(names, 1):
        if name and names.count(name) > 1:
            raise FileRefused(path, f"column {position} has the same name as another, {brief(name)}")
    return _numbered(names), rows[below:], unnamed


def _filled(names: list[str]) -> list[str]:
    """Names of merged cells in each of their columns."""
    found: list[str] = []
    for name in names:
        found.append(name or (found[-1] if found else ""))
    return found


def _numbered(names: list[str]) -> list[str]:
    """A name for every column: an empty one is the next of the name before it, or its own number.

    >>> _numbered(["", "LPQ", "", "", "label"])
    ['column 1', 'LPQ', 'LPQ 2', 'LPQ 3', 'label']
    """
    found: list[str] = []
    for position, (name, base) in enumerate(zip(names, _filled(names), strict=True), 1):
        after = next((k for k in range(2, position + 1) if f"{base} {k}" not in (*names, *found)), position)
        found.append(name or (f"{base} {after}" if base else f"column {position}"))
    return found


def _is_number(cell: Any) -> bool:
    return as_float(cell) is not None and not is_missing(cell)


def _without_gaps(path: Path, names: list[str], rows: list[Row], aside: list[int]) -> tuple[list[Row], tuple[str, ...]]:
    """The rows without missing values (ignored columns aside), and a note about the others."""
    kept: list[Row] = []
    dropped: list[int] = []
    gaps: dict[str, None] = {}
    for row in rows:
        if len(row.cells) != len(names):
            raise FileRefused(path, f"row {row.number} has {len(row.cells)} cells, not {len(names)}")
        missing = [name for i, name in enumerate(names) if i not in aside and is_missing(row.cells[i])]
        gaps.update(dict.fromkeys(missing))
        if missing:
            dropped.append(row.number)
        else:
            kept.append(row)
    return kept, _note(dropped, list(gaps), len(rows))


def _part(path: Path, row: Row, names: list[str], column: int) -> str:
    """The split that a row names."""
    word = str(row.cells[column])
    if word not in SPLITS:
        raise FileRefused(
            path,
            f"row {row.number}, column {names[column]}: {brief(word)} is not one of {', '.join(SPLITS)} (give "
            'split="" if the column is an input)',
        )
    return word


def _note(rows: list[int], columns: list[str], total: int) -> tuple[str, ...]:
    if not rows:
        return ()
    shown = [", ".join(map(str, items[:10])) + ("…" if len(items) > 10 else "") for items in (rows, columns)]
    row, column = ("row" if len(rows) == 1 else "rows"), ("column" if len(columns) == 1 else "columns")
    return (f"{len(rows)} of {total} rows left out for missing values: {row} {shown[0]} ({column} {shown[1]})",)
