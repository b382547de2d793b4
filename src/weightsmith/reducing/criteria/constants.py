"""Units that are removed without a partner: nearly constant ones, whose mean goes into the bias, and short ones.

The 1991 paper names both kinds: units with the same output on every row, and units with short activation vectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.decisions import Choice, Decision, Removal

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext
    from weightsmith.reducing.criteria.method import Method

__all__ = ["carried", "choose_by_site", "constant_units", "into_bias", "least_kept", "short_units"]


def constant_units(gram: Gram, share: float, *, constants: bool = True) -> list[int]:
    """Units whose range is below ``share`` of the widest, and zero vectors; smallest range first, ties by later index.

    Without ``constants`` (no bias can absorb them), only zero vectors.

    >>> gram = Gram(3)
    >>> gram.add(np.array([[0.0, 0.2, 0.7], [1.0, 0.3, 0.7]]))
    >>> constant_units(gram, 1e-6), constant_units(gram, 0.5), constant_units(gram, 0.5, constants=False)
    ([2], [2, 1], [])
    """
    spans = gram.maxima - gram.minima
    chosen = gram.zero | (spans < share * spans.max()) if constants else gram.zero
    return _ascending(spans, chosen)


def short_units(gram: Gram, share: float, among: NDArray[np.bool_]) -> list[int]:
    """Of the units ``among``, those whose vector is shorter than ``share`` of the median; the shortest first."""
    lengths = gram.lengths
    if not share or not among.any():
        return []
    return _ascending(lengths, among & (lengths < share * np.median(lengths[among])))


def into_bias(gram: Gram, unit: int, reason: str, *, constants: bool = True) -> Removal:
    """Remove ``unit`` and replace it by its mean; without ``constants``, by nothing."""
    return Removal(unit, constant=float(gram.means[unit]) if constants else 0.0, reason=reason)


def choose_by_site(
    choose: Callable[..., Choice],
    option: Method,
    context: PruningContext,
    grams: Mapping[str, Gram],
    counts: Mapping[str, int] | None,
    *,
    weigh: bool,
) -> Decision:
    """The removals of ``choose`` at each site, down to its number of units in ``counts`` or by the rule of ``option``.

    ``weigh`` passes it the norms of the weights that read each unit. Without ``counts``, constants are :func:`carried`
    by a unit if a reader of the site pads with zeros.
    """
    choices = []
    for site in context.sites:
        gram, keep = grams[site.name], None if counts is None else counts[site.name]
        reading = context.reading_norms(site) if weigh else None
        choice = choose(site.name, site.units, gram, option, keep, constants=site.takes_constants, reading=reading)
        choices.append(carried(choice, gram) if counts is None and site.padded else choice)
    return Decision(tuple(choices))


def carried(choice: Choice, gram: Gram) -> Choice:
    """The same removals, with their constants carried by one constant unit that is kept; for readers with zero padding.

    A bias reaches every position, a unit only those that are not padding: a constant moved into the bias changes the
    output at the border. A unit that always gives v ≠ 0 can carry it instead, c = (c/v)·v, and is padded like the
    removed unit. Without such a unit, or if nothing else needs a constant, the choice is returned unchanged.

    >>> gram = Gram(3)
    >>> gram.add(np.array([[2.0, 0.2, 0.5], [2.0, 0.3, 0.5]]))
    >>> goes = Choice("a", 3, (Removal(0, constant=2.0), Removal(2, constant=0.5)))
    >>> [(removal.unit, removal.into, removal.factors, removal.constant) for removal in carried(goes, gram).removals]
    [(2, (0,), (0.25,), 0.0)]
    """
    steady = (gram.minima == gram.maxima) & (gram.means != 0)
    alone = [removal.unit for removal in choice.removals if not removal.into and steady[removal.unit]]
    needing = [removal for removal in choice.removals if removal.constant]
    if not alone or len(needing) < 2 or any(removal.inputs != "keep" for removal in choice.removals):
        return choice
    carrier = max(alone, key=lambda unit: (abs(gram.means[unit]), -unit))
    removals = tuple(
        dataclasses.replace(
            removal,
            into=(*removal.into, carrier),
            factors=(*removal.factors, removal.constant / float(gram.means[carrier])),
            constant=0.0,
        )
        if removal.constant
        else removal
        for removal in choice.removals
        if removal.unit != carrier
    )
    note = f"unit {carrier}, which is constant, stays to carry the constants of {len(needing) - 1} others"
    return dataclasses.replace(choice, removals=removals, notes=(*choice.notes, f"{note} past zero padding"))


def _ascending(sizes: NDArray[np.float64], chosen: NDArray[np.bool_]) -> list[int]:
    order = np.lexsort((-np.arange(len(sizes)), sizes))
    return [int(unit) for unit in order if chosen[unit]]


# The smallest number of units that a method based on a Gram matrix may keep.


def least_kept(site: str, units: int, gram: Gram, keep: int | None) -> int:
    """``keep``, or 1 without a target; a number of units that the site cannot have raises an error."""
    if gram.units != units:
        raise UsageError(f"{site}: has {units} units, but the Gram matrix has {gram.units}")
    if keep is not None and not 1 <= keep <= units:
        raise UsageError(f"{site}: can keep 1 to {units} units, not {keep}")
    return keep or 1
