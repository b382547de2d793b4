"""The Pareto method: search the front of accuracy and size; the option is the accuracy that may be lost."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from weightsmith.core.options import param
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Decision, FrontPoint, Trace
from weightsmith.reducing.search.evolution import State, check_bits
from weightsmith.reducing.search.fitness import guarded, units
from weightsmith.reducing.search.nsga2 import explore
from weightsmith.reducing.search.state import choices_of, kept_of, resumed

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Pareto"]


class Pareto(Method, name="pareto"):
    """NSGA-II over masks, for high training accuracy and few units (or a low price, if one is given).

    The decision holds the whole front. The result is its cheapest network within ``loss`` points of the full
    network's training accuracy; with a target, which fixes the number of units, the most accurate.
    """

    loss: float = param(default=1.0, ge=0, le=100, doc="points of training accuracy that may be lost")
    population: int = param(default=100, ge=2, le=5_000, doc="masks in each generation")
    generations: int = param(default=50, ge=1, doc="after the first, random one")
    tournament: int = param(default=2, ge=1, doc="masks of which the best becomes a parent")
    crossover: float = param(default=0.8, ge=0, le=1, doc="chance that a pair changes its ends")
    mutation: float = param(default=0.2, ge=0, le=1, doc="chance that a mask mutates")
    flip: float = param(default=0.1, ge=0, le=1, doc="chance of each bit of one that does")
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
        notes = ("the target holds the number of units, so the most accurate was taken",) if counts else ()
        return Decision(choices_of(context, state.hall[taken]), Trace("training accuracy %", state.rows), front, notes)

    def _cheapest(self, state: State) -> int:
        """The first of the front, sorted from cheap to accurate, within the allowed loss."""
        full = state.known[np.packbits(np.ones(state.hall.shape[1], np.bool_)).tobytes()]
        # Accuracies are shares of a count of rows: the tolerance covers rounding, not a row.
        return int(np.argmax(-state.hall_scores[:, 1] >= full - self.loss - 1e-9))
