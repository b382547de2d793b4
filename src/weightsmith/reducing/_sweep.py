"""One sweep over pairs of units, nearest first, without a list of pairs: 10,000 units may have 50 million.

For each unit only its nearest later partner is remembered. Units only ever leave, so a partner found earlier bounds
what a unit can still have: it is looked for again only when the unit's turn comes and its partner is gone. The order
is that of the sorted list of all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.reducing.gram import Gram

__all__ = ["Sweep"]

_NONE = -1.0


class Sweep:
    """Yields pairs (a, b, cosine), a < b, to be acted on; ``alive`` is kept up to date, down to ``left`` units.

    Of a pair b goes; with ``complementary`` "remove", both of a complementary one, unless that were one too many.
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
        """The largest |cosine| first; equal ones by index."""
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
        """The lowest index first, of both units."""
        for unit in map(int, np.flatnonzero(self.alive)):
            if not self.alive[unit] or self.spare <= 0:
                continue
            cosines = self.reading.cosines(unit, unit + 1)
            for step in map(int, np.flatnonzero(self._near(cosines, unit))):
                value = float(cosines[0, step])
                if self.spare > 0 and self.alive[unit] and (value > 0 or self._takes_opposites()):
                    yield self._taken(unit, unit + step, value)

    def by_effect(self, effects: NDArray[np.float64]) -> Iterator[tuple[int, int, float]]:
        """The pair first whose second unit loses least by going into the first: effect · sin of the angle.

        A complementary pair is folded or kept here: what goes has a partner that stands in for it. All cosines are in
        memory at once.
        """
        cosines = np.abs(whole := self._all_cosines())
        if self.complementary != "fold":
            cosines = np.where(whole > 0, cosines, 0.0)
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
            yield self._taken(int(partner[unit]), unit, float(whole[unit, partner[unit]]), fold=True)
            cosines[:, unit] = 0.0
            stale = np.flatnonzero(self.alive & (partner == unit))
            partner[stale] = cosines[stale].argmax(axis=1)
            near[stale] = cosines[stale, partner[stale]]

    def _all_cosines(self) -> NDArray[np.float64]:
        units = len(self.alive)
        whole = np.empty((units, units))
        for start, stop in self.reading.strips():
            strip = self.reading.cosines(start, stop)
            whole[start:stop, start:] = strip
            whole[start:, start:stop] = strip.T
        return whole

    def _taken(self, unit: int, other: int, cosine: float, *, fold: bool = False) -> tuple[int, int, float]:
        gone = [unit, other] if cosine < 0 and self.complementary == "remove" and not fold else [other]
        self.alive[gone] = False
        self.spare -= len(gone)
        return unit, other, cosine

    def _takes_opposites(self) -> bool:
        return self.complementary == "fold" or (self.complementary == "remove" and self.spare > 1)

    def _near(self, cosines: NDArray[np.float64], start: int) -> NDArray[np.bool_]:
        """Which cosines of a strip that begins at unit ``start`` belong to pairs that may be taken."""
        near = cosines > self.threshold
        if self._takes_opposites():
            near |= cosines < -self.threshold
        near &= self.alive[start:]
        return np.triu(near, 1)

    def _partners(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Of units ``start`` to ``stop``: how near the nearest later unit is, which one it is, and its cosine."""
        cosines = self.reading.cosines(start, stop)
        sizes = np.where(self._near(cosines, start), self.rounded(np.abs(cosines)), _NONE)
        steps = sizes.argmax(axis=1)
        rows = np.arange(stop - start)
        return sizes[rows, steps], steps + start, cosines[rows, steps]

    def _all_partners(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        parts = [self._partners(start, stop) for start, stop in self.reading.strips()]
        best, partner, cosine = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.where(self.alive, best, _NONE), partner, cosine
