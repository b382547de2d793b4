"""The noise bulk of a spectrum, and the eigenvalues beyond it.

The null hypothesis is a layer without structure: the entries of a matrix are independent, with mean zero and one
variance σ². Several matrices (kernel positions, gates) may each have their own σ.

- **σ** comes from the median eigenvalue, matched to the median of the Marchenko–Pastur law (Gavish & Donoho, IEEE
  Trans. Inf. Theory 60 (2014) 5040). A few large eigenvalues, however large, do not move it. In a matrix of M columns
  the median lies below that of the law by the relative amount (θ/2π − ¼)/(M·ρ·λ), the first correction for real
  matrices (Dumitriu & Edelman, J. Math. Phys. 47 (2006) 063302); θ, ρ and λ are angle, density and eigenvalue at the
  median.
- **The threshold** is the value that the largest eigenvalue of noise exceeds with probability ``level``. With
  a = √(N − ½) and b = √(M − ½), λ_max/σ² is near (a + b)² + (a + b)(1/a + 1/b)^⅓·s, where s follows the Tracy–Widom law
  (Johnstone, Annals of Statistics 29 (2001) 295; the halves are Ma's, Bernoulli 18 (2012) 322, and make it accurate
  from M = 1 on). In a layer of k matrices the largest of all counts, so each gets the level 1 − (1 − level)^(1/k)
  (Šidák).
- **σ is an estimate**, and in a small layer a poor one. The number of eigenvalues of one matrix below the median has
  the variance ¼ + ln M/π² (¼: a coin, for M = 1); divided by the density, that gives the relative error v of σ². The
  distance of the threshold from the median of the law of λ_max is widened by it, in logarithms: √(distance² + (z·v)²)
  with z the normal quantile of the level. Without this, 8 % of all 8 × 8 matrices of noise would be called structured.
- **Several matrices** each have their own σ, v and threshold, and spikes are counted per matrix: a position with larger
  weights is no structure. One σ, from the median of all, is used only if the estimates differ less than in half of all
  layers that have a single σ (χ² below its median). It has a smaller v, which lowers the threshold, by 17 % in nine
  matrices of 16 × 16; a looser rule would call noise structured whose σ differs by a tenth. Matrices of three columns
  that do not share σ carry little information: the threshold is at twice the edge of the bulk.

On Gaussian noise of 4 × 4 to 512 × 512, in one matrix or several, with one σ or with σ per kernel position up to 1 : 4
apart, with half the rows dead or none, an eigenvalue is beyond the threshold at 1 % in 0 to 3 % of the cases, mostly in
1 %; on uniform noise in fewer than 1 %.

**False positives** come from noise that violates the null hypothesis: entries of which most are zero (90 % of 256 × 128
pruned at random: three eigenvalues beyond), heavy-tailed entries, a mean that is not zero, rows or columns of differing
norm (as in embeddings; seven, if the norms spread by 30 %), products of noise (an untrained low-rank adapter). The
first three also appear as traps in the randomised twin, the last two do not. Dead (all-zero) columns are left out
automatically; dead rows do not show in a spectrum and must be given: see :func:`live_rows`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.records import Record
from weightsmith.grading.random_matrix.laws import MarchenkoPastur, tracy_widom_quantile
from weightsmith.grading.spectra.spectrum import Spectrum

__all__ = ["Bulk", "fit_bulk", "live_rows", "noise_thresholds"]

_Numbers = NDArray[np.float64]
_Counts = NDArray[np.int64]
_LEAST = 4  # positive eigenvalues; with fewer, the median says next to nothing about the noise
_LEVELS = 1e-9, 0.5
# The median of an even number is the mean of two eigenvalues, with a smaller variance than the count: measured.
_ROUNDING = 1 / 6


@dataclass(frozen=True, eq=False)
class Bulk(Record):
    """The noise in a spectrum, and what lies beyond it.

    ``sigma``: standard deviation of the noise's entries; ``low``, ``high``: edges of its Marchenko–Pastur law;
    ``threshold``: what its largest eigenvalue exceeds with probability ``level``; ``spikes``: the number of eigenvalues
    beyond it; ``soft_rank``: ``high``/λ_max (Martin & Mahoney, arXiv 1810.01075: near 1 for noise, near 0 for strong
    structure); ``spike_alpha``: the exponent 1 + (k − ⅓)/Σ ln(θ²/θ²_min) of the k spikes with the noise removed, None
    without spikes (the ⅓ makes the estimate median-unbiased, which matters when spikes are few).

    A signal of strength θ² appears at λ = (θ² + Nσ²)(θ² + Mσ²)/θ² (Benaych-Georges & Nadakuditi, J. Multivariate Anal.
    111 (2012) 120); θ_min belongs to the threshold. Close to the edge λ hardly depends on θ, so that the exponent of
    the eigenvalues themselves is too large.

    ``shared`` is False if each matrix of a layer has its own σ. Each spike is then beyond the threshold of its own
    matrix, and ``sigma``, ``low``, ``high`` and ``threshold`` are those of the matrix with the highest threshold; fewer
    eigenvalues than ``spikes`` may be beyond that one.
    """

    sigma: float
    low: float
    high: float
    threshold: float
    level: float
    spikes: int
    soft_rank: float
    spike_alpha: float | None
    shared: bool = True


@dataclass(frozen=True)
class _Noise:
    """For each non-zero matrix: its index, its size without dead rows and columns, σ², and the threshold/σ²."""

    indices: _Counts
    rows: _Counts
    columns: _Counts
    variances: _Numbers
    reaches: _Numbers
    shared: bool

    @property
    def thresholds(self) -> _Numbers:
        return self.variances * self.reaches


def fit_bulk(spectrum: Spectrum, level: float = 0.01, *, rows: int | Sequence[int] | None = None) -> Bulk | None:
    """Fit the noise of a layer; None for fewer than four positive eigenvalues, which have no bulk.

    Zero columns (dead inputs) give zero eigenvalues; M does not count them. ``rows`` is N without dead rows, one number
    or one per matrix, from :func:`live_rows`; None means that no row is dead.

    >>> noise = np.random.default_rng(0).normal(0, 0.05, (300, 200))
    >>> noise[:, 0] += 0.2
    >>> from weightsmith.grading.spectra.spectrum import spectrum
    >>> import torch
    >>> bulk = fit_bulk(spectrum(torch.from_numpy(noise)[None]))
    >>> round(bulk.sigma, 3), bulk.spikes
    (0.05, 1)
    """
    noise = _fit(spectrum, level, rows)
    if noise is None:
        return None
    thresholds = noise.thresholds
    loudest = int(thresholds.argmax())
    sigma = math.sqrt(noise.variances[loudest])
    law = MarchenkoPastur(int(noise.rows[loudest]), int(noise.columns[loudest]), sigma)
    spikes, exponent = 0, None
    parts = spectrum.parts[noise.indices]
    if (parts[:, -1] > thresholds).any():
        matrix, column = np.nonzero(parts > thresholds[:, None])
        spikes, exponent = matrix.size, _exponent(parts[matrix, column], noise, matrix)
    soft_rank = law.high / float(spectrum.eigenvalues[-1])
    threshold = float(thresholds[loudest])
    return Bulk(law.sigma, law.low, law.high, threshold, level, spikes, soft_rank, exponent, noise.shared)


def noise_thresholds(
    spectrum: Spectrum, level: float = 0.01, *, rows: int | Sequence[int] | None = None
) -> _Numbers | None:
    """The threshold of each matrix; noise exceeds any of those of a layer with probability ``level``.

    :func:`fit_bulk` counts spikes by the same thresholds. A zero matrix has the threshold zero.
    """
    noise = _fit(spectrum, level, rows)
    if noise is None:
        return None
    thresholds = np.zeros(spectrum.matrices)
    thresholds[noise.indices] = noise.thresholds
    return thresholds


def live_rows(matrices: Tensor) -> list[int]:
    """N of each matrix of a stack (count, rows, columns) without dead rows and columns.

    That is the number of its non-zero rows or of its non-zero columns, whichever is larger.

    >>> import torch
    >>> stack = torch.ones(2, 5, 3)
    >>> stack[1, 1:] = 0  # one row of three columns is left
    >>> live_rows(stack)
    [5, 3]
    """
    count, rows, columns = matrices.shape
    if bool(matrices[:, 0].all()) and bool(matrices[:, :, 0].all()):  # nearly always; saves a pass over the layer
        return [max(rows, columns)] * count
    alive = (matrices.any(dim=side).sum(dim=1) for side in (2, 1))
    return [max(pair) for pair in zip(*(each.tolist() for each in alive), strict=True)]


def _fit(spectrum: Spectrum, level: float, rows: int | Sequence[int] | None) -> _Noise | None:
    if not _LEVELS[0] <= level <= _LEVELS[1]:
        raise OptionError(f"the level of a noise threshold must be ≥ {_LEVELS[0]:g} and ≤ {_LEVELS[1]}, not {level!r}")
    if spectrum.eigenvalues.size < _LEAST:
        return None
    columns = (spectrum.parts > 0).sum(axis=1)
    indices = columns.nonzero()[0]
    columns = columns[indices]
    # A matrix has at most as many positive eigenvalues as live rows, unless rounding makes a zero one positive.
    tall = np.maximum(_rows_of_each(spectrum, rows)[indices], columns)
    law = _law(tuple(tall.tolist()), tuple(columns.tolist()), level)
    last = spectrum.columns - 1  # parts are ascending, zeros first
    lower, upper = spectrum.parts[indices, last - columns // 2], spectrum.parts[indices, last - (columns - 1) // 2]
    variances = (lower + upper) / (2 * law.medians)
    alone = indices.size == 1
    if alone or _differ(np.log(variances), law.weights):
        return _Noise(indices, tall, columns, variances, law.own, shared=alone)
    variance = _middle(spectrum.eigenvalues) / float(law.medians[0])
    if not law.alike:
        scaled = spectrum.parts[indices] / law.medians[:, None]
        variance = _middle(np.sort(scaled[scaled > 0]))
    return _Noise(indices, tall, columns, np.full(indices.size, variance), law.shared, shared=True)


def _middle(ascending: _Numbers) -> float:
    """The median."""
    return float(ascending[(ascending.size - 1) // 2] + ascending[ascending.size // 2]) / 2


def _rows_of_each(spectrum: Spectrum, rows: int | Sequence[int] | None) -> _Counts:
    if rows is None or isinstance(rows, int):
        return np.full(spectrum.matrices, spectrum.rows if rows is None else rows)
    if len(rows) != spectrum.matrices:
        raise UsageError(f"rows has {len(rows)} entries, but the layer has {spectrum.matrices} matrices")
    return np.asarray(rows, np.int64)


def _differ(logs: _Numbers, weights: _Numbers) -> bool:
    """Whether the logarithms of several σ² differ more than usual: χ² above its median."""
    freedom = logs.size - 1
    apart = logs - (weights @ logs) / weights.sum()
    return float(weights @ (apart * apart)) > freedom * (1 - 2 / (9 * freedom)) ** 3  # Wilson & Hilferty's median


@dataclass(frozen=True)
class _Law:
    """Noise with σ = 1, per matrix: the expected median, the weight 1/v² of an estimate from it, and thresholds.

    The thresholds ``own`` hold if each matrix has its own σ, ``shared`` if all share one; ``alike``: all have one size.
    """

    medians: _Numbers
    weights: _Numbers
    own: _Numbers
    shared: _Numbers
    alike: bool


@functools.lru_cache(maxsize=512)  # a network has few shapes of layers
def _law(rows: tuple[int, ...], columns: tuple[int, ...], level: float) -> _Law:
    sizes = list(zip(rows, columns, strict=True))
    medians, counts, spacings = np.array([_median(*size) for size in sizes]).T
    errors = np.sqrt(counts - _ROUNDING * (np.array(columns) % 2 == 0)) * spacings
    tail = -math.expm1(math.log1p(-level) / len(sizes))
    own = [_reach(*size, 1, tail, error) for size, error in zip(sizes, errors.tolist(), strict=True)]
    even = sum(columns) % 2 == 0
    together = math.sqrt(float(counts.sum()) - _ROUNDING * even) / float((1 / spacings).sum())
    shared = [_reach(*size, len(sizes), level, together) for size in sizes]
    return _Law(medians, errors**-2, np.array(own), np.array(shared), len(set(sizes)) == 1)


@functools.lru_cache(maxsize=4096)
def _median(rows: int, columns: int) -> tuple[float, float, float]:
    """For σ = 1: the median eigenvalue of a matrix, the variance of the count below it, and the spacing there."""
    law = MarchenkoPastur(rows, columns)
    median = float(law.quantile(0.5))
    spacing = 1 / (columns * median * float(law.density(median)))  # relative distance to the next eigenvalue
    angle = math.acos((median - rows - columns) / (2 * math.sqrt(rows * columns)))
    return median * (1 - (angle / (2 * math.pi) - 0.25) * spacing), 0.25 + math.log(columns) / math.pi**2, spacing


@functools.lru_cache(maxsize=4096)
def _reach(rows: int, columns: int, matrices: int, level: float, error: float) -> float:
    """For σ = 1, known up to a relative ``error`` of σ²: the threshold for the largest eigenvalue of some matrices."""
    a, b = math.sqrt(rows - 0.5), math.sqrt(columns - 0.5)
    centre, scale = (a + b) ** 2, (a + b) * math.cbrt(1 / a + 1 / b)
    # 1 − (1 − p)^(1/k): p = ½ gives the median of the largest, p = level the threshold.
    tails = (-math.expm1(math.log1p(-share) / matrices) for share in (0.5, level))
    # N is the mean of all eigenvalues; for a single column the approximation of the largest can fall below it.
    half, edge = (max(centre + scale * tracy_widom_quantile(tail), rows) for tail in tails)
    doubt = NormalDist().inv_cdf(level) * error
    return half * math.exp(math.hypot(math.log(edge / half), doubt))


def _exponent(beyond: _Numbers, noise: _Noise, matrix: _Counts) -> float | None:
    """``spike_alpha`` of :class:`Bulk`, from the spikes and their matrices; None if all are at the edge."""
    rows, columns = noise.rows[matrix].astype(np.float64), noise.columns[matrix].astype(np.float64)

    def strength(values: _Numbers) -> _Numbers:
        apart = values - rows - columns
        return (apart + np.sqrt(np.maximum(apart * apart - 4.0 * rows * columns, 0.0))) / 2

    spread = float(np.log(strength(beyond / noise.variances[matrix]) / strength(noise.reaches[matrix])).sum())
    return 1 + (beyond.size - 1 / 3) / spread if spread > 0 else None
