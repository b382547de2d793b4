"""Rows of a study over folds, grouped into series with mean and spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError

if TYPE_CHECKING:
    from weightsmith.reducing.study_table import StudyRow

__all__ = ["Cells", "Curve", "by_setting", "by_start", "curve_of", "over_what", "positions_of"]


Cells: TypeAlias = "Mapping[float, Sequence[StudyRow]]"
_Numbers: TypeAlias = NDArray[np.float64]


class Curve(NamedTuple):
    """Mean and spread at each x; the spread of a single value is NaN."""

    x: _Numbers
    mean: _Numbers
    deviation: _Numbers
    error: _Numbers


def by_start(rows: Sequence[StudyRow], x: Callable[[StudyRow], float], what: str) -> dict[str, Cells]:
    """A series per initial size, and per kind of method if there are several."""
    if not rows:
        raise UsageError(f"no row of the study has {what}: there is no sweep to draw")
    kinds = {row.method.partition(":")[0] for row in rows}
    ordered = sorted(rows, key=lambda row: (row.method.partition(":")[0], row.hidden))

    def label(row: StudyRow) -> str:
        kind = f"{row.method.partition(':')[0]}, " if len(kinds) > 1 else ""
        return f"{kind}{row.hidden:,} units before"

    return _grouped(ordered, label, x)


def by_setting(rows: Sequence[StudyRow]) -> dict[str, Cells]:
    """A series per method with its angle or penalty, in order of appearance."""
    if not rows:
        raise UsageError("the study has no rows of reduced networks: there is nothing to draw")

    def label(row: StudyRow) -> str:
        if ":" in row.method:
            return row.method  # an option, complete in itself
        angle = "" if row.angle is None else f" {row.angle:g}°"
        return row.method + angle + ("" if row.penalty is None else f" λ = {row.penalty:g}")

    return _grouped(rows, label, lambda row: row.hidden)


def _grouped(
    rows: Iterable[StudyRow], label: Callable[[StudyRow], str], x: Callable[[StudyRow], float]
) -> dict[str, Cells]:
    """Rows by label and x; a fold that occurs twice at one x would mix different networks."""
    series: dict[str, dict[float, list[StudyRow]]] = {}
    seen: set[tuple[str, float, int, int]] = set()
    for row in rows:
        name, position = label(row), float(x(row))
        if not math.isfinite(row.test_accuracy) or not 1 <= row.units <= row.hidden:
            fault = f"{row.units} of {row.hidden} units and {row.test_accuracy} % right"
            raise UsageError(f"{name}: a reduced network cannot have {fault}")
        if (one := (name, position, row.fold, row.repeat)) in seen:
            fault = f"fold {row.fold} of repeat {row.repeat} occurs twice at {position:g}"
            raise UsageError(f"{name}: {fault}; draw one study, and one variant of a method, at a time")
        seen.add(one)
        series.setdefault(name, {}).setdefault(position, []).append(row)
    return {name: dict(sorted(cells.items())) for name, cells in series.items()}


def curve_of(cells: Cells, what: str) -> Curve:
    """The curve of one attribute of the rows, ``test_accuracy`` or ``units``.

    With J values of standard deviation s over k folds, the standard error of their mean is s·√(1/J + 1/(k − 1)), where
    1/(k − 1) is the size of a fold over that of the rest. Values of a single fold, repeated, share no rows: s/√J.
    """
    points = []
    for position, rows in cells.items():
        values, folds = [float(getattr(row, what)) for row in rows], len({row.fold for row in rows})
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        shared = 1 / (folds - 1) if folds > 1 else 0.0
        points.append((position, float(np.mean(values)), deviation, deviation * math.sqrt(1 / len(values) + shared)))
    return Curve(*np.array(points, np.float64).T)


def over_what(series: Mapping[str, Cells]) -> str:
    """A text that says over what the means are taken."""
    cells = [rows for found in series.values() for rows in found.values()]
    folds = len({row.fold for rows in cells for row in rows})
    repeats = len({row.repeat for rows in cells for row in rows})
    fewest = min(map(len, cells))
    text = f"mean over {folds} fold{'s' * (folds > 1)}" + (f" × {repeats} repeats" if repeats > 1 else "")
    return text if fewest == folds * repeats else f"{text} (only {fewest} at some points)"


def positions_of(series: Mapping[str, Cells]) -> list[float]:
    """All x values of any series, ascending."""
    return sorted({position for cells in series.values() for position in cells})
