"""Joint redundancy: units that are combinations of several others, though near to none of them (seed 003, outlook).

The 1991 paper looks for groups of three and more units by elimination in a table banded to 0, ½ and 1. Here it is the
rank-revealing QR of the centred activations scaled to length 1 (Businger and Golub 1965), computed as the pivoted
Cholesky factor of their cosines,

    PᵀCP = UᵀU ,   U = [U₁₁ U₁₂; 0 S]

which repeatedly picks the unit with the largest angle to the span of the units picked before. The others lie
within the angle of that span and are replaced by their least-squares combinations X = U₁₁⁻¹U₁₂ of the kept ones.

If a target sets the number of units, the units with the least effect are removed instead of the redundant ones: vectors
then have the length dⱼ = ‖hⱼ − c‖·‖wⱼ‖ of their effect on the readers, with wⱼ the weights that read unit j (as a
batch norm behind them scales these), and C becomes DCD.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.options import param
from weightsmith.reducing.criteria.centres import WITHOUT_CONSTANTS, centre_of, centre_text, centred_grams
from weightsmith.reducing.criteria.constants import choose_by_site, constant_units, into_bias, least_kept
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice, Decision, Removal

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Groups", "choose_by_groups"]


class Groups(Method, name="groups"):
    """Removes units that are combinations of the others, within an angle between a unit and the span of the kept.

    A target sets the number of units regardless of the angle; a note reports removed units beyond it.

    >>> str(Groups()), str(Groups(30, centre=0.5))
    ('groups', 'groups:angle=30.0,centre="0.5"')
    """

    angle: float = param(default=15.0, gt=0, le=90, doc="remove units within these degrees of the span of the kept")
    centre: str = param(default="mean", doc="mean, auto (sigmoid 0.5, tanh 0, others mean), none or a number")
    constant: float = param(default=1e-6, ge=0, lt=1, doc="remove units whose range is below this share of the widest")
    pivot: Literal["auto", "angle", "effect"] = param(
        default="auto",
        doc="which units to keep first: by angle or by effect on the readers; auto: by effect if a target is given",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", centre_text(self.centre))
        super().__post_init__()

    def check(self) -> None:
        """Check that the centre is known or a number."""
        centre_of(self.centre, None)

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Reduce each site separately, to its number of units or by the angle."""
        if self.pivot == "effect" and counts is None:
            raise UsageError(
                f"{self}: pivot=effect does not determine how much to remove; give a target (params:0.5) or a plan"
            )
        grams = centred_grams(context, self.centre)
        weigh = self.pivot == "effect" or (self.pivot == "auto" and counts is not None)
        return choose_by_site(choose_by_groups, self, context, grams, counts, weigh=weigh)


def choose_by_groups(
    site: str,
    units: int,
    gram: Gram,
    option: Groups,
    keep: int | None = None,
    *,
    constants: bool = True,
    reading: NDArray[np.float64] | None = None,
) -> Choice:
    """Choose removals at ``site``: constant units, then those near the span of the first pivots, or first ``keep``.

    ``constants=False`` if the readers cannot absorb constants: only zero vectors count as constant then, and ``gram``
    must be about 0. ``reading`` are the norms of the weights that read each unit, for pivoting by effect.
    """
    least = least_kept(site, units, gram, keep)
    steady = constant_units(gram, option.constant, constants=constants)[: units - least]
    removals = [into_bias(gram, unit, "constant", constants=constants) for unit in steady]
    notes = [] if constants else [WITHOUT_CONSTANTS]
    if units - len(steady) > least:
        scales = None if reading is None else gram.lengths * reading
        if scales is not None and not scales.any():
            scales = None  # no reading weights: no unit has an effect, and only angles distinguish them
        combined = _combined(gram, steady, option.angle, keep, scales)
        removals += combined
        beyond = [removal.angle for removal in combined if removal.angle is not None and removal.angle > option.angle]
        if keep is not None and beyond:
            beyond_note = f"{len(beyond)} units beyond {option.angle:g}° were removed too, up to {max(beyond):.1f}°"
            notes.append(f"to keep {keep}, {beyond_note}")
    return Choice(site, units, tuple(removals), tuple(notes))


def _combined(
    gram: Gram, steady: list[int], angle: float, keep: int | None, scales: NDArray[np.float64] | None
) -> list[Removal]:
    """The removals of all but the ``steady`` units, as combinations of the kept pivots; the nearest first."""
    cosines = gram.cosines()
    cosines[steady], cosines[:, steady] = 0, 0  # zero vectors are never pivots
    limit = math.sin(math.radians(angle)) ** 2
    if scales is None or keep is None:
        factor, pivots, taken = _pivoted(cosines, limit if keep is None else 0.0)
    else:
        factor, pivots, taken = _by_effect(cosines, scales)
    stay = min(taken, keep or taken)
    rest = stay + np.argsort(pivots[stay:])
    rest = rest[~np.isin(pivots[rest], steady)]
    # Beyond the numerical rank every unit is a combination of the pivots, so keep the first ones.
    rest = rest[(keep or stay) - stay :]
    right = factor[:stay, rest]
    sines = np.sqrt(np.clip(1 - np.square(right, dtype=np.float64).sum(axis=0), 0, 1))
    return _removals(gram, (pivots[:stay], pivots[rest]), _solved(factor[:stay, :stay], right), sines)


def _pivoted(cosines: NDArray[Any], tolerance: float) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """U, the pivots, and how many were taken before sin² of the largest angle fell to ``tolerance``."""
    from scipy.linalg import lapack

    rounding = len(cosines) * float(np.finfo(cosines.dtype).eps)
    decompose = lapack.spstrf if cosines.dtype == np.float32 else lapack.dpstrf
    # The first pivot has no predecessors: it must pass even at 90°.
    factor, pivots, taken, _ = decompose(cosines, tol=min(max(tolerance, rounding), 1 - rounding), overwrite_a=1)
    return factor, pivots.astype(np.int64) - 1, int(taken)


def _by_effect(cosines: NDArray[Any], scales: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """As :func:`_pivoted`, with the pivot order of vectors of these lengths; U is still that of unit vectors."""
    sizes = (scales / scales.max()).astype(cosines.dtype)
    factor, pivots, taken = _pivoted(cosines * sizes[:, None] * sizes, 0.0)
    own = sizes[pivots]
    return factor / np.where(own > 0, own, 1), pivots, taken


def _solved(triangle: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    from scipy.linalg import solve_triangular

    solved: NDArray[Any] = solve_triangular(triangle, right, overwrite_b=True, check_finite=False)
    return solved


def _removals(
    gram: Gram,
    split: tuple[NDArray[np.int64], NDArray[np.int64]],
    weights: NDArray[Any],
    sines: NDArray[np.float64],
) -> list[Removal]:
    """Rescale weights of unit vectors to factors of the units themselves; drop those below rounding."""
    lengths, centres = gram.lengths, gram.centres
    order = np.argsort(split[0])
    stay, goes = split[0][order], split[1]
    least = float(np.finfo(gram.precision).eps) ** 0.75
    names = stay.tolist()
    removals = []
    for position in np.lexsort((goes, sines)):
        unit = int(goes[position])
        column = weights[order, position].astype(np.float64)
        into = np.flatnonzero(np.abs(column) > least * np.abs(column).max())
        factors = column[into] * lengths[unit] / lengths[stay[into]]
        removals.append(
            Removal(
                unit,
                tuple(names[k] for k in into),
                tuple(factors.tolist()),
                float(centres[unit] - factors @ centres[stay[into]]),
                reason="group",
                angle=math.degrees(math.asin(sines[position])),
            )
        )
    return removals
