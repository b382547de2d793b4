"""The genetic method: search for the units to keep, by training accuracy minus a penalty for size."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Decision, FrontPoint, Trace
from weightsmith.reducing.search.evolution import State, check_bits, evolve
from weightsmith.reducing.search.fitness import guarded, penalised, units
from weightsmith.reducing.search.nsga2 import explore
from weightsmith.reducing.search.state import choices_of, kept_of, resumed

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Genetic", "Pareto"]


_PAPER = {"mutation": 0.2, "flip": 0.1, "elite": 5}
_TUNED_ELITE = 30


class Genetic(Method, name="genetic"):
    """A genetic search over masks, one bit per unit, with the operators and defaults of the paper (section 2.5).

    Fitness is equation 5, accuracy % − penalty · Nf/Ni, or equation 6 with ``per="units"``, accuracy % − penalty · Nf,
    on the training rows. A target fixes the number of units, and the penalty has no effect.
    """

    penalty: float = param(default=50.0, ge=0, lt=float("inf"), doc="λ: penalty on size, in points of accuracy")
    per: Literal["share", "units"] = param(default="share", doc="what λ multiplies: Nf/Ni (eq. 5) or Nf (eq. 6)")
    population: int = param(default=100, ge=2, le=1_000_000, doc="masks in each generation")
    generations: int = param(default=50, ge=1, doc="generations after the first, random one")
    tournament: int = param(default=3, ge=1, doc="masks per tournament; the best becomes a parent")
    crossover: float = param(default=0.8, ge=0, le=1, doc="chance that a pair is crossed")
    mutation: float = param(default=_PAPER["mutation"], ge=0, le=1, doc="chance that a mask mutates")
    flip: float = param(default=_PAPER["flip"], ge=0, le=1, doc="chance of each bit of a mutating mask to flip")
    elite: int = param(default=5, ge=1, doc="size of the hall of fame, which stays in the population")
    rows: int | None = param(default=None, ge=1, doc="training rows that fitness is measured on; none: all")
    preset: Literal["paper", "tuned"] = param(
        default="paper", doc="tuned: mutation 0.5, flip 2/units and elite 30, which did better on one hidden layer"
    )

    def check(self) -> None:
        """Check that the hall of fame leaves room for offspring, and that no setting is given twice."""
        own = [key for key in ("mutation", "flip", "elite") if getattr(self, key) != _PAPER[key]]
        if self.preset == "tuned" and own:
            raise OptionError(f"genetic: preset=tuned sets {own[0]} itself; leave one of them out")
        if self.elite >= self.population:
            raise OptionError(
                f"genetic: elite must be < population ({self.population}), not {self.elite}: nothing would ever change"
            )

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Search, and remove the units that the best mask of the hall of fame turns off."""
        check_bits(context.bits)
        fitness = context.fitness or penalised(self.penalty, self.per, context.bits, context.price)
        score = guarded(context.evaluator(self.rows), fitness, context.site_slices)
        search = functools.partial(evolve, score, context.bits, self.operators(context.bits), context.seed)
        state = resumed(search, self, self.generations, context, counts)
        # A price may still differ between masks of one size.
        fixed = counts and self.penalty and context.fitness is None and context.price is None
        notes = ("the target fixes the number of units, so the penalty had no effect",) if fixed else ()
        return Decision(choices_of(context, state.hall[0]), Trace(self._fitness_text(context), state.rows), notes=notes)

    def operators(self, bits: int) -> Genetic:
        """The settings for masks of ``bits`` units: these, or those of the preset."""
        if self.preset == "paper":
            return self
        elite = min(_TUNED_ELITE, self.population - 1)
        return dataclasses.replace(self, preset="paper", mutation=0.5, flip=min(1.0, 2 / bits), elite=elite)

    def _fitness_text(self, context: PruningContext) -> str:
        if context.fitness is not None:
            return "a function of its own"
        size = "Nf" if context.price is None else "price"
        share = f"{size}/{'Ni' if context.price is None else 'price of all'}"
        return f"training accuracy % − {self.penalty:g}·{share if self.per == 'share' else size}"


# The Pareto method: search the front of accuracy and size; the option is the accuracy that may be lost.


class Pareto(Method, name="pareto"):
    """NSGA-II over masks, for high training accuracy and few units (or a low price, if one is given).

    The decision holds the whole front. The result is its cheapest network within ``loss`` points of the full
    network's training accuracy; with a target, which fixes the number of units, the most accurate.
    """

    loss: float = param(default=1.0, ge=0, le=100, doc="points of training accuracy that may be lost")
    population: int = param(default=100, ge=2, le=5_000, doc="masks in each generation")
    generations: int = param(default=50, ge=1, doc="generations after the first, random one")
    tournament: int = param(default=2, ge=1, doc="masks per tournament; the best becomes a parent")
    crossover: float = param(default=0.8, ge=0, le=1, doc="chance that a pair is crossed")
    mutation: float = param(default=0.2, ge=0, le=1, doc="chance that a mask mutates")
    flip: float = param(default=0.1, ge=0, le=1, doc="chance of each bit of a mutating mask to flip")
    rows: int | None = param(default=None, ge=1, doc="training rows that accuracy is measured on; none: all")

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Search for the front, and remove the units that the chosen mask turns off."""
        check_bits(context.bits)
        score = guarded(context.evaluator(self.rows), lambda accuracy, _masks: accuracy, context.site_slices)
        price = units if context.price is None else context.price
        search = functools.partial(explore, score, price, context.bits, self, context.seed)
        state = resumed(search, self, self.generations, context, counts)
        taken = len(state.hall) - 1 if counts else self._cheapest(state)
        front = tuple(
            FrontPoint(-point, int(np.count_nonzero(mask)), kept_of(context, mask))
            for mask, point in zip(state.hall, state.hall_scores[:, 1].tolist(), strict=True)
        )
        notes = ("the target fixes the number of units, so the most accurate was taken",) if counts else ()
        return Decision(choices_of(context, state.hall[taken]), Trace("training accuracy %", state.rows), front, notes)

    def _cheapest(self, state: State) -> int:
        """The first of the front, sorted from cheap to accurate, within the allowed loss."""
        full = state.known[np.packbits(np.ones(state.hall.shape[1], np.bool_)).tobytes()]
        # Accuracies are shares of a count of rows: the tolerance covers rounding, not a row.
        return int(np.argmax(-state.hall_scores[:, 1] >= full - self.loss - 1e-9))
