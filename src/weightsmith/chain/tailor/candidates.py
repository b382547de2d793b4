"""A candidate: a network that one way through the chain gives, how often it is right and what it costs.

A spiking network answers after every step, so that one run gives as many candidates as steps; of these only those stay
that no other step beats in both accuracy and energy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weightsmith.chain.tailor.configurations import Configuration, Kind
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval, wilson
from weightsmith.reducing.search.nsga2 import ranks

__all__ = ["Candidate", "Point", "on_front", "stairs"]


@dataclasses.dataclass(frozen=True, eq=False)
class Point(Record):
    """Right answers of a network on the selection rows, and its energy for an input; ``steps`` for a spiking one."""

    correct: int
    energy: float
    steps: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate(Record):
    """A way, and for a spiking network a number of steps, with what came of it on the selection rows.

    ``energy`` is in picojoules for an input, ``energy_share`` and ``params_share`` are shares of the whole network's.
    """

    number: int
    way: Configuration
    steps: int | None
    images: int
    correct: int
    energy: float
    energy_share: float
    parameters: int
    params_share: float
    macs: int
    stage: str

    def __str__(self) -> str:
        return str(self.way) + ("" if self.steps is None else f", {self.steps} step{'s' * (self.steps != 1)}")

    @property
    def kind(self) -> Kind:
        """Whole, reduced, spiking, or both."""
        return self.way.kind

    @property
    def share(self) -> float:
        """The share of right answers."""
        return self.correct / self.images

    @property
    def accuracy(self) -> Interval:
        """The share of right answers with its Wilson interval."""
        return wilson(self.correct, self.images)

    @property
    def error(self) -> float:
        """The standard error of the accuracy, √(p(1 − p)/n)."""
        return math.sqrt(self.share * (1 - self.share) / self.images)

    def excess(self, limits: Limits) -> dict[str, float]:
        """The limits it misses, and by how much: see :meth:`Limits.excess`."""
        return limits.excess(accuracy=self.share, energy=self.energy, params=self.parameters)


def stairs(correct: NDArray[np.int64], energy: NDArray[np.float64]) -> list[Point]:
    """The steps of a run that no other beats: fewer steps are as right, or a step that costs as little is more so.

    >>> found = stairs(np.array([50, 80, 79, 80, 90]), np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    >>> [(point.steps, point.correct) for point in found]
    [(1, 50), (2, 80), (5, 90)]
    """
    found: list[Point] = []
    # By energy, not by step: an early exit apart the two are the same order, but equal energies must be told apart.
    for place in np.lexsort((np.arange(len(energy)), -correct, energy)):
        if not found or correct[place] > found[-1].correct:
            found.append(Point(int(correct[place]), float(energy[place]), int(place) + 1))
    return found


def on_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other beats in accuracy, energy and parameters together, in the order given."""
    if not candidates:
        return []
    values = np.array([[-found.share, found.energy, found.parameters] for found in candidates], np.float64)
    best = ranks(values) == 0
    return [found for found, first in zip(candidates, best, strict=True) if first]
