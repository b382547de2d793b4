"""Choose a candidate, and the order in which candidates are judged.

With a limit on a cost, the candidate nearest to the network among those within all cost limits is taken and judged.
With a limit on accuracy alone, the cheapest candidate that meets it is wanted, and only judging shows which ones do. So
they are judged one after another, from the nearest to the network to the cheapest, each test at the full level, until
one fails; the last that passed is taken. The order is fixed before any judging row is used, so the chance of taking a
network that misses the limit is at most the level, however many are judged (fixed-sequence testing: W. Maurer et al.
1995; for networks A. Angelopoulos et al., "Learn then test", Ann. Appl. Stat. 2025).

A candidate misses the limits by Σ (cost/limit − 1) over the limits it exceeds.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.records import Record

__all__ = ["LimitStatus", "Preference", "Relaxation", "needed_energy", "relaxations", "unreachable"]

_APART = 1.03  # assumed largest ratio of a spiking network's energy on new rows to the measured one


class LimitStatus(enum.Enum):
    """The position of an accuracy relative to its limit."""

    ABOVE = "its interval lies above"
    ESTIMATE = "only its point estimate is above"
    BELOW = "below"
    UNLIMITED = "no limit"


@dataclasses.dataclass(frozen=True)
class Preference:
    """The order among candidates under ``limits``; ``spiking``: only spiking ones may be taken."""

    limits: Limits
    spiking: bool = False

    def allows(self, candidate: Candidate) -> bool:
        """Whether it may be taken."""
        return not self.spiking or candidate.steps is not None

    def missed(self, candidate: Candidate) -> dict[str, float]:
        """The limits on costs it misses; spiking networks need a margin, as their energy differs from row to row."""
        return dataclasses.replace(candidate, energy=needed_energy(candidate)).excess(self.limits)

    def key(self, candidate: Candidate) -> tuple[float, ...]:
        """Sort key, smaller is better: the excess over the limits on costs, then the distance from the network."""
        missed = math.fsum(self.missed(candidate).values())
        return (float(missed > 0), missed, candidate.distance, candidate.energy, candidate.number)

    def best(self, candidates: Sequence[Candidate]) -> Candidate | None:
        """The best candidate, or None if there is none."""
        return min((found for found in candidates if self.allows(found)), key=self.key, default=None)

    def sequence(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates to be judged, in this order, until one fails."""
        within = [found for found in candidates if self.allows(found) and not self.missed(found)]
        first = self.best(candidates)
        if not within or self.limits.costs:
            return [] if first is None else [first]
        found: list[Candidate] = []
        for candidate in sorted(within, key=lambda each: (each.distance, each.energy, each.number)):
            if not found or candidate.energy < found[-1].energy:
                found.append(candidate)
        return found


def needed_energy(candidate: Candidate) -> float:
    """The limit on the energy that lets a candidate be taken: that of a spiking one needs a margin."""
    return candidate.energy * (1.0 if candidate.steps is None else _APART)


@dataclasses.dataclass(frozen=True, eq=False)
class Relaxation(Record):
    """The value to which one limit would have to be relaxed for ``candidate`` to meet all of them."""

    limit: str
    asked: float
    to: float
    candidate: int


def relaxations(candidates: Sequence[Candidate], limits: Limits) -> tuple[Relaxation, ...]:
    """For each limit on a cost, the nearest candidate among those that meet all others."""
    found = []
    candidates = [dataclasses.replace(each, energy=needed_energy(each)) for each in candidates]
    for name, asked in limits.costs.items():
        others = dataclasses.replace(limits, **{name: None})
        known = [(value, each) for each in candidates if (value := each.costs[name]) is not None]
        keeping = [(value, each) for value, each in known if not each.excess(others)]
        if keeping:
            value, nearest = min(keeping, key=lambda pair: (pair[0], pair[1].number))
            found.append(Relaxation(name, float(asked), float(value), nearest.number))
    return tuple(found)


def unreachable(candidates: Sequence[Candidate], limits: Limits) -> tuple[str, ...]:
    """The limits on costs that no candidate meets, regardless of the other limits."""
    missed = [candidate.excess(limits) for candidate in candidates]
    return tuple(name for name in limits.costs if all(name in each for each in missed))
