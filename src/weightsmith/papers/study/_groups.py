"""The work of a study: the networks of one initial size and repeat are trained together, reduced one by one."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.parallel import completed
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Origin
from weightsmith.papers.study.batched import FoldNetwork, train_batched
from weightsmith.papers.study.folds import StudyFold, StudyPlan
from weightsmith.papers.study.rows import StudyData
from weightsmith.papers.study.shallow import Shallow
from weightsmith.reducing.study_table import WHOLE, StudyRow

__all__ = ["rows_of"]


def rows_of(data: StudyData, plan: StudyPlan, out: Path | None, progress: StepCallback | None) -> tuple[StudyRow, ...]:
    """The rows of every group, from the journal or computed, in the order of initial sizes and repeats."""
    groups = [(hidden, repeat) for hidden in plan.hidden for repeat in range(plan.repeats)]
    keys = [f"hidden {hidden}, repeat {repeat}" for hidden, repeat in groups]
    call = {"study": plan.written(), **Origin(plan.seed, {"data": data.digest()}).to_dict()}
    found: dict[str, list[dict[str, Any]]] = {}
    with contextlib.ExitStack() as stack:
        journal = None if out is None else stack.enter_context(Journal(out / "journal.jsonl", call))
        found.update(journal or {})
        missing = [index for index, key in enumerate(keys) if key not in found]
        steps = completed(functools.partial(_group, data, plan), [groups[index] for index in missing])
        for index, (rows, seconds) in stack.enter_context(contextlib.closing(steps)):
            found[keys[missing[index]]] = rows
            if journal is not None:
                journal.append(keys[missing[index]], rows, seconds)
            if progress is not None:
                progress(len(found), len(groups))
    return tuple(StudyRow.from_dict(row) for key in keys for row in found[key])


def _group(data: StudyData, plan: StudyPlan, group: tuple[int, int]) -> tuple[list[dict[str, Any]], float]:
    """All folds of one initial size and repeat: trained together, reduced one by one."""
    start = time.perf_counter()
    hidden, repeat = group
    folds = data.folds(plan.folds, plan.seed, repeat)
    study_folds = [StudyFold(data, fold, plan, repeat, number) for number, fold in enumerate(folds)]
    networks = _trained([study_fold.task(hidden, "network") for study_fold in study_folds], data, plan)
    rows = [study_fold.reduced(network) for study_fold, network in zip(study_folds, networks, strict=True)]
    if plan.scratch:
        rows = _with_scratch_baseline(study_folds, rows, data, plan)
    return [row.to_dict() for several in rows for row in several], time.perf_counter() - start


def _trained(tasks: Sequence[FoldNetwork], data: StudyData, plan: StudyPlan) -> list[Shallow]:
    networks = train_batched(tasks, len(data.classes), plan.recipe)
    for network in networks:
        if not network.finite:
            raise UsageError(
                f"a network of {network.units} units diverged at the rate {plan.recipe.rate:g} with the scaling "
                f"{plan.scaling}; use a lower rate, or scaling='zscore'"
            )
    return networks


def _with_scratch_baseline(
    study_folds: Sequence[StudyFold], rows: Sequence[list[StudyRow]], data: StudyData, plan: StudyPlan
) -> list[list[StudyRow]]:
    """The rows with the from-scratch accuracy at their size; methods that end at the same size in a fold share it."""
    wanted = {
        (number, row.units): study_fold.task(row.units, "scratch")
        for number, (study_fold, several) in enumerate(zip(study_folds, rows, strict=True))
        for row in several
        if row.method != WHOLE
    }
    networks = dict(zip(wanted, _trained(list(wanted.values()), data, plan), strict=True))
    return [
        [
            row
            if row.method == WHOLE
            else dataclasses.replace(row, scratch_accuracy=study_folds[number].tested(networks[number, row.units]))
            for row in several
        ]
        for number, several in enumerate(rows)
    ]
