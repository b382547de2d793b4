"""The results of tailoring: candidates, the chosen one, its judgement, and the limits missed."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar

import numpy as np
from torch import nn

from weightsmith.chain.tailor.candidates import Candidate, on_front
from weightsmith.chain.tailor.choosing import Relaxation
from weightsmith.chain.tailor.configurations import Kind
from weightsmith.chain.tailor.judging import Answered, Judgement, judgement
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.rows import RowsUsed
from weightsmith.core.display import Displayed
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Alone", "Moment", "TailorRecord", "Tailored", "Verdict"]


class Verdict(enum.Enum):
    """Whether the limits are met."""

    MET = "met"
    """Met on the judging rows, and the interval of the accuracy lies above the limit (or there is none)."""
    BY_ESTIMATE = "met by the point estimate"
    """Met on the judging rows, but the interval of the accuracy reaches below the limit."""
    NOT_CONFIRMED = "not confirmed"
    """The limits on costs are met, but the limit on the accuracy is missed on the judging rows."""
    NOT_MET = "not met"
    """No candidate meets all limits."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alone(Record):
    """A rival: the best candidate of another kind under the same limits, what it misses, and its judgement, if any.

    ``candidate`` is None if nothing of the kind could be tried.
    """

    kind: Kind
    candidate: int | None
    missed: dict[str, float]
    judged: Judgement | None

    @property
    def met(self) -> bool:
        """Whether its best candidate meets the limits that are known before it is judged."""
        return self.candidate is not None and not self.missed


@dataclasses.dataclass(frozen=True, eq=False)
class TailorRecord(Record):
    """The full record of a search, without weights and durations.

    ``energy`` (picojoules per input, float32), ``macs``, ``parameters`` and ``bytes`` are those of the whole network.
    ``chosen`` is the number of the chosen candidate, ``whole`` the accuracy of the whole network on the judging rows,
    ``alone`` the best of the other kinds. ``unreachable`` are limits that no candidate meets, regardless of the others;
    ``relaxations`` give the value to which one limit would have to be relaxed. ``refused`` are impossible
    configurations, ``untried`` those that the budget did not reach. ``labelled`` says whether the selection rows were
    compared with their labels, as in older records, or with the answers of the network. ``judgements`` lists all
    judgements in order.
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
    bytes: int | None = None
    labelled: bool = True
    judgements: tuple[Judgement, ...] = ()

    described_by: ClassVar[str] = "chain.tailor.section.tailor_section"

    @property
    def margin(self) -> float | None:
        """The confidence with which the limit on the accuracy must hold; None: its estimate suffices."""
        found = None if self.labelled else self.settings.get("margin")
        return found if isinstance(found, float) else None

    @property
    def met(self) -> bool:
        """Whether the network found meets the limits on the judging rows, with the given confidence."""
        return self.verdict is Verdict.MET or (self.verdict is Verdict.BY_ESTIMATE and self.margin is None)

    @property
    def best(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]

    @property
    def original(self) -> Judgement:
        """The original network on the judging rows, under the same limits."""
        right = np.arange(self.judging.rows) < round(self.whole.value * self.judging.rows)
        return judgement(self.candidates[0], Answered(right, self.energy), right, self.limits, self.margin)

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The Pareto-optimal candidates in distance from the network, energy and parameters."""
        return tuple(on_front(self.candidates))


@dataclasses.dataclass(frozen=True)
class Moment:
    """The best candidate after a number of CPU seconds of the search."""

    seconds: float
    candidate: int


@dataclasses.dataclass(frozen=True, repr=False)
class Tailored(Displayed):
    """A finished search: its record and the network, which is a spiking one if ``record.best.steps`` is a number.

    If no network meets the limits, it is the nearest. ``timeline`` lists when each candidate became the best, and
    ``seconds`` is the CPU time of search and judging together.
    """

    record: TailorRecord
    network: nn.Module | SpikingNetwork
    timeline: tuple[Moment, ...] = ()
    seconds: float | None = None

    def __repr__(self) -> str:
        return f"Tailored({self})"

    def __str__(self) -> str:
        """One line: whether the limits are met, by which candidate, and its numbers."""
        record, best = self.record, self.record.best
        share = record.judged.energy / record.energy
        return (
            f"{record.verdict.value}: {best.kind} ({best}), accuracy {record.whole.value:.2%} → "
            f"{record.judged.accuracy.value:.2%}, {best.params_share:.1%} of the parameters, "
            f"{share:.1%} of the float32 energy"
        )

    @property
    def met(self) -> bool:
        """Whether the limits are met on rows that had no part in the choice."""
        return self.record.met
