"""The Pareto front of accuracy and size by NSGA-II (Deb et al. 2002), vectorised over the population.

Masks are compared by the rank of their non-dominated front, and within a front by crowding distance. Parents and
offspring compete for the next generation. Crossover and mutation are those of the genetic search.

Two departures, both because there are far fewer pairs of accuracy and size than masks: a mask is in a population at
most once, and of several masks with the same two values one is preferred to the others. Because every evaluated mask
has a score, the returned front is that of all of them, not only of the last population.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.decisions import TraceRow
from weightsmith.reducing.search.evolution import Repair, Settings, State, check_bits, children
from weightsmith.reducing.search.fitness import Memory, Price, Score, priced

__all__ = ["crowding", "explore", "first_front", "ranks"]

Masks = NDArray[np.bool_]
Points = NDArray[np.float64]


def ranks(points: Points) -> NDArray[np.intp]:
    """The rank of each point's front, from 0; ``points`` is points × objectives, smaller is better.

    >>> ranks(np.array([[1.0, 3.0], [3.0, 1.0], [3.0, 3.0], [4.0, 4.0]])).tolist()
    [0, 0, 1, 2]
    """
    no_worse = np.logical_and.reduce([column[:, None] <= column for column in points.T])
    dominates = no_worse & ~no_worse.T
    above = np.count_nonzero(dominates, axis=0)
    found = np.full(len(points), -1, np.intp)
    front, rank = np.flatnonzero(above == 0), 0
    while len(front):
        found[front] = rank
        above -= np.count_nonzero(dominates[front], axis=0)
        front, rank = np.flatnonzero((above == 0) & (found < 0)), rank + 1
    return found


def crowding(points: Points, fronts: NDArray[np.intp]) -> NDArray[np.float64]:
    """The crowding distance of each point within its front: ∞ at the ends, and between them

        (1/m) Σ_k (f_k(next) − f_k(previous)) / (max f_k − min f_k)

    over the m objectives, with the neighbours and the extremes of the point's own front.
    """
    room = np.zeros(len(points))
    for values in points.T:
        order = np.lexsort((values, fronts))
        value, front = values[order], fronts[order]
        starts = np.concatenate([[True], front[1:] != front[:-1]])
        ends = np.concatenate([starts[1:], [True]])
        number = np.cumsum(starts) - 1
        span = (value[ends] - value[starts])[number]
        gap = np.empty(len(points))
        gap[1:-1] = value[2:] - value[:-2]
        share = np.divide(gap, span, out=np.zeros(len(points)), where=(span > 0) & ~(starts | ends))
        room[order] += np.where(starts | ends, np.inf, share)
    mean: NDArray[np.float64] = room / points.shape[1]
    return mean


def first_front(points: Points) -> NDArray[np.intp]:
    """The non-dominated points of two objectives, by the first ascending; of equal points only the first.

    >>> first_front(np.array([[3.0, 1.0], [1.0, 3.0], [3.0, 1.0], [3.0, 3.0], [2.0, 3.0]])).tolist()
    [1, 0]
    """
    order = np.lexsort((points[:, 1], points[:, 0]))
    second = points[order, 1]
    lowest = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]])
    found: NDArray[np.intp] = order[second < lowest]
    return found


def explore(
    score: Score,
    price: Price,
    bits: int,
    options: Settings,
    seed: int,
    *,
    repair: Repair | None = None,
    start: State | None = None,
    each: Callable[[State], None] | None = None,
) -> State:
    """The state after ``options.generations`` generations; its ``hall`` is the front, by price ascending.

    ``score`` gives accuracies (higher is better, −∞ for an invalid mask), ``price`` the cost of a mask. A point
    is (price, −accuracy). The first population has masks of all densities, including the full network, so
    that the search covers both ends of the front. The other arguments are those of
    :func:`~weightsmith.reducing.search.evolution.evolve`.
    """
    check_bits(bits)
    memory = Memory(score) if start is None else start.memory(score)
    state = start
    if state is None:
        population = _densities(options.population, bits, stream(seed, "generation", 0))
        if repair is not None:
            population = repair(population, stream(seed, "repair", 0))
        nothing = State(-1, population[:0], np.empty((0, 2)), population[:0], np.empty((0, 2)), (), memory.known, 0)
        state = _after(nothing, population, memory, price, options.population)
        if each is not None:
            each(state)
    for generation in range(state.generation + 1, options.generations + 1):
        random = stream(seed, "generation", generation)
        # Survivors are sorted, best first.
        order = -np.arange(len(state.population), dtype=np.float64)
        offspring = children(state.population, order, options.population, options, random)
        if repair is not None:
            offspring = repair(offspring, stream(seed, "repair", generation))
        state = _after(state, offspring, memory, price, options.population)
        if each is not None:
            each(state)
    return state


def _densities(count: int, bits: int, random: np.random.Generator) -> Masks:
    """Masks with individual densities, from near 0 to near 1; the first is all on."""
    masks = random.random((count, bits)) < ((np.arange(count) + 0.5) / count)[:, None]
    masks[0] = True
    return masks


def _after(state: State, offspring: Masks, memory: Memory, price: Price, count: int) -> State:
    """The next state: population and offspring compete for the next generation."""
    accuracy, fresh = memory(offspring)
    met = len(memory.known)
    fresh = fresh[accuracy[fresh] > -np.inf]
    # A known mask is in the population, or has been eliminated.
    masks = np.concatenate([state.population, offspring[fresh]])
    points = np.concatenate([state.scores, _points(price, offspring[fresh], accuracy[fresh])])
    if len(masks) == 0:
        raise UsageError("no mask of the first population, including the whole network, has a finite accuracy")
    best = _survivors(points, count)
    met_masks = np.concatenate([state.hall, offspring[fresh]])
    met_points = np.concatenate([state.hall_scores, points[len(state.population) :]])
    front = first_front(met_points)
    population, scores, hall, hall_scores = masks[best], points[best], met_masks[front], met_points[front]
    row = TraceRow(
        generation=state.generation + 1,
        best=float(-hall_scores[-1, 1]),
        mean=float(-scores[:, 1].mean()),
        best_units=int(np.count_nonzero(hall[-1])),
        mean_units=float(np.count_nonzero(population) / len(population)),
        evaluated=met - state.met,
    )
    return State(row.generation, population, scores, hall, hall_scores, (*state.rows, row), memory.known, met)


def _points(price: Price, masks: Masks, accuracy: NDArray[np.float64]) -> Points:
    return np.column_stack([priced(price, masks), -accuracy]) if len(masks) else np.empty((0, 2))


def _survivors(points: Points, count: int) -> NDArray[np.intp]:
    """The best ``count`` points, best first: by front, then by crowding distance, which is 0 for duplicates."""
    fronts = ranks(points)
    room = crowding(points, fronts)
    _, firsts = np.unique(points, axis=0, return_index=True)
    copies = np.ones(len(points), np.bool_)
    copies[firsts] = False
    room[copies] = -1.0
    return np.lexsort((-room, fronts))[:count]
