"""Likelihood-ratio tests of the power law against an exponential, a lognormal and a truncated power law.

Each alternative is fitted to the same n eigenvalues λ ≥ λ_min by maximum likelihood, as a density on λ ≥ λ_min:

    exponential            e^(−rate·λ)
    lognormal              λ^(−1)·e^(−(ln λ − mu)²/2·sigma²)
    truncated power law    λ^(−alpha)·e^(−beta·λ),  beta ≥ 0,  alpha any number

With ℓᵢ the difference of the log-likelihoods of the i-th eigenvalue, power law minus alternative,

    ratio       R = Σ ℓᵢ                    above 0 favours the power law
    normalised  V = R / (√n · std ℓ)        standard normal if both are equally far from the truth
    p           P(|Z| ≥ |V|)                of a ratio this far from 0 if neither is nearer the truth

(Q. H. Vuong, Econometrica 57 (1989) 307; Clauset, Shalizi & Newman, SIAM Review 51 (2009) 661, section 5, appendix C.)
The truncated power law contains the power law as beta = 0, so that R ≤ 0, and its p is P(χ²₁ ≥ −2R) (S. S. Wilks, Ann.
Math. Stat. 9 (1938) 60). As beta = 0 is the edge of the allowed range, this p is up to twice too large.

λ_min was chosen to suit the power law, and eigenvalues repel each other, while the test assumes independence: read p as
a guide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.grading.fits.powerlaw import PowerLaw

__all__ = ["Alternative", "compare_tails"]

_LEVEL = 0.1  # of p, below which one of the two is favoured (Clauset et al., section 5)
_LEAST_TAIL = 3  # one more than the parameters of an alternative
_MOST_SPREAD = 1e300  # λ_max/λ_min: beyond it sums of λ/λ_min overflow
_STRAIGHT = 2 - 1e-9
_NO_CUTOFF = 1e-12


@dataclass(frozen=True, eq=False)
class Alternative(Record):
    """One comparison, as defined above; ``favours`` is "power law", ``name`` or, at p ≥ 0.1 or without p, "neither".

    ``parameters`` are those of the formulas, in the units of λ. If the best alternative *is* the power law,
    ``ratio`` is 0, ``normalised`` None, and ``reason`` says so.
    """

    name: str
    ratio: float
    normalised: float | None
    p: float | None
    favours: str
    parameters: dict[str, float]
    reason: str | None = None


class _Tail(NamedTuple):
    """The statistics behind the likelihoods: x = d/mean(d) and t = b/mean(b), with d = ln(λ/λ_min) and b = e^d − 1 − d.

    In x the power law has the density e^(−x). ``edge`` is h = −μ/σ of the best lognormal, or None without one.
    """

    xmin: float
    x: NDArray[np.float64]
    t: NDArray[np.float64]
    mean: float
    mean_bend: float
    edge: float | None


def compare_tails(eigenvalues: NDArray[np.float64], fit: PowerLaw) -> tuple[Alternative, ...]:
    """The alternatives on the tail of ``fit``, which was made from the same (ascending, positive) ``eigenvalues``.

    Empty if the tail has fewer than 3 values or spans more than 300 decades. An alternative whose fit does not
    converge, or whose parameters overflow in the units of λ, is left out.

    >>> from weightsmith.grading.fits.powerlaw import fit_power_law
    >>> values = np.arange(1.0, 41)
    >>> for other in compare_tails(values, fit_power_law(values)):
    ...     print(f"{other.name}: {other.ratio:.2f}, p {other.p:.3f}, favours {other.favours}")
    exponential: -0.90, p 0.009, favours exponential
    lognormal: -2.61, p 0.202, favours neither
    truncated power law: -2.74, p 0.019, favours truncated power law
    """
    values = np.asarray(eigenvalues, np.float64)[-fit.tail :]
    if values.size != fit.tail or values[0] != fit.xmin:
        raise UsageError(f"a fit with {fit.tail} eigenvalues from {fit.xmin:g} on was not made from these eigenvalues")
    if values.size < _LEAST_TAIL or values[-1] / _MOST_SPREAD > values[0]:
        return ()
    tail = _measured(values)
    found = _exponential(tail), _lognormal(tail), _truncated(tail)
    return tuple(other for other in found if other is not None and all(map(math.isfinite, other.parameters.values())))


def _measured(values: NDArray[np.float64]) -> _Tail:
    from weightsmith.grading.fits.likelihood import bends, lognormal_edge

    excess = np.log(values / values[0])
    bend = bends(excess)
    mean, mean_bend = float(excess.sum()) / excess.size, float(bend.sum()) / bend.size
    x = excess / mean
    shape = float(x @ x) / x.size  # E[d²]/E[d]², 2 for a power law, less where the tail bends down
    edge = lognormal_edge(shape) if shape < _STRAIGHT else None
    return _Tail(float(values[0]), x, bend / mean_bend, mean, mean_bend, edge)


def _exponential(tail: _Tail) -> Alternative:
    """rate = 1/(mean λ − λ_min), a closed form.

    The difference is computed from small terms, because in a narrow tail the two laws are nearly equal.
    """
    scale = tail.mean + tail.mean_bend  # mean(e^d − 1)
    bent = tail.mean_bend / scale * (tail.x - tail.t)
    differences = math.log1p(tail.mean_bend / tail.mean) - tail.mean * tail.x - bent
    return _judged("exponential", differences, {"rate": 1 / scale / tail.xmin})


def _lognormal(tail: _Tail) -> Alternative:
    """ln(λ/λ_min) is normal, truncated at 0: h solves one equation, then σ follows from the mean."""
    from weightsmith.grading.fits.likelihood import inverse_mills

    if tail.edge is None:
        reason = "the tail does not bend down: the wider the lognormal, the better, and its limit is the power law"
        return Alternative("lognormal", 0.0, None, None, "neither", {}, reason)
    log_ratio, mean, _ = inverse_mills(tail.edge)
    differences = 0.5 * (mean * tail.x) ** 2 + (tail.edge * mean - 1) * tail.x - (log_ratio + math.log(mean))
    sigma = tail.mean / mean
    return _judged("lognormal", differences, {"mu": math.log(tail.xmin) - tail.edge * sigma, "sigma": sigma})


def _truncated(tail: _Tail) -> Alternative | None:
    """Newton's method in two parameters, unless the power law itself is best; None if it does not converge.

    The power law is best if the mean of e^d − 1 − d is at least its expectation, 1/(k(k − 1)) with k = α − 1.
    """
    from weightsmith.grading.fits.likelihood import inverse_mills, truncated_fit

    name, k = "truncated power law", 1 / tail.mean
    slope, cutoff, norm, is_found = 1.0, 0.0, 0.0, True
    if k <= 1 or k * (k - 1) * tail.mean_bend < 1:
        guess = 1.0, 0.1
        if tail.edge is not None:  # in a narrow tail the truncated power law equals the lognormal
            mean = inverse_mills(tail.edge)[1]
            guess = tail.edge * mean, tail.mean_bend * (mean / tail.mean) ** 2
        slope, cutoff, norm, is_found = truncated_fit(tail.mean, tail.mean_bend, *guess)
    if not is_found:
        return None
    if cutoff < _NO_CUTOFF:
        reason = "the tail does not bend down: the best truncation is none"
        return Alternative(name, 0.0, None, 1.0, "neither", {"alpha": 1 + k, "beta": 0.0}, reason)
    b = cutoff / tail.mean_bend
    parameters = {"alpha": 1 + slope * k - b, "beta": b / tail.xmin}
    return _judged(name, (slope - 1) * tail.x + cutoff * tail.t + norm, parameters, is_nested=True)


def _judged(
    name: str, differences: NDArray[np.float64], parameters: dict[str, float], is_nested: bool = False
) -> Alternative:
    """Vuong's test, or Wilks's if the alternative contains the power law."""
    count = differences.size
    ratio = float(differences.sum())
    if is_nested:
        ratio = min(ratio, 0.0)  # above 0 only by rounding
    centred = differences - ratio / count
    deviation = math.sqrt(float(centred @ centred) / count)
    normalised = ratio / (math.sqrt(count) * deviation) if deviation > 0 else None
    if is_nested:
        p: float | None = math.erfc(math.sqrt(-ratio))
    else:
        p = None if normalised is None else math.erfc(abs(normalised) / math.sqrt(2))
    favours = "neither" if p is None or p >= _LEVEL else "power law" if ratio > 0 else name
    return Alternative(name, ratio, normalised, p, favours, parameters)
