"""A genetic search for channels, scored after compensation and seeded by the other methods.

Accuracy on a few rows hardly distinguishes masks of hundreds of channels. Here a mask is scored by the error of its
sites' readers once they are refitted, which needs no pass through the network (``criteria/elimination.py``):

    score = − Σ_sites Σ_readers tr( V_Jᵀ (P_JJ)⁻¹ V_J ) / energy        J the columns of all removed units

The first population contains the choices by error, by groups and by L1 norm, so the result is at least as good.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.reducing.criteria.elimination import removal_cost
from weightsmith.reducing.criteria.error import LeastError
from weightsmith.reducing.criteria.groups import Groups
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.criteria.plain import Magnitude, given_counts
from weightsmith.reducing.criteria.readers import readers_of
from weightsmith.reducing.decisions import Decision, Trace
from weightsmith.reducing.search.evolution import check_bits, evolve
from weightsmith.reducing.search.state import choices_of, resumed

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Compensated"]

_RIDGE = 1e-4


class Compensated(Method, name="compensated"):
    """A genetic search for the units whose readers have the least error once refitted; designed for channels.

    Seeded by ``error``, ``groups`` and ``magnitude``; a note says whether it found better units than these.
    """

    population: int = param(default=40, ge=4, le=1_000_000, doc="masks in each generation")
    generations: int = param(default=25, ge=1, doc="generations after the first")
    tournament: int = param(default=3, ge=1, doc="masks per tournament; the best becomes a parent")
    crossover: float = param(default=0.8, ge=0, le=1, doc="chance that a pair is crossed")
    mutation: float = param(default=0.5, ge=0, le=1, doc="chance that a mask mutates")
    flip: float = param(default=0.01, ge=0, le=1, doc="chance of each bit of a mutating mask to flip")
    elite: int = param(default=10, ge=1, doc="size of the hall of fame, which stays in the population")

    needs_target: ClassVar[bool] = True

    def check(self) -> None:
        """Check that the hall of fame leaves room for offspring."""
        if self.elite >= self.population:
            raise OptionError(f"compensated: elite must be < population ({self.population}), not {self.elite}")

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Search, and remove the units that the best mask turns off."""
        given = given_counts(counts, self)
        check_bits(context.bits)
        score = _score(context)
        seeds = _seeds(context, given)
        masks = np.stack(list(seeds.values()))
        search = functools.partial(evolve, score, context.bits, self, context.seed, first=masks)
        state = resumed(search, self, self.generations, context, counts)
        best = dict(zip(seeds, (-score(masks)).tolist(), strict=True))
        note = _verdict(-float(state.hall_scores[0]), best)
        return Decision(choices_of(context, state.hall[0]), Trace("− error after refit", state.rows), notes=(note,))


def _score(context: PruningContext) -> Callable[[NDArray[np.bool_]], NDArray[np.float64]]:
    costs = {
        name: removal_cost([reader.problem for reader in readers], _RIDGE)
        for name, readers in readers_of(context).items()
    }
    known: dict[tuple[str, bytes], float] = {}

    def error(name: str, part: NDArray[np.bool_]) -> float:
        key = (name, part.tobytes())
        if key not in known:
            known[key] = costs[name](np.flatnonzero(~part))
        return known[key]

    def score(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.array(
            [
                -sum(error(name, part) if part.any() else np.inf for name, part in context.split(mask).items())
                for mask in masks
            ]
        )

    return score


def _seeds(context: PruningContext, counts: Mapping[str, int]) -> dict[str, NDArray[np.bool_]]:
    """The choices of other methods as masks, by their names."""
    x = context.x if context.calibration is None else context.calibration
    few = dataclasses.replace(context, x=x, y=context.y[: len(x)], progress=None)
    found = {}
    for method in (LeastError(), Groups(), Magnitude()):
        kept = {choice.site: choice.kept for choice in method.choose(few, counts).choices}
        parts = [np.isin(np.arange(site.units), kept[site.name]) for site in context.sites]
        found[method.name] = np.concatenate(parts)
    return found


def _verdict(found: float, seeds: Mapping[str, float]) -> str:
    """A note on whether the search did better than its seeds."""
    name = min(seeds, key=lambda each: seeds[each])
    told = ", ".join(f"{each} {error:.4g}" for each, error in seeds.items())
    if found < seeds[name] * (1 - 1e-9):
        return f"the search found better units than its seeds: error {found:.4g} ({told})"
    return f"the search found no better units than its seeds: those of {name} were taken, error {found:.4g} ({told})"
