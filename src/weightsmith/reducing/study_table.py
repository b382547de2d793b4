"""The table of a study of reductions: a row per network and method, and summaries over folds and repeats."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weightsmith.core.csv_text import csv_text
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Comparison, corrected_t

__all__ = [
    "WHOLE",
    "MethodPair",
    "Study",
    "StudyRow",
    "StudySlope",
    "StudySummary",
    "method_pairs",
    "slopes",
    "summaries",
]

WHOLE = "whole"
"""The method name of rows of unreduced networks."""


@dataclasses.dataclass(frozen=True, eq=False)
class StudyRow(Record):
    """One network of one fold, reduced by one method; accuracies in percent.

    ``random_accuracy`` is the mean test accuracy of random masks with the same number of units, ``scratch_accuracy``
    that of a network of that size trained from scratch; None if not requested, and for the whole network.
    """

    method: str
    hidden: int
    repeat: int
    fold: int
    units: int
    train_accuracy: float
    test_accuracy: float
    angle: float | None = None
    penalty: float | None = None
    random_accuracy: float | None = None
    scratch_accuracy: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class StudySummary(Record):
    """One method at one initial size: means and standard deviations over ``n`` folds, and three comparisons.

    A comparison is of test accuracies on the same folds (percent; the method's minus the other's), tested by the
    corrected resampled t-test; None where there is nothing to compare with.
    """

    method: str
    hidden: int
    n: int
    units: float
    units_deviation: float
    train_accuracy: float
    test_accuracy: float
    test_deviation: float
    random_accuracy: float | None
    scratch_accuracy: float | None
    against_whole: Comparison | None
    against_random: Comparison | None
    against_scratch: Comparison | None

    @property
    def removed(self) -> float:
        """The share of units removed."""
        return 1 - self.units / self.hidden


@dataclasses.dataclass(frozen=True, eq=False)
class StudySlope(Record):
    """How the final size follows the initial one: the slope of log(mean units) by log(hidden).

    0 means that a method ends at the same size whatever the initial one, the ideal of the paper; 1 that it removes
    the same share. ``deviation`` is the standard deviation of the slopes of single folds.
    """

    method: str
    slope: float
    deviation: float


@dataclasses.dataclass(frozen=True, eq=False)
class Study(Record):
    """The settings, every row, and their summaries; identical for any number of workers."""

    data: str
    rows_of_data: int
    features: int
    classes: tuple[str, ...]
    settings: dict[str, Any]
    rows: tuple[StudyRow, ...]
    summaries: tuple[StudySummary, ...]
    slopes: tuple[StudySlope, ...]
    notes: tuple[str, ...]
    origin: Origin

    def to_csv(self) -> str:
        """A line per row, with the scaling in its first column."""
        names = [field.name for field in dataclasses.fields(StudyRow)]
        scaling = self.settings["scaling"]
        return csv_text(["scaling", *names], ([scaling, *(getattr(row, name) for name in names)] for row in self.rows))


def summaries(rows: Sequence[StudyRow], folds: int) -> tuple[StudySummary, ...]:
    """Summaries of the rows by initial size and method, in their order.

    For r times k-fold, n_test/n_train of the test is 1/(k − 1).
    """
    whole = {(row.hidden, row.repeat, row.fold): row.test_accuracy for row in rows if row.method == WHOLE}
    groups: dict[tuple[int, str], list[StudyRow]] = {}
    for row in rows:
        groups.setdefault((row.hidden, row.method), []).append(row)

    def before(row: StudyRow) -> float | None:
        return None if row.method == WHOLE else whole[row.hidden, row.repeat, row.fold]

    return tuple(
        StudySummary(
            method=method,
            hidden=hidden,
            n=len(group),
            units=_mean([row.units for row in group]),
            units_deviation=_deviation([row.units for row in group]),
            train_accuracy=_mean([row.train_accuracy for row in group]),
            test_accuracy=_mean([row.test_accuracy for row in group]),
            test_deviation=_deviation([row.test_accuracy for row in group]),
            random_accuracy=_mean_of(group, lambda row: row.random_accuracy),
            scratch_accuracy=_mean_of(group, lambda row: row.scratch_accuracy),
            against_whole=_compared(group, before, folds),
            against_random=_compared(group, lambda row: row.random_accuracy, folds),
            against_scratch=_compared(group, lambda row: row.scratch_accuracy, folds),
        )
        for (hidden, method), group in groups.items()
    )


class MethodPair(NamedTuple):
    """Two methods at one initial size: ``comparison`` is of their test accuracies on the same folds, in points."""

    method: str
    other: str
    hidden: int
    comparison: Comparison


def method_pairs(rows: Sequence[StudyRow], folds: int) -> list[MethodPair]:
    """Every method against every other at the same initial size, in the order of the rows, if they share two folds.

    >>> rows = [StudyRow(name, 8, 0, fold, 4, 50.0, 50.0 + fold + far) for name, far in (("a", 0), ("b", 3))
    ...         for fold in (0, 1)]
    >>> [(pair.method, pair.other, pair.comparison.difference) for pair in method_pairs(rows, 2)]
    [('a', 'b', -3.0)]
    """
    found: dict[tuple[int, str], dict[tuple[int, int], StudyRow]] = {}
    for row in rows:
        if row.method != WHOLE:
            found.setdefault((row.hidden, row.method), {})[row.repeat, row.fold] = row
    pairs = itertools.combinations(found.items(), 2)
    return [
        MethodPair(method, other, hidden, _of_pairs(ours, theirs, folds))
        for ((hidden, method), ours), ((size, other), theirs) in pairs
        if hidden == size and folds > 1 and len(ours.keys() & theirs.keys()) > 1
    ]


def _of_pairs(
    ours: Mapping[tuple[int, int], StudyRow], theirs: Mapping[tuple[int, int], StudyRow], folds: int
) -> Comparison:
    both = [fold for fold in ours if fold in theirs]
    return corrected_t([ours[fold].test_accuracy - theirs[fold].test_accuracy for fold in both], folds - 1, 1)


def slopes(rows: Sequence[StudyRow]) -> tuple[StudySlope, ...]:
    """A slope for each method, if there are networks of several initial sizes.

    >>> rows = [StudyRow("a", h, 0, fold, h // 2, 50.0, 50.0) for h in (20, 80) for fold in (0, 1)]
    >>> [round(found.slope, 6) for found in slopes(rows)]
    [1.0]
    """
    methods = [method for method in dict.fromkeys(row.method for row in rows) if method != WHOLE]
    hidden = sorted({row.hidden for row in rows})
    if len(hidden) < 2:
        return ()
    found = []
    for method in methods:
        units = {(row.hidden, row.repeat, row.fold): row.units for row in rows if row.method == method}
        folds = sorted({key[1:] for key in units})
        sizes = np.array([[units[size, *fold] for size in hidden] for fold in folds], np.float64)
        single = [_slope(hidden, line) for line in sizes]
        found.append(StudySlope(method, _slope(hidden, sizes.mean(axis=0)), _deviation(single)))
    return tuple(found)


def _slope(hidden: Sequence[int], units: Any) -> float:
    return float(np.polyfit(np.log(hidden), np.log(units), 1)[0])


def _compared(group: Sequence[StudyRow], other: Callable[[StudyRow], float | None], folds: int) -> Comparison | None:
    pairs = [(row.test_accuracy, other(row)) for row in group]
    differences = [ours - theirs for ours, theirs in pairs if theirs is not None]
    if len(differences) < len(pairs):
        return None
    return corrected_t(differences, train_size=folds - 1, test_size=1)


def _mean_of(group: Sequence[StudyRow], value: Callable[[StudyRow], float | None]) -> float | None:
    found = [number for row in group if (number := value(row)) is not None]
    return _mean(found) if len(found) == len(group) else None


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _deviation(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
