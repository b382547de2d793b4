"""Judge a candidate on rows that had no part in the choice, and say whether the limit on its accuracy holds."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import LimitStatus
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.exact import least_difference, least_share
from weightsmith.core.records import Record
from weightsmith.core.statistics import Comparison, Interval, mcnemar, wilson
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import labels_for, scores
from weightsmith.spiking.energy.cost import Prices, UnitCounts, spike_cost
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.simulation.simulate import simulate

__all__ = ["Answered", "Judgement", "answered", "judgement", "right_answers"]


@dataclasses.dataclass(frozen=True, eq=False)
class Judgement(Record):
    """A candidate on the judging rows: its accuracy, its energy, and the comparison with the whole network.

    ``cost`` compares it with the whole network row by row (McNemar): its difference is a gain. ``missed`` are the
    limits it misses by its estimate, and by how much; ``bound`` is the lower confidence bound of the accuracy, or for a
    limit in points below the network, of the difference to it (both exact, :mod:`weightsmith.core.exact`). ``standing``
    compares estimate and bound with the limit on the accuracy.
    """

    candidate: int
    accuracy: Interval
    cost: Comparison
    energy: float
    standing: LimitStatus
    missed: dict[str, float]
    bound: float | None = None

    @property
    def met(self) -> bool:
        """Whether all limits are met on these rows, by the point estimate."""
        return not self.missed

    def holds(self, margin: float | None) -> bool:
        """Whether all limits are met; with a ``margin`` the bound of the accuracy must meet its limit."""
        return self.met and (margin is None or self.standing is not LimitStatus.ESTIMATE)


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


def answered(network: SpikingNetwork, data: Data, steps: int, *, prices: Prices, seed: int) -> Answered:
    """Run a spiking network on the test rows of ``data``."""
    part = data.split("test")
    counts = UnitCounts(network)
    responses = simulate(network, part.x, steps, seed=seed, observers=(counts,))
    labels = labels_for(network.card, data, part.y, network.classes)[1].numpy()
    cost = spike_cost(network, responses, counts, prices)
    return Answered(responses.correct(labels)[:, -1], cost.energy)


def judgement(
    candidate: Candidate, found: Answered, whole: NDArray[np.bool_], limits: Limits, margin: float | None
) -> Judgement:
    """The judgement of these answers against those of the whole network on the same rows."""
    accuracy, cost = wilson(int(found.right.sum()), len(whole)), mcnemar(found.right, whole)
    costs = {**candidate.costs, "energy": found.energy}
    missed = limits.excess(accuracy=accuracy.value, loss=-cost.difference, **costs)
    bound, standing = None, LimitStatus.UNLIMITED
    if limits.limits_accuracy:
        bound = _bound(found.right, cost, limits, margin)
        least = limits.accuracy if limits.points is None else -limits.points
        assert least is not None  # one of the two is given
        standing = LimitStatus.BELOW if "accuracy" in missed else LimitStatus.ESTIMATE
        standing = LimitStatus.ABOVE if bound is not None and bound >= least else standing
    return Judgement(candidate.number, accuracy, cost, found.energy, standing, missed, bound)


def _bound(right: NDArray[np.bool_], cost: Comparison, limits: Limits, margin: float | None) -> float | None:
    """The lower confidence bound of the accuracy, or of the difference to the network."""
    if margin is None:
        return None
    if limits.points is None:
        return least_share(int(right.sum()), len(right), margin)
    assert cost.only_a is not None
    assert cost.only_b is not None
    return least_difference(cost.only_a, cost.only_b, cost.n, margin)
