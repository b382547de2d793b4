"""The baseline criteria: smallest weights, smallest factors of batch norms, and random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.core.options import param
from weightsmith.core.seeds import stream
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice, Decision, Removal

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext
    from weightsmith.reducing.surgery.sites import Site

__all__ = ["Magnitude", "NormScale", "Random", "given_counts", "smallest"]


class Magnitude(Method, name="magnitude"):
    """Removes units with the smallest input weights: Σ|w|ᵖ over the weights that write a unit (Li et al. 2017, p = 1).

    Where several layers write the unit, their sums are added.
    """

    norm: Literal[1, 2] = param(default=1, doc="p: 1 or 2")

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Remove the smallest units of each site, down to its count."""
        given = given_counts(counts, self)
        return Decision(tuple(self.choice(context, site, given) for site in context.sites))

    def choice(self, context: PruningContext, site: Site, counts: Mapping[str, int]) -> Choice:
        """Remove the smallest units of one site."""
        return smallest(site, self._sizes(context, site), counts, "norm")

    @torch.no_grad()
    def _sizes(self, context: PruningContext, site: Site) -> NDArray[np.float64]:
        total = np.zeros(site.units)
        for port in site.writers:
            weight = outputs_first(context.network.get_submodule(port.layer))
            rows = weight.detach().double().abs().pow(self.norm).flatten(1).sum(dim=1).cpu().numpy()
            total += rows[port.indices].sum(axis=1)
        return total


class NormScale(Method, name="scale"):
    """Removes units with the smallest factor |γ| of the batch norm behind them (Liu et al. 2017, "network slimming").

    Where several batch norms carry the unit, their factors are added.
    """

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Remove the units of smallest factor of each site, down to its count."""
        given = given_counts(counts, self)
        return Decision(tuple(smallest(site, self._sizes(context, site), given, "scale") for site in context.sites))

    @torch.no_grad()
    def _sizes(self, context: PruningContext, site: Site) -> NDArray[np.float64]:
        total, found = np.zeros(site.units), False
        for port in site.carriers:
            norm = context.network.get_submodule(port.layer)
            if isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.affine:
                total += norm.weight.double().abs().cpu().numpy()[port.indices].sum(axis=1)
                found = True
        if not found:
            raise UsageError(f"{self}: no batch norm with factors follows {site.name}; leave it out with layers=…")
        return total


class Random(Method, name="random"):
    """Removes units drawn by the seed."""

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Remove random units of each site, down to its count."""
        given = given_counts(counts, self)
        return Decision(
            tuple(
                smallest(site, stream(context.seed, "random", site.name).permutation(site.units), given, "random")
                for site in context.sites
            )
        )


def given_counts(counts: Mapping[str, int] | None, method: Method) -> Mapping[str, int]:
    """The counts; without them the method is refused."""
    if counts is None:
        raise UsageError(f"{method} does not determine how much to remove; give a target (params:0.5) or a plan")
    return counts


def smallest(site: Site, sizes: NDArray[np.float64] | NDArray[np.int64], counts: Mapping[str, int], why: str) -> Choice:
    """Remove the units of smallest size; among equal ones, the later."""
    order = np.lexsort((-np.arange(site.units), sizes))[: site.units - counts[site.name]]
    return Choice(site.name, site.units, tuple(Removal(int(unit), reason=why) for unit in np.sort(order)))
