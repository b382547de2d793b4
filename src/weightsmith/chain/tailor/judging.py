"""Evaluate the chosen candidate once, on rows that had no part in the choice."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.chain.tailor.choosing import LimitStatus, standing
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.records import Record
from weightsmith.core.statistics import Comparison, Interval, mcnemar, wilson
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import labels_for, scores
from weightsmith.spiking.energy.cost import Prices, UnitCounts, spike_cost
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.simulation.simulate import simulate

__all__ = ["Answered", "Judgement", "answered", "judgement", "right_answers"]


@dataclasses.dataclass(frozen=True, eq=False)
class Judgement(Record):
    """A candidate on the judging rows: its accuracy, its energy, and the comparison with the whole network.

    ``cost`` compares it with the whole network row by row (McNemar): its difference is a gain. ``missed`` are the
    limits it misses, and by how much; ``standing`` says whether its interval or only its estimate is above the
    limit on the accuracy.
    """

    candidate: int
    accuracy: Interval
    cost: Comparison
    energy: float
    standing: LimitStatus
    missed: dict[str, float]

    @property
    def met(self) -> bool:
        """Whether all limits are met on these rows, by the point estimate."""
        return not self.missed


@dataclasses.dataclass(frozen=True)
class Answered:
    """Whether each row was answered correctly, and the energy per input in picojoules."""

    right: NDArray[np.bool_]
    energy: float


def right_answers(network: nn.Module, data: Data, *, batch: int = 256, threads: int = 1) -> NDArray[np.bool_]:
    """Whether each test row of ``data`` is answered correctly; an answer that is not finite is wrong."""
    part = data.split("test")
    found = scores(network, part.x, batch=batch, threads=threads)
    right: Tensor = found.argmax(dim=1) == labels_for(card_of(network), data, part.y, found.shape[1])[1]
    return np.asarray((right & found.isfinite().all(dim=1)).numpy(), np.bool_)


def answered(
    network: SpikingNetwork, data: Data, steps: int, *, precision: Precision, prices: Prices, seed: int, first: int
) -> Answered:
    """Run a spiking network on the test rows of ``data``, with input spikes drawn by row numbers from ``first`` on."""
    part = data.split("test")
    counts = UnitCounts(network)
    responses = simulate(network, part.x, steps, seed=seed, first=first, precision=precision, observers=(counts,))
    labels = labels_for(network.card, data, part.y, network.classes)[1].numpy()
    cost = spike_cost(network, responses, counts, prices, precision=precision)
    return Answered(responses.correct(labels)[:, -1], cost.energy)


def judgement(
    candidate: int, right: NDArray[np.bool_], whole: NDArray[np.bool_], *, energy: float, params: int, limits: Limits
) -> Judgement:
    """The judgement of these answers against those of the whole network on the same rows."""
    accuracy = wilson(int(right.sum()), len(right))
    return Judgement(
        candidate=candidate,
        accuracy=accuracy,
        cost=mcnemar(right, whole),
        energy=energy,
        standing=standing(accuracy, limits.accuracy),
        missed=limits.excess(accuracy=accuracy.value, energy=energy, params=params),
    )
