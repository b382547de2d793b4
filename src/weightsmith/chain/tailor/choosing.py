"""Choose a candidate: the cheapest that meets the limits, or the one that misses them least.

With a limit on accuracy, a candidate's share of correct answers should lie a *margin* of standard errors above it: of
many candidates the cheapest one just above the limit is there by chance, and other rows mostly show it
below. The order of preference, for a limit a on the accuracy:

    1.  meets all limits,   share ≥ a + margin · √(p(1 − p)/n)     the least energy, then parameters
    2.  meets all limits by  its point estimate                   the most accurate
    3.  misses limits                                               the least violation, then the most accurate

The violation is 10 · (a − accuracy) + (energy/limit − 1) + (params/limit − 1), each where it is positive: ten points of
accuracy count as much as twice the energy or twice the size.

Without a limit on accuracy, the most accurate candidate that meets the others is chosen. If only the size is
limited, parameters come before energy.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval

__all__ = [
    "LimitStatus",
    "Preference",
    "Relaxation",
    "margin_for",
    "relaxations",
    "standing",
    "unreachable",
    "violation",
]

_POINTS = 10.0


class LimitStatus(enum.Enum):
    """The position of an accuracy relative to its limit."""

    ABOVE = "its interval lies above"
    ESTIMATE = "only its point estimate is above"
    BELOW = "below"
    UNLIMITED = "no limit"


def standing(accuracy: Interval, limit: float | None) -> LimitStatus:
    """Whether all of the interval, or only the estimate, reaches the limit."""
    if limit is None:
        return LimitStatus.UNLIMITED
    if accuracy.low >= limit:
        return LimitStatus.ABOVE
    return LimitStatus.ESTIMATE if accuracy.value >= limit else LimitStatus.BELOW


def margin_for(configs: int, level: float = 0.05) -> float:
    """The number of standard errors above a limit for the best of n configurations: z of 1 − level/n (Bonferroni).

    The steps of one run are not counted: they share their rows and spikes, and nearly all of their chance.

    >>> [round(margin_for(count), 2) for count in (1, 10, 100)]
    [1.64, 2.58, 3.29]
    """
    return statistics.NormalDist().inv_cdf(1 - level / max(1, configs))


def violation(missed: Mapping[str, float]) -> float:
    """The total violation of the limits in :meth:`~weightsmith.chain.tailor.limits.Limits.excess`."""
    return math.fsum(_POINTS * much if name == "accuracy" else much for name, much in missed.items())


@dataclasses.dataclass(frozen=True)
class Preference:
    """The order among candidates under ``limits``; ``margin`` is in standard errors of the accuracy."""

    limits: Limits
    margin: float = 2.0

    def met(self, candidate: Candidate) -> bool:
        """Whether it meets all limits, by its point estimate."""
        return not candidate.excess(self.limits)

    def key(self, candidate: Candidate) -> tuple[float, ...]:
        """Smaller is better."""
        missed = candidate.excess(self.limits)
        costs: tuple[float, ...] = (candidate.energy, candidate.parameters)
        if self.limits.size_only:
            costs = costs[::-1]
        if missed:
            return (3.0, violation(missed), -candidate.share, *costs)
        asked = self.limits.accuracy
        if asked is None:
            return (1.0, -candidate.share, *costs)
        if candidate.share >= asked + self.margin * candidate.error:
            return (1.0, *costs, -candidate.share)
        return (2.0, -candidate.share, *costs)

    def best(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """The first in the order; of equals the one found first."""
        return min(candidates, key=lambda found: (*self.key(found), found.number), default=None)


@dataclasses.dataclass(frozen=True, eq=False)
class Relaxation(Record):
    """The value to which one limit would have to be relaxed for ``candidate`` to meet all of them."""

    limit: str
    asked: float
    to: float
    candidate: int


def relaxations(candidates: Sequence[Candidate], limits: Limits) -> tuple[Relaxation, ...]:
    """For each limit, the nearest candidate among those that meet all others."""
    found = []
    for name, asked in limits.to_dict().items():
        if asked is None:
            continue
        others = dataclasses.replace(limits, **{name: None})
        keeping = [candidate for candidate in candidates if not candidate.excess(others)]
        nearest = min(keeping, key=lambda each: (_sort_value(each, name), each.number), default=None)
        if nearest is not None:
            found.append(Relaxation(name, float(asked), _value(nearest, name), nearest.number))
    return tuple(found)


def unreachable(candidates: Sequence[Candidate], limits: Limits) -> tuple[str, ...]:
    """The limits that no candidate meets, whatever the others; empty if they only cannot be met together."""
    missed = [candidate.excess(limits) for candidate in candidates]
    return tuple(
        name for name, asked in limits.to_dict().items() if asked is not None and all(name in each for each in missed)
    )


def _value(candidate: Candidate, limit: str) -> float:
    values = {"accuracy": candidate.share, "energy": candidate.energy, "params": float(candidate.parameters)}
    return values[limit]


def _sort_value(candidate: Candidate, limit: str) -> float:
    return -candidate.share if limit == "accuracy" else _value(candidate, limit)
