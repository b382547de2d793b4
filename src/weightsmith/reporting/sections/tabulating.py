"""The section of a sweep over settings and seeds: every run, and summaries over seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weightsmith.core.sweep import SweepSummary, SweepTable
from weightsmith.reporting._words import number_text
from weightsmith.reporting.parts import Cell, Column, Part, Section, Shown, Table
from weightsmith.reporting.sections._wording import counted, facts_of, setting_text, significant

__all__ = ["table_section"]

_SEED = "seed"
_ACCURACIES = ("validation_accuracy", "best_validation_accuracy", "test_accuracy")  # of a sweep of trainings


def table_section(sweep: SweepTable, name: str) -> Section:
    """The section of a sweep named ``name``."""
    varied = [column for column in sweep.names if column in sweep.columns]
    settings = len({tuple(setting_text(row.get(column)) for column in varied) for row in sweep.rows})
    seeds = len({setting_text(row.get(_SEED)) for row in sweep.rows})
    trained = list(_trainings(sweep, seeds))
    parts: list[Part] = [*trained, *_summaries(sweep, varied, seeds), _rows(sweep, varied)]
    if trained:  # a terminal leaves the others to the page
        parts = [*trained, *(replace(each, detail=True) for each in parts[1:] if isinstance(each, Table))]
    parts.append(facts_of({}, sweep.origin, before=[("function", sweep.function)]))
    runs = f"{counted(len(sweep.rows), 'run')}: {counted(settings, 'setting')}, {counted(seeds, 'seed')}."
    lead = f"{runs} Varied: {', '.join(varied) or 'nothing'}."
    lost = bool(trained) and all(row["stopped"] == "diverged" for row in sweep.rows)
    look_at = ("every run diverged: try lower rates, or find one with weightsmith train … --find-rate",) * lost
    chips = (("settings", f"{settings:,}"), ("seeds", f"{seeds:,}"))
    return Section(f"Table: {name}", lead, tuple(parts), chips, look_at=look_at)


def _trainings(sweep: SweepTable, seeds: int) -> Iterator[Table]:
    """A row per setting of a sweep of trainings: accuracies over seeds, the best one, and what went wrong."""
    if not {*_ACCURACIES, "epochs", "stopped", "gradients"} <= set(sweep.columns):
        return
    found = {column: sweep.summary(column) for column in (*_ACCURACIES, "epochs")}
    means = [each.mean for each in found["validation_accuracy"]]
    best = max((mean for mean in means if mean is not None), default=None)
    rows: list[tuple[Cell | Shown, ...]] = []
    for index, (first, wrong) in enumerate(zip(found["validation_accuracy"], _unhealthy(sweep), strict=True)):
        setting = ["none" if value is None else setting_text(value) for value in first.setting.values()]
        remarks = [*(["← best"] if best is not None and first.mean == best else []), *wrong]
        cells = (_share(found[column][index]) for column in _ACCURACIES)
        epochs = found["epochs"][index].mean
        rows.append((*(setting or ["all"]), *cells, Shown(epochs, significant(epochs)), ", ".join(remarks)))
    over = f"{seeds} seeds: mean ± standard deviation" if seeds > 1 else "1 seed"
    columns = (
        *(Column(name) for name in (sweep.names or ("setting",))),
        Column("validation", "after the last epoch", numeric=True),
        Column("best epoch", "validation in the best epoch", numeric=True),
        Column("test", "with the weights at the end", numeric=True),
        Column("epochs", numeric=True),
        Column(""),
    )
    yield Table("Trainings", columns, tuple(rows), f"{over}; accuracies of runs that did not diverge.", "trainings.csv")


def _share(summary: SweepSummary) -> Shown:
    if summary.mean is None:
        return Shown(None, "–")
    spread = "" if summary.deviation is None else f" ± {100 * summary.deviation:.2f}"
    return Shown(summary.mean, f"{100 * summary.mean:.2f}{spread} %")


def _unhealthy(sweep: SweepTable) -> list[list[str]]:
    """Problems per setting with the number of runs: diverged, or unhealthy gradients."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sweep.rows:
        groups.setdefault(tuple(repr(row[name]) for name in sweep.names), []).append(row)
    found = []
    for rows in groups.values():
        words = [row["stopped"] if row["stopped"] == "diverged" else row["gradients"] for row in rows]
        wrong = dict.fromkeys(word for word in words if word not in (None, "healthy", "frozen"))
        found.append([f"{words.count(word)} of {len(rows)} {word}" for word in wrong])
    return found


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
