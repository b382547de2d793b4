"""The results of tailoring: candidates, the chosen one, its judgement, and the limits missed."""

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
    """Whether the limits are met."""

    MET = "met"
    """Met on the judging rows, and the interval of the accuracy lies above the limit (or there is none)."""
    BY_ESTIMATE = "met by the point estimate"
    """Met on the judging rows, but the interval of the accuracy reaches below the limit."""
    NOT_CONFIRMED = "not confirmed"
    """Met on the selection rows, but not on the judging rows."""
    NOT_MET = "not met"
    """No candidate meets all limits."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alone(Record):
    """One kind of work alone under the same limits: its best candidate, the limits missed, and its judgement.

    ``candidate`` is None if nothing of the kind could be tried.
    """

    kind: Kind
    candidate: int | None
    missed: dict[str, float]
    judged: Judgement | None

    @property
    def met(self) -> bool:
        """Whether its best candidate meets the limits on the selection rows, by its point estimate."""
        return self.candidate is not None and not self.missed


@dataclasses.dataclass(frozen=True, eq=False)
class TailorRecord(Record):
    """The full record of a search, without weights and durations.

    ``energy`` (picojoules per input), ``macs`` and ``parameters`` are those of the whole network. ``chosen`` is the
    number of the chosen candidate: the best that meets the limits, or the nearest. ``whole`` is the accuracy
    of the whole network on the judging rows. ``unreachable`` are limits that no candidate meets, whatever the
    others; ``relaxations`` say to what one limit would have to be relaxed. ``refused`` are impossible configurations,
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
        """Whether the network found meets the limits also on the judging rows, by its point estimate."""
        return self.verdict in (Verdict.MET, Verdict.BY_ESTIMATE)

    @property
    def best(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The Pareto-optimal candidates in accuracy, energy and parameters."""
        return tuple(on_front(self.candidates))

    @property
    def only_together(self) -> bool:
        """Whether the limits were met by reducing and converting together, and by neither alone."""
        both = self.best.kind == "reduced and spiking"
        alone = any(each.met or (each.judged is not None and each.judged.met) for each in self.alone)
        return self.met and both and not alone


@dataclasses.dataclass(frozen=True, repr=False)
class Tailored:
    """A finished search: its record and the network, which is a spiking one if ``record.best.steps`` is a number.

    If no network meets the limits, it is the nearest.
    """

    record: TailorRecord
    network: nn.Module | SpikingNetwork

    def __repr__(self) -> str:
        return f"Tailored({self})"

    def __str__(self) -> str:
        """One line: whether the limits are met, by which candidate, and its numbers."""
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
        """Whether the limits are met on rows that had no part in the choice."""
        return self.record.met
