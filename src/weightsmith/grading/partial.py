"""Partial rank correlations: does a measure add anything about accuracies that depth and norms do not show?

With R the Pearson correlations of the mid-ranks of measure x, accuracy y and controls z₁ … z_k, and P = R⁻¹,

    ρ(x, y | z) = −P_xy / √(P_xx·P_yy)

is the correlation of the residuals of x and y after a least-squares regression of their ranks on the ranks of the
controls (Kendall, Biometrika 32 (1942) 277; for k = 1 it is (ρ_xy − ρ_xz ρ_yz)/√((1 − ρ_xz²)(1 − ρ_yz²))).

The interval is the percentile interval of a bootstrap over networks, each with its measure, accuracy and controls.
Resamples in which a variable is constant or a linear combination of the others have no value; if more than a quarter
have none, as with fewer than some 8 to 10 networks, there is no interval. If the true partial correlation is 0, the
interval holds 0 in 91 to 97 % of trials with 10 to 30 networks and one or two controls, at a confidence of 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from weightsmith.core.records import Record
from weightsmith.core.seeds import stream
from weightsmith.core.statistics import Interval

__all__ = ["PARTIALS", "PartialCorrelation", "partial_rank_correlation"]

PARTIALS = (
    ("alpha_hat", ("layers", "lambda_hat")),
    ("alpha_weighted", ("layers", "log_spectral_norm")),
    ("alpha", ("layers", "log_norm")),
)
"""The tested measures, each with its controls: fixed before any accuracy is seen."""

_RESAMPLES = 2000
_CONFIDENCE = 0.95
_LOST = 0.25  # share of resamples without a value beyond which there is no interval
_SINGULAR = 1e-9  # smallest eigenvalue of R below which a variable is a linear combination of the others


@dataclass(frozen=True, eq=False)
class PartialCorrelation(Record):
    """The rank correlation of ``measure`` with accuracy over ``networks``, ``given`` other measures.

    ``interval`` has the value and its bootstrap interval; without one ``reason`` says why. ``plain`` is the correlation
    without controls.
    """

    measure: str
    given: tuple[str, ...]
    networks: int
    plain: float | None = None
    interval: Interval | None = None
    reason: str | None = None

    @property
    def tells(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    @property
    def words(self) -> str:
        """One sentence."""
        given = " and ".join(self.given)
        if self.interval is None:
            return f"Whether {self.measure} adds anything to {given} is unknown: {self.reason}."
        found = self.interval
        numbers = f"partial ρ = {found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}], n = {self.networks}"
        if self.tells:
            return f"Given {given}, {self.measure} still correlates with accuracy: {numbers}."
        return f"Given {given}, {self.measure} is not shown to add anything: {numbers}."


def partial_rank_correlation(
    x: ArrayLike, y: ArrayLike, controls: ArrayLike, *, seed: int = 0
) -> tuple[float, Interval | str]:
    """ρ of ``x`` and ``y`` without controls; and given the controls (one row each), with its interval, or why not.

    >>> depth = np.arange(16)
    >>> plain, given = partial_rank_correlation(depth + 4 * np.sin(9 * depth), depth + 4 * np.cos(7 * depth), [depth])
    >>> print(f"{plain:.2f}, given depth {given.value:.2f} [{given.low:.2f}, {given.high:.2f}]")
    0.61, given depth -0.11 [-0.64, 0.59]
    """
    table = np.vstack([np.asarray(x, float), np.asarray(y, float), np.atleast_2d(np.asarray(controls, float))])
    count, networks = table.shape
    plain = float(_given(table[None, :2])[0])
    if networks < count + 2:
        return (
            plain,
            f"{networks} networks are too few for {count - 2} control{'s' * (count > 3)}, {count + 2} are needed",
        )
    value = float(_given(table[None])[0])
    if not np.isfinite(value):
        return plain, "one of the measures is constant or follows from the others"
    draws = stream(seed, "partial").integers(networks, size=(_RESAMPLES, networks))
    found = _given(table[:, draws].transpose(1, 0, 2))
    found = found[np.isfinite(found)]
    if found.size < (1 - _LOST) * _RESAMPLES:
        return plain, f"{_RESAMPLES - found.size} of {_RESAMPLES} resamples of {networks} networks have no value"
    low, high = np.quantile(found, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    method = f"percentile bootstrap over networks, {found.size} resamples"
    return plain, Interval(value, min(float(low), value), max(float(high), value), _CONFIDENCE, method)


def _given(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each table of variables × networks: the correlation of its first two rows given the others, or NaN."""
    ranks = rankdata(tables, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    lengths = np.sqrt((centred**2).sum(axis=-1))
    usable = (lengths > 0).all(axis=-1)
    centred[usable] /= lengths[usable][..., None]
    correlations = centred @ centred.transpose(0, 2, 1)
    found = np.full(len(tables), np.nan)
    if tables.shape[1] == 2:
        found[usable] = correlations[usable, 0, 1]
        return found
    usable[usable] = np.linalg.eigvalsh(correlations[usable])[:, 0] > _SINGULAR
    precision = np.linalg.inv(correlations[usable])
    found[usable] = -precision[:, 0, 1] / np.sqrt(precision[:, 0, 0] * precision[:, 1, 1])
    clipped: NDArray[np.float64] = np.clip(found, -1.0, 1.0)
    return clipped
