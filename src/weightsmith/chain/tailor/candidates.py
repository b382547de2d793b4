"""A candidate: the network of one configuration, with its distance from the original and its cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from weightsmith.chain.tailor.configurations import Configuration, Kind
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval, wilson
from weightsmith.reducing.search.nsga2 import ranks

__all__ = ["Candidate", "on_front"]


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate(Record):
    """A configuration with its results on the selection rows, and its cost.

    ``correct`` counts those of the ``images`` selection rows that it answers as the original network does, or, where
    these rows are labelled (:attr:`TailorRecord.labelled`), correctly. ``divergence`` is the squared distance of its
    outputs from the original ones, as a share of their variance: candidates are ranked by it. ``energy`` is in
    picojoules per input; ``energy_share``, ``params_share`` and ``time`` (if measured) are relative to the whole
    network; ``bytes`` is the size of its tensors.
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
    bytes: int | None = None
    time: float | None = None
    divergence: float | None = None

    def __str__(self) -> str:
        told = self.steps is None or (self.way.conversion is not None and self.way.conversion.neuron is not None)
        return str(self.way) + ("" if told else f", {self.steps} step{'s' * (self.steps != 1)}")

    @property
    def kind(self) -> Kind:
        """Whole, reduced, int8, spiking, or a combination."""
        return self.way.kind

    @property
    def share(self) -> float:
        """The share of selection rows that count as ``correct``."""
        return self.correct / self.images

    @property
    def accuracy(self) -> Interval:
        """That share with its Wilson interval."""
        return wilson(self.correct, self.images)

    @property
    def distance(self) -> float:
        """The number that ranks candidates, smaller is better: divergence, or in old records the share of errors."""
        return 1 - self.share if self.divergence is None else self.divergence

    @property
    def costs(self) -> dict[str, float | None]:
        """Its costs, by the names of their limits."""
        return {
            "params": self.parameters,
            "macs": self.macs,
            "bytes": self.bytes,
            "energy": self.energy,
            "time": self.time,
        }

    def excess(self, limits: Limits) -> dict[str, float]:
        """The limits on costs it misses, and by how much; in old records also the limit on accuracy."""
        accuracy = self.share if self.divergence is None else None
        return limits.excess(accuracy=accuracy, **self.costs)


def on_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The Pareto-optimal candidates in distance, energy and parameters, in the given order."""
    if not candidates:
        return []
    values = np.array([[found.distance, found.energy, found.parameters] for found in candidates], np.float64)
    best = ranks(values) == 0
    return [found for found, first in zip(candidates, best, strict=True) if first]
