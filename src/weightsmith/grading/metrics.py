"""Metrics of the spectrum of one layer: norms, ranks, entropy.

With λ the eigenvalues of X (so that λ_max = ‖W‖₂² and Σλ = ‖W‖_F²), log to base 10:

    log norm             log Σλ                       Frobenius norm, squared
    log spectral norm    log λ_max
    α weighted           α · log λ_max                the layer's term of α-hat (Martin & Mahoney, eq. 3)
    log α-norm           log Σ λ^α                    the Schatten norm of order 2α, to the power of 2α
    stable rank          Σλ / λ_max
    log stable rank      log Σλ / log λ_max           eq. 6; it has no value at λ_max = 1
    entropy              −Σ p ln p / ln(rank)         p = λ / Σλ; 1 when all are equal
    rank loss            eigenvalues that are zero to rounding
    weak rank loss       eigenvalues below a millionth of λ_max
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.records import Record
from weightsmith.grading.spectra.spectrum import Spectrum

__all__ = ["LayerMetrics", "layer_metrics", "log_alpha_norm"]

_WEAK = 1e-6


@dataclass(frozen=True, eq=False)
class LayerMetrics(Record):
    """Norms, ranks and entropy of one layer; the formulas are in the module docstring."""

    lambda_max: float
    lambda_smallest: float
    norm: float
    log_norm: float
    log_spectral_norm: float
    stable_rank: float
    log_stable_rank: float | None
    rank: int
    rank_loss: int
    weak_rank_loss: int
    entropy: float | None
    sv_max: float
    sv_min: float
    Q: float
    alpha_weighted: float | None = None
    log_alpha_norm: float | None = None


def layer_metrics(spectrum: Spectrum, alpha: float | None = None) -> LayerMetrics:
    """The metrics of a spectrum with at least one positive eigenvalue; two of them need ``alpha``.

    >>> import torch
    >>> from weightsmith.grading.spectra.spectrum import spectrum
    >>> found = layer_metrics(spectrum(torch.diag(torch.tensor([10.0, 30.0]))[None]), alpha=2.0)
    >>> found.norm, found.log_norm, found.stable_rank, round(found.alpha_weighted, 4), round(found.log_alpha_norm, 4)
    (1000.0, 3.0, 1.1111111111111112, 5.9085, 5.9138)
    """
    values = spectrum.eigenvalues
    largest, smallest, count = float(values[-1]), float(values[0]), values.size
    relative = values / largest
    mass = float(relative.sum())  # the stable rank
    log_spectral = math.log10(largest)
    log_norm = math.log10(mass) + log_spectral
    entropy = None
    if count > 1:
        # With p = r / Σr and r relative to the largest: −Σ p ln p = ln Σr − Σ r ln r / Σr.
        entropy = float((math.log(mass) - (relative @ np.log(relative)) / mass) / math.log(count))
    return LayerMetrics(
        lambda_max=largest,
        lambda_smallest=smallest,
        norm=mass * largest,
        log_norm=log_norm,
        log_spectral_norm=log_spectral,
        stable_rank=mass,
        log_stable_rank=log_norm / log_spectral if log_spectral else None,
        rank=spectrum.rank,
        rank_loss=spectrum.parts.size - spectrum.rank,
        weak_rank_loss=spectrum.parts.size - count + int(np.searchsorted(relative, _WEAK)),
        entropy=entropy,
        sv_max=math.sqrt(largest),
        # A matrix that has lost rank has zero as its smallest singular value.
        sv_min=math.sqrt(smallest) if spectrum.rank == spectrum.parts.size else 0.0,
        Q=spectrum.rows / spectrum.columns,
        alpha_weighted=None if alpha is None else alpha * log_spectral,
        log_alpha_norm=None if alpha is None else log_alpha_norm(values, alpha),
    )


def log_alpha_norm(eigenvalues: NDArray[np.float64], alpha: float) -> float:
    """log₁₀ Σ λ^α, without overflow for any α.

    >>> round(log_alpha_norm(np.array([1.0, 10.0]), 400.0), 6)
    400.0
    """
    largest = float(eigenvalues[-1])
    return alpha * math.log10(largest) + math.log10(float(((eigenvalues / largest) ** alpha).sum()))
