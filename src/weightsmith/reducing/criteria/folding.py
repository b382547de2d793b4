"""Folding: units with similar input weights are merged into one, without data.

Units of a site are clustered by Ward's method (the least growth of Σ ‖w − w̄‖² at every merger, a k-means without random
starts) on their input weights as batch norms scale them; ``surgery/merging.py`` folds each cluster into one unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.criteria.plain import Magnitude, given_counts
from weightsmith.reducing.decisions import Choice, Decision, Removal
from weightsmith.reducing.surgery.merging import rows_of

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext
    from weightsmith.reducing.surgery.sites import Site

__all__ = ["Folding"]


class Folding(Method, name="folding"):
    """Folds units whose input weights are similar into their mean, by weights alone (Wang et al., ICLR 2025).

    Needs no data: with ``refit="none"`` rows are used only to check and judge the result, and noise of the right shape
    suffices. Where units have no mean (attention heads, layers between a layer and the batch norm behind it), those of
    smallest L1 norm are removed.
    """

    needs_target: ClassVar[bool] = True

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Cluster the units of each site down to its count."""
        given = given_counts(counts, self)
        choices, plain = [], []
        for site in context.sites:
            rows = rows_of(context.network, site)
            if rows is None:
                plain.append(site)
            else:
                choices.append(_folded(site, rows.cpu().numpy(), given[site.name]))
        notes: tuple[str, ...] = ()
        if plain:
            choices += [Magnitude().choice(context, site, given) for site in plain]
            notes = (f"not folded, cut by L1 norm: {', '.join(site.name for site in plain)}",)
        return Decision(tuple(choices), notes=notes)


def _folded(site: Site, rows: NDArray[np.float64], keep: int) -> Choice:
    """Fold each cluster into its unit of largest norm."""
    removals = []
    for units in _clusters(rows, keep):
        kept = int(units[np.argmax(np.square(rows[units]).sum(axis=1))])
        removals += [
            Removal(int(unit), (kept,), (1.0,), inputs="fold", reason="folded") for unit in units if unit != kept
        ]
    return Choice(site.name, site.units, tuple(sorted(removals, key=lambda removal: removal.unit)))


def _clusters(rows: NDArray[np.float64], keep: int) -> list[NDArray[np.int64]]:
    from scipy.cluster.hierarchy import fcluster, linkage

    if keep >= len(rows):
        return [np.array([unit]) for unit in range(len(rows))]
    labels = fcluster(linkage(rows, "ward"), keep, "maxclust")
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
