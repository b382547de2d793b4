"""One fold of a study: every method reduces the same trained network."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from weightsmith.core.seeds import subseed
from weightsmith.data.splits import Fold
from weightsmith.networks.models.mlp import Mlp
from weightsmith.papers.study.batched import FoldNetwork, TrainingSettings
from weightsmith.papers.study.rows import StudyData
from weightsmith.papers.study.shallow import Shallow
from weightsmith.papers.study.study import Scaling
from weightsmith.reducing.baselines import random_masks
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.search.evaluator import Evaluator, Readout
from weightsmith.reducing.study_table import WHOLE, StudyRow
from weightsmith.reducing.surgery.sites import find_sites

__all__ = ["StudyFold", "StudyPlan"]


@dataclasses.dataclass(frozen=True)
class StudyPlan:
    """The settings of a study, parsed."""

    hidden: tuple[int, ...]
    methods: tuple[Method, ...]
    recipe: TrainingSettings
    folds: int
    repeats: int
    scaling: Scaling
    seed: int
    random: int
    scratch: bool

    def written(self) -> dict[str, Any]:
        """The text form for the record and the journal."""
        return {
            "hidden": list(self.hidden),
            "methods": list(map(str, self.methods)),
            **dataclasses.asdict(self.recipe),
            "folds": self.folds,
            "repeats": self.repeats,
            "scaling": self.scaling,
            "seed": self.seed,
            "random": self.random,
            "scratch": self.scratch,
        }


class StudyFold:
    """One fold of one repeat: its scaled rows, and the evaluation of networks on them."""

    def __init__(self, data: StudyData, fold: Fold, plan: StudyPlan, repeat: int, number: int) -> None:
        self.data, self.plan, self.repeat, self.number = data, plan, repeat, number
        x = data.inputs(fold.train, plan.scaling)
        self.x, self.y = np.ascontiguousarray(x[fold.train]), data.y[fold.train]
        self.test_x, self.test_y = np.ascontiguousarray(x[fold.test]), data.y[fold.test]

    def task(self, units: int, purpose: str) -> FoldNetwork:
        """A network to be trained on this fold; those trained from scratch have a different seed."""
        return FoldNetwork(self.x, self.y, units, subseed(self.plan.seed, purpose, self.repeat, self.number))

    def tested(self, network: Shallow) -> float:
        """The accuracy on the test rows, in percent."""
        return network.accuracy(network.hidden(self.test_x), self.test_y)

    def reduced(self, network: Shallow) -> list[StudyRow]:
        """The row of the network itself, then one for each method."""
        context = self._context(network)
        train, test = network.hidden(self.x), network.hidden(self.test_x)
        guess = Readout(test, network.outward, network.outward_bias, self.test_y)
        rows = [self._row(WHOLE, network, network.units, network.accuracy(train, self.y), self.tested(network))]
        for method in self.plan.methods:
            (choice,) = method.choose(context, None).choices
            smaller = network.reduced(choice)
            row = self._row(
                str(method),
                network,
                smaller.units,
                smaller.accuracy(smaller.hidden(self.x), self.y),
                self.tested(smaller),
            )
            rows.append(
                dataclasses.replace(
                    row,
                    angle=getattr(method, "angle", None),
                    penalty=getattr(method, "penalty", None),
                    random_accuracy=self._random(guess, smaller.units),
                )
            )
        return rows

    def _row(self, method: str, network: Shallow, units: int, train: float, test: float) -> StudyRow:
        return StudyRow(method, network.units, self.repeat, self.number, units, train, test)

    def _random(self, guess: Readout, units: int) -> float | None:
        """The mean test accuracy of random masks of this size; the network's own for all units."""
        if not self.plan.random:
            return None
        if units == guess.units:
            return float(guess(np.ones((1, units), np.bool_))[0])
        seed = subseed(self.plan.seed, "random", self.repeat, self.number)
        return random_masks(guess, [slice(0, guess.units)], [units], repeats=self.plan.random, seed=seed).mean

    def _context(self, network: Shallow) -> PruningContext:
        recipe = self.plan.recipe
        module = Mlp(
            (network.units,),
            input_shape=(self.x.shape[1],),
            classes=len(self.data.classes),
            activation=recipe.activation,
        ).build()
        network.write_into(module)
        x = torch.from_numpy(self.x)
        return _CachedContext(
            module.eval(),
            find_sites(module, x[:2]).sites,
            x,
            torch.from_numpy(self.y),
            seed=subseed(self.plan.seed, "method", self.repeat, self.number),
            batch=len(x),
        )


class _CachedContext(PruningContext):
    """A pruning context that computes the activations once for all methods."""

    @functools.cached_property
    def _grams(self) -> dict[tuple[tuple[str, float], ...], dict[str, Gram]]:
        return {}

    @functools.cached_property
    def _evaluators(self) -> dict[int | None, Evaluator]:
        return {}

    def grams(self, centres: Mapping[str, float]) -> dict[str, Gram]:
        """As the base class, cached for each centre."""
        key = tuple(sorted(centres.items()))
        if key not in self._grams:
            self._grams[key] = super().grams(centres)
        return self._grams[key]

    def evaluator(self, rows: int | None = None) -> Evaluator:
        """As the base class, cached for each number of rows."""
        if rows not in self._evaluators:
            self._evaluators[rows] = super().evaluator(rows)
        return self._evaluators[rows]
