"""What DEAP's operators can give, and how often, over numbered seeds of Python's own generator."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from deap import algorithms, base, creator, tools

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("deap",)

LENGTH = 8
DRAWS = 20_000


def vectors() -> dict[str, Any]:
    """Sets and counts, so that an implementation with another generator can be compared."""
    creator.create("Fitness", base.Fitness, weights=(1.0,))
    creator.create("Mask", list, fitness=creator.Fitness)
    return {
        "crossover": _crossover(),
        "hall_of_fame": _hall_of_fame(),
        "mutation": _mutation(),
        "tournament": _tournament(),
    }


def _crossover() -> dict[str, Any]:
    """Every pair of children that one-point crossover makes of eight zeros and eight ones."""
    children: Counter[str] = Counter()
    for seed in range(DRAWS):
        random.seed(seed)
        first, second = tools.cxOnePoint([0] * LENGTH, [1] * LENGTH)
        children["".join(map(str, first)) + "/" + "".join(map(str, second))] += 1
    return {"children": dict(children), "draws": DRAWS, "length": LENGTH}


def _tournament() -> dict[str, Any]:
    """How often each of ten individuals (fitness 0 to 9) wins a tournament of three, drawn with replacement."""
    population = [creator.Mask([rank]) for rank in range(10)]
    for rank, mask in enumerate(population):
        mask.fitness.values = (float(rank),)
    random.seed(0)
    winners = Counter(mask[0] for mask in tools.selTournament(population, DRAWS, tournsize=3))
    return {"draws": DRAWS, "size": 3, "wins": [winners[rank] for rank in range(10)]}


def _mutation() -> dict[str, Any]:
    """How many of eight bits are flipped when each is flipped with probability 0.1."""
    random.seed(0)
    flipped = Counter(sum(tools.mutFlipBit([0] * LENGTH, indpb=0.1)[0]) for _ in range(DRAWS))
    counts = [flipped[count] for count in range(LENGTH + 1)]
    return {"draws": DRAWS, "flipped": counts, "length": LENGTH, "probability": 0.1}


def _hall_of_fame() -> dict[str, Any]:
    """The stock loop only records its hall of fame: for how many of 50 seeds is the best mask lost at the end?"""
    toolbox = base.Toolbox()
    toolbox.register("evaluate", lambda mask: (float(sum(mask)),))
    toolbox.register("mate", tools.cxOnePoint)
    toolbox.register("mutate", tools.mutFlipBit, indpb=0.1)
    toolbox.register("select", tools.selTournament, tournsize=3)
    lost = 0
    for seed in range(50):
        random.seed(seed)
        population = [creator.Mask(random.choices((0, 1), k=40)) for _ in range(20)]
        fame = tools.HallOfFame(5)
        algorithms.eaSimple(population, toolbox, 0.8, 0.2, 10, halloffame=fame, verbose=False)
        lost += max(map(sum, population)) < sum(fame[0])
    return {"best_lost_in_seeds": lost, "seeds": 50}
