"""The baseline criteria: smallest weights, and random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.options import param
from weightsmith.core.seeds import stream
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice, Decision, Removal

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext
    from weightsmith.reducing.surgery.sites import Site

__all__ = ["Magnitude", "Random"]


class Magnitude(Method, name="magnitude"):
    """Removes units with the smallest input weights: Σ|w|ᵖ over the weights that write a unit (Li et al. 2017, p = 1).

    Where several layers write the unit, their sums are added.
    """

    norm: Literal[1, 2] = param(default=1, doc="p: 1 or 2")

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Remove the smallest units of each site, down to its count."""
        return Decision(
            tuple(_smallest(site, self._sizes(context, site), _given(counts, self), "norm") for site in context.sites)
        )

    @torch.no_grad()
    def _sizes(self, context: PruningContext, site: Site) -> NDArray[np.float64]:
        total = np.zeros(site.units)
        for port in site.writers:
            weight = context.network.get_submodule(port.layer).get_parameter("weight")
            rows = weight.detach().double().abs().pow(self.norm).flatten(1).sum(dim=1).cpu().numpy()
            total += rows[port.indices].sum(axis=1)
        return total


class Random(Method, name="random"):
    """Removes units drawn by the seed."""

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Remove random units of each site, down to its count."""
        given = _given(counts, self)
        return Decision(
            tuple(
                _smallest(site, stream(context.seed, "random", site.name).permutation(site.units), given, "random")
                for site in context.sites
            )
        )


def _given(counts: Mapping[str, int] | None, method: Method) -> Mapping[str, int]:
    if counts is None:
        raise UsageError(f"{method} cannot tell how much to take out; give a target (params:0.5) or a plan")
    return counts


def _smallest(
    site: Site, sizes: NDArray[np.float64] | NDArray[np.int64], counts: Mapping[str, int], why: str
) -> Choice:
    """Remove the units of smallest size; of equal ones the later."""
    order = np.lexsort((-np.arange(site.units), sizes))[: site.units - counts[site.name]]
    return Choice(site.name, site.units, tuple(Removal(int(unit), reason=why) for unit in np.sort(order)))
