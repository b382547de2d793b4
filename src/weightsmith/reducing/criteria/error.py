"""Choice by error: units whose removal leaves the least error in the layers that read them, once refitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from weightsmith.core.errors import UsageError
from weightsmith.core.options import param
from weightsmith.reducing.criteria.elimination import eliminate
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.criteria.readers import readers_of
from weightsmith.reducing.decisions import Choice, Decision, Removal

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["LeastError"]


class LeastError(Method, name="error"):
    """Removes, one at a time, the unit whose removal leaves the least error in the layers that read it, once refitted.

    Backward elimination by the optimal brain surgeon's formula (Hassibi and Stork 1993) on the Gram matrices of the
    readers' inputs; unlabelled rows suffice. Designed for ``refit="least-squares"``.
    """

    ridge: float = param(default=1e-4, gt=0, lt=1, doc="penalty on the change, as a share of the mean square of inputs")

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Eliminate at each site down to its count."""
        if counts is None:
            raise UsageError(f"{self} does not determine how much to remove; give a target (params:0.5) or a plan")
        orders = dict(context.orders)
        if any(len(orders.get(site.name, ())) < site.units - counts[site.name] for site in context.sites):
            orders = {
                name: eliminate([reader.problem for reader in readers], self.ridge, keep=counts[name]).order
                for name, readers in readers_of(context).items()
            }
        return Decision(
            tuple(
                Choice(
                    site.name,
                    site.units,
                    tuple(
                        Removal(unit, reason="error")
                        for unit in sorted(orders[site.name][: site.units - counts[site.name]])
                    ),
                )
                for site in context.sites
            )
        )
