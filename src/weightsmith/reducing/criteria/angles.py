"""Distinctiveness: units whose activations are nearly the same, or nearly opposite, on every row (seed 003).

A unit's activation vector has one entry per training row, measured from a centre c (0.5 for sigmoids). Two units whose
vectors enclose an angle below t are *similar*, and one is removed; above 180° − t they are *complementary*. Source:
Gedeon and Harris, "Network reduction techniques", 1991; the paper of seed 003 uses 15° and, with little loss, 45°.

Cosines are compared, strictly, with cos t, which avoids the rounding of arccos near 0°. Pairs are processed by
descending |cos|, ties by index; the lower index is kept; a pair with a removed unit is skipped; vectors are not
recomputed within the sweep.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.core.records import Record
from weightsmith.reducing.criteria.centres import WITHOUT_CONSTANTS, centre_of, centre_text, centred_grams
from weightsmith.reducing.criteria.constants import (
    choose_by_site,
    constant_units,
    into_bias,
    least_kept,
    short_units,
)
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Choice, Decision, Removal

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Angles", "Pair", "angles_between", "choose_by_angles", "pairs", "threshold_of"]


class Angles(Method, name="angles"):
    """Merges similar units and folds complementary ones, within an angle.

    With hⱼ − c ≈ s(hᵢ − c), unit j is replaced by s·hᵢ + c(1 − s). ``merge`` sets s: ``scaled`` to the least-squares
    ⟨hᵢ,hⱼ⟩/⟨hᵢ,hᵢ⟩; ``outputs`` to ±1, which adds j's output weights to i's as the paper does; ``literal`` also adds
    the input weights and biases of similar units, as its wording allows, and ``mean`` averages them; ``none`` adds
    nothing. ``complementary`` pairs are folded (s < 0), both removed (the paper), or kept.

    The order matters if a target sets the number of units: ``effect`` begins with the pair whose merging changes the
    outputs of the readers least, ‖hⱼ − c‖·‖wⱼ‖·sin ∠(i, j) with wⱼ the weights that read unit j, and removes the unit
    of the pair with the smaller effect.

    >>> str(Angles(15, merge="outputs", complementary="remove"))
    'angles:15.0,merge=outputs,complementary=remove'
    """

    angle: float = param(gt=0, le=90, doc="t in degrees; with a target, how far merging may go to meet it")
    merge: Literal["scaled", "outputs", "literal", "mean", "none"] = param(
        default="scaled", doc="what the kept unit takes over"
    )
    complementary: Literal["fold", "remove", "keep"] = param(default="fold", doc="pairs above 180° − t")
    centre: str = param(default="auto", doc="auto (sigmoid 0.5, tanh 0, others mean), mean, none or a number")
    short: float = param(default=0.0, ge=0, lt=1, doc="remove vectors below this share of the median length; 0: none")
    constant: float = param(default=1e-6, ge=0, lt=1, doc="remove units whose range is below this share of the widest")
    order: Literal["auto", "cosine", "index", "effect"] = param(
        default="auto",
        doc="which pair first: nearest, lowest index, least effect; auto: effect with a target, else nearest",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", centre_text(self.centre))
        object.__setattr__(self, "merge", _word(self.merge))
        super().__post_init__()

    def check(self) -> None:
        """Check that the centre is known or a number, and that the order by effect always has a unit to merge into."""
        centre_of(self.centre, None)
        if self.order == "effect" and self.complementary == "remove":
            raise OptionError("angles: order=effect merges units; it cannot remove both of a complementary pair")

    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """Reduce each site separately, to its number of units or by the angle."""
        grams = centred_grams(context, self.centre)
        weigh = self.order == "effect" or (self.order == "auto" and counts is not None)
        return choose_by_site(choose_by_angles, self, context, grams, counts, weigh=weigh)


@dataclasses.dataclass(frozen=True, eq=False)
class Pair(Record):
    """Two units, a < b, and the angle between them in degrees."""

    a: int
    b: int
    degrees: float
    kind: Literal["similar", "complementary"]


def pairs(gram: Gram, angle: float) -> tuple[Pair, ...]:
    """All pairs closer than ``angle`` degrees to 0° or to 180°, the nearest first.

    >>> gram = Gram(3)
    >>> gram.add(np.array([[1.0, 0.0], [0.1, 1.0], [-2.0, 0.0]]).T)
    >>> [(pair.a, pair.b, pair.kind) for pair in pairs(gram, 15)]
    [(0, 2, 'complementary')]
    """
    reading, threshold = gram.reading(), threshold_of(angle)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    for start, stop in reading.strips():
        cosines = reading.cosines(start, stop)
        a, b = np.nonzero(np.triu(np.abs(cosines) > threshold, 1))
        found.append((a + start, b + start, cosines[a, b]))
    a, b, cosines = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((b, a, -gram.rounded(np.abs(cosines))))
    degrees = np.degrees(np.arccos(cosines))
    return tuple(
        Pair(int(a[k]), int(b[k]), float(degrees[k]), "similar" if cosines[k] > 0 else "complementary") for k in order
    )


def angles_between(gram: Gram) -> NDArray[np.float64]:
    """The angle of every pair in degrees (units, units); 90° for a unit without direction, as for unrelated ones."""
    degrees: NDArray[np.float64] = np.degrees(np.arccos(gram.cosines().astype(np.float64)))
    return degrees


def choose_by_angles(
    site: str,
    units: int,
    gram: Gram,
    option: Angles,
    keep: int | None = None,
    *,
    constants: bool = True,
    reading: NDArray[np.float64] | None = None,
) -> Choice:
    """Choose removals at ``site``: constant units, short ones, then pairs, until ``keep`` (at least one) are left.

    ``constants=False`` if the readers cannot absorb constants: only zero vectors count as constant then, and ``gram``
    must be about 0. ``reading`` has the norm of the weights that read each unit, for the order by effect (None: all 1).
    """
    left = least_kept(site, units, gram, keep)
    removals: list[Removal] = []
    alive = np.ones(units, dtype=np.bool_)

    def give_up(chosen: list[int], reason: str) -> None:
        for unit in chosen[: int(alive.sum()) - left]:
            removals.append(into_bias(gram, unit, reason, constants=constants))
            alive[unit] = False

    give_up(constant_units(gram, option.constant, constants=constants), "constant")
    give_up(short_units(gram, option.short, alive & ~gram.zero), "short")
    sweep = _Sweep(gram, threshold_of(option.angle), option.complementary, alive, left)
    lengths, centres = gram.lengths, gram.centres

    def by_effect() -> Iterator[tuple[int, int, float]]:
        return sweep.by_effect(lengths if reading is None else lengths * reading)

    orders = {
        "auto": sweep.by_cosine if keep is None or option.complementary == "remove" else by_effect,
        "cosine": sweep.by_cosine,
        "index": sweep.by_index,
        "effect": by_effect,
    }
    for pair in orders[option.order]():
        removals += _merged(option, lengths, centres, pair)
    notes = [] if constants else [WITHOUT_CONSTANTS]
    if keep is not None and alive.sum() > keep:
        notes.append(f"{alive.sum()} units are left, not {keep}: no other pair is within {option.angle:g}°")
    return Choice(site, units, tuple(removals), tuple(notes))


def _word(value: Any) -> Any:
    """Keep the word ``none``, which option texts otherwise read as no value."""
    return "none" if value is None else value


def threshold_of(angle: float) -> float:
    """cos t, raised by a few last bits: an angle of exactly t is not below it, but identical units always are."""
    bits = 4 * sys.float_info.epsilon
    return min(math.cos(math.radians(angle)) + bits, 1 - bits)


def _merged(
    option: Angles, lengths: NDArray[np.float64], centres: NDArray[np.float64], pair: tuple[int, int, float]
) -> tuple[Removal, ...]:
    """Merge unit b into a; remove both units of a complementary pair that is to be removed."""
    a, b, cosine = pair
    angle = math.degrees(math.acos(cosine))
    reason = "similar" if cosine > 0 else "complementary"
    if cosine < 0 and option.complementary == "remove":
        return Removal(b, reason=reason, angle=angle), Removal(a, reason=reason, angle=angle)
    if option.merge == "none":
        return (Removal(b, reason=reason, angle=angle),)
    factor = cosine * lengths[b] / lengths[a] if option.merge == "scaled" else math.copysign(1.0, cosine)
    # Opposite units have opposite input weights: their sum or mean would be near zero.
    inputs: Literal["keep", "sum", "mean"] = "keep"
    if cosine > 0 and option.merge in ("literal", "mean"):
        inputs = "sum" if option.merge == "literal" else "mean"
    constant = float(centres[b] - factor * centres[a])
    return (Removal(b, (a,), (float(factor),), constant, inputs, reason, angle),)


# A sweep over pairs of units, nearest first, without a list of pairs: 10,000 units may have 50 million.
#
# Only the nearest later partner of each unit is stored. Units are only ever removed, so a stored cosine is an upper
# bound; it is recomputed only when it is the largest and the partner has been removed. The order is that of the sorted
# list of all pairs.


_NONE = -1.0


class _Sweep:
    """Yields pairs (a, b, cosine), a < b, to merge; updates ``alive``, down to ``left`` units.

    Unit b is removed; with ``complementary`` "remove", both units of a complementary pair, if enough are left.
    """

    def __init__(
        self,
        gram: Gram,
        threshold: float,
        complementary: Literal["fold", "remove", "keep"],
        alive: NDArray[np.bool_],
        left: int,
    ) -> None:
        self.reading = gram.reading()
        self.rounded = gram.rounded
        self.threshold = threshold
        self.complementary = complementary
        self.alive = alive
        self.spare = int(alive.sum()) - left

    def by_cosine(self) -> Iterator[tuple[int, int, float]]:
        """By descending |cosine|, ties by index."""
        best, partner, cosine = self._all_partners()
        while self.spare > 0:
            unit = int(best.argmax())
            if best[unit] == _NONE:
                return
            other, value = int(partner[unit]), float(cosine[unit])
            if not self.alive[unit]:
                best[unit] = _NONE
            elif self.alive[other] and (value > 0 or self._takes_opposites()):
                yield self._taken(unit, other, value)
            else:
                (best[unit],), (partner[unit],), (cosine[unit],) = self._partners(unit, unit + 1)

    def by_index(self) -> Iterator[tuple[int, int, float]]:
        """By ascending index of both units."""
        for unit in map(int, np.flatnonzero(self.alive)):
            if not self.alive[unit] or self.spare <= 0:
                continue
            cosines = self.reading.cosines(unit, unit + 1)
            for step in map(int, np.flatnonzero(self._near(cosines, unit))):
                value = float(cosines[0, step])
                if self.spare > 0 and self.alive[unit] and (value > 0 or self._takes_opposites()):
                    yield self._taken(unit, unit + step, value)

    def by_effect(self, effects: NDArray[np.float64]) -> Iterator[tuple[int, int, float]]:
        """By ascending effect · sin(angle) of the second unit, which is merged into the first.

        Complementary pairs are folded or kept here, so every removed unit has a partner. All cosines are in memory at
        once.
        """
        cosines = np.abs(matrix := self._all_cosines())
        if self.complementary != "fold":
            cosines = np.where(matrix > 0, cosines, 0.0)
        np.fill_diagonal(cosines, 0.0)
        cosines[:, ~self.alive] = 0.0
        partner = cosines.argmax(axis=1)
        near = cosines[np.arange(len(cosines)), partner]
        while self.spare > 0:
            losses = effects**2 * np.clip(1 - self.rounded(near) ** 2, 0, 1)
            losses[~self.alive | (near <= self.threshold)] = np.inf
            unit = int(losses.argmin())
            if losses[unit] == np.inf:
                return
            yield self._taken(int(partner[unit]), unit, float(matrix[unit, partner[unit]]), fold=True)
            cosines[:, unit] = 0.0
            stale = np.flatnonzero(self.alive & (partner == unit))
            partner[stale] = cosines[stale].argmax(axis=1)
            near[stale] = cosines[stale, partner[stale]]

    def _all_cosines(self) -> NDArray[np.float64]:
        units = len(self.alive)
        matrix = np.empty((units, units))
        for start, stop in self.reading.strips():
            strip = self.reading.cosines(start, stop)
            matrix[start:stop, start:] = strip
            matrix[start:, start:stop] = strip.T
        return matrix

    def _taken(self, unit: int, other: int, cosine: float, *, fold: bool = False) -> tuple[int, int, float]:
        gone = [unit, other] if cosine < 0 and self.complementary == "remove" and not fold else [other]
        self.alive[gone] = False
        self.spare -= len(gone)
        return unit, other, cosine

    def _takes_opposites(self) -> bool:
        return self.complementary == "fold" or (self.complementary == "remove" and self.spare > 1)

    def _near(self, cosines: NDArray[np.float64], start: int) -> NDArray[np.bool_]:
        """Which cosines of a strip that begins at unit ``start`` belong to pairs that may be merged."""
        near = cosines > self.threshold
        if self._takes_opposites():
            near |= cosines < -self.threshold
        near &= self.alive[start:]
        return np.triu(near, 1)

    def _partners(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """For units ``start`` to ``stop``: the |cosine| of the nearest later unit, its index, and its signed cosine."""
        cosines = self.reading.cosines(start, stop)
        sizes = np.where(self._near(cosines, start), self.rounded(np.abs(cosines)), _NONE)
        steps = sizes.argmax(axis=1)
        rows = np.arange(stop - start)
        return sizes[rows, steps], steps + start, cosines[rows, steps]

    def _all_partners(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        parts = [self._partners(start, stop) for start, stop in self.reading.strips()]
        best, partner, cosine = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.where(self.alive, best, _NONE), partner, cosine
