"""Eqs. 6 to 9 of the L4-norm paper as one pure function."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError

__all__ = ["Array", "Scales", "l4_scales"]

_LEAST_THRESHOLD = 0.1  # of the threshold in use: wanted thresholds near zero would scale weights without bound

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Scales:
    """What :func:`l4_scales` found for each unit; ``applied`` is what its weights are multiplied by."""

    smoothed: Array
    wanted: Array
    full: Array
    applied: Array
    guarded: NDArray[np.bool_]


def l4_scales(norms: ArrayLike, means: ArrayLike, threshold: ArrayLike, smoothing: float) -> Scales:
    """The scalars of units with L4 norms n_j, mean membranes μ_j and threshold v₀ (one, or one each).

    With n̄ the mean of all norms and r the smoothing, in the paper's numbers:

        n̂_j = (n_j + r·n̄) / (1 + r)                   (8)    ``smoothed``
        v̂_j = μ_j + (n̂_j / n̄)·(v₀ − μ_j)              (6)    ``wanted``
        s_j = 1 / (v̂_j / v₀)                           (7)    ``full``
        ŝ_j = (s_j + r) / (1 + r)                      (9)    ``applied``

    A wanted threshold below 0.1·v₀ is set to 0.1·v₀ and marked in ``guarded``. For r = ∞ every ŝ is exactly 1.

    >>> scales = l4_scales(norms=[1.0, 3.0], means=[0.5, 0.5], threshold=1.0, smoothing=1.0)
    >>> scales.smoothed.tolist(), scales.wanted.tolist()
    ([1.5, 2.5], [0.875, 1.125])
    >>> scales.applied.round(4).tolist()
    [1.0714, 0.9444]
    """
    n, mu, v0 = _checked(norms, means, threshold)
    r, mean = float(smoothing), n.mean()
    if not r >= 0:
        raise OptionError(f"smoothing must be ≥ 0, not {smoothing!r}")
    if mean == 0:
        raise DataMismatch("every unit's norm is zero: there are no weights to adjust")
    # Eqs. 8 and 9 as a distance from their limit, so that no r is too large: r·n̄ could overflow, and ∞/∞ is no number.
    smoothed = mean + (n - mean) / (1 + r)
    wanted = mu + smoothed / mean * (v0 - mu)
    guarded = wanted < _LEAST_THRESHOLD * v0
    wanted = np.where(guarded, _LEAST_THRESHOLD * v0, wanted)
    full = 1 / (wanted / v0)
    return Scales(smoothed, wanted, full, 1 + (full - 1) / (1 + r), guarded)


def _checked(norms: ArrayLike, means: ArrayLike, threshold: ArrayLike) -> tuple[Array, Array, Array]:
    """The three as float64 vectors of one length, where they make sense."""
    n, mu = np.asarray(norms, np.float64), np.asarray(means, np.float64)
    v0 = np.asarray(threshold, np.float64)
    if n.ndim != 1 or n.size == 0 or mu.shape != n.shape or v0.shape not in ((), n.shape):
        raise DataMismatch(
            f"norms {n.shape}, means {mu.shape} and thresholds {v0.shape} do not fit: each unit has one of each"
        )
    for what, values, fine in (
        ("norm", n, n >= 0),
        ("mean", mu, np.isfinite(mu)),
        ("threshold", v0, v0 > 0),
    ):
        good = np.isfinite(values) & fine
        if not good.all():
            raise DataMismatch(f"a {what} of {np.atleast_1d(values)[~np.atleast_1d(good)][0]} cannot be adjusted by")
    return n, mu, np.broadcast_to(v0, n.shape).copy()
