"""Which eigen-directions of a layer carry what it has learnt: rules that point at the largest of each matrix.

    share:0.8              the largest share of the directions of each matrix
    count:10               so many of each matrix
    noise:level=0.01       those beyond what the noise of the matrix reaches
    tail:ks                those in the power-law tail, λ ≥ λ_min, by any rule for λ_min (``tail:erg`` is |det X| = 1)
    traps                  those beyond the noise after the entries were put in random order

The tail is that of all matrices of a layer together, so that the kernel positions of a convolution share one λ_min.
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
Places = NDArray[np.int64]


class Directions(Option):
    """The family of rules."""

    def order(self, matrices: Tensor, rng: np.random.Generator) -> Places | None:  # noqa: ARG002
        """In which order the entries of each matrix are to be looked at, one row of places per matrix.

        None: as they stand. Otherwise spectrum and directions are those of the reordered matrices, and what is made of
        these is put back in place.
        """
        return None

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
        """Those above the threshold of their matrix."""
        return _beyond_noise(spectrum, matrices, self.level, none="no eigenvalue lies beyond the noise")


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
    """Correlation traps: directions beyond the noise of a matrix whose entries were put in random order.

    What was learnt is lost in that order. What is still beyond the noise are entries that are too large wherever they
    stand, or a mean that is not zero. Sharpening takes these directions away *in that order*, and puts the entries back
    in place, as WeightWatcher's does: the large entry goes, and what was learnt stays. All other entries change a
    little, so that zeros do not stay zero.
    """

    level: float = param(default=0.01, ge=1e-9, le=0.5, doc="of the Tracy–Widom law")

    def order(self, matrices: Tensor, rng: np.random.Generator) -> Places | None:
        """A random one, the same that :func:`~weightsmith.grading.twin.randomised_twin` draws."""
        from weightsmith.grading.twin import shuffle_matrices

        places = np.tile(np.arange(matrices[0].numel()), (len(matrices), 1))
        shuffle_matrices(places, rng)
        return places

    def count(self, spectrum: Spectrum, matrices: Tensor, rng: np.random.Generator) -> Counts | str:  # noqa: ARG002
        """Those above the threshold of their matrix, which has been reordered."""
        return _beyond_noise(spectrum, matrices, self.level, none="it has no correlation traps")


def _beyond_noise(spectrum: Spectrum, matrices: Tensor, level: float, *, none: str) -> Counts | str:
    from weightsmith.grading.noise import live_rows, noise_thresholds

    enough = spectrum.rank >= LEAST
    thresholds = noise_thresholds(spectrum, level, rows=live_rows(matrices)) if enough else None
    if thresholds is None:
        return f"{spectrum.rank} positive eigenvalues: no bulk of noise can be fitted"
    counts: Counts = (spectrum.parts > thresholds[:, None]).sum(axis=1)
    return counts if counts.any() else none
