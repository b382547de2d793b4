"""Choose, cut, recover: once, or in several rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import ProgressCallback, StepCallback, for_stage
from weightsmith.networks.editing.attention import close_heads
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.reducing.budget import Budget
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice, Decision
from weightsmith.reducing.fidelity import Fidelity, fidelity_of
from weightsmith.reducing.recovery.distilling import distilled, watched_layers
from weightsmith.reducing.recovery.judging import HeldBack, Recovery, compared, held_back, held_back_by
from weightsmith.reducing.recovery.recover import (
    Distill,
    FineTune,
    Iterate,
    Recalibrate,
    Recover,
    Rewind,
    check_has_norms,
    fine_tuned,
    recalibrated,
    round_targets,
)
from weightsmith.reducing.recovery.rewinding import original_of, rewound
from weightsmith.reducing.refitting.options import LeastSquares, Refit
from weightsmith.reducing.refitting.refit import RefitRecord, refit
from weightsmith.reducing.results import SiteReduction, site_reductions
from weightsmith.reducing.search.evaluator import Masks
from weightsmith.reducing.subject import Subject
from weightsmith.reducing.surgery.masking import masked
from weightsmith.reducing.surgery.probing import cuttable_sites
from weightsmith.reducing.surgery.rebuilding import rebuilt
from weightsmith.reducing.surgery.removal import cut_out, plain_cut
from weightsmith.reducing.surgery.sites import Site
from weightsmith.reducing.surgery.sizes import SizeModel, Target, counts_for_target
from weightsmith.training.run import Progress, TrainRecord
from weightsmith.training.stopping import KeepBest

__all__ = ["Outcome", "Task", "carry_out"]

CHANGED = (
    "the network was changed since it was built, so its architecture does not describe it: the result is a plain "
    "module, which a function of your own must build to reload it"
)
RECALIBRATED = (
    "batch norms were recalibrated after a refit, which undoes part of it (2 points were lost on a ResNet-20): leave "
    "out recalibrate, or give refit=none"
)


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of a reduction, with all options parsed."""

    method: Method
    target: Target | None
    refit: Refit
    recovery: Recover | None
    shares: Mapping[str, float] | None
    """The share of its units that each site keeps before the target scales them; None: the method decides."""
    budget: Budget | None
    """How a target is shared out by its cost; None: by the shares."""
    fitness: Callable[[NDArray[np.float64], Masks], NDArray[np.float64]] | None
    price: Callable[[Masks], NDArray[np.float64]] | None
    seed: int
    batch: int
    threads: int
    device: str
    folder: Path | None
    progress: ProgressCallback | None

    def step_callback(self, stage: str) -> StepCallback | None:
        """The progress of one stage."""
        return for_stage(self.progress, stage)

    def epochs(self, stage: str) -> Callable[[Progress], None] | None:
        """The progress of a training, in epochs."""
        report = self.step_callback(stage)
        return None if report is None else lambda at: report(at.epoch - 1 + (at.step == at.steps), at.epochs)

    @property
    def measuring(self) -> dict[str, Any]:
        """The settings of a network's measurement."""
        return {"batch": self.batch, "threads": self.threads, "device": self.device}

    def stage_folder(self, name: str) -> Path | None:
        """A folder for one stage, if an output folder is given."""
        return None if self.folder is None else self.folder / name


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The reduced network, the one just after the last cut, and the history of the reduction.

    ``cut`` includes the refit, if the task has one; ``unfitted`` is then the same cut before its refit.
    """

    network: nn.Module
    cut: nn.Module
    unfitted: nn.Module | None
    refit: RefitRecord | None
    fidelity: Fidelity | None
    sites: tuple[SiteReduction, ...]
    decision: Decision
    difference: float
    training: tuple[TrainRecord, ...]
    notes: tuple[str, ...]
    recovery: tuple[Recovery, ...] = ()


@dataclasses.dataclass
class _State:
    """The current network, and the units of the original network that it still has."""

    network: nn.Module
    kept: dict[str, tuple[int, ...]]
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    decision: Decision = dataclasses.field(default_factory=lambda: Decision(()))
    difference: float = 0.0
    unfitted: nn.Module | None = None
    refit: RefitRecord | None = None
    fidelity: Fidelity | None = None
    notes: tuple[str, ...] = ()
    recovery: tuple[Recovery, ...] = ()

    def keep_better(self, found: Recovery, recovered: nn.Module) -> None:
        """Continue with the recovered network if it is better than the cut one on the held-back rows, or asked for."""
        self.recovery += (found,)
        if found.kept == "recovered":
            self.network = recovered


def carry_out(subject: Subject, sites: tuple[Site, ...], task: Task) -> Outcome:
    """Remove the units that the method chooses, and recover as the task says."""
    _check_recovery(subject, task)
    sizes = SizeModel(subject.network, sites, subject.example[:2])
    state = _State(subject.network, {site.name: tuple(range(site.units)) for site in sites})
    training, notes, recovery = list[TrainRecord](), list[str](), task.recovery
    several = recovery if isinstance(recovery, Iterate) else None
    cut = subject.network
    for number, counts in enumerate(_counts(sizes, task, 1 if several is None else several.rounds), start=1):
        if not _one_cut(subject, state, task, counts, number) and number > 1:
            notes.append(f"round {number} found nothing more to remove")
            break
        cut = state.network
        if several is not None:
            training.append(_tuned(subject, state, task, several, f"round {number}"))
    if isinstance(recovery, FineTune):
        training.append(_tuned(subject, state, task, recovery, "recovery"))
    elif isinstance(recovery, Distill):
        _distilled(subject, state, task, recovery, sites)
    elif isinstance(recovery, Recalibrate):
        _recalibrated(subject, state, task, recovery)
        if state.refit is not None:
            notes.append(RECALIBRATED)
    elif isinstance(recovery, Rewind):
        training.append(_rewound(subject, state, task, recovery, sites))
    for network in filter(None, {state.network, cut, state.unfitted} - {subject.network}):
        close_heads(network)
    return Outcome(
        network=state.network,
        cut=cut,
        unfitted=state.unfitted,
        refit=state.refit,
        fidelity=state.fidelity,
        sites=site_reductions(sites, state.kept, state.decision.choices, state.refused),
        decision=state.decision,
        difference=state.difference,
        training=tuple(training),
        notes=(*notes, *state.notes, *state.decision.notes),
        recovery=state.recovery,
    )


def _check_recovery(subject: Subject, task: Task) -> None:
    """Refuse an impossible recovery before the search."""
    recovery = task.recovery
    if isinstance(recovery, Rewind):
        if subject.run is None:
            raise UsageError(
                f"{recovery}: needs the training run, or its folder, in place of the network, with the epoch kept"
            )
        original_of(subject.run, recovery, like=subject.network)
    if isinstance(recovery, Recalibrate):
        check_has_norms(subject.network, recovery)
    if isinstance(recovery, Iterate) and (task.fitness is not None or task.price is not None):
        raise UsageError(
            f"{recovery}: fitness and price of your own take masks of all units, whose number changes in each round"
        )


def _counts(sizes: SizeModel, task: Task, rounds: int) -> list[dict[str, int] | None]:
    """The units of the original network that each site keeps after each round; None: the method decides."""
    if task.shares is None and task.budget is None:
        return [None] * rounds
    if task.target is None:
        assert task.shares is not None  # a budget needs a target
        return [
            counts_for_target(sizes, {name: share ** (number / rounds) for name, share in task.shares.items()}, None)
            for number in range(1, rounds + 1)
        ]
    targets = [dataclasses.replace(task.target, keep=keep) for keep in round_targets(task.target.keep, rounds)]
    if task.budget is not None:
        return [task.budget.counts(sizes, target) for target in targets]
    assert task.shares is not None
    return [counts_for_target(sizes, task.shares, target) for target in targets]


def _one_cut(subject: Subject, state: _State, task: Task, counts: dict[str, int] | None, number: int) -> bool:
    """Choose and cut on the current network; whether any unit was removed."""
    found = cuttable_sites(state.network, subject.example)
    sites = tuple(site for site in found.sites if site.name in state.kept)
    if counts is not None:
        counts = {site.name: min(counts.get(site.name, site.units), site.units) for site in sites}
    context = PruningContext(
        network=state.network if task.device == "cpu" else copied(state.network).to(task.device),
        sites=sites,
        x=subject.train.x,
        y=subject.train.y,
        seed=task.seed,
        batch=task.batch,
        device=task.device,
        fitness=task.fitness,
        price=task.price,
        folder=task.stage_folder(f"search {number}"),
        identity={**subject.inputs, "round": str(number)},
        progress=task.step_callback(str(task.method)),
        calibration=subject.calibration,
        orders=task.budget.orders if task.budget is not None and state.network is subject.network else {},
    )
    decision = task.method.choose(context, counts)
    cut = cut_out(state.network, sites, decision.choices, subject.example)
    units: dict[str, int] = {}
    known = {site.name: site for site in sites}
    for choice in cut.done:
        units |= known[choice.site].widths(state.network, len(choice.kept))
        state.kept[choice.site] = tuple(state.kept[choice.site][unit] for unit in choice.kept)
    state.refused = cut.refused
    state.decision = decision
    if units:
        before = state.network
        state.network = rebuilt(cut.network, before, units, f"reduced by {task.method}", subject.example)
        state.difference = max(state.difference, _difference(before, state.network, sites, cut.done, subject))
        if architecture_of(before) is not None and architecture_of(state.network) is None:
            state.notes += (CHANGED,)
        _refit(subject, state, task, before=before, sites=sites, choices=cut.done)
        state.fidelity = fidelity_of(before, state.unfitted, state.network, masks=(sites, cut.done), x=subject.example)
        state.notes += state.fidelity.notes
    return bool(units)


def _refit(
    subject: Subject,
    state: _State,
    task: Task,
    *,
    before: nn.Module,
    sites: tuple[Site, ...],
    choices: tuple[Choice, ...],
) -> None:
    """Refit the layers that read what the cut removed, towards the network before the cut."""
    if not isinstance(task.refit, LeastSquares):
        return
    state.unfitted = state.network
    refitted = copied(state.network).eval()
    try:
        state.refit = refit(
            before,
            refitted,
            sites,
            choices,
            x=subject.calibration,
            option=task.refit,
            seed=task.seed,
            device=task.device,
            progress=task.step_callback("refit"),
        )
    except UsageError as error:
        state.unfitted, state.refit = None, None
        state.notes += (f"not refitted: {error}",)
        return
    state.network = refitted
    left = state.refit.left
    if left:
        state.notes += (f"not refitted: {', '.join(f'{layer} ({why})' for layer, why in left.items())}",)


@torch.no_grad()
def _difference(
    before: nn.Module, after: nn.Module, sites: tuple[Site, ...], choices: tuple[Choice, ...], subject: Subject
) -> float:
    """The largest difference between the outputs of the smaller network and of the masked one, in their dtype."""
    with masked(before, sites, choices):
        expected = before(subject.example.clone())
    return float((after(subject.example.clone()) - expected).abs().max())


def _tuned(subject: Subject, state: _State, task: Task, option: FineTune | Iterate, stage: str) -> TrainRecord:
    held = _held_back(subject, task)
    run = fine_tuned(
        state.network,
        held.data,
        option,
        stop=KeepBest(),
        seed=task.seed,
        out=task.stage_folder(stage),
        progress=task.epochs(stage),
        threads=task.threads,
        device=task.device,
    )
    known = {"original": subject.network, "training": run.record, **task.measuring}
    state.keep_better(compared(stage, option, state.network, run.network, held, **known), run.network)
    return run.record


def _held_back(subject: Subject, task: Task) -> HeldBack:
    outputs = int(subject.network(subject.example[:1].clone()).shape[1])
    return held_back(subject.data, subject.split, subject.network, outputs, seed=task.seed, run=subject.run)


def _recalibrated(subject: Subject, state: _State, task: Task, option: Recalibrate) -> None:
    """Recompute the statistics of the batch norms; this needs no labels, so training rows may judge it too."""
    network = recalibrated(state.network, subject.train.x, option, device=task.device)
    held = _held_back(subject, task)
    state.keep_better(compared("recalibration", option, state.network, network, held, **task.measuring), network)


def _distilled(subject: Subject, state: _State, task: Task, option: Distill, sites: tuple[Site, ...]) -> None:
    """Train towards the original network, on rows other than those that judge it."""
    held = _held_back(subject, task)
    found = distilled(
        subject.network,
        state.network,
        held.data,
        option,
        watched_layers(sites, state.kept),
        seed=task.seed,
        device=task.device,
        threads=task.threads,
        progress=task.step_callback("distillation"),
    )
    shown = "no rate brought the outputs nearer" if found.rate is None else f"rate {found.rate:g}"
    state.notes += (
        f"distillation: {shown}; outputs differ by {found.before:.3g}, then {found.after:.3g} of their variance",
    )
    known = {"original": subject.network, **task.measuring}
    state.keep_better(compared("distillation", option, state.network, found.network, held, **known), found.network)


def _rewound(subject: Subject, state: _State, task: Task, option: Rewind, sites: tuple[Site, ...]) -> TrainRecord:
    """Train the kept units again from an earlier epoch."""
    assert subject.run is not None  # refused before the cut
    original = original_of(subject.run, option, like=subject.network)
    units: dict[str, int] = {}
    for site in sites:
        if len(state.kept[site.name]) < site.units:
            units |= site.widths(subject.network, len(state.kept[site.name]))

    def cut(network: nn.Module) -> nn.Module:
        small = plain_cut(network, sites, state.kept)
        return rebuilt(small, network, units, f"reduced by {task.method}", subject.example)

    run = rewound(
        original,
        cut,
        option,
        subject.data,
        reduced=state.network,
        out=task.stage_folder("recovery"),
        progress=task.epochs("recovery"),
        threads=task.threads,
        device=task.device,
    )
    held = held_back_by(run.record, subject.data, subject.split)
    if held is None:
        state.network = run.network
        state.notes += (
            "rewinding was not compared with the cut: the original run held no rows back (or they judge the result), "
            "and it can be continued only with all its rows",
        )
    else:
        found = compared("rewinding", option, state.network, run.network, held, training=run.record, **task.measuring)
        state.keep_better(found, run.network)
    return run.record
