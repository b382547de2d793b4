"""The record of a choice among conversions: the candidates, their loss and energy on training rows, and the one taken.

A candidate is on the *front* if no other is at most as costly and loses less. The *knee* of a front is the point
farthest from the straight line between its ends, loss and energy both scaled to [0, 1]: beyond it more energy buys
little.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.core.statistics import Comparison

__all__ = ["Candidate", "Choice", "front_of", "knee_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate(Record):
    """A conversion, what it loses on training rows (``gain`` is paired with the network) and what it costs.

    ``energy`` is a share of the network's. ``obstacle`` says why it cannot be written as NIR, and is None if it can.
    """

    neuron: str
    balance: str
    calibrate: str | None
    steps: int
    gain: Comparison
    energy: float
    obstacle: str | None
    front: bool = False

    @property
    def loss(self) -> float:
        """Points that it loses against the network on the training rows."""
        return -100 * self.gain.difference


@dataclasses.dataclass(frozen=True, eq=False)
class Choice(Record):
    """All candidates in the order they were tried, the one taken, and the best that NIR can express, if any.

    ``met`` says whether the wish was met on the training rows; the test rows judge the one taken only. ``left_out``
    says which kinds of neurons were not tried, and why.
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
        """The best of those that NIR can express."""
        return None if self.exportable is None else self.candidates[self.exportable]


def front_of(points: Sequence[tuple[float, float]]) -> list[int]:
    """The numbers of the points (loss, energy) that no other point beats, by rising energy.

    >>> front_of([(5.0, 0.1), (1.0, 0.3), (2.0, 0.4), (0.5, 0.9)])
    [0, 1, 3]
    """
    found: list[int] = []
    for number in sorted(range(len(points)), key=lambda each: (points[each][1], points[each][0])):
        if not found or points[number][0] < points[found[-1]][0]:
            found.append(number)
    return found


def knee_of(points: Sequence[tuple[float, float]]) -> int:
    """The number of the point (loss, energy) at the knee of the front.

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
