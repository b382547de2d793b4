"""What tailoring gives: the candidates, which was chosen on which rows, how it was judged, and what falls short."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from torch import nn

from weightsmith.chain.tailor.candidates import Candidate, on_front
from weightsmith.chain.tailor.choosing import LimitStatus, Relaxation
from weightsmith.chain.tailor.configurations import Kind
from weightsmith.chain.tailor.judging import Judgement
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.rows import RowsUsed
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Alone", "TailorRecord", "Tailored", "Verdict"]


class Verdict(enum.Enum):
    """What became of the limits."""

    MET = "met"
    """Kept to on the judging rows, and the interval of the accuracy lies above the limit (or there is none)."""
    BY_ESTIMATE = "met by the point estimate"
    """Kept to on the judging rows, but the interval of the accuracy reaches below the limit."""
    NOT_CONFIRMED = "not confirmed"
    """Kept to on the selection rows, and not on the judging rows."""
    NOT_MET = "not met"
    """No candidate keeps to all limits."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alone(Record):
    """What one kind of work alone comes to under the same limits: its best candidate, what it misses, how it is judged.

    ``candidate`` is None if nothing of the kind could be tried.
    """

    kind: Kind
    candidate: int | None
    missed: dict[str, float]
    judged: Judgement | None

    @property
    def met(self) -> bool:
        """Whether its best candidate keeps to the limits on the selection rows, by its point estimate."""
        return self.candidate is not None and not self.missed


@dataclasses.dataclass(frozen=True, eq=False)
class TailorRecord(Record):
    """Everything there is to say of a search without weights and without durations.

    ``energy`` (picojoules for an input), ``macs`` and ``parameters`` are those of the whole network. ``chosen`` is the
    number of the candidate that was taken: the best that keeps to the limits, or the nearest. ``whole`` is the accuracy
    of the whole network on the judging rows. ``unreachable`` are limits that no candidate keeps to, whatever the
    others; ``relaxations`` say to what one limit would have to be relaxed. ``refused`` are ways that could not be gone,
    ``untried`` those that the budget left no time for.
    """

    settings: dict[str, Any]
    network: str
    limits: Limits
    energy: float
    macs: int
    parameters: int
    train: RowsUsed
    selection: RowsUsed
    judging: RowsUsed
    candidates: tuple[Candidate, ...]
    chosen: int
    verdict: Verdict
    judged: Judgement
    whole: Interval
    alone: tuple[Alone, ...]
    unreachable: tuple[str, ...]
    relaxations: tuple[Relaxation, ...]
    refused: dict[str, str]
    untried: tuple[str, ...]
    notes: tuple[str, ...]
    result: str
    origin: Origin

    @property
    def met(self) -> bool:
        """Whether a network was found that keeps to the limits also on the judging rows, by its point estimate."""
        return self.verdict in (Verdict.MET, Verdict.BY_ESTIMATE)

    @property
    def best(self) -> Candidate:
        """The candidate that was taken."""
        return self.candidates[self.chosen]

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The candidates that no other beats in accuracy, energy and parameters together."""
        return tuple(on_front(self.candidates))

    @property
    def only_together(self) -> bool:
        """Whether the limits were met by reducing and converting, and by neither alone on either rows."""
        both = self.best.kind == "reduced and spiking"
        alone = any(each.met or (each.judged is not None and each.judged.met) for each in self.alone)
        return self.met and both and not alone


@dataclasses.dataclass(frozen=True, repr=False)
class Tailored:
    """A finished search: its record and the network, which is a spiking one if ``record.best.steps`` is a number.

    If no network keeps to the limits, it is the nearest.
    """

    record: TailorRecord
    network: nn.Module | SpikingNetwork

    def __repr__(self) -> str:
        return f"Tailored({self})"

    def __str__(self) -> str:
        """One line: whether the limits are met, by what, and what it comes to."""
        record, best = self.record, self.record.best
        sure = "" if record.judged.standing is not LimitStatus.ESTIMATE else " (interval reaches below the limit)"
        share = record.judged.energy / record.energy
        return (
            f"{record.verdict.value}: {best.kind} ({best}), accuracy {record.whole.value:.2%} → "
            f"{record.judged.accuracy.value:.2%}{sure}, {share:.1%} of the energy, "
            f"{best.params_share:.1%} of the parameters"
        )

    @property
    def met(self) -> bool:
        """Whether the limits are kept to on rows that had no part in the choice."""
        return self.record.met
