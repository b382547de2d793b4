"""A study: the paper's protocol on any table, with the spread, the tests and the two baselines that it left out.

For each initial size, repeat and fold one network is trained; every method reduces that same network. The baselines of
each result are random masks of as many units and a network of that size trained from scratch in the same way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.core.options import check_int
from weightsmith.core.parallel import completed
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Origin, write_record
from weightsmith.core.storage import write_atomic
from weightsmith.networks.models.mlp import Mlp
from weightsmith.papers.study.batched import FoldNetwork, TrainingSettings, train_batched
from weightsmith.papers.study.folds import StudyFold, StudyPlan
from weightsmith.papers.study.rows import Scaling, StudyData, check_scaling, read_study_data
from weightsmith.papers.study.shallow import Shallow
from weightsmith.reducing.criteria.angles import Angles
from weightsmith.reducing.methods import Method
from weightsmith.reducing.search.genetic import Genetic
from weightsmith.reducing.study_table import WHOLE, Study, StudyRow, slopes, summaries

__all__ = ["METHODS", "read_methods", "reduction_study"]

METHODS: tuple[Method, ...] = (
    Angles(15, merge="outputs", complementary="remove"),
    Angles(45, merge="outputs", complementary="remove"),
    Genetic(0),
    Genetic(50),
)
"""The four that the paper compares, as it did them."""


def reduction_study(
    data: Any,
    *,
    hidden: Sequence[int] = (20, 50, 100),
    methods: Iterable[Method | str] = METHODS,
    rate: float = 0.01,
    epochs: int = 300,
    batch: int = 32,
    folds: int = 10,
    repeats: int = 5,
    scaling: Scaling | str = "zscore",
    activation: str = "sigmoid",
    initialiser: str | None = "torch-default",
    seed: int = 0,
    random: int = 10,
    scratch: bool = True,
    workers: int = 1,
    out: str | Path | None = None,
    progress: StepCallback | None = None,
) -> Study:
    """Train networks of one hidden layer by repeated stratified k-fold, reduce each by all ``methods``, and compare.

    All rows of ``data`` are divided anew in each of the ``repeats``. ``scaling`` (``zscore``, ``minmax``, ``rowl2``,
    ``none``) is fitted on the training rows of each fold. The networks have ``hidden`` units and are trained by Adam
    with batches of ``batch`` rows. ``random`` masks of equal size, and with ``scratch`` a network of the reduced size
    trained from scratch, are the baselines of every result. With ``out``, a folder, the study is written there as
    study.json and study.csv, and the same call goes on where it was stopped. ``progress`` is called with the number of
    groups of networks (a group for each initial size and repeat) done and in all.

    >>> import weightsmith as ws
    >>> study = reduction_study("digits", hidden=[8], methods=["angles:45"], epochs=2, folds=2, repeats=1)
    >>> [(found.method, found.n) for found in study.summaries]
    [('whole', 2), ('angles:45.0', 2)]
    """
    plan = StudyPlan(
        hidden=_several("hidden", hidden),
        methods=read_methods(methods),
        recipe=TrainingSettings(
            _positive("rate", rate), check_int("epochs", epochs), check_int("batch", batch), activation, initialiser
        ),
        folds=check_int("folds", folds, least=2),
        repeats=check_int("repeats", repeats),
        scaling=check_scaling(scaling),
        seed=check_int("seed", seed, least=0),
        random=check_int("random", random, least=0),
        scratch=bool(scratch),
    )
    known = read_study_data(data)
    known.check_folds(plan.folds)
    Mlp((1,), activation=activation, initialiser=initialiser)  # a wrong name is refused before anything is trained
    rows = _rows(known, plan, workers, None if out is None else Path(out), progress)
    study = Study(
        data=known.name,
        rows_of_data=len(known),
        features=known.features,
        classes=known.classes,
        settings=plan.written(),
        rows=rows,
        summaries=summaries(rows, plan.folds),
        slopes=slopes(rows),
        notes=known.notes,
        origin=Origin(plan.seed, {"data": known.digest()}),
    )
    if out is not None:
        write_atomic(Path(out) / "study.csv", study.to_csv())
        write_record(Path(out) / "study.json", study)
    return study


def _rows(
    data: StudyData, plan: StudyPlan, workers: int, out: Path | None, progress: StepCallback | None
) -> tuple[StudyRow, ...]:
    """The rows of every group, from the journal or computed, in the order of initial sizes and repeats."""
    groups = [(hidden, repeat) for hidden in plan.hidden for repeat in range(plan.repeats)]
    keys = [f"hidden {hidden}, repeat {repeat}" for hidden, repeat in groups]
    call = {"study": plan.written(), **Origin(plan.seed, {"data": data.digest()}).to_dict()}
    found: dict[str, list[dict[str, Any]]] = {}
    with contextlib.ExitStack() as stack:
        journal = None if out is None else stack.enter_context(Journal(out / "journal.jsonl", call))
        found.update(journal or {})
        missing = [index for index, key in enumerate(keys) if key not in found]
        steps = completed(functools.partial(_group, data, plan), [groups[index] for index in missing], workers=workers)
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


def read_methods(given: Iterable[Method | str]) -> tuple[Method, ...]:
    """The methods of a study, which must decide themselves how much goes; each once."""
    found = tuple(map(Method.of, [given] if isinstance(given, str | Method) else given))
    if not found:
        raise UsageError(f"a study needs a method to reduce by, such as {METHODS[1]}")
    for index, method in enumerate(found):
        if method.needs_target:
            raise UsageError(f"{method} cannot tell how much to take out; a study takes methods that decide themselves")
        if str(method) in map(str, found[:index]):
            raise UsageError(f"the study holds {method} twice")
    return found


def _several(name: str, given: Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(check_int(name, value) for value in ([given] if isinstance(given, int) else given))
    if not numbers or len(set(numbers)) < len(numbers):
        raise UsageError(f"{name} must be at least one number of units, each once, not {list(numbers)}")
    return numbers


def _positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} must be a number > 0, not {value!r}")
    return float(value)
