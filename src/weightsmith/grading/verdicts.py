"""The verdict on a layer from its numbers; the first rule that applies decides.

1. Can the layer be fitted? Otherwise its status is the verdict.
2. Does any eigenvalue lie beyond the edge of the noise (Marchenko–Pastur, at 1 %)? Otherwise it looks like noise,
   whatever its α: α is between 2 and 6 on a quarter of all matrices of pure noise.
3. Is the power law rejected (p < 0.1), or does the interval of α reach into more than one class? Then there is no
   verdict at this confidence; the shares of the classes (:mod:`weightsmith.grading.classes`) say which way it leans.
4. α < 2 over-regularised, 2 to 6 well trained, beyond 6 weakly trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weightsmith.core.statistics import Interval
from weightsmith.grading.classes import HEAVIEST, LIGHTEST, ClassShares
from weightsmith.grading.fits.powerlaw import PowerLaw
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.grading.random_matrix.noise import Bulk
from weightsmith.grading.results import Status, Verdict, VerdictKind

__all__ = ["not_fitted", "verdict"]


def not_fitted(status: Status, reason: str) -> Verdict:
    """The verdict on a layer without a fit."""
    return Verdict(VerdictKind.CANNOT_BE_FITTED, f"{status.value}: {reason}")


def verdict(fit: PowerLaw, evidence: Mapping[str, Any], lambda_max: float) -> Verdict:
    """The verdict on a fitted layer from those of ``interval``, ``goodness`` and ``bulk`` that ``evidence`` has.

    Without evidence the layer is not judged: α alone says too little.
    """
    if "interval" not in evidence:
        return Verdict(VerdictKind.NOT_JUDGED, f"α = {fit.alpha:.2f}, but no evidence was computed")
    interval: Interval | None = evidence.get("interval")
    goodness: Goodness | None = evidence.get("goodness")
    bulk: Bulk | None = evidence.get("bulk")
    if bulk is not None and bulk.spikes == 0:
        return Verdict(
            VerdictKind.NO_HEAVY_TAIL,
            f"the largest eigenvalue, {lambda_max:.4g}, is not beyond what noise reaches, {bulk.threshold:.4g} "
            f"({100 * bulk.level:g} %)",
        )
    if interval is None:
        return Verdict(VerdictKind.CANNOT_SAY, f"α = {fit.alpha:.2f}, with too many equal eigenvalues for an interval")
    found = f"α = {fit.alpha:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
    if goodness is not None and goodness.rejected:
        return Verdict(VerdictKind.CANNOT_SAY, f"{found}, but a power law is rejected (p = {goodness.p:.3f})")
    classes = [_class_of(value) for value in (interval.low, fit.alpha, interval.high)]
    if len(set(classes)) > 1:
        ends = " to ".join(dict.fromkeys((classes[0].value, classes[-1].value)))
        shares: ClassShares | None = evidence.get("shares")
        words = "" if shares is None else f": {shares.words}"
        return Verdict(VerdictKind.CANNOT_SAY, f"{found} reaches from {ends}{words}")
    edge = "" if bulk is None else f", {bulk.spikes} eigenvalue{'' if bulk.spikes == 1 else 's'} beyond the noise"
    tested = "" if goodness is None else f", power law not rejected (p = {goodness.p:.2f})"
    return Verdict(classes[0], f"{found}{edge}{tested}")


def _class_of(alpha: float) -> VerdictKind:
    if alpha < HEAVIEST:
        return VerdictKind.OVER_REGULARISED
    return VerdictKind.WELL_TRAINED if alpha <= LIGHTEST else VerdictKind.WEAKLY_TRAINED
