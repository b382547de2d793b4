"""The paper's genetic search (607 rows, population 100, 50 generations, λ = 50) against the libraries for it.

A genetic search has no one right outcome, so equal work is checked in two ways. What an arm says of its best mask must
be true of the network with the other units cut out. And over six seeds the best fitness of ours and of DEAP's, whose
operators are the same, must be equal within two standard errors; that of all arms stands in the description.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from benchmarks.genetic_peers import (
    GENERATIONS,
    PENALTY,
    POPULATION,
    Outcome,
    Work,
    by_cutting,
    by_masking,
    deap,
    evotorch,
    pygad_,
    pymoo,
)
from benchmarks.measure import Case, UnequalWork
from weightsmith.core.seeds import pinned_threads, stream, torch_stream
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.search.genetic import Genetic
from weightsmith.reducing.surgery.sites import find_sites

__all__ = ["cases", "work"]

_ROWS, _INPUTS, _CLASSES = 607, 10, 7
_SEEDS = range(6)
_TWO_ROWS = 200 / _ROWS  # points of accuracy: sums in another order may decide a near tie otherwise

Arm = Callable[[Work, int], Outcome]

_OURS = "weightsmith Genetic"
_CUTTING = "DEAP, a new nn.Module per individual"
_MASKING = "DEAP, masked forward"


def cases() -> list[Case]:
    """The paper's network, and its widest."""
    return [_case(units) for units in (100, 1000)]


def work(units: int) -> Work:
    """Rows of seven overlapping classes, and a network 10-``units``-7 with sigmoids trained on them for 300 steps."""
    random = stream(0, "bench", "genetic")
    y = torch.from_numpy(np.arange(_ROWS) % _CLASSES)
    centres = random.normal(size=(_CLASSES, _INPUTS))
    x = torch.from_numpy((centres[y] + 2.0 * random.normal(size=(_ROWS, _INPUTS))).astype(np.float32))
    first, last = nn.Linear(_INPUTS, units), nn.Linear(units, _CLASSES)
    network = nn.Sequential(first, nn.Sigmoid(), last)
    generator = torch_stream(0, "bench", "genetic", units)
    for layer in (first, last):
        bound = 1 / math.sqrt(layer.in_features)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(300):
        optimiser.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(network(x), y))
        optimiser.step()
    return Work(network.requires_grad_(False).eval(), x, y)


def _case(units: int) -> Case:
    with pinned_threads():
        given = work(units)
        arms: dict[str, Arm] = {
            _OURS: _ours,
            _CUTTING: partial(deap, accuracy=by_cutting),
            _MASKING: partial(deap, accuracy=by_masking),
            "pymoo, our evaluator": pymoo,
            "PyGAD, our evaluator": pygad_,
            "EvoTorch, our evaluator": evotorch,
        }
        # Both arms of DEAP are the same search, so one of them speaks for the other.
        found = {name: [arm(given, seed).fitness for seed in _SEEDS] for name, arm in arms.items() if name != _CUTTING}
    _check_equal(found[_OURS], found[_MASKING])
    quality = ", ".join(f"{name.split(',')[0]} {_spread(values)}" for name, values in found.items())
    return Case(
        f"{_INPUTS}-{units}-{_CLASSES}",
        f"{_ROWS} rows, population {POPULATION}, {GENERATIONS} generations, λ = {PENALTY:g} (eq. 5), from the network "
        f"in memory to the best mask. Best fitness over {len(_SEEDS)} seeds, mean ± standard error: {quality}",
        {name: partial(arm, given, 0) for name, arm in arms.items()},
        partial(_same, given),
        packages=("deap", "pymoo", "pygad", "evotorch"),
        repeats=2,
    )


def _ours(given: Work, seed: int) -> Outcome:
    sites = find_sites(given.network, given.x[:2]).sites
    decision = Genetic(PENALTY, population=POPULATION, generations=GENERATIONS).choose(
        PruningContext(given.network, sites, given.x, given.y, seed=seed), None
    )
    mask = np.zeros(given.units, np.bool_)
    mask[list(decision.choices[0].kept)] = True
    assert decision.trace is not None
    return Outcome(mask, decision.trace.rows[-1].best)


def _same(given: Work, ours: Outcome, theirs: Outcome) -> bool:
    """Whether both tell the truth about their masks."""
    return all(abs(_fitness(given, outcome) - outcome.fitness) <= _TWO_ROWS for outcome in (ours, theirs))


def _fitness(given: Work, outcome: Outcome) -> float:
    bits = outcome.mask.astype(int).tolist()
    return by_cutting(given, bits) - PENALTY * float(outcome.mask.mean())


def _check_equal(ours: Sequence[float], theirs: Sequence[float]) -> None:
    apart = statistics.mean(ours) - statistics.mean(theirs)
    error = math.hypot(_standard_error(ours), _standard_error(theirs))
    if abs(apart) > 2 * error:
        raise UnequalWork(f"our best fitness is {apart:+.2f} from DEAP's, more than two standard errors of {error:.2f}")


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ± {_standard_error(values):.2f}"
