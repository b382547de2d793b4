"""Measurements of a reduction: sizes, accuracies on the same inputs, and baselines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.statistics import score_difference, score_interval
from weightsmith.data.targets import Kind, scoring_of
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluation import scores
from weightsmith.networks.operations import count_operations
from weightsmith.reducing.baselines import RandomMasks, Scratch, from_scratch, random_masks
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.latency import LatencyComparison, compare_latency, file_bytes
from weightsmith.reducing.recovery.recover import FineTune
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.refitting.refit import refit
from weightsmith.reducing.results import Measured, Size
from weightsmith.reducing.rounds import Outcome, Task
from weightsmith.reducing.subject import Subject
from weightsmith.reducing.surgery.removal import plain_cut
from weightsmith.reducing.surgery.sites import Site
from weightsmith.reducing.surgery.sizes import SizeModel

__all__ = ["Baselines", "latency_of", "measured", "random_baseline", "scratch_baseline", "size_of"]


@dataclasses.dataclass(frozen=True)
class Baselines:
    """The baselines to measure: the number of random masks, and the training and seeds of networks from scratch."""

    random: int
    scratch: FineTune | None
    seeds: tuple[int, ...]
    latency: bool


def size_of(network: nn.Module, sizes: SizeModel, counts: dict[str, int], example: Tensor) -> Size:
    """The size of ``network`` with ``counts`` units at the named sites and all units at the others."""
    return Size(
        parameters=sum(value.numel() for value in network.parameters()),
        macs=sizes.size(counts, "macs"),
        file_bytes=file_bytes(network),
        units=sum(counts.get(name, units) for name, units in sizes.units.items()),
        connections=count_operations(network, example, zeros=False).total,
    )


def measured(subject: Subject, task: Task, outcome: Outcome) -> Measured:
    """Scores of the original network, of the cut one and of the result, on the same inputs."""
    targets = subject.judged.y
    scoring, progress = scoring_of(targets), task.step_callback("measuring")
    found: dict[str, Tensor] = {}
    networks = {"whole": subject.network, "cut": outcome.cut, "reduced": outcome.network}
    if outcome.unfitted is not None:
        networks["unfitted"] = outcome.unfitted
    for name, network in networks.items():
        if name == "reduced" and outcome.network is outcome.cut:
            found[name] = found["cut"]
            continue
        answers = scores(
            network,
            subject.judged.x,
            batch=task.batch,
            threads=task.threads,
            device=task.device,
            progress=progress,
        )
        found[name] = scoring.rows(answers, targets)
    intervals = {name: score_interval(each.numpy()) for name, each in found.items()}
    shares = scoring.kind is not Kind.VALUES
    return Measured(
        split=subject.split,
        images=len(targets),
        whole=intervals["whole"],
        cut=intervals["cut"],
        reduced=intervals["reduced"],
        cost=score_difference(found["reduced"].numpy(), found["whole"].numpy()),
        unfitted=intervals.get("unfitted"),
        wrong=tuple((~found["reduced"]).nonzero().flatten().tolist()) if shares else None,
        rows=subject.judged.digest(),
        metric=scoring.kind.metric,
        scores=None if shares else tuple(found["reduced"].tolist()),
    )


def random_baseline(
    subject: Subject, sites: tuple[Site, ...], task: Task, outcome: Outcome, repeats: int
) -> RandomMasks | None:
    """Random masks of the same number of units per site, on the inputs that the result was evaluated on.

    If the result is refitted, the masked networks are too, on the same rows: otherwise the refit would be compared.
    """
    if not repeats or all(site.after == site.before for site in outcome.sites):
        return None
    network = subject.network if task.device == "cpu" else copied(subject.network).to(task.device)
    context = PruningContext(network, sites, subject.judged.x, subject.judged.y, batch=task.batch, device=task.device)
    counts = [site.after for site in outcome.sites]
    evaluate = context.evaluator() if outcome.refit is None else _refitted_masks(subject, sites, task, context)
    return random_masks(evaluate, context.site_slices, counts, repeats=repeats, seed=task.seed)


def _refitted_masks(
    subject: Subject, sites: tuple[Site, ...], task: Task, context: PruningContext
) -> Callable[[NDArray[np.bool_]], NDArray[np.float64]]:
    """A function from masks to mean scores in percent of the networks cut by them and refitted."""
    option, targets = task.refit, subject.judged.y
    scoring = scoring_of(targets)
    assert isinstance(option, LeastSquares)

    def accuracy(mask: NDArray[np.bool_]) -> float:
        kept = {name: tuple(np.flatnonzero(on).tolist()) for name, on in context.split(mask).items()}
        choices = [
            Choice(site.name, site.units, tuple(map(Removal, sorted(set(range(site.units)) - set(kept[site.name])))))
            for site in sites
        ]
        small = with_card(plain_cut(subject.network, sites, kept).eval(), card_of(subject.network))
        refit(
            subject.network,
            small,
            sites,
            choices,
            x=subject.calibration,
            option=option,
            seed=task.seed,
            device=task.device,
        )
        answers = scores(small, subject.judged.x, batch=task.batch, threads=task.threads, device=task.device)
        return 100 * float(scoring.rows(answers, targets).double().mean())

    return lambda masks: np.array([accuracy(mask) for mask in masks])


def scratch_baseline(subject: Subject, task: Task, outcome: Outcome, baselines: Baselines) -> Scratch | None:
    """Networks of the reduced size trained from fresh weights, if requested."""
    if baselines.scratch is None:
        return None
    return from_scratch(
        outcome.network,
        subject.data,
        baselines.scratch,
        seeds=baselines.seeds,
        out=task.stage_folder("scratch"),
        progress=task.epochs("from scratch"),
        threads=task.threads,
        device=task.device,
    )


def latency_of(subject: Subject, reduced: nn.Module, task: Task) -> LatencyComparison:
    """Time per input of both networks, measured in alternation."""
    return compare_latency(subject.network, reduced, subject.example[:1], threads=task.threads)
