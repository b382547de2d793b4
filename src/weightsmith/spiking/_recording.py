"""The parts of a conversion's record: answers, populations, cost, and a few images measured in detail."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.spiking.conversion.balance import threshold_range
from weightsmith.spiking.conversion.preparing import ConversionSettings, Prepared
from weightsmith.spiking.conversion.subject import Subject
from weightsmith.spiking.energy.cost import Prices, SpikeCost, UnitCounts, spike_cost
from weightsmith.spiking.energy.rivals import rivals_of
from weightsmith.spiking.monitors.activity import Statistics
from weightsmith.spiking.monitors.correspondence import Rates, confusion, correspondence
from weightsmith.spiking.monitors.raster import Raster
from weightsmith.spiking.results import Decisions, Population, Watched
from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.responses import UNDECIDED, Responses
from weightsmith.spiking.simulation.simulate import simulate

__all__ = ["cost_of", "decisions_of", "populations_of", "watched"]

_RIVAL_ROWS = 512  # rows of the evaluated split on which the network's zero activations are counted


def cost_of(
    subject: Subject,
    prepared: Prepared,
    recipe: ConversionSettings,
    responses: Responses,
    *,
    counts: UnitCounts,
    prices: Prices,
) -> SpikeCost:
    """The cost of the run, with the costs of its rivals."""
    levels = recipe.neuron.levels(recipe.steps)
    rounded = prepared.network if recipe.precision == "int8" else None
    rivals = rivals_of(prepared.converted.network, subject.judged.x[:_RIVAL_ROWS], levels, rounded)
    cost = spike_cost(prepared.network, responses, counts, prices, precision=recipe.precision)
    return dataclasses.replace(cost, rivals=rivals)


def decisions_of(subject: Subject, responses: Responses) -> Decisions:
    """The answers of a run compared with those of the network."""
    labels, answers = subject.judged.y.numpy(), subject.answers.numpy()
    right = responses.correct(labels)
    plain = answers == labels
    last = responses.answers[:, -1]
    changes = responses.answers != last[:, None]
    # Steps after which the answer no longer changes: one more than the last step with another answer.
    settled = np.where(changes.any(axis=1), responses.steps - changes[:, ::-1].argmax(axis=1) + 1, 1)
    return Decisions(
        split=subject.split,
        images=len(labels),
        network=wilson(int(plain.sum()), len(labels)),
        spiking=wilson(int(right[:, -1].sum()), len(labels)),
        cost=mcnemar(right[:, -1], plain),
        correct=right.sum(axis=0, dtype=np.int64),
        undecided=(responses.answers == UNDECIDED).sum(axis=0, dtype=np.int64),
        only_network=(plain[:, None] & ~right).sum(axis=0, dtype=np.int64),
        confusion=confusion(answers, last.astype(np.int64), responses.scores.shape[1]),
        settled=int(np.median(settled)),
        ended=float(responses.ended.mean()),
    )


def populations_of(prepared: Prepared, recipe: ConversionSettings, responses: Responses) -> tuple[Population, ...]:
    rates, spikes = responses.rates(), responses.spikes()
    return tuple(
        Population(
            name=node.name,
            layer=node.layer,
            units=math.prod(prepared.network.shapes[node.name]),
            threshold=prepared.balance.thresholds[node.name] if recipe.precision == "int8" else threshold_range(node),
            rate=rates[node.name],
            spikes_per_image=spikes[node.name] / responses.images,
        )
        for node in prepared.network.populations
    )


def watched(
    subject: Subject, prepared: Prepared, recipe: ConversionSettings, rule: Margin | None, images: int
) -> Watched:
    """Run a few images again and record statistics, rates and membranes."""
    x = subject.judged.x[:images]
    network = prepared.network
    window = max(2, min(10, recipe.steps // 4))
    statistics = Statistics(network, images=len(x), window=window)
    raster = Raster(network, images=1, membranes=True, seed=recipe.seed)
    rates = Rates(network, images=len(x))
    simulate(
        network,
        x,
        recipe.steps,
        seed=recipe.seed,
        precision=recipe.precision,
        early=rule,
        observers=(statistics, raster, rates),
    )
    found = correspondence(rates, prepared.converted.activations, x, seed=recipe.seed)
    return Watched(statistics.record(), found, raster.record())
