"""From candidates to a result: judge them in the fixed order, and compare with the limits and with the rivals."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import Preference, relaxations, unreachable
from weightsmith.chain.tailor.configurations import KINDS
from weightsmith.chain.tailor.judging import Judgement, judgement
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.results import Alone, Moment, TailorRecord, Verdict
from weightsmith.chain.tailor.runner import CandidateRunner
from weightsmith.core.errors import UsageError
from weightsmith.core.progress import ProgressCallback
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson
from weightsmith.networks.card import weights_digest
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.spiking.files import spiking_digest
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Judged", "check_any", "concluded", "judge", "timeline"]


@dataclasses.dataclass(frozen=True)
class Judged:
    """The chosen candidate, all judgements in their order, and whether the whole network is right on each row."""

    best: Candidate
    limits: Limits
    margin: float | None
    judgements: tuple[Judgement, ...]
    whole: NDArray[np.bool_]

    def of(self, candidate: Candidate) -> Judgement | None:
        """The judgement of a candidate, if it was judged."""
        return next((each for each in self.judgements if each.candidate == candidate.number), None)

    @property
    def verdict(self) -> Verdict:
        """Whether the limits are met."""
        found = self.of(self.best)
        assert found is not None  # the best is judged
        if set(found.missed) - {"accuracy"}:
            return Verdict.NOT_MET
        if not found.met:
            return Verdict.NOT_CONFIRMED
        return Verdict.MET if found.holds(0.0) else Verdict.BY_ESTIMATE


def judge(
    runner: CandidateRunner,
    preference: Preference,
    margin: float | None,
    progress: ProgressCallback | None = None,
) -> Judged:
    """Judge the candidates in the order given by the selection rows, until one fails.

    The last that passes is the best; if the first fails, it is still returned as the nearest to the limits.
    """
    candidates, limits = runner.candidates, preference.limits
    sequence = preference.sequence(candidates)
    if not sequence:
        raise UsageError("this network could not be converted to a spiking one: leave spiking out")
    if progress is not None:
        progress("judging: whole", 0, len(sequence) + 1)
    whole = runner.judged(candidates[0]).right
    best, judgements = sequence[0], []
    for number, candidate in enumerate(sequence, 1):
        if progress is not None:
            progress(f"judging: {candidate}", number, len(sequence) + 1)
        found = judgement(candidate, runner.judged(candidate), whole, limits, margin)
        judgements.append(found)
        if not found.holds(margin):
            break
        best = candidate
    return Judged(best, limits, margin, tuple(judgements), whole)


def concluded(
    runner: CandidateRunner,
    judged: Judged,
    preference: Preference,
    made: nn.Module | SpikingNetwork,
    *,
    untried: tuple[str, ...],
    settings: dict[str, Any],
    origin: Origin,
) -> TailorRecord:
    """The record of a search; ``made`` is the network of the best candidate."""
    architecture = architecture_of(runner.network)
    found = judged.of(judged.best)
    assert found is not None
    within = judged.verdict is not Verdict.NOT_MET
    allowed = [candidate for candidate in runner.candidates if preference.allows(candidate)]
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
        judged=found,
        whole=wilson(int(judged.whole.sum()), len(judged.whole)),
        alone=_rivals(runner, judged, preference),
        unreachable=() if within else unreachable(allowed, judged.limits),
        relaxations=() if within else relaxations(allowed, judged.limits),
        refused={str(refusal.way): refusal.reason for refusal in runner.refusals},
        untried=untried,
        notes=_notes(runner),
        result=spiking_digest(made) if isinstance(made, SpikingNetwork) else weights_digest(made),
        origin=origin,
        bytes=runner.bytes,
        labelled=False,
        judgements=judged.judgements,
    )


def _rivals(runner: CandidateRunner, judged: Judged, preference: Preference) -> tuple[Alone, ...]:
    """The best candidate of every other kind that was tried."""
    anything = dataclasses.replace(preference, spiking=False)
    found = []
    for kind in KINDS:
        best = anything.best([candidate for candidate in runner.candidates if candidate.kind == kind])
        if kind not in ("whole", judged.best.kind) and best is not None:
            found.append(Alone(kind, best.number, best.excess(judged.limits), judged.of(best)))
    return tuple(found)


def timeline(runner: CandidateRunner, preference: Preference) -> tuple[Moment, ...]:
    """The candidates that became the best so far, with the CPU seconds of the search at which they did."""
    moments: list[Moment] = []
    for count, seconds in enumerate(runner.times, 1):
        best = preference.best(runner.candidates[:count])
        if best is not None and (not moments or moments[-1].candidate != best.number):
            moments.append(Moment(seconds, best.number))
    return tuple(moments)


def _notes(runner: CandidateRunner) -> tuple[str, ...]:
    notes = list(runner.rows.choosing.notes)
    refused = [refusal for refusal in runner.refusals if refusal.way.cut is None]
    notes += [f"{refusal.way} could not be tried: {refusal.reason}" for refusal in refused]
    if runner.uncounted:
        more = " …" * (len(runner.uncounted) > 3)
        notes.append(f"not counted in the energy: {', '.join(runner.uncounted[:3])}{more}")
    if runner.judged_before:
        notes.append(
            f"other calls have judged {runner.judged_before} candidates on these judging rows before; "
            "the more often the rows are used, the weaker the guarantee"
        )
    return tuple(notes)


def check_any(runner: CandidateRunner) -> None:
    """Raise if only the whole network is left."""
    if runner.refusals and all(candidate.kind == "whole" for candidate in runner.candidates):
        reasons = dict.fromkeys(refusal.reason for refusal in runner.refusals)
        raise UsageError(f"the network can neither be reduced, rounded nor converted: {'; '.join(reasons)}")
