"""The section of a sweep over settings and seeds: every run, and summaries over seeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weightsmith.core.sweep import SweepTable
from weightsmith.reporting._words import number_text
from weightsmith.reporting.parts import Cell, Column, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import counted, facts_of, setting_text

__all__ = ["table_section"]

_SEED = "seed"


def table_section(sweep: SweepTable, name: str) -> Section:
    """The section of a sweep named ``name``."""
    varied = [column for column in sweep.names if column in sweep.columns]
    settings = len({tuple(setting_text(row.get(column)) for column in varied) for row in sweep.rows})
    seeds = len({setting_text(row.get(_SEED)) for row in sweep.rows})
    parts: list[Part] = [*_summaries(sweep, varied, seeds), _rows(sweep, varied)]
    parts.append(facts_of({}, sweep.origin, before=[("function", sweep.function)]))
    runs = f"{counted(len(sweep.rows), 'run')}: {counted(settings, 'setting')}, {counted(seeds, 'seed')}."
    lead = f"{runs} What was varied: {', '.join(varied) or 'nothing'}."
    return Section(f"Table: {name}", lead, tuple(parts), (("settings", f"{settings:,}"), ("seeds", f"{seeds:,}")))


def _numbers(sweep: SweepTable, varied: list[str]) -> list[str]:
    """The result columns that hold only numbers."""
    results = [column for column in sweep.columns if column not in (*varied, _SEED)]
    return [
        column
        for column in results
        if any(row.get(column) is not None for row in sweep.rows)
        and all(_is_number(row.get(column)) for row in sweep.rows)
    ]


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _summaries(sweep: SweepTable, varied: list[str], seeds: int) -> Iterator[Table]:
    """A row per setting with the mean of each result over seeds, if there are several."""
    found = _numbers(sweep, varied)
    if seeds < 2 or not found or any(set(row) != set(sweep.columns) for row in sweep.rows):
        return
    by_column = {column: sweep.summary(column, by=varied) for column in found}
    columns = [Column("setting"), Column("seeds", "with a value of the first result", numeric=True)]
    columns += [Column(column, "mean ± standard deviation over seeds", numeric=True) for column in found]
    rows: list[tuple[Cell | Shown, ...]] = []
    for index, first in enumerate(by_column[found[0]]):
        cells: list[Cell | Shown] = []
        for column in found:
            each = by_column[column][index]
            spread = "" if each.deviation is None else f" ± {each.deviation:.2g}"
            cells.append(Shown(each.mean, number_text(each.mean) + spread))
        setting = ", ".join(f"{key} = {setting_text(value)}" for key, value in first.setting.items())
        rows.append((setting or "all", first.n, *cells))
    yield Table("Settings over seeds", tuple(columns), tuple(rows), file="settings.csv")


def _rows(sweep: SweepTable, varied: list[str]) -> Table:
    numeric = {*_numbers(sweep, varied), _SEED}
    columns = (Column("run"), *(Column(column, numeric=column in numeric) for column in sweep.columns))
    rows = tuple(
        (number, *(_cell(row.get(column)) for column in sweep.columns)) for number, row in enumerate(sweep.rows, 1)
    )
    return Table("Runs", columns, rows, file="runs.csv")


def _cell(value: Any) -> Cell:
    return value if _is_number(value) or isinstance(value, str) else setting_text(value)
