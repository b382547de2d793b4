"""A candidate: the network of one configuration, with its accuracy and cost.

A spiking network answers after every step, so that one run gives as many candidates as steps; of these only the
Pareto-optimal ones in accuracy and energy are kept.
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
    """Correct answers of a network on the selection rows, and its energy per input; ``steps`` for a spiking one."""

    correct: int
    energy: float
    steps: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate(Record):
    """A configuration, and for a spiking network a number of steps, with its results on the selection rows.

    ``energy`` is in picojoules per input, ``energy_share`` and ``params_share`` are shares of the whole network's.
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
        """The share of correct answers."""
        return self.correct / self.images

    @property
    def accuracy(self) -> Interval:
        """The share of correct answers with its Wilson interval."""
        return wilson(self.correct, self.images)

    @property
    def error(self) -> float:
        """The standard error of the accuracy, √(p(1 − p)/n)."""
        return math.sqrt(self.share * (1 - self.share) / self.images)

    def excess(self, limits: Limits) -> dict[str, float]:
        """The limits it misses, and by how much: see :meth:`Limits.excess`."""
        return limits.excess(accuracy=self.share, energy=self.energy, params=self.parameters)


def stairs(correct: NDArray[np.int64], energy: NDArray[np.float64]) -> list[Point]:
    """The Pareto-optimal steps of a run: more steps must give more correct answers.

    >>> found = stairs(np.array([50, 80, 79, 80, 90]), np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    >>> [(point.steps, point.correct) for point in found]
    [(1, 50), (2, 80), (5, 90)]
    """
    found: list[Point] = []
    # By energy, not by step: the order is the same without early exit, but ties need a rule.
    for index in np.lexsort((np.arange(len(energy)), -correct, energy)):
        if not found or correct[index] > found[-1].correct:
            found.append(Point(int(correct[index]), float(energy[index]), int(index) + 1))
    return found


def on_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The Pareto-optimal candidates in accuracy, energy and parameters, in the given order."""
    if not candidates:
        return []
    values = np.array([[-found.share, found.energy, found.parameters] for found in candidates], np.float64)
    best = ranks(values) == 0
    return [found for found, first in zip(candidates, best, strict=True) if first]
