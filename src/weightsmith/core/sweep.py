"""Call one function for every setting and seed; resumable, with the same table after an interruption.

    settings = grid(rate=[0.1, 0.01], width=[100, 300])
    table = sweep(train, settings, seeds=range(5), journal="runs/journal.jsonl", workers=4)
    table.summary("accuracy")

The function is called as ``function(seed=…, **setting)`` and returns a flat mapping of names to numbers, text, booleans
or None (or a record of such). All its random numbers must come from ``seed``.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weightsmith.core.csv_text import csv_text
from weightsmith.core.errors import UnknownName, UsageError, WeightsmithError
from weightsmith.core.identity import code_digest
from weightsmith.core.journal import Journal
from weightsmith.core.options import Option
from weightsmith.core.parallel import completed
from weightsmith.core.records import Origin, Record
from weightsmith.core.seeds import subseed
from weightsmith.core.statistics import Interval, mean_interval
from weightsmith.core.text import quote

__all__ = ["SweepSummary", "SweepTable", "grid", "sweep"]


def grid(**values: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Every combination of the values, the last name running fastest.

    >>> grid(rate=[0.1, 0.01], width=[100, 300])
    ({'rate': 0.1, 'width': 100}, {'rate': 0.1, 'width': 300},
     {'rate': 0.01, 'width': 100}, {'rate': 0.01, 'width': 300})
    """
    lists = {}
    for name, several in values.items():
        if isinstance(several, str | Mapping) or not isinstance(several, Iterable):
            raise UsageError(f"{name} must be a list of values, not {several!r}; for one value write [{several!r}]")
        lists[name] = list(several)
        if not lists[name]:
            raise UsageError(f"{name} has no values: the grid would be empty")
    return tuple(dict(zip(lists, chosen, strict=True)) for chosen in itertools.product(*lists.values()))


def sweep(
    function: Callable[..., Mapping[str, Any] | Record],
    settings: Iterable[Mapping[str, Any]],
    *,
    seeds: Iterable[int] = (0,),
    journal: str | Path | None = None,
    workers: int = 1,
    cluster: str | None = None,
    inputs: Mapping[str, str] | None = None,
    on_row: Callable[[dict[str, Any]], object] | None = None,
) -> SweepTable:
    """The results of ``function(seed=…, **setting)`` for each setting and, within it, each seed.

    Values of a setting are numbers, text, booleans, None, lists of these, or option objects; the table holds options
    and lists in their text form. ``workers`` and ``cluster`` are those of :func:`weightsmith.core.parallel.completed`.
    With ``journal``, a file, each row is kept as it finishes, and the same call again computes only what is missing;
    ``inputs`` are digests of what else the function reads (data, a network), so that the journal of one data set is
    not taken for that of another. ``on_row`` is called here with each row: those of the journal first, the others as
    they finish.

    An exception of the function is raised as a :class:`WeightsmithError` that names the setting, with the exception as
    its cause; the rows finished before it are in the journal.
    """
    calls = _calls_of(settings, seeds)
    origin, name = Origin(inputs=dict(inputs or {})), _name_of(function)
    description = {
        "function": name,
        "code": code_digest(function),
        "calls": [call.written for call in calls],
        **origin.to_dict(),
    }
    rows = _Rows(calls, on_row)
    with contextlib.ExitStack() as stack:
        kept = None if journal is None else stack.enter_context(Journal(journal, description))
        missing = rows.take_kept(kept or {})
        tasks = [calls[index] for index in missing]
        steps = completed(functools.partial(_timed, function), tasks, workers=workers, cluster=cluster)
        # Closed explicitly: otherwise a traceback that is kept alive would keep the workers busy.
        for index, (values, seconds) in stack.enter_context(contextlib.closing(steps)):
            rows.check(missing[index], values)
            if kept is not None:
                kept.append(tasks[index].key, values, seconds)
            rows.take(missing[index], values)
    return SweepTable(name, tuple(calls[0].written)[:-1], *rows.in_order(), origin)


class _Rows:
    """The rows as they come, each checked against the first."""

    def __init__(self, calls: Sequence[_Call], on_row: Callable[[dict[str, Any]], object] | None) -> None:
        self._calls, self._on_row = calls, on_row
        self._values: dict[int, dict[str, Any]] = {}

    def take_kept(self, kept: Mapping[str, dict[str, Any]]) -> list[int]:
        """Take the rows of the journal; returns the indices of the calls that are still to be made."""
        missing = []
        for index, call in enumerate(self._calls):
            if call.key in kept:
                self.take(index, kept[call.key])
            else:
                missing.append(index)
        return missing

    def check(self, index: int, values: dict[str, Any]) -> None:
        """Refuse a row whose columns differ from those of the others."""
        for other, others in itertools.islice(self._values.items(), 1):
            if odd := set(values) ^ set(others):
                raise UsageError(
                    f"only one of {self._calls[other]} and {self._calls[index]} returned {min(odd)!r}: all rows need "
                    "the same columns; return None for what a setting does not have"
                )

    def take(self, index: int, values: dict[str, Any]) -> None:
        """Add a row and report it to the caller."""
        self._values[index] = values
        if self._on_row is not None:
            self._on_row({**self._calls[index].written, **values})

    def in_order(self) -> tuple[tuple[str, ...], tuple[dict[str, Any], ...]]:
        """The columns, in the order of the first row, and all rows, in the order of the calls."""
        columns = (*self._calls[0].written, *self._values[0])
        rows = ({**call.written, **self._values[index]} for index, call in enumerate(self._calls))
        return columns, tuple({column: row[column] for column in columns} for row in rows)


def _name_of(function: Callable[..., Any]) -> str:
    """The qualified name of the function; of a partial one, of the function inside."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


# The calls of a sweep: their arguments, their text form, and how one is made.


@dataclass(frozen=True)
class _Call:
    """One call: the setting and seed as the function gets them, and as the table and the journal hold them."""

    given: dict[str, Any]
    written: dict[str, Any]

    @property
    def key(self) -> str:
        """The key of the call in the journal."""
        return json.dumps(self.written)

    def __repr__(self) -> str:
        """The name of the call in messages: ``rate=0.1, seed=0``."""
        return ", ".join(f"{name}={value}" for name, value in self.written.items())


def _calls_of(settings: Iterable[Mapping[str, Any]], seeds: Iterable[int]) -> list[_Call]:
    """A call for each setting and, within it, each seed; refused if one comes twice or the names differ."""
    chosen, numbers = list(settings), list(seeds)
    if not chosen or not numbers:
        raise UsageError(f"a sweep needs settings and seeds, not {len(chosen)} setting(s) and {len(numbers)} seed(s)")
    for seed in numbers:
        subseed(seed)  # refuses an invalid seed
    names = list(chosen[0])
    if "seed" in names:
        raise UsageError("'seed' cannot be part of a setting; give seeds=[…]")
    calls: dict[str, _Call] = {}
    for setting in chosen:
        if set(setting) != set(names):
            raise UsageError(f"all settings need the same names, not {', '.join(names)} and {', '.join(setting)}")
        given = {name: setting[name] for name in names}
        written = {name: _written(value, name) for name, value in given.items()}
        for seed in map(int, numbers):
            call = _Call({**given, "seed": seed}, {**written, "seed": seed})
            if calls.setdefault(call.key, call) is not call:
                raise UsageError(f"the sweep holds {call} twice")
    return list(calls.values())


def _timed(function: Callable[..., Mapping[str, Any] | Record], call: _Call) -> tuple[dict[str, Any], float]:
    """Make one call, wherever it runs: its flat result and the seconds it took."""
    with _ErrorContext(call):
        start = time.perf_counter()
        result = function(**call.given)
        seconds = time.perf_counter() - start
        return _flat(result, call), seconds


def _flat(result: Any, call: _Call) -> dict[str, Any]:
    values = result.to_dict() if isinstance(result, Record) else result
    if not isinstance(values, Mapping):
        raise UsageError(f"the function returned a {type(values).__name__}, not a mapping of names to values")
    for name in values:
        if not isinstance(name, str) or name in call.written:
            raise UsageError(f"the function returned the name {name!r}, which is not text or is in the setting")
    return {name: _scalar(value, f"the result {name!r}") for name, value in values.items()}


class _ErrorContext:
    """Wrap an error raised inside the block once, with a message that names the call."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if isinstance(error, Exception):  # KeyboardInterrupt passes unchanged
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise WeightsmithError(f"the sweep stopped at {self._call}: {text}") from error


def _written(value: Any, name: str) -> Any:
    """A value of a setting as the table holds it: options and lists in their text form."""
    if isinstance(value, Option):
        return str(value)
    if isinstance(value, tuple | list):
        return quote([_scalar(item, f"the setting {name}[{i}]") for i, item in enumerate(value)])
    return _scalar(value, f"the setting {name}")


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where} is {value}: a table holds finite numbers or None")
    if value is not None and not isinstance(value, bool | int | float | str):
        raise UsageError(f"{where} is a {type(value).__name__}: a table holds numbers, text, booleans and None")
    return value


# The table of a sweep: one row per setting and seed, and its summary over seeds.


@dataclass(frozen=True, eq=False)
class SweepSummary(Record):
    """One value of one setting over its seeds: mean, standard deviation (n − 1) and Student's interval of the mean.

    ``missing`` counts the rows whose value is None; they are left out. A single value has neither deviation nor
    interval; without any value there is no mean either.
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
        """``value`` summarised over the rows that agree in the columns ``by`` (by default all of the setting)."""
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
        """The table as CSV text: a header line, then the rows; None is an empty cell, booleans are true or false."""
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
