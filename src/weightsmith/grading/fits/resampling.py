"""A bootstrap interval for α when λ_min is estimated too, and the goodness of fit.

Both come from some hundred refits, each of which chooses its own λ_min.

**The interval.** Many times, n of n eigenvalues are drawn with replacement and refitted. With q_low and q_high the
quantiles of ln(α* − 1) over the refits α* at (1 ∓ confidence)/2, and c = ln(α − 1) of the fit itself,

    c ± (q_high − q_low)/2      is the interval of ln(α − 1)

On this scale the percentile interval is [q_low, q_high], the basic one [2c − q_high, 2c − q_low], and this is the mean
of both. The logarithm suits α − 1, whose error is a factor. The percentile interval alone, the basic one and the
bias-corrected one cover less.

A resample has the same body as the sample and tends to choose the same λ_min. So the interval also includes the
exponents of other cuts that fit about as well (:mod:`weightsmith.grading.fits.averaging`). How often both together
cover planted truths is in docs/results/planted.md: with small bodies, with bodies nine times the tail, as in real
layers, and with a bulk that overlaps the tail, which resampling of eigenvalues cannot detect.

The method assumes independent draws, but eigenvalues repel each other. On the spectra of random matrices the interval
is 1.1 to 1.3 times as wide as the range in which α varies from matrix to matrix.

Resampling makes ties, and a tail of few values, most of them equal, has an α near infinity. So refits have a least
tail length. If the tail of the fit is shorter, c comes from the best tail that is long enough, and the interval reaches
from half its width below the smaller of the two exponents to half its width above the larger one: their difference is
uncertainty too. *The interval always contains the fitted α, and does not end there.*

**The goodness of fit** is that of Clauset, Shalizi & Newman (SIAM Review 51 (2009) 661, section 4.1): samples are drawn
from the law, with values below λ_min resampled; p is how often their D is at least as large as the observed one. It
tests the tail beyond the λ_min that was found, not the whole spectrum: the search can move λ_min so far up that any
tail is nearly a power law. Of samples of 500 exponential values, 45 % are rejected; with a known λ_min, all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weightsmith.core._bootstrap import check_confidence
from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.records import Record
from weightsmith.core.statistics import Interval, wilson
from weightsmith.grading.fits.cuts import SmallestDistance, TailCut
from weightsmith.grading.fits.powerlaw import PowerLaw, logarithms

__all__ = ["Goodness", "Resampled", "alpha_interval", "goodness_of_fit", "resample_alpha"]

_SMALLEST_DISTANCE = SmallestDistance()
_THREE_ERRORS = math.erf(3 / math.sqrt(2))  # the confidence of three standard errors
_LEVEL = 0.1  # Clauset et al.: below it a power law is ruled out


@dataclass(frozen=True, eq=False)
class Goodness(Record):
    """The p-value of the fitted law by simulation; ``rejected`` is p < 0.1."""

    p: float
    resamples: int
    rejected: bool


def alpha_interval(
    eigenvalues: NDArray[np.float64],
    *,
    cut: TailCut = _SMALLEST_DISTANCE,
    resamples: int = 200,
    confidence: float = 0.95,
    least: int = 8,
    rng: np.random.Generator,
) -> Interval | None:
    """The interval of α for ascending, positive eigenvalues, as defined above; ``value`` is α of the fit by ``cut``.

    None without a fit, with fewer than ``least`` eigenvalues, or if so many of them are equal that more than a share of
    (1 − confidence)/2 of the resamples have no slope. ``least`` is the shortest tail of a refit by the cut ``ks``;
    other cuts set their own.

    >>> pareto = np.sort(np.random.default_rng(0).pareto(2.0, 500) + 1)  # α = 3
    >>> print("{0.value:.2f} [{0.low:.2f}, {0.high:.2f}]".format(alpha_interval(pareto, rng=np.random.default_rng(1))))
    2.92 [2.69, 3.25]
    """
    check_confidence(confidence)
    found = resample_alpha(eigenvalues, cut=cut, resamples=resamples, least=least, seed=int(rng.integers(1 << 62)))
    return None if found is None else found.interval(confidence)


@dataclass(frozen=True)
class Resampled:
    """The refits behind an interval: α of the fit (``value``), their central α (``centre``) and their deviations.

    ``deviations`` are ascending and symmetric: half the difference of the i-th smallest and the i-th largest
    ln(α* − 1). Their quantiles give the interval; ``alphas`` are the exponents at these deviations. ``resamples`` is
    how many were drawn, of which ``deviations.size`` had a slope. ``tails`` are the other cuts weighted by
    :func:`~weightsmith.grading.fits.averaging.candidate_tails`, for the cut ``ks`` only.
    """

    value: float
    centre: float
    deviations: NDArray[np.float64]
    resamples: int
    tails: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 3)))
    _ranges: dict[float, tuple[float, float]] = field(default_factory=dict, repr=False)

    @property
    def alphas(self) -> NDArray[np.float64]:
        """1 + (centre − 1)·e^δ, ascending; infinite for resamples without a slope."""
        lost = np.full(self.resamples - self.deviations.size, np.inf)
        return np.concatenate([1 + (self.centre - 1) * np.exp(self.deviations), lost])

    def interval(self, confidence: float) -> Interval | None:
        """The interval as defined above; None if more resamples lack a slope than may lie outside of it."""
        outside = (1 - confidence) / 2
        if self.resamples - self.deviations.size > outside * self.resamples:
            return None
        place, rest = divmod((1 - outside) * (self.deviations.size - 1), 1)  # the quantile, linear between two values
        below, above = self.deviations[int(place)], self.deviations[min(int(place) + 1, self.deviations.size - 1)]
        factor = math.exp(float(below + rest * (above - below)))
        low, high = sorted((self.value, self.centre))
        low, high = 1 + (low - 1) / factor, 1 + (high - 1) * factor
        method = f"mean of percentile and basic bootstrap of ln(α − 1), {self.resamples} resamples"
        if self.tails.size:
            below, above = self._open(outside)
            low, high = min(low, 1 + math.exp(below)), max(high, 1 + math.exp(above))
            method += ", and averaging over λ_min"
        return Interval(self.value, low, high, float(confidence), method)

    def _open(self, outside: float) -> tuple[float, float]:
        """The range of ln(α − 1) over other cuts."""
        from weightsmith.grading.fits.averaging import averaged_range

        if outside not in self._ranges:
            self._ranges[outside] = averaged_range(self.tails, outside)
        return self._ranges[outside]

    def is_settled(self, borders: Sequence[float], confidence: float) -> bool:
        """Whether more resamples would hardly change which borders lie inside the interval.

        A border lies outside the interval if the share of resamples beyond it is below (1 − confidence)/2. With k of n
        beyond it, this is settled once Wilson's interval of k/n at z = 3 does not contain that level, or if even twice
        the largest deviation does not reach the border. One border inside settles the verdict, whatever the others do.
        """
        if not self.deviations.size:
            return True
        outside, settled = (1 - confidence) / 2, True
        if self.tails.size:
            below, above = self._open(outside)
            if any(below < math.log(border - 1) < above for border in borders):
                return True
        reach = 2 * float(self.deviations[-1])
        for border in borders:
            distance = abs(math.log((border - 1) / (self.centre - 1)))
            beyond = int((self.deviations > distance).sum())
            share = wilson(beyond, self.deviations.size, _THREE_ERRORS)
            if share.low > outside:
                return True
            settled &= share.high < outside or distance > reach
        return settled


def resample_alpha(
    eigenvalues: NDArray[np.float64],
    *,
    cut: TailCut = _SMALLEST_DISTANCE,
    resamples: int = 200,
    most: int | None = None,
    borders: Sequence[float] = (),
    confidence: float = 0.95,
    least: int = 8,
    fit: PowerLaw | None = None,
    seed: int,
) -> Resampled | None:
    """Refit resamples of ascending, positive eigenvalues; None without a fit or with fewer than ``least`` of them.

    With ``most``, resamples are doubled up to that number until it is settled which of the ``borders`` lie inside the
    interval. Resample i of a seed is always the same. ``fit`` is the fit by ``cut``, if it is known.
    """
    from weightsmith.grading.fits.averaging import candidate_tails
    from weightsmith.grading.fits.refits import refitted_alphas, resample

    _check_count("resamples", resamples)
    _check_count("least", least)
    logs = logarithms(eigenvalues)
    start, value = cut(logs)[:2] if fit is None else (logs.size - fit.tail, fit.alpha)
    if logs.size < least or not math.isfinite(value):
        return None
    centre = _centre(logs, cut, start, value, least)
    if not math.isfinite(centre):
        return None
    tails = candidate_tails(logs, least) if isinstance(cut, SmallestDistance) else np.empty((0, 3))
    alphas = np.empty(0)
    wanted = resamples
    while True:
        numbers = alphas.size, wanted
        if isinstance(cut, SmallestDistance):
            more = refitted_alphas(logs, seed, numbers, least, float(logs[start]))
        else:
            more = np.array([cut(resample(logs, seed, number))[1] for number in range(*numbers)])
        alphas = np.concatenate([alphas, more])
        sloped = np.sort(np.log(alphas[np.isfinite(alphas)] - 1))
        found = Resampled(value, centre, (sloped - sloped[::-1]) / 2, alphas.size, tails)
        if most is None or 2 * wanted > most or found.is_settled(borders, confidence):
            return found
        wanted *= 2


def goodness_of_fit(
    eigenvalues: NDArray[np.float64], fit: PowerLaw, *, resamples: int = 200, rng: np.random.Generator
) -> Goodness:
    """Clauset's p for the ``fit`` of ascending, positive eigenvalues.

    Each of the n values of a sample is drawn from the fitted law with probability tail/n, otherwise from the values
    below λ_min; each sample is refitted by the cut of ``fit``. If k of m samples have a distance of D or more,

        p = (k + 1) / (m + 1)

    which counts the eigenvalues themselves as a sample, so that p is never 0 and the test keeps its level for any m
    (Davison & Hinkley, *Bootstrap Methods and their Application*, 1997, section 4.2); Clauset et al. write k/m.

    >>> from weightsmith.grading.fits.powerlaw import fit_power_law
    >>> pareto = np.sort(np.random.default_rng(0).pareto(2.0, 500) + 1)
    >>> goodness_of_fit(pareto, fit_power_law(pareto), rng=np.random.default_rng(1)).rejected
    False
    """
    _check_count("resamples", resamples)
    logs = logarithms(eigenvalues)
    start = int(np.searchsorted(eigenvalues, fit.xmin))
    if (logs.size, logs.size - start) != (fit.evals, fit.tail):
        raise DataMismatch(
            f"the fit has {fit.tail} of {fit.evals} eigenvalues from {fit.xmin:g}, the spectrum {logs.size - start} of "
            f"{logs.size}: a fit of the same eigenvalues is needed"
        )
    distances = _distances(logs, start, fit, rng, resamples)
    p = (int((distances >= fit.D).sum()) + 1) / (resamples + 1)
    return Goodness(p, resamples, p < _LEVEL)


def _centre(logs: NDArray[np.float64], cut: TailCut, start: int, value: float, least: int) -> float:
    """α of the best fit whose tail is long enough."""
    from weightsmith.grading.fits.scan import best_cut

    long_enough = logs.size - start >= least or not isinstance(cut, SmallestDistance)
    return value if long_enough else best_cut(logs, least)[1]


def _distances(
    logs: NDArray[np.float64], start: int, fit: PowerLaw, rng: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    from weightsmith.grading.fits.refits import refitted_distances, simulate

    if isinstance(fit.cut, SmallestDistance):
        return refitted_distances(logs, start, fit.alpha, rng, resamples)
    return np.array([fit.cut(simulate(logs, start, fit.alpha, rng))[2] for _ in range(resamples)])


def _check_count(name: str, count: int) -> None:
    if count < 2:
        raise OptionError(f"{name} must be ≥ 2, not {count}")
