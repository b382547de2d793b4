"""Reduce a trained network to a smaller dense one, and measure the cost against baselines."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from weightsmith.core.errors import UsageError
from weightsmith.core.identity import check_identity
from weightsmith.core.journal import Journal
from weightsmith.core.options import Range
from weightsmith.core.progress import ProgressCallback, as_callback
from weightsmith.core.records import Origin, write_record
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.verbs import Batch, Cluster, Device, Doc, Seed, Threads, Workers, verb, written

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.networks.layer_plan import LayerPlan
    from weightsmith.reducing.budget import BudgetRecord
    from weightsmith.reducing.measuring import Baselines
    from weightsmith.reducing.methods import Method
    from weightsmith.reducing.planning import Planned
    from weightsmith.reducing.recovery.recover import FineTune, Recover
    from weightsmith.reducing.refitting.options import Refit
    from weightsmith.reducing.results import Reduction, ReductionRecord
    from weightsmith.reducing.rounds import Outcome, Task
    from weightsmith.reducing.search.fitness import Fitness, Price
    from weightsmith.reducing.subject import Subject
    from weightsmith.reducing.surgery.sites import Site
    from weightsmith.reducing.surgery.sizes import SizeModel, Target
    from weightsmith.training.run import TrainRun

__all__ = ["reduce"]


@verb(types=("reducing.methods", "reducing.surgery.sizes", "reducing.recovery.recover", "reducing.refitting.options"))
def reduce(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    by: Annotated[
        Method | str,
        Doc(
            "units to drop: error, angles:45, groups:15, folding, genetic:50, pareto, magnitude, scale, taylor, random"
        ),
    ],
    target: Annotated[
        Target | str | None, Doc("how much to keep: params:0.5 or macs:0.5; without it the method decides")
    ] = None,
    plan: Annotated[
        LayerPlan | str | Path | None,
        Doc(
            "how a target is shared out: error (default with a refit), uniform, norm, a plan's file; as text also alpha"
        ),
    ] = None,
    layers: Annotated[str | Sequence[str] | None, Doc("only layers whose name fits one of these patterns")] = None,
    refit: Annotated[
        Refit | str,
        Doc("how the layers that read removed units are refitted, without labels: least-squares:ridge=1e-4 or none"),
    ] = "least-squares",
    recover: Annotated[
        Recover | str | None,
        Doc("recovery: distill (no labels), recalibrate, fine-tune:5, rewind:3 (the run's epoch) or iterate:3"),
    ] = None,
    rows: Annotated[
        int | None, Range(ge=1), Doc("training rows for the method and the refit; by default all, and 2,000")
    ] = None,
    test_rows: Annotated[int | None, Range(ge=1), Doc("test rows for the final evaluation; all by default")] = None,
    fitness: Annotated[Fitness | None, Doc("function of accuracies and masks that genetic search maximises")] = None,
    price: Annotated[Price | None, Doc("function of masks that replaces the number of units in genetic search")] = None,
    random: Annotated[int, Range(ge=0), Doc("random masks of the same size to compare with")] = 10,
    scratch: Annotated[FineTune | str | None, Doc("also train the small network from scratch, as fine-tune:20")] = None,
    scratch_seeds: Annotated[Sequence[int] | int, Range(ge=0), Doc("seeds of the networks from scratch", rare=True)] = (
        0,
        1,
        2,
    ),
    latency: Annotated[bool, Doc("measure the time per image before and after", recorded=False, rare=True)] = True,
    seed: Seed = 0,
    batch: Batch = 256,
    threads: Threads = 1,
    device: Device = "cpu",
    workers: Workers = 1,
    cluster: Cluster = None,
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Reduction:
    """A smaller copy of ``network`` without the units that ``by`` chooses; the result is an ordinary dense network.

    ``by`` uses the training split of ``data`` (``rows`` rows of it, drawn by the seed; None: all), and the test split
    evaluates the result (``test_rows`` of it; else validation or training rows). Without ``target`` the method decides
    how many units to remove; with one (``Params(0.5)``, ``Macs(0.5)``) every site keeps the share that ``plan`` gives
    it (``"uniform"``, ``"norm"``, a :class:`LayerPlan` or its file), all scaled by one factor until the target is met,
    or loses units where the outputs change least (``"error"``, the default with a refit). ``layers`` are globs of the
    layers that may lose units. ``refit`` then fits every layer that reads removed units to its outputs in the original
    network, by least squares on unlabelled training rows (``rows`` of them, or 2,000); ``"none"`` leaves them as the
    cut made them. ``recover`` trains the smaller network (``Distill``, without labels, ``FineTune``, ``Rewind``,
    ``Iterate``); if that is no better on held-back rows, the network stays as it was cut, with a warning. Rewinding
    needs a ``TrainRun``, or its folder, with the epoch kept.

    The baselines are ``random`` masks of the same size, and with ``scratch`` networks of that size trained from
    scratch. ``fitness`` and ``price`` are functions of your own for genetic search. With ``out``, a folder, network and
    record are written, searches and training keep their state there, and the same call resumes an interrupted one.

    >>> import weightsmith as ws
    >>> digits = ws.data.load("digits")
    >>> run = ws.train("mlp:40,activation=sigmoid", digits, optimiser="adam", schedule=0.01, epochs=10)
    >>> small = reduce(run.network, digits, by="angles:45", latency=False)
    >>> small.network.dense1.out_features < 40
    True
    """
    from weightsmith.reducing.measuring import Baselines
    from weightsmith.reducing.methods import Method
    from weightsmith.reducing.planning import planned_task
    from weightsmith.reducing.recovery.recover import FineTune, Recover
    from weightsmith.reducing.refitting.options import Refit
    from weightsmith.reducing.rounds import Task
    from weightsmith.reducing.subject import check_device, read_subject
    from weightsmith.reducing.surgery.probing import cuttable_sites
    from weightsmith.reducing.surgery.sizes import Target

    settings = written(reduce, locals())
    method = Method.of(by)
    task = Task(
        method=method,
        target=None if target is None else Target.of(target),
        refit=Refit.of(refit),
        recovery=None if recover is None else Recover.of(recover),
        shares=None,
        budget=None,
        fitness=fitness,
        price=price,
        seed=seed,
        batch=batch,
        threads=threads,
        device=device,
        folder=None if out is None else Path(out),
        progress=as_callback(progress),
    )
    seeds = (scratch_seeds,) if isinstance(scratch_seeds, int) else tuple(scratch_seeds)
    baselines = Baselines(random, FineTune.of(scratch) if scratch else None, seeds, latency)
    check_device(device)
    _check_own_functions(method, fitness, price, task.folder)
    if method.needs_target and target is None and plan is None:
        raise UsageError(f"{method} does not determine how much to remove; give a target (params:0.5) or a plan")
    with pinned_threads(task.threads):
        subject = read_subject(network, data, rows=rows, test_rows=test_rows, seed=task.seed)
        found = cuttable_sites(subject.network, subject.example)
        sites = found.matching(layers)
        planned = planned_task(subject, plan, sites, task)
        settings |= {
            "plan": planned.source,
            "scratch_seeds": list(baselines.seeds) if baselines.scratch is not None else [],
        }
        with _journal(subject, planned.task, settings) as journal:
            return _reduced(
                subject,
                sites,
                planned,
                baselines=baselines,
                settings=settings,
                obstacles=found.obstacles,
                journal=journal,
            )


@contextlib.contextmanager
def _journal(subject: Subject, task: Task, settings: dict[str, Any]) -> Iterator[Journal | None]:
    """The journal of this call in its folder, if it has one; the journal of another call is refused."""
    from weightsmith.networks.card import card_of, meaning_digest

    if task.folder is None:
        yield None
        return
    card = meaning_digest(card_of(subject.network))  # equal weights with another normalisation are another network
    call = {"settings": settings, "card": card, **Origin(seed=task.seed, inputs=subject.inputs).to_dict()}
    with Journal(task.folder / "journal.jsonl", call) as journal:
        yield journal


def _reduced(
    subject: Subject,
    sites: tuple[Site, ...],
    planned: Planned,
    *,
    baselines: Baselines,
    settings: dict[str, Any],
    obstacles: dict[str, str],
    journal: Journal | None,
) -> Reduction:
    """Cut, recover, measure and write."""
    from weightsmith.reducing.measuring import latency_of
    from weightsmith.reducing.results import Reduction
    from weightsmith.reducing.rounds import carry_out
    from weightsmith.training.plan import TrainingWarning

    task = planned.task
    outcome = carry_out(subject, sites, task)
    for judged in outcome.recovery:
        if judged.kept == "cut":
            warnings.warn(str(judged), TrainingWarning, stacklevel=5)  # beyond the check of options
    record = _record(
        subject,
        sites,
        task,
        outcome,
        baselines=baselines,
        settings={"data": subject.data.name, **settings},
        obstacles=obstacles,
        notes=(*planned.notes, *_few_rows(subject, sites, task.method)),
        budget=planned.record,
    )
    speed = latency_of(subject, outcome.network, task) if baselines.latency else None
    result = Reduction(record, outcome.network, speed)
    if task.folder is not None:
        _write(task.folder, result)
    if journal is not None and speed is not None and "latency" not in journal:
        journal.append("latency", dataclasses.asdict(speed), seconds=0.0)
    return result


def _check_own_functions(method: Method, fitness: Fitness | None, price: Price | None, folder: Path | None) -> None:
    """Refuse functions that the method does not call, or that cannot be told apart when the call is resumed."""
    from weightsmith.reducing.methods import Genetic, Pareto

    functions: dict[str, Any] = {"fitness": fitness, "price": price}
    for name, own in functions.items():
        if own is not None and not callable(own):
            hint = "; ws.price_of(…) makes one from a text" if name == "price" else ""
            raise UsageError(f"{name} must be a function, not {own!r}{hint}")
        if folder is not None:
            check_identity(name, own)
        if own is not None and not isinstance(method, Genetic | Pareto):
            raise UsageError(f"{method} does not use a {name} of your own: only genetic search does")
    if fitness is not None and isinstance(method, Pareto):
        raise UsageError(f"{method} optimises accuracy and size, not a fitness of your own; give it a price")


def _few_rows(subject: Subject, sites: tuple[Site, ...], method: Method) -> tuple[str, ...]:
    """Warn if there are fewer rows than units: some units then look redundant that are not."""
    most = max((site.units for site in sites if site.kind == "dense"), default=0)
    if method.needs_target or len(subject.train) >= most:
        return ()
    return (
        f"{len(subject.train)} rows are fewer than the {most} units of a layer: units may look redundant that are not",
    )


def _record(
    subject: Subject,
    sites: tuple[Site, ...],
    task: Task,
    outcome: Outcome,
    *,
    baselines: Baselines,
    settings: dict[str, Any],
    obstacles: dict[str, str],
    notes: tuple[str, ...],
    budget: BudgetRecord | None,
) -> ReductionRecord:
    from weightsmith.networks.card import weights_digest
    from weightsmith.networks.models.architecture import architecture_of
    from weightsmith.reducing.measuring import measured, random_baseline, scratch_baseline, size_of
    from weightsmith.reducing.results import ReductionRecord
    from weightsmith.reducing.surgery.sizes import SizeModel

    architecture = architecture_of(subject.network)
    example = subject.example[:2]
    sizes = SizeModel(subject.network, sites, example)
    return ReductionRecord(
        settings=settings,
        network=type(subject.network).__name__ if architecture is None else str(architecture),
        sites=outcome.sites,
        obstacles=obstacles,
        whole=size_of(subject.network, sizes, {}, example),
        reduced=size_of(outcome.network, sizes, {site.name: site.after for site in outcome.sites}, example),
        difference=outcome.difference,
        measured=measured(subject, task, outcome),
        random=random_baseline(subject, sites, task, outcome, baselines.random),
        scratch=scratch_baseline(subject, task, outcome, baselines),
        trace=outcome.decision.trace,
        front=outcome.decision.front,
        training=outcome.training,
        notes=(*notes, *outcome.notes, *_unmet(task.target, sizes, outcome)),
        result=weights_digest(outcome.network),
        origin=Origin(seed=task.seed, inputs=subject.inputs),
        recovery=outcome.recovery,
        refit=outcome.refit,
        fidelity=outcome.fidelity,
        budget=budget,
    )


def _unmet(target: Target | None, sizes: SizeModel, outcome: Outcome) -> tuple[str, ...]:
    """Warn if the target is missed: a site was refused, or the method found no more units."""
    from weightsmith.reducing.results import TARGET_MISSED

    if target is None:
        return ()
    left = sizes.size({site.name: site.after for site in outcome.sites}, target.measure)
    share = left / sizes.size({}, target.measure)
    return () if share <= target.keep else (f"{TARGET_MISSED}: {share:.1%} of the {target.measure} are left",)


def _write(folder: Path, result: Reduction) -> None:
    """Write the files of a reduction: the network, then the record, which marks it as complete."""
    from weightsmith.networks.files import save

    save(result.network, folder / "network.safetensors")
    write_record(folder / "record.json", result.record)
