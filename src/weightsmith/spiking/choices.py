"""The record of a choice among conversions: the candidates, their loss and energy on training rows, and the one taken.

A candidate is on the *front* if no other is at most as costly and loses less. The *knee* of a front is the point
farthest from the straight line between its ends, loss and energy both scaled to [0, 1]: beyond it, more energy
gains little accuracy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.core.statistics import Comparison

__all__ = ["Candidate", "Choice", "Verdict", "front_of", "knee_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate(Record):
    """A conversion, its loss on training rows (``gain`` is paired with the network) and its energy.

    ``energy`` is a share of the network's energy. ``obstacle`` says why the conversion cannot be written as NIR; None
    if it can. ``settle`` steps are left out of the sums, and ``early`` is the early-exit rule, if any.
    """

    neuron: str
    balance: str
    calibrate: str | None
    steps: int
    gain: Comparison
    energy: float
    obstacle: str | None
    front: bool = False
    settle: int = 0
    early: str | None = None

    @property
    def loss(self) -> float:
        """Accuracy lost against the network on the training rows, in points."""
        return -100 * self.gain.difference


@dataclasses.dataclass(frozen=True, eq=False)
class Choice(Record):
    """All candidates in the order they were tried, the one taken, and the best that NIR can express, if any.

    ``met`` says whether the wish was met on the training rows; only the one taken is evaluated on the test rows.
    ``left_out`` says which kinds of neurons were not tried, and why.
    """

    wish: str
    rows: int
    candidates: tuple[Candidate, ...]
    taken: int
    exportable: int | None
    met: bool
    left_out: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The candidate taken."""
        return self.candidates[self.taken]

    @property
    def best_exportable(self) -> Candidate | None:
        """The best candidate that NIR can express, if any."""
        return None if self.exportable is None else self.candidates[self.exportable]


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict(Record):
    """Whether a wish held on the test rows, which the choice did not see.

    ``loss`` in points with its 95 % interval from ``low`` to ``high`` (None where all differences are equal), paired
    with the network on the same rows; ``energy`` as a share of the network's. ``within`` and ``limit`` are the wish.
    """

    loss: float
    low: float | None
    high: float | None
    energy: float
    rows: int
    within: float | None
    limit: float | None

    @classmethod
    def of(cls, gain: Comparison, energy: float, within: float | None, limit: float | None) -> Verdict:
        """The verdict on a gain of accuracy over the network, and a share of its energy."""
        span = gain.interval
        low, high = (None, None) if span is None else (-100 * span.high, -100 * span.low)
        return cls(-100 * gain.difference, low, high, energy, gain.n, within, limit)

    @property
    def held(self) -> bool:
        """Whether the measured values meet the wish, regardless of the interval."""
        return (self.within is None or self.loss <= self.within) and (self.limit is None or self.energy <= self.limit)

    @property
    def open(self) -> bool:
        """Whether the limit lies within the interval of the loss, so that other rows may decide otherwise."""
        known = None not in (self.within, self.low, self.high)
        return known and self.low <= self.within < self.high  # type: ignore[operator]  # none of them is None

    @property
    def missed(self) -> bool:
        """Whether the wish is clearly missed: the energy, or the whole interval of the loss, is above the limit."""
        return not self.held and not (self.open and (self.limit is None or self.energy <= self.limit))

    def __str__(self) -> str:
        span = "" if self.low is None else f" [{self.low:+.1f}, {self.high:+.1f}]"
        loss = f"{round(self.loss, 1) + 0.0:+.1f} points lost{span}".replace("-", "−")  # never −0.0
        loss += "" if self.within is None else f", at most {self.within:g} wished"
        share = f"{100 * self.energy:.0f} % of the energy"
        share += "" if self.limit is None else f", at most {100 * self.limit:g} % wished"
        words = "the wish held" if self.held else "the wish did not hold"
        doubt = " (the interval does not settle whether it does on other rows)" if self.open else ""
        return f"on the {self.rows:,} test rows {words}{doubt}: {loss}; {share}"


def front_of(points: Sequence[tuple[float, float]]) -> list[int]:
    """The indices of the points (loss, energy) on the front, in order of energy.

    >>> front_of([(5.0, 0.1), (1.0, 0.3), (2.0, 0.4), (0.5, 0.9)])
    [0, 1, 3]
    """
    found: list[int] = []
    for number in sorted(range(len(points)), key=lambda each: (points[each][1], points[each][0])):
        if not found or points[number][0] < points[found[-1]][0]:
            found.append(number)
    return found


def knee_of(points: Sequence[tuple[float, float]]) -> int:
    """The index of the point (loss, energy) at the knee of the front.

    >>> knee_of([(9.0, 0.1), (1.0, 0.2), (0.8, 0.6), (0.5, 0.9)])
    1
    """
    front = front_of(points)
    if not front:
        raise UsageError("there is no candidate to choose from")
    losses, energies = ([points[number][axis] for number in front] for axis in (0, 1))
    fall, rise = (max(values) - min(values) or 1.0 for values in (losses, energies))

    def below(number: int) -> float:
        """How far a point lies below the line from (1, 0) to (0, 1)."""
        return 1 - (points[number][0] - min(losses)) / fall - (points[number][1] - min(energies)) / rise

    return max(front, key=below)
