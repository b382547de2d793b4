"""The classes of α, used by every verdict, measure and figure, and how probable each is for a layer.

    α < 2  over-regularised        2 ≤ α ≤ 6  well trained        α > 6  weakly trained

Martin & Mahoney (seed 004) give [2, 5] for good networks; its authors later used 2 to 6, as this package does.

**Shares.** With δ the deviations of :mod:`weightsmith.grading.fits.resampling`, from which the interval of α comes too,
the share of a class is how often 1 + (α − 1)·e^δ falls into it. It is calibrated as a probability: over planted tails
of 20 to 300 eigenvalues with ln(α − 1) spread evenly over α = 1.35 to 13, with six kinds of bodies below them, a class
with a share of p is the true one in p ± 0.05 of trials (docs/results/planted.md, "leaning").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.records import Record

__all__ = ["HEAVIEST", "LEANING", "LIGHTEST", "ClassShares"]

HEAVIEST, LIGHTEST = 2.0, 6.0
"""Between these two exponents a layer is called well trained."""

LEANING = 0.75
"""From this share on a layer leans to a class; below it the words are "cannot say"."""

_NAMED = 0.05  # smaller shares are not named


@dataclass(frozen=True, eq=False)
class ClassShares(Record):
    """The share of resamples in which a layer is in each class; they sum to one.

    ``no_slope`` is the share of resamples whose values are all equal, which have no α.

    >>> shares = ClassShares.of(np.array([1.5, 3.0, 4.0, 5.0, 7.0]))
    >>> shares.best, shares.well_trained, shares.words
    ('well trained', 0.6, 'cannot say (20 % over, 60 % well, 20 % weak)')
    """

    over_regularised: float
    well_trained: float
    weakly_trained: float
    no_slope: float = 0.0

    @classmethod
    def of(cls, alphas: NDArray[np.float64]) -> ClassShares:
        """Count exponents by class; infinite ones count as ``no_slope``."""
        size = max(alphas.size, 1)
        heavy, weak = int((alphas < HEAVIEST).sum()), int((np.isfinite(alphas) & (alphas > LIGHTEST)).sum())
        lost = int((~np.isfinite(alphas)).sum())
        return cls(heavy / size, (alphas.size - heavy - weak - lost) / size, weak / size, lost / size)

    @property
    def by_class(self) -> dict[str, float]:
        """The share of each class by its name, in the order of α."""
        return {
            "over-regularised": self.over_regularised,
            "well trained": self.well_trained,
            "weakly trained": self.weakly_trained,
        }

    @property
    def best(self) -> str:
        """The class with the largest share."""
        return max(self.by_class.items(), key=lambda item: item[1])[0]

    @property
    def share(self) -> float:
        """The share of the class ``best``."""
        return max(self.by_class.values())

    @property
    def leans(self) -> bool:
        """Whether the layer leans to the class ``best``."""
        return self.share >= LEANING

    @property
    def words(self) -> str:
        """``leans weakly trained (81 %)``, or ``cannot say (45 % well, 55 % weak)``: short enough for a table."""
        if self.leans:
            return f"leans {self.best} ({_percent(self.share)} %)"
        parts = [f"{_percent(share)} % {name[:4]}" for name, share in self.by_class.items() if share >= _NAMED]
        return f"cannot say ({', '.join(parts)})"


def _percent(share: float) -> int:
    """In per cent, at most 99: a share is never rounded up to certainty."""
    return min(round(100 * share), 99)
