"""Which eigen-directions of a layer carry what it has learnt: rules that point at the largest of each matrix.

    share:0.8              the largest share of the directions of each matrix
    count:10               so many of each matrix
    noise:level=0.01       those beyond the edge of the Marchenko–Pastur bulk
    tail:ks                those in the power-law tail, λ ≥ λ_min, by any rule for λ_min (``tail:erg`` is |det X| = 1)
    traps                  as many as the layer has correlation traps

The last three look at the eigenvalues of all matrices of a layer together, so that the kernel positions of a
convolution share one threshold.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.options import Option, param
from weightsmith.grading.cuts import Cut
from weightsmith.grading.layer import LEAST
from weightsmith.grading.powerlaw import fit_power_law
from weightsmith.grading.spectrum import Spectrum

__all__ = ["BeyondNoise", "Directions", "InTail", "TopCount", "TopShare", "Traps"]

Counts = NDArray[np.int64]


class Directions(Option):
    """The family of rules."""

    @abstractmethod
    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:
        """How many of the largest directions of each matrix are meant, or why it cannot be said."""


class TopShare(Directions, name="share"):
    """A share of the directions of each matrix, rounded, at least one (WeightWatcher's ``svd``, there 0.8)."""

    share: float = param(default=0.8, gt=0, le=1, doc="of the smaller side of the matrix")

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """The same number for every matrix."""
        return np.full(spectrum.matrices, max(1, math.floor(self.share * spectrum.columns + 0.5)))


class TopCount(Directions, name="count"):
    """A number of directions of each matrix, all of them where there are not so many."""

    number: int = param(ge=1)

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """The same number for every matrix."""
        return np.full(spectrum.matrices, min(self.number, spectrum.columns))


class BeyondNoise(Directions, name="noise"):
    """Eigenvalues that pure noise of the same size exceeds with probability ``level`` only (the peer's ``rmt``)."""

    level: float = param(default=0.01, ge=1e-9, le=0.5, doc="of the Tracy–Widom law")

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """Those above the threshold of the fitted bulk."""
        from weightsmith.grading.noise import fit_bulk

        bulk = fit_bulk(spectrum, level=self.level) if spectrum.rank >= LEAST else None
        if bulk is None:
            return f"{spectrum.rank} positive eigenvalues: no bulk of noise can be fitted"
        counts: Counts = (spectrum.parts > bulk.threshold).sum(axis=1)
        return counts if counts.any() else "no eigenvalue lies beyond the noise"


class InTail(Directions, name="tail"):
    """Eigenvalues λ ≥ λ_min of a fitted power law, λ_min by the rule ``cut`` (the peer's ``lambda_min``, ``detX``)."""

    cut: str = param(default="ks", doc="ks | erg | hill:share=0.5")

    def check(self) -> None:
        """The cut must be one."""
        Cut.parse(self.cut)

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """Those in the tail."""
        fit = fit_power_law(spectrum.eigenvalues, Cut.parse(self.cut)) if spectrum.rank >= LEAST else None
        if fit is None:
            return f"{spectrum.rank} positive eigenvalues: no tail can be fitted"
        counts: Counts = (spectrum.parts >= fit.xmin).sum(axis=1)
        return counts


class Traps(Directions, name="traps"):
    """As many of the largest as there are correlation traps: eigenvalues that stay beyond the noise when the entries
    of each matrix are permuted, because single entries are too large (what WeightWatcher's sharpening removes)."""

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:
        """The largest of all matrices together."""
        from weightsmith.grading.twin import randomised_twin

        twin = randomised_twin(matrices, spectrum, rng) if spectrum.rank >= LEAST else None
        if twin is None:
            return f"{spectrum.rank} positive eigenvalues: no bulk of noise can be fitted"
        if not twin.traps:
            return "it has no correlation traps"
        smallest = spectrum.eigenvalues[-min(twin.traps, spectrum.rank)]
        counts: Counts = (spectrum.parts >= smallest).sum(axis=1)
        return counts
