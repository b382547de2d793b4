"""From candidates to a result: choose on the selection rows, evaluate on the judging rows, compare with the limits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import LimitStatus, Preference, relaxations, unreachable
from weightsmith.chain.tailor.configurations import Kind
from weightsmith.chain.tailor.judging import Judgement, judgement
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.results import Alone, TailorRecord, Verdict
from weightsmith.chain.tailor.runner import CandidateRunner
from weightsmith.core.errors import UsageError
from weightsmith.core.progress import ProgressCallback
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.networks.card import weights_digest
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.spiking.files import spiking_digest
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Judged", "check_any", "concluded", "judge"]

_ALONE: tuple[Kind, ...] = ("reduced", "spiking")


@dataclasses.dataclass(frozen=True)
class Judged:
    """The best candidate, the best of each kind, and their and the whole network's results on the judging rows."""

    best: Candidate
    limits: Limits
    rivals: dict[Kind, Candidate | None]
    judgements: dict[int, Judgement]
    whole: NDArray[np.bool_]

    @property
    def verdict(self) -> Verdict:
        """Whether the limits are met."""
        found = self.judgements[self.best.number]
        if self.best.excess(self.limits):
            return Verdict.NOT_MET
        if not found.met:
            return Verdict.NOT_CONFIRMED
        return Verdict.BY_ESTIMATE if found.standing is LimitStatus.ESTIMATE else Verdict.MET

    def alone(self) -> tuple[Alone, ...]:
        """The best result of each kind of work alone."""
        return tuple(
            Alone(kind, None, {}, None)
            if rival is None
            else Alone(kind, rival.number, rival.excess(self.limits), self.judgements[rival.number])
            for kind, rival in self.rivals.items()
        )


def judge(runner: CandidateRunner, preference: Preference, progress: ProgressCallback | None = None) -> Judged:
    """Choose by the selection rows, then evaluate on the judging rows: the best, and the best of each kind."""
    candidates, limits = runner.candidates, preference.limits
    best = preference.best(candidates)
    assert best is not None  # the whole network is always among them
    rivals = {kind: preference.best(found for found in candidates if found.kind == kind) for kind in _ALONE}
    wanted = {found.number: found for found in (best, *rivals.values()) if found is not None}
    whole = runner.judged(candidates[0]).right
    judgements = {}
    for done, found in enumerate(wanted.values(), 1):
        answers = runner.judged(found)
        judgements[found.number] = judgement(
            found.number, answers.right, whole, energy=answers.energy, params=found.parameters, limits=limits
        )
        if progress is not None:
            progress("judging", done, len(wanted))
    return Judged(best, limits, rivals, judgements, whole)


def concluded(
    runner: CandidateRunner,
    judged: Judged,
    made: nn.Module | SpikingNetwork,
    *,
    untried: tuple[str, ...],
    settings: dict[str, Any],
    origin: Origin,
) -> TailorRecord:
    """The record of a search whose best candidate gave the network ``made``."""
    architecture = architecture_of(runner.network)
    met = judged.verdict is not Verdict.NOT_MET
    return TailorRecord(
        settings=settings,
        network=type(runner.network).__name__ if architecture is None else str(architecture),
        limits=judged.limits,
        energy=runner.energy,
        macs=runner.macs,
        parameters=runner.parameters,
        train=runner.rows.train,
        selection=runner.rows.selection,
        judging=runner.rows.judged,
        candidates=tuple(runner.candidates),
        chosen=judged.best.number,
        verdict=judged.verdict,
        judged=judged.judgements[judged.best.number],
        whole=wilson(int(judged.whole.sum()), len(judged.whole)),
        alone=judged.alone(),
        unreachable=() if met else unreachable(runner.candidates, judged.limits),
        relaxations=() if met else relaxations(runner.candidates, judged.limits),
        refused={str(refusal.way): refusal.reason for refusal in runner.refusals},
        untried=untried,
        notes=_notes(runner, spiking=settings["spiking"]),
        result=spiking_digest(made) if isinstance(made, SpikingNetwork) else weights_digest(made),
        origin=origin,
    )


def _notes(runner: CandidateRunner, *, spiking: bool) -> tuple[str, ...]:
    notes = list(runner.rows.choosing.notes)
    if not spiking:
        notes.append("nothing was made spiking: no energy is limited, or it was not wanted (spiking=True tries it)")
    for kind, word in (("reduced", "reduced"), ("spiking", "converted")):
        if not any(candidate.kind == kind for candidate in runner.candidates):
            reasons = dict.fromkeys(refusal.reason for refusal in runner.refusals if refusal.way.kind == kind)
            notes += [f"the network cannot be {word}, so that this was left out: {reason}" for reason in reasons]
    if runner.uncounted:
        more = " …" * (len(runner.uncounted) > 3)
        notes.append(f"not counted in the energy: {', '.join(runner.uncounted[:3])}{more}")
    if runner.judged_before:
        notes.append(
            f"candidates that the judging rows were asked about before, in other calls: {runner.judged_before}; "
            "the more often they are asked, the less they prove"
        )
    return tuple(notes)


def check_any(runner: CandidateRunner) -> None:
    """Raise if only the whole network is left."""
    if runner.refusals and all(candidate.kind == "whole" for candidate in runner.candidates):
        reasons = dict.fromkeys(refusal.reason for refusal in runner.refusals)
        raise UsageError(f"the network can neither be reduced nor converted: {'; '.join(reasons)}")
