"""The cells of a table: numbers, missing values, and columns of targets.

The target of a row is one of two or more classes, a value, or several labels or values, each in its own column.
``task`` says which; otherwise it is inferred from the cells: numbers with fractions are values to be predicted, and
several columns of only 0 and 1 are labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from weightsmith.core.errors import FileRefused, brief
from weightsmith.data.formats.spreadsheets import Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Targets",
    "Task",
    "as_float",
    "classes_of",
    "is_missing",
    "is_value",
    "number",
    "target_arrays",
    "targets_of",
    "whole_number",
]

Task = Literal["auto", "classification", "binary", "multi-label", "regression"]

_MISSING = {"", "nan", "na", "n/a", "#n/a", "null", "none"}
_LARGEST = float(np.finfo(np.float32).max)
_MANY = 100  # with more classes than this, whole numbers are probably a quantity


class Targets(NamedTuple):
    """The targets of all rows, the names of the classes or columns, and notes."""

    y: NDArray[Any]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def targets_of(path: Path, rows: list[Row], names: list[str], columns: list[int], task: Task) -> Targets:
    """The targets in ``columns`` of ``rows``, as ``task`` reads them."""
    called = tuple(names[column] for column in columns)
    if len(columns) == 1 and not is_value(rows, columns[0], task):
        if task == "multi-label":
            raise FileRefused(path, f"task=multi-label needs several columns: targets=[{called[0]},…]")
        y, classes = classes_of([row.cells[columns[0]] for row in rows], path)
        return target_arrays(path, y, classes, task)
    values = np.array([[number(path, row, names, column) for column in columns] for row in rows], np.float64)
    return target_arrays(path, values, called, task)


def is_value(rows: list[Row], column: int, task: Task) -> bool:
    """Whether a single target is a value: by ``task``, or because it holds numbers with fractions."""
    if task != "auto":
        return task == "regression"
    numbers = [as_float(row.cells[column]) for row in rows]
    return None not in numbers and any(each is not None and math.isfinite(each) and each % 1 for each in numbers)


def target_arrays(path: Path, y: NDArray[Any], names: tuple[str, ...], task: Task) -> Targets:
    """Targets as a network learns them: int64 classes, bool labels or float32 values."""
    if y.ndim == 1 and y.dtype.kind in "iu" and task in ("auto", "classification"):
        quantity = task == "auto" and len(names) > _MANY and all(name.lstrip("-").isdigit() for name in names)
        note = f"the label has {len(names)} classes, all whole numbers; give task=regression if it is a quantity"
        return Targets(y.astype(np.int64), names, (note,) if quantity else ())
    if task == "binary":
        if y.ndim != 1 or len(names) != 2:
            raise FileRefused(path, f"task=binary needs two classes, but there are {len(names)}")
        return Targets((y == 1)[:, None], names[1:], (f"an output above 0 means {names[1]}, else {names[0]}",))
    columns = y[:, None] if y.ndim == 1 else y
    truths = columns.dtype == np.bool_ or (columns.shape[1] > 1 and bool(np.isin(columns, (0, 1)).all()))
    if truths and task in ("auto", "multi-label"):
        return Targets(columns.astype(np.bool_), names, (f"{len(names)} labels, each on or off",))
    if task in ("multi-label", "classification"):
        wrong = "labels are 0 or 1" if task == "multi-label" else "classes are whole numbers or text in one column"
        raise FileRefused(path, f"task={task}: {wrong} (task=regression predicts numbers)")
    said = "" if task == "regression" else ", because it contains numbers with fractions"
    return Targets(columns.astype(np.float32), names, (f"the value of {', '.join(names)} is predicted{said}",))


def classes_of(labels: Sequence[Any], path: Path) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Each label as the number of its class, and the names of the classes in order.

    >>> classes_of(["7", 3.0, 7], Path("t.csv"))
    (array([1, 0, 1]), ('3', '7'))
    """
    numbers = [whole_number(label) for label in labels]
    if None not in numbers:
        distinct: list[Any] = sorted(set(numbers))
        position = {value: index for index, value in enumerate(distinct)}
        return np.array([position[number] for number in numbers], np.int64), tuple(map(str, distinct))
    fractions = [label for label in labels if as_float(label) is not None and whole_number(label) is None]
    if fractions:
        raise FileRefused(
            path,
            f"the label {brief(fractions[0])} is not a class; labels are whole numbers or text (give label=NAME for "
            "another column, or task=regression for a quantity)",
        )
    texts = [str(label) if number is None else str(number) for label, number in zip(labels, numbers, strict=True)]
    position = {text: index for index, text in enumerate(sorted(set(texts)))}
    return np.array([position[text] for text in texts], np.int64), tuple(position)


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, NaN, or a word for a missing value."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING)


def as_float(cell: Any) -> float | None:
    """The number in a cell, or None if it holds something else."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def whole_number(label: Any) -> int | None:
    """The whole number in a cell, or None."""
    value = as_float(label)
    return int(value) if value is not None and math.isfinite(value) and value == int(value) else None


def number(path: Path, row: Row, names: list[str], column: int) -> float:
    """The finite number in a cell; anything else is refused by row and column."""
    value = as_float(row.cells[column])
    if value is None or not abs(value) <= _LARGEST:
        raise FileRefused(
            path, f"row {row.number}, column {names[column]}: {brief(row.cells[column])} is not a finite number"
        )
    return value
