"""Call one function for every setting and seed; stop at any moment, go on later, get the same table.

    settings = grid(rate=[0.1, 0.01], width=[100, 300])
    table = sweep(train, settings, seeds=range(5), journal="runs/journal.jsonl", workers=4)
    table.summary("accuracy")

The function is called as ``function(seed=…, **setting)`` and returns a flat mapping of names to numbers, text, truth or
None (or a record of such). What it draws must come from ``seed`` alone.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weightsmith.core._sweep_calls import Call, calls_of, timed
from weightsmith.core._sweep_table import SweepSummary, SweepTable
from weightsmith.core.errors import UsageError
from weightsmith.core.identity import code_digest
from weightsmith.core.journal import Journal
from weightsmith.core.parallel import completed
from weightsmith.core.records import Origin, Record

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

    Values of a setting are numbers, text, truth, None, lists of these, or option objects; the table holds options and
    lists in their text form. ``workers`` and ``cluster`` are those of :func:`weightsmith.core.parallel.completed`.
    With ``journal``, a file, each row is kept as it finishes, and the same call again computes only what is missing;
    ``inputs`` are digests of what else the function reads (data, a network), so that the journal of one data set is
    not taken for that of another. ``on_row`` is called here with each row: those of the journal first, the others as
    they finish.

    What the function raises comes as a :class:`WeightsmithError` that names the setting, with the error as its cause;
    the rows finished before it are in the journal.
    """
    calls = calls_of(settings, seeds)
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
        steps = completed(functools.partial(timed, function), tasks, workers=workers, cluster=cluster)
        # Closed by name: an error below would otherwise keep the workers busy for as long as it is looked at.
        for place, (values, seconds) in stack.enter_context(contextlib.closing(steps)):
            rows.check(missing[place], values)
            if kept is not None:
                kept.append(tasks[place].key, values, seconds)
            rows.take(missing[place], values)
    return SweepTable(name, tuple(calls[0].written)[:-1], *rows.in_order(), origin)


class _Rows:
    """The rows as they come, each checked against the first."""

    def __init__(self, calls: Sequence[Call], on_row: Callable[[dict[str, Any]], object] | None) -> None:
        self._calls, self._on_row = calls, on_row
        self._values: dict[int, dict[str, Any]] = {}

    def take_kept(self, kept: Mapping[str, dict[str, Any]]) -> list[int]:
        """Take what is kept; the indices of the calls that are still to be made."""
        missing = []
        for index, call in enumerate(self._calls):
            if call.key in kept:
                self.take(index, kept[call.key])
            else:
                missing.append(index)
        return missing

    def check(self, index: int, values: dict[str, Any]) -> None:
        """Refuse a row whose columns are not those of the others."""
        for other, others in itertools.islice(self._values.items(), 1):
            if odd := set(values) ^ set(others):
                raise UsageError(
                    f"only one of {self._calls[other]} and {self._calls[index]} returned {min(odd)!r}: all rows need "
                    "the same columns; return None for what a setting does not have"
                )

    def take(self, index: int, values: dict[str, Any]) -> None:
        """Add a row and tell the caller of it."""
        self._values[index] = values
        if self._on_row is not None:
            self._on_row({**self._calls[index].written, **values})

    def in_order(self) -> tuple[tuple[str, ...], tuple[dict[str, Any], ...]]:
        """The columns, in the order of the first row, and all rows, in the order of the calls."""
        columns = (*self._calls[0].written, *self._values[0])
        rows = ({**call.written, **self._values[index]} for index, call in enumerate(self._calls))
        return columns, tuple({column: row[column] for column in columns} for row in rows)


def _name_of(function: Callable[..., Any]) -> str:
    """Where the function is defined; of a partial one, the function inside."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
