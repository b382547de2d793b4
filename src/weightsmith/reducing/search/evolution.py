"""The genetic search of the paper (section 2.5), vectorised over the population.

In each generation tournaments fill the population except for the slots of the hall of fame; neighbours are crossed,
individuals mutate, and the hall of fame, the best distinct masks so far, joins them. (DEAP's stock loop only records
its hall of fame, so the best can be lost; the paper says that they "remained in the population".)

Each generation has its own random stream. A search can therefore resume from any state, and a longer search begins
exactly like a shorter one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.decisions import TraceRow
from weightsmith.reducing.search.fitness import Memory, Score

__all__ = [
    "Elitist",
    "Repair",
    "Settings",
    "State",
    "check_bits",
    "children",
    "crossed",
    "evolve",
    "hold",
    "initial",
    "mutated",
    "tournament",
]


class Settings(Protocol):
    """The settings of a search, as in :class:`~weightsmith.reducing.search.genetic.Genetic`."""

    @property
    def population(self) -> int:
        """Masks in each generation."""

    @property
    def generations(self) -> int:
        """The number of generations after the first population."""

    @property
    def tournament(self) -> int:
        """Tournament size."""

    @property
    def crossover(self) -> float:
        """Crossover probability of a pair."""

    @property
    def mutation(self) -> float:
        """Mutation probability of a mask."""

    @property
    def flip(self) -> float:
        """Flip probability of each bit of a mutated mask."""


class Elitist(Settings, Protocol):
    """Settings with a hall of fame of ``elite`` masks."""

    @property
    def elite(self) -> int:
        """The size of the hall of fame."""


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a search after a generation, sufficient to resume it.

    ``hall`` holds the best distinct masks so far, best first (in a search for a front: the front). ``known`` caches
    scores and is shared by all states of a search; its first ``met`` entries existed at this one.
    """

    generation: int
    population: NDArray[np.bool_]
    scores: NDArray[np.float64]
    hall: NDArray[np.bool_]
    hall_scores: NDArray[np.float64]
    rows: tuple[TraceRow, ...]
    known: dict[bytes, float]
    met: int

    def memory(self, score: Score) -> Memory:
        """``score`` with a cache of the scores known at this state, and no later ones."""
        return Memory(score, dict(itertools.islice(self.known.items(), self.met)))


def evolve(
    score: Score,
    bits: int,
    options: Elitist,
    seed: int,
    *,
    first: NDArray[np.bool_] | None = None,
    repair: Repair | None = None,
    start: State | None = None,
    each: Callable[[State], None] | None = None,
) -> State:
    """The state after ``options.generations`` generations; the first population is generation 0.

    ``score`` is called with distinct unseen masks (masks × bits) and gives a number for each, the higher the
    better; −∞ marks a mask that must never win. ``first`` are masks of the first population, the others random.
    ``repair`` may change masks before they are scored. ``start`` is a state to resume from; ``each`` is called with
    every new state.
    """
    check_bits(bits)
    memory = Memory(score) if start is None else start.memory(score)
    state = start
    if state is None:
        state = _first(memory, bits, options, seed, repair=repair, given=first)
        if each is not None:
            each(state)
    for generation in range(state.generation + 1, options.generations + 1):
        room = options.population - len(state.hall)
        offspring = children(state.population, state.scores, room, options, stream(seed, "generation", generation))
        if repair is not None:
            offspring = repair(offspring, stream(seed, "repair", generation))
        population = np.concatenate([offspring, state.hall])
        state = _after(state, population, memory, options.elite)
        if each is not None:
            each(state)
    return state


def check_bits(bits: int) -> None:
    """Raise for a chromosome without bits."""
    if bits < 1:
        raise OptionError(f"a chromosome of {bits} bits leaves nothing to search: no unit can be removed")


def children(
    population: NDArray[np.bool_],
    order: NDArray[np.float64],
    count: int,
    options: Settings,
    random: np.random.Generator,
) -> NDArray[np.bool_]:
    """``count`` offspring: winners of tournaments by ``order`` (higher wins), crossed and mutated."""
    parents = population[tournament(order, count, options.tournament, random)]
    return mutated(crossed(parents, options.crossover, random), options.mutation, options.flip, random)


def _first(
    memory: Memory, bits: int, options: Elitist, seed: int, *, repair: Repair | None, given: NDArray[np.bool_] | None
) -> State:
    population = initial(options.population, bits, stream(seed, "generation", 0))
    if given is not None:
        population[: len(given)] = given[: len(population)]
    if repair is not None:
        population = repair(population, stream(seed, "repair", 0))
    nothing = State(-1, population, np.empty(0), np.empty((0, bits), np.bool_), np.empty(0), (), memory.known, 0)
    state = _after(nothing, population, memory, options.elite)
    if len(state.hall) == 0:
        # With very few units, all random masks may be empty; the full network is always valid.
        population[0] = True
        state = _after(nothing, population, memory, options.elite)
    if len(state.hall) == 0:
        raise UsageError("neither a mask of the first population nor the whole network has a finite fitness")
    return state


def _after(state: State, population: NDArray[np.bool_], memory: Memory, elite: int) -> State:
    """The next state: the population scored, the hall of fame updated, a row added to the trace."""
    scores, fresh = memory(population)
    met = len(memory.known)
    hall, hall_scores = state.hall, state.hall_scores
    # Known masks are in the hall already, or were not good enough for it.
    bar = hall_scores[-1] if len(hall) == elite else np.finfo(np.float64).min
    entering = fresh[scores[fresh] >= bar]
    if len(entering):
        hall = np.concatenate([hall, population[entering]])
        hall_scores = np.concatenate([hall_scores, scores[entering]])
        # Ties: the smaller mask first, then the one found first.
        best = np.lexsort((np.count_nonzero(hall, axis=1), -hall_scores))[:elite]
        hall, hall_scores = hall[best], hall_scores[best]
    rows = state.rows
    if len(hall):
        able = scores > -np.inf
        row = TraceRow(
            generation=state.generation + 1,
            best=float(hall_scores[0]),
            mean=float(scores[able].mean()),
            best_units=int(np.count_nonzero(hall[0])),
            mean_units=float(np.count_nonzero(population[able]) / np.count_nonzero(able)),
            evaluated=met - state.met,
        )
        rows = (*rows, row)
    return State(state.generation + 1, population, scores, hall, hall_scores, rows, memory.known, met)


# Genetic operators on whole populations: masks are boolean rows, one bit per unit.
#
# They are those of the paper (section 2.5), vectorised. Each draws from the given generator and does not modify its
# arguments.


Masks = NDArray[np.bool_]
Repair = Callable[[Masks, np.random.Generator], Masks]


def initial(count: int, bits: int, random: np.random.Generator) -> Masks:
    """Masks whose bits are on with probability one half."""
    return random.integers(0, 2, size=(count, bits), dtype=np.bool_)


def tournament(order: NDArray[np.float64], count: int, size: int, random: np.random.Generator) -> NDArray[np.intp]:
    """``count`` winners: each time the highest of ``size`` individuals, which are drawn with replacement.

    With n individuals the one of rank r (0: worst) wins with probability ((r+1)ˢ − rˢ)/nˢ.
    """
    drawn = random.integers(0, len(order), size=(count, size))
    winners: NDArray[np.intp] = drawn[np.arange(count), order[drawn].argmax(axis=1)]
    return winners


def crossed(masks: Masks, probability: float, random: np.random.Generator) -> Masks:
    """Cross neighbours (0 and 1, 2 and 3, …) at a random bit, each pair with ``probability``.

    All cut points are equally likely; an individual without a neighbour is unchanged.
    """
    pairs, bits = len(masks) // 2, masks.shape[1]
    children = masks.copy()
    if bits < 2:
        return children
    cuts = random.integers(1, bits, size=pairs)
    cuts[random.random(pairs) >= probability] = bits
    first, second = children[0 : 2 * pairs : 2], children[1 : 2 * pairs : 2]
    changes = (first ^ second) & (np.arange(bits) >= cuts[:, None])
    first ^= changes
    second ^= changes
    return children


def mutated(masks: Masks, probability: float, flip: float, random: np.random.Generator) -> Masks:
    """Each individual mutates with ``probability``; each of its bits then flips with probability ``flip``."""
    children = masks.copy()
    chosen = np.flatnonzero(random.random(len(masks)) < probability)
    children[chosen] ^= random.random((len(chosen), masks.shape[1])) < flip
    return children


def hold(sites: Sequence[slice], counts: Sequence[int]) -> Repair:
    """A repair that leaves exactly ``counts[k]`` bits on in ``sites[k]``, flipping as few random bits as needed."""
    for site, count in zip(sites, counts, strict=True):
        if not 1 <= count <= site.stop - site.start:
            size = site.stop - site.start
            raise OptionError(f"{count} of {size} units cannot be kept: keep 1 to {size}")

    def repair(masks: Masks, random: np.random.Generator) -> Masks:
        # Bits that are on come first, in random order; then those that are off, in random order.
        keys = random.random(masks.shape) + ~masks
        repaired = masks.copy()
        for site, count in zip(sites, counts, strict=True):
            best = np.argpartition(keys[:, site], count - 1, axis=1)[:, :count]
            repaired[:, site] = False
            np.put_along_axis(repaired[:, site], best, True, axis=1)
        return repaired

    return repair
