"""``reduction_study``: the paper's protocol on any table, with the spread, the tests and two more baselines.

For each initial size, repeat and fold one network is trained; every method reduces that same network. The baselines of
each result are random masks of the same size and a network of that size trained from scratch in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Range
from weightsmith.core.progress import StepCallback, as_callback
from weightsmith.core.records import Origin, write_record
from weightsmith.core.storage import write_atomic
from weightsmith.core.verbs import Cluster, Doc, Seed, Workers, verb

if TYPE_CHECKING:
    from weightsmith.reducing.methods import Method
    from weightsmith.reducing.study_table import Study

__all__ = ["METHODS", "Scaling", "reduction_study"]

Scaling: TypeAlias = Literal["zscore", "minmax", "rowl2", "none"]

METHODS = (
    "angles:15,merge=outputs,complementary=remove",
    "angles:45,merge=outputs,complementary=remove",
    "genetic:0",
    "genetic:50",
)
"""The four methods that the paper compares, with its settings."""


@verb(types=("reducing.methods",))
def reduction_study(
    data: Any,
    *,
    hidden: Annotated[
        Sequence[int] | int, Range(ge=1, min_length=1), Doc("hidden units of the networks that are trained")
    ] = (20, 50, 100),
    methods: Annotated[
        Sequence[Method | str] | Method | str,
        Doc("angles:45, groups:15, genetic:50, pareto …; without it the paper's four", flag="--by"),
    ] = METHODS,
    rate: Annotated[float, Range(gt=0), Doc("learning rate of Adam")] = 0.01,
    epochs: Annotated[int, Range(ge=1), Doc("passes over the training rows")] = 300,
    batch: Annotated[int, Range(ge=1), Doc("rows per step of training")] = 32,
    folds: Annotated[int, Range(ge=2), Doc("number of folds; each is the test set once")] = 10,
    repeats: Annotated[int, Range(ge=1), Doc("number of different divisions into folds")] = 5,
    scaling: Annotated[Scaling, Doc("of the inputs, fitted on the training rows of each fold")] = "zscore",
    activation: Annotated[str, Doc("of the hidden units: sigmoid, tanh, relu …")] = "sigmoid",
    initialiser: Annotated[str | None, Doc("of the weights: torch-default, glorot …", rare=True)] = "torch-default",
    random: Annotated[int, Range(ge=0), Doc("random masks of equal size for comparison")] = 10,
    scratch: Annotated[bool, Doc("train a network of the reduced size for comparison")] = True,
    seed: Seed = 0,
    workers: Workers = 1,  # noqa: ARG001 (all maps in a verb use them)
    cluster: Cluster = None,  # noqa: ARG001
    out: str | Path | None = None,
    progress: StepCallback | bool | None = None,
) -> Study:
    """Train networks of one hidden layer by repeated stratified k-fold, reduce each by all ``methods``, and compare.

    All rows of ``data`` are divided again in each of the ``repeats``. ``scaling`` (``zscore``, ``minmax``, ``rowl2``,
    ``none``) is fitted on the training rows of each fold. The networks have ``hidden`` units and are trained by Adam
    with batches of ``batch`` rows. ``random`` masks of equal size, and with ``scratch`` a network of the reduced size
    trained from scratch, are the baselines of every result. With ``out``, a folder, the study is written there as
    study.json and study.csv, and the same call resumes where it stopped. ``progress`` is called with the number of
    groups of networks (a group for each initial size and repeat) done and in all.

    >>> import weightsmith as ws
    >>> study = reduction_study("digits", hidden=[8], methods=["angles:45"], epochs=2, folds=2, repeats=1)
    >>> [(found.method, found.n) for found in study.summaries]
    [('whole', 2), ('angles:45.0', 2)]
    """
    from weightsmith.networks.models.mlp import Mlp
    from weightsmith.papers.study._groups import rows_of
    from weightsmith.papers.study.batched import TrainingSettings
    from weightsmith.papers.study.folds import StudyPlan
    from weightsmith.papers.study.rows import read_study_data
    from weightsmith.reducing.study_table import Study, slopes, summaries

    plan = StudyPlan(
        hidden=_distinct(hidden),
        methods=_deciding(methods),
        recipe=TrainingSettings(rate, epochs, batch, activation, initialiser),
        folds=folds,
        repeats=repeats,
        scaling=scaling,
        seed=seed,
        random=random,
        scratch=scratch,
    )
    known = read_study_data(data)
    known.check_folds(plan.folds)
    Mlp((1,), activation=activation, initialiser=initialiser)  # refuse a wrong name before any training
    rows = rows_of(known, plan, None if out is None else Path(out), as_callback(progress))
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


def _deciding(methods: Any) -> tuple[Method, ...]:
    """The methods of a study, each once; they must determine themselves how much to remove."""
    if not methods:
        raise UsageError(f"a study needs at least one method, such as {METHODS[1]}")
    for index, method in enumerate(methods):
        if method.needs_target:
            raise UsageError(
                f"{method} does not determine how much to remove; a study takes methods that decide themselves"
            )
        if method in methods[:index]:
            raise UsageError(f"the study holds {method} twice")
    return tuple(methods)


def _distinct(hidden: Any) -> tuple[int, ...]:
    if len(set(hidden)) < len(hidden):
        raise UsageError(f"hidden must be at least one number of units, each once, not {list(hidden)}")
    return tuple(hidden)
