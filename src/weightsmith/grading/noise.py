"""What in a spectrum could be noise, and what lies beyond it.

The null hypothesis is a layer without structure: entries that are independent, with mean zero and one variance σ².

- **σ** comes from the median eigenvalue, which is half-way up the Marchenko–Pastur law (Gavish & Donoho, IEEE Trans.
  Inf. Theory 60 (2014) 5040). Large eigenvalues, however large, do not move it, as long as they are few. In a matrix of
  M columns the median lies (θ/2π − ¼)/(M·ρ·λ) below that of the law, relatively: the first correction for real matrices
  (Dumitriu & Edelman, J. Math. Phys. 47 (2006) 063302); θ, ρ and λ are angle, density and eigenvalue at the median.
- **The threshold** is what the largest eigenvalue of noise exceeds with probability ``level``. With a = √(N − ½) and
  b = √(M − ½), λ_max/σ² is near (a + b)² + (a + b)(1/a + 1/b)^⅓·s, s following the Tracy–Widom law (Johnstone, Annals
  of Statistics 29 (2001) 295; the halves are Ma's, Bernoulli 18 (2012) 322, and make it good from M = 1 on). For a
  layer of k matrices the largest of all counts, so each gets the level 1 − (1 − level)^(1/k) (Šidák).
- **σ is not known but estimated**, and in a small layer badly so. How many eigenvalues of one matrix lie below the
  median varies by ¼ + ln M/π² (¼: a coin, for M = 1); over the density, that is the relative error v of σ². The
  distance of the threshold from the middle of the law of λ_max is widened for it, in logarithms: √(distance² + (z·v)²)
  with z the normal quantile of ``level``. Without this, 8 % of all 8 × 8 matrices of noise would be called structured.

On Gaussian noise from 4 × 4 to 512 × 512, tall, wide or pooled, an eigenvalue is beyond the threshold at 1 % in 0.3 to
2.3 % of the cases, in layers of a thousand columns of nine in 3 %; on uniform noise in fewer. Rows that are zero (dead
outputs) do not show in a spectrum: with many of them the bulk is wider than this law, and ``rows`` must not count them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError
from weightsmith.core.records import Record
from weightsmith.grading.marchenko_pastur import MarchenkoPastur
from weightsmith.grading.spectrum import Spectrum
from weightsmith.grading.tracy_widom import tracy_widom_quantile

__all__ = ["Bulk", "fit_bulk"]

_LEAST = 4  # positive eigenvalues; with fewer, the median says next to nothing about the noise
_LEVELS = 1e-9, 0.5
# Counting in whole numbers, and taking the middle of two, spreads less than the count does: measured.
_ROUNDING = 1 / 6


@dataclass(frozen=True, eq=False)
class Bulk(Record):
    """The noise in a spectrum, and what lies beyond it.

    ``sigma``: standard deviation of the noise's entries; ``low``, ``high``: edges of its Marchenko–Pastur law;
    ``threshold``: what its largest eigenvalue exceeds with probability ``level``; ``spikes``: eigenvalues beyond that;
    ``soft_rank``: ``high``/λ_max (Martin & Mahoney, arXiv 1810.01075: near 1 for noise, near 0 for strong structure);
    ``spike_alpha``: the exponent 1 + (k − ⅓)/Σ ln(θ²/θ²_min) of the k spikes once the noise is taken off them, None
    without spikes (the third makes it too large as often as too small, which matters when spikes are few).

    A signal of strength θ² appears at λ = (θ² + Nσ²)(θ² + Mσ²)/θ² (Benaych-Georges & Nadakuditi, J. Multivariate Anal.
    111 (2012) 120); θ_min belongs to the threshold. Close to the edge λ hardly depends on θ, so that the exponent of
    the eigenvalues themselves is too large.
    """

    sigma: float
    low: float
    high: float
    threshold: float
    level: float
    spikes: int
    soft_rank: float
    spike_alpha: float | None


def fit_bulk(spectrum: Spectrum, level: float = 0.01) -> Bulk | None:
    """Fit the noise of a layer; None for fewer than four positive eigenvalues, which have no bulk.

    Columns that are zero (dead inputs) leave zero eigenvalues: these are no noise, and M is taken without them.

    >>> noise = np.random.default_rng(0).normal(0, 0.05, (300, 200))
    >>> noise[:, 0] += 0.2
    >>> from weightsmith.grading.spectrum import spectrum
    >>> import torch
    >>> bulk = fit_bulk(spectrum(torch.from_numpy(noise)[None]))
    >>> round(bulk.sigma, 3), bulk.spikes
    (0.05, 1)
    """
    if not _LEVELS[0] <= level <= _LEVELS[1]:
        raise OptionError(f"the level of a noise threshold must be ≥ {_LEVELS[0]:g} and ≤ {_LEVELS[1]}, not {level!r}")
    values = spectrum.eigenvalues
    if values.size < _LEAST:
        return None
    matrices = int(np.count_nonzero(spectrum.parts[:, -1]))
    rows, columns = spectrum.rows, values.size / matrices
    median, reach = _noise(rows, columns, matrices, level)
    middle = (float(values[(values.size - 1) // 2]) + float(values[values.size // 2])) / 2
    variance = middle / median
    law = MarchenkoPastur(rows, columns, math.sqrt(variance))
    threshold = variance * reach
    beyond = values[np.searchsorted(values, threshold, side="right") :]
    soft_rank = law.high / float(values[-1])
    exponent = _exponent(beyond / variance, reach, rows, columns)
    return Bulk(law.sigma, law.low, law.high, threshold, level, beyond.size, soft_rank, exponent)


@functools.lru_cache(maxsize=4096)  # a network has few shapes of layers
def _noise(rows: float, columns: float, matrices: int, level: float) -> tuple[float, float]:
    """For σ = 1: the median eigenvalue to expect, and the threshold, both as the head of this file has them."""
    law = MarchenkoPastur(rows, columns)
    median = float(law.quantile(0.5))
    spacing = 1 / (columns * median * float(law.density(median)))  # relative distance to the next eigenvalue
    angle = math.acos((median - rows - columns) / (2 * math.sqrt(rows * columns)))
    count = matrices * (0.25 + math.log(columns) / math.pi**2) - _ROUNDING
    error = math.sqrt(count) / matrices * spacing
    a, b = math.sqrt(rows - 0.5), math.sqrt(columns - 0.5)
    centre, scale = (a + b) ** 2, (a + b) * (1 / a + 1 / b) ** (1 / 3)
    # 1 − (1 − p)^(1/k), for p = ½ the middle of the law of the largest, for p = level the threshold.
    half, edge = (
        centre + scale * tracy_widom_quantile(-math.expm1(math.log1p(-share) / matrices)) for share in (0.5, level)
    )
    doubt = NormalDist().inv_cdf(1 - level) * error
    reach = half * math.exp(math.hypot(math.log(edge / half), doubt))
    return median * (1 - (angle / (2 * math.pi) - 0.25) * spacing), reach


def _exponent(beyond: NDArray[np.float64], reach: float, rows: float, columns: float) -> float | None:
    """``spike_alpha`` of :class:`Bulk`, from eigenvalues over σ²; None also where all are at the edge of the bulk."""

    def strength(values: NDArray[np.float64]) -> NDArray[np.float64]:
        apart = values - rows - columns
        return (apart + np.sqrt(np.maximum(apart * apart - 4.0 * rows * columns, 0.0))) / 2

    spread = float(np.log(strength(beyond) / strength(np.array([reach]))).sum())
    return 1 + (beyond.size - 1 / 3) / spread if spread > 0 else None
