"""The table that a sweep gives: one row per setting and seed, and its summary over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weightsmith.core.csv_text import csv_text
from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval, mean_interval

__all__ = ["SweepSummary", "SweepTable"]


@dataclass(frozen=True, eq=False)
class SweepSummary(Record):
    """One value of one setting over its seeds: mean, standard deviation (n − 1) and Student's interval of the mean.

    ``missing`` counts the rows whose value is None; they are left out. Of one value there is neither deviation nor
    interval, of none not even a mean.
    """

    setting: dict[str, Any]
    value: str
    n: int
    missing: int
    mean: float | None = None
    deviation: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True, eq=False)
class SweepTable(Record):
    """The rows of a sweep in the order of settings × seeds; the same bytes however they were computed.

    ``names`` are the columns of the setting; after them come ``seed`` and what the function returned.
    """

    function: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    origin: Origin

    def column(self, name: str) -> tuple[Any, ...]:
        """One column, from top to bottom."""
        self._check_columns([name])
        return tuple(row[name] for row in self.rows)

    def summary(
        self, value: str, by: Sequence[str] | None = None, confidence: float = 0.95
    ) -> tuple[SweepSummary, ...]:
        """``value`` summarised over the rows that agree in the columns ``by`` (all of the setting unless told)."""
        keys = self.names if by is None else tuple(by)
        self._check_columns([value, *keys])
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for row in self.rows:
            # With the type, since 1, 1.0 and True are equal as keys.
            group = tuple((type(row[key]), row[key]) for key in keys)
            groups.setdefault(group, []).append(row[value])
        return tuple(
            _summarised(dict(zip(keys, (part for _, part in group), strict=True)), value, found, confidence)
            for group, found in groups.items()
        )

    def to_csv(self) -> str:
        """The table as CSV text: a head line, then the rows; None is an empty cell, truth is true or false."""
        return csv_text(self.columns, ([_cell(row[name]) for name in self.columns] for row in self.rows))

    def _check_columns(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.columns:
                raise UnknownName("column", name, self.columns)


def _summarised(setting: dict[str, Any], value: str, found: list[Any], confidence: float) -> SweepSummary:
    numbers = [number for number in found if number is not None]
    for number in numbers:
        if not isinstance(number, int | float):
            raise UsageError(f"column {value!r} holds {number!r}: only numbers can be summarised")
    missing = len(found) - len(numbers)
    if not numbers:
        return SweepSummary(setting, value, 0, missing)
    if len(numbers) == 1:
        return SweepSummary(setting, value, 1, missing, float(numbers[0]))
    interval = mean_interval(numbers, confidence)
    deviation = float(np.std(np.array(numbers, float), ddof=1))
    return SweepSummary(setting, value, len(numbers), missing, interval.value, deviation, interval)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value
