"""The paper's genetic search, done by the libraries people search with today; each gives an :class:`Outcome`.

DEAP is used the way of the paper: an individual is a list of bits, and the network it leaves is built and run for each
one alone. The other libraries are given our evaluator of whole populations, so that what they show is their own share.
Settings are the paper's wherever a library has them; where it has not, its nearest.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pygad
import torch
from deap import algorithms, base, creator, tools
from numpy.typing import NDArray
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.problem import Problem
from pymoo.operators.crossover.pntx import SinglePointCrossover
from pymoo.operators.mutation.bitflip import BitflipMutation
from pymoo.operators.sampling.rnd import BinaryRandomSampling
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.optimize import minimize
from torch import Tensor, nn

from weightsmith.reducing.search.evaluator import Readout

__all__ = ["Outcome", "Work", "by_cutting", "by_masking", "deap", "evotorch", "pygad_", "pymoo"]

POPULATION, GENERATIONS, ELITE, TOURNAMENT = 100, 50, 5, 3
CROSSOVER, MUTATION, FLIP, PENALTY = 0.8, 0.2, 0.1, 50.0

Masks = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Work:
    """A trained network of one hidden layer, and the rows its accuracy is counted on."""

    network: nn.Sequential
    x: Tensor
    y: Tensor

    @property
    def layers(self) -> tuple[nn.Linear, nn.Linear]:
        first, _, last = self.network
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        return first, last

    @property
    def units(self) -> int:
        return self.layers[0].out_features

    @torch.no_grad()
    def batched(self) -> Callable[[Masks], NDArray[np.float64]]:
        """Our evaluator of whole populations: equation 5, empty masks last of all."""
        _, last = self.layers
        readout = Readout(self.network[:2](self.x).numpy(), last.weight.numpy(), last.bias.numpy(), self.y.numpy())

        def fitness(masks: Masks) -> NDArray[np.float64]:
            sizes = masks.sum(axis=1)
            return np.where(sizes > 0, readout(masks) - PENALTY * sizes / self.units, -PENALTY)

        return fitness


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The best mask a search has found, and the fitness it says that it has."""

    mask: Masks
    fitness: float


# DEAP, one individual at a time


def by_cutting(work: Work, bits: list[int]) -> float:
    """Accuracy in percent of a new module with the units that are on."""
    first, last = work.layers
    kept = [unit for unit, bit in enumerate(bits) if bit]
    into, out = nn.Linear(first.in_features, len(kept)), nn.Linear(len(kept), last.out_features)
    network = nn.Sequential(into, nn.Sigmoid(), out)
    with torch.no_grad():
        into.weight.copy_(first.weight[kept])
        into.bias.copy_(first.bias[kept])
        out.weight.copy_(last.weight[:, kept])
        out.bias.copy_(last.bias)
        return 100 * float((network(work.x).argmax(dim=1) == work.y).float().mean())


def by_masking(work: Work, bits: list[int]) -> float:
    """Accuracy in percent of the whole network with the units that are off set to zero."""
    first, last = work.layers
    with torch.no_grad():
        hidden = torch.sigmoid(first(work.x)) * torch.tensor(bits, dtype=torch.float32)
        return 100 * float((last(hidden).argmax(dim=1) == work.y).float().mean())


def deap(work: Work, seed: int, accuracy: Callable[[Work, list[int]], float]) -> Outcome:
    """DEAP's operators and hall of fame, which is put back into the population as the paper says."""
    if not hasattr(creator, "PaperMask"):
        creator.create("PaperFitness", base.Fitness, weights=(1.0,))
        creator.create("PaperMask", list, fitness=creator.PaperFitness)
    random.seed(seed)

    def evaluate(bits: list[int]) -> tuple[float]:
        return (accuracy(work, bits) - PENALTY * sum(bits) / len(bits) if any(bits) else float("-inf"),)

    toolbox = base.Toolbox()
    toolbox.register("mate", tools.cxOnePoint)
    toolbox.register("mutate", tools.mutFlipBit, indpb=FLIP)
    population = [creator.PaperMask(random.choices((0, 1), k=work.units)) for _ in range(POPULATION)]
    fame = tools.HallOfFame(ELITE)
    for generation in range(GENERATIONS + 1):
        if generation:
            chosen = tools.selTournament(population, POPULATION - ELITE, tournsize=TOURNAMENT)
            # Copies of the chosen, pairs crossed, each mutated or not; what has changed has no fitness any more.
            population = [*algorithms.varAnd(chosen, toolbox, CROSSOVER, MUTATION), *fame]
        for mask in population:
            if not mask.fitness.valid:
                mask.fitness.values = evaluate(mask)
        fame.update(population)
    return Outcome(np.array(fame[0], np.bool_), fame[0].fitness.values[0])


# Libraries with an evaluator of whole populations


class _Masks(Problem):  # type: ignore[misc]
    def __init__(self, work: Work) -> None:
        super().__init__(n_var=work.units, n_obj=1, xl=0, xu=1, vtype=bool)
        self._fitness = work.batched()

    def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:
        out["F"] = -self._fitness(np.asarray(x, np.bool_))


def _fittest(population: Any, drawn: Any, **_: Any) -> Any:
    values = population.get("F")[:, 0]
    return drawn[np.arange(len(drawn)), values[drawn].argmin(axis=1)][:, None]


def pymoo(work: Work, seed: int) -> Outcome:
    """pymoo's GA, in which parents and offspring compete and duplicates are taken out."""
    algorithm = GA(
        pop_size=POPULATION,
        sampling=BinaryRandomSampling(),
        selection=TournamentSelection(func_comp=_fittest, pressure=TOURNAMENT),
        crossover=SinglePointCrossover(prob=CROSSOVER),
        mutation=BitflipMutation(prob=MUTATION, prob_var=FLIP),
    )
    found = minimize(_Masks(work), algorithm, ("n_gen", GENERATIONS + 1), seed=seed)
    return Outcome(np.asarray(found.X, np.bool_), -float(found.F[0]))


def pygad_(work: Work, seed: int) -> Outcome:
    """PyGAD with its elitism of five; it mutates genes, not individuals, hence the product of both chances."""
    fitness = work.batched()
    search = pygad.GA(
        num_generations=GENERATIONS,
        sol_per_pop=POPULATION,
        num_genes=work.units,
        num_parents_mating=POPULATION - ELITE,
        keep_elitism=ELITE,
        fitness_func=lambda _ga, masks, _indices: fitness(np.asarray(masks, np.bool_)).tolist(),
        fitness_batch_size=POPULATION,
        gene_type=int,
        gene_space=[0, 1],
        parent_selection_type="tournament",
        K_tournament=TOURNAMENT,
        crossover_type="single_point",
        crossover_probability=CROSSOVER,
        mutation_type="random",
        mutation_probability=MUTATION * FLIP,
        random_seed=seed,
        suppress_warnings=True,
    )
    search.run()
    mask, told, _ = search.best_solution()
    return Outcome(np.asarray(mask, np.bool_), float(told))


def _evotorch() -> Any:
    """EvoTorch without ray, which it imports for its worker processes and which is not installed: none are used."""
    if "ray" not in sys.modules:
        ray, util = types.ModuleType("ray"), types.ModuleType("ray.util")
        vars(ray).update(util=util, remote=lambda kind: kind, ObjectRef=object, is_initialized=lambda: False)
        vars(util).update(ActorPool=object)
        sys.modules.update({"ray": ray, "ray.util": util})
    import evotorch.algorithms
    import evotorch.operators

    logging.getLogger("evotorch").setLevel(logging.WARNING)  # on import it sets out to report every problem it is given
    return evotorch


def evotorch(work: Work, seed: int) -> Outcome:
    """EvoTorch's genetic algorithm, in which all pairs cross and parents compete with offspring; the flip is ours."""
    library, fitness = _evotorch(), work.batched()

    def evaluate(masks: Tensor) -> Tensor:
        return torch.from_numpy(fitness(masks.numpy() > 0.5)).float()

    problem = library.Problem(
        "max", evaluate, solution_length=work.units, initial_bounds=(0.0, 1.0), vectorized=True, seed=seed
    )

    def flipped(masks: Tensor) -> Tensor:
        generator = problem.generator
        chosen = torch.rand(len(masks), 1, generator=generator) < MUTATION
        return torch.where(chosen & (torch.rand(masks.shape, generator=generator) < FLIP), 1 - masks, masks)

    operators = [
        library.operators.OnePointCrossOver(problem, tournament_size=TOURNAMENT),
        flipped,
    ]
    search = library.algorithms.GeneticAlgorithm(problem, popsize=POPULATION, operators=operators, re_evaluate=False)
    search.run(GENERATIONS)
    best = search.status["best"]
    return Outcome(best.values.numpy() > 0.5, float(best.evals[0]))
