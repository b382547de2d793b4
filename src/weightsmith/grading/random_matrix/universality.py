"""The universality class of heavy-tailed random matrices that a layer's spectrum belongs to.

When the entries of a matrix have a density that falls as |w|^−(1+μ), the eigenvalues of WᵀW have a tail with the
exponent α = 1 + μ/2, and three things can happen (Martin & Mahoney, arXiv 1810.01075):

    very heavy          0 < μ < 2    1 < α < 2    no variance, no bulk: the power law is all there is
    moderately heavy    2 < μ < 4    2 < α < 3    ("fat") a bulk, and a largest eigenvalue that grows beyond it
    weakly heavy        4 < μ        3 < α        in the limit a Marchenko–Pastur bulk; spikes in finite matrices only
    none                             nothing beyond the threshold of the noise

In a finite matrix the α of a fit with a searched λ_min is right for the first class and too large for the others,
because the fit reaches into the bulk: for μ = 3 its median over 512 × 512 matrices is 4.5 (Pareto) or 6.1 (Student),
not 2.5, and for μ > 4 it is that of Gaussian noise. The exponent of the spikes with the noise removed
(``Bulk.spike_alpha``) is closer: 2.3 and 2.6. So a layer is very heavy if its α is below 2, as in the verdict, and
otherwise its spikes decide. Near μ = 4 they are few, and beyond it often absent: such matrices may get either class.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError
from weightsmith.grading.random_matrix.noise import Bulk

__all__ = [
    "Universality",
    "pareto_matrix",
    "student_matrix",
    "tail_exponent",
    "universality",
    "universality_of_entries",
]


class Universality(enum.Enum):
    """The class of a spectrum's tail."""

    VERY_HEAVY = "very heavy"
    MODERATELY_HEAVY = "moderately heavy"
    WEAKLY_HEAVY = "weakly heavy"
    NONE = "none"


def universality(alpha: float, bulk: Bulk | None = None) -> Universality:
    """The class of a layer with this α and bulk; without a bulk, α alone decides, by the limits of large matrices.

    >>> universality(1.7).value, universality(2.5).value, universality(3.5).value
    ('very heavy', 'moderately heavy', 'weakly heavy')
    """
    if bulk is not None and not bulk.spikes:
        return Universality.NONE
    if alpha < 2:
        return Universality.VERY_HEAVY
    exponent = alpha if bulk is None or bulk.spike_alpha is None else bulk.spike_alpha
    return Universality.MODERATELY_HEAVY if exponent < 3 else Universality.WEAKLY_HEAVY


def tail_exponent(mu: float) -> float:
    """α = 1 + μ/2 of the eigenvalues of a large matrix whose entries have the tail exponent μ."""
    if not mu > 0:
        raise OptionError(f"the tail exponent μ of entries must be > 0, not {mu!r}")
    return 1 + mu / 2


def universality_of_entries(mu: float) -> Universality:
    """The class that entries with the tail exponent μ make.

    >>> universality_of_entries(3).value
    'moderately heavy'
    """
    return universality(tail_exponent(mu))


def pareto_matrix(mu: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Entries ±x with P(x > t) = (1 + t)^−μ and a sign by coin: Pareto's law of the second kind, made symmetric.

    Martin & Mahoney draw the same law with one sign; its non-zero mean adds an eigenvalue outside the tail.
    """
    tail_exponent(mu)
    entries: NDArray[np.float64] = rng.pareto(mu, shape) * rng.choice([-1.0, 1.0], shape)
    return entries


def student_matrix(mu: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Entries of Student's law with μ degrees of freedom, whose tail exponent is μ."""
    tail_exponent(mu)
    return rng.standard_t(mu, shape)
