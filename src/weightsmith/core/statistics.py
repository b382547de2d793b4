"""Intervals and tests: how sure a number is, and whether two numbers differ.

    wilson(successes, trials)                          a share, such as an accuracy
    mean_interval(values)                              a mean over independent values, such as seeds
    bootstrap(values, statistic, seed=0)               any statistic
    mcnemar(a_right, b_right)                          two networks on the same images
    score_interval(scores), score_difference(a, b)     the same for scores of rows, which are shares or means
    corrected_t(differences, train_size, test_size)    two methods over overlapping training sets
    rank_correlation(x, y)                             whether two numbers order networks alike

Every result is a record that names its method. What has no answer (a t-test without variance, an interval from one
value) has a status or is refused, and is never written as NaN.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core._bootstrap import Resampling, check_confidence, pair, sample
from weightsmith.core._ranks import Correlation, rank_correlation
from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.records import Record

__all__ = [
    "Comparison",
    "ComparisonStatus",
    "Correlation",
    "Interval",
    "bootstrap",
    "corrected_t",
    "holm",
    "mcnemar",
    "mean_interval",
    "rank_correlation",
    "score_difference",
    "score_interval",
    "wilson",
]


@dataclass(frozen=True, eq=False)
class Interval(Record):
    """An estimate with its confidence interval and the method that gave it."""

    value: float
    low: float
    high: float
    confidence: float
    method: str


class ComparisonStatus(enum.Enum):
    """Whether a comparison could be tested."""

    TESTED = "tested"
    NO_VARIANCE = "no variance"
    """All differences are equal: the t statistic is 0/0 or infinite, so there is neither p nor interval."""


@dataclass(frozen=True, eq=False)
class Comparison(Record):
    """How much better ``a`` is than ``b``, and whether that can be chance.

    ``difference`` is a − b, ``p`` two-sided, ``n`` the number of pairs. ``only_a`` and ``only_b`` count, in McNemar's
    test, the images that only one of the two has right.
    """

    difference: float
    p: float | None
    n: int
    method: str
    status: ComparisonStatus = ComparisonStatus.TESTED
    interval: Interval | None = None
    statistic: float | None = None
    only_a: int | None = None
    only_b: int | None = None

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 0, so that the sign of the difference is known."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    @property
    def worst(self) -> float:
        """The worst difference that the interval does not exclude; the difference itself where there is no interval."""
        return self.difference if self.interval is None else self.interval.low


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a share p̂ = successes/trials = k/n.

        (p̂ + z²/2n ± z √(p̂(1 − p̂)/n + z²/4n²)) / (1 + z²/n),    z the normal quantile of (1 + confidence)/2

    E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209. It stays inside [0, 1] and holds near 0 and 1, where p̂ ± z·s fails.

    >>> print("{0.value:.3f} [{0.low:.3f}, {0.high:.3f}]".format(wilson(8932, 10000)))
    0.893 [0.887, 0.899]
    """
    check_confidence(confidence)
    if trials < 1 or not 0 <= successes <= trials:
        raise UsageError(f"{successes} successes of {trials} trials: a share needs 0 ≤ successes ≤ trials, trials ≥ 1")
    n, share, z = int(trials), successes / trials, _normal_quantile(confidence)
    centre = share + z**2 / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    # At the ends the formula gives 0 and 1 up to rounding.
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == trials else (centre + half) / scale
    return Interval(share, low, high, float(confidence), "Wilson")


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Student's interval for the mean of independent values: x̄ ± t·s/√n, t the quantile with n − 1 degrees of freedom.

    "Student", Biometrika 6 (1908) 1; s² = Σ(x − x̄)²/(n − 1).

    >>> print("{0.value:.2f} [{0.low:.2f}, {0.high:.2f}]".format(mean_interval([1, 2, 3])))
    2.00 [-0.48, 4.48]
    """
    check_confidence(confidence)
    numbers = sample(values, "values", least=2)
    mean, error = float(np.mean(numbers)), float(np.std(numbers, ddof=1)) / math.sqrt(numbers.size)
    return _around(mean, error, numbers.size - 1, confidence, "Student t")


def bootstrap(
    values: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = 9999,
    method: Literal["percentile", "bca"] = "percentile",
) -> Interval:
    """Bootstrap interval of ``statistic(values)``: the quantiles of the statistic over resamples with replacement.

    "percentile" takes the (1 ± confidence)/2 quantiles; "bca" shifts them for bias and skewness (B. Efron, J. Am. Stat.
    Assoc. 82 (1987) 171) and is refused where it is undefined (every resample on one side of the estimate).
    The resamples are drawn from the stream "bootstrap" of ``seed``. A statistic that takes ``axis=`` is computed on all
    resamples at once.
    """
    rule = Resampling(seed, confidence, resamples, method)
    value, low, high = rule.interval(sample(values, "values", least=2), statistic)
    return Interval(value, low, high, float(confidence), f"{method} bootstrap, {resamples} resamples")


def mcnemar(
    a_right: ArrayLike,
    b_right: ArrayLike,
    *,
    method: Literal["interval", "exact", "mid-p"] = "interval",
    confidence: float = 0.95,
) -> Comparison:
    """McNemar's test of two classifiers on the same images: are the images that only one has right evenly shared?

    Only a has b images right, only b has c. The interval of the difference (b − c)/n is Bonett and Price's (J. Educ.
    Behav. Stat. 37 (2012) 479):

        d ± z·s,   s = √((p₁ + p₂ − d²)/(n + 2)),   p₁ = (b + 1)/(n + 2), p₂ = (c + 1)/(n + 2), d = p₁ − p₂

    ``interval``: p = 2·Φ(−|d|/s), the level at which that interval just reaches 0, so that test and interval never
    contradict each other; its level lies between those of the two that follow. These are conditional on m = b + c, of
    which b is Binomial(m, ½) if neither network is better. With k = min(b, c):

        exact:   p = min(1, 2·P(X ≤ k))                                 (Q. McNemar, Psychometrika 12 (1947) 153)
        mid-p:   p = 2·P(X < k) + P(X = k);   1 − ½·P(X = k) if b = c   (Fagerland et al., BMC Med. Res. Meth. 13:91)

    >>> mcnemar([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1, 0], method="exact").p
    0.0625
    """
    check_confidence(confidence)
    if method not in ("interval", "exact", "mid-p"):
        raise UnknownName("McNemar method", method, ["interval", "exact", "mid-p"])
    first, second = pair(a_right, b_right, ("a_right", "b_right"), least=1)
    for name, values in (("a_right", first), ("b_right", second)):
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if wrong.size:
            raise UsageError(f"{name}[{wrong[0]}] is {values[wrong[0]]:g}: must be true or false (right or wrong)")
    only_a, only_b = int(np.sum(first > second)), int(np.sum(first < second))
    return Comparison(
        difference=(only_a - only_b) / first.size,
        p=_interval_p(only_a, only_b, first.size) if method == "interval" else _binomial_p(only_a, only_b, method),
        n=first.size,
        method="McNemar, Bonett-Price" if method == "interval" else f"McNemar, {method}",
        interval=_bonett_price(only_a, only_b, first.size, confidence),
        only_a=only_a,
        only_b=only_b,
    )


def corrected_t(differences: ArrayLike, train_size: float, test_size: float, confidence: float = 0.95) -> Comparison:
    """Nadeau and Bengio's corrected resampled t-test, for differences over J overlapping train/test splits.

        t = d̄ / √((1/J + n_test/n_train)·s²),   J − 1 degrees of freedom

    The plain t-test takes the J differences for independent; they share training data, so its variance is too small by
    the term n_test/n_train (Machine Learning 52 (2003) 239). For r times k-fold: J = r·k, n_test/n_train = 1/(k − 1).
    If all differences are equal the status is NO_VARIANCE and there is neither p nor interval.
    """
    check_confidence(confidence)
    if not (train_size > 0 and test_size > 0 and math.isfinite(train_size + test_size)):
        raise UsageError(f"train_size and test_size must be > 0, not {train_size!r} and {test_size!r}")
    numbers = sample(differences, "differences", least=2)
    factor = 1 / numbers.size + test_size / train_size
    return _t_test(numbers, factor, confidence, "corrected resampled t-test")


def _t_test(numbers: NDArray[np.float64], factor: float, confidence: float, method: str) -> Comparison:
    """Test whether the mean of ``numbers`` is 0; its squared error is ``factor`` times their variance."""
    mean, count = float(np.mean(numbers)), numbers.size
    error = math.sqrt(factor * float(np.var(numbers, ddof=1)))
    # The computed variance of equal values need not be exactly 0, and that of tiny ones can be.
    if np.ptp(numbers) == 0 or error == 0:
        return Comparison(float(numbers[0]), None, count, method, ComparisonStatus.NO_VARIANCE)
    interval = _around(mean, error, count - 1, confidence, method)
    from scipy.special import stdtr

    p = 2 * float(stdtr(count - 1, -abs(mean / error)))
    return Comparison(mean, p, count, method, interval=interval, statistic=mean / error)


def score_interval(scores: ArrayLike) -> Interval:
    """The mean score of rows: Wilson's interval if each is right or wrong (truth values), else Student's."""
    values = np.asarray(scores)
    return wilson(int(values.sum()), values.size) if values.dtype == np.bool_ else mean_interval(values)


def score_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Comparison:
    """Two networks by their scores of the same rows: McNemar's test of truth values, else the paired t-test.

        t = d̄ / (s/√n),   d the differences a − b of the n rows, n − 1 degrees of freedom ("Student" 1908)

    Differences that are all equal leave nothing to test: NO_VARIANCE, with neither p nor interval.
    """
    first, second = np.asarray(a), np.asarray(b)
    if first.dtype == second.dtype == np.bool_:
        return mcnemar(first, second, confidence=confidence)
    first, second = pair(first, second, ("a", "b"), least=2)
    return _t_test(first - second, 1 / first.size, confidence, "paired t-test")


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p-values of several tests, corrected so that the chance of any false discovery among them is at most α.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎ the corrected values are p̃₍ᵢ₎ = max over j ≤ i of min(1, (m − j + 1) p₍ⱼ₎) (Holm, Scand. J.
    Statist. 6 (1979) 65). It holds for dependent tests too, as those on the same rows are. None, a test that could not
    be made, stays None and does not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    order = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        corrected[index] = largest
    return corrected


def _binomial_p(only_a: int, only_b: int, method: str) -> float:
    from scipy.special import bdtr

    least, total = min(only_a, only_b), only_a + only_b
    if total == 0:
        return 1.0
    at_most = float(bdtr(least, total, 0.5))
    if method == "exact":
        return min(1.0, 2 * at_most)
    below = float(bdtr(least - 1, total, 0.5)) if least else 0.0
    return at_most + below if only_a != only_b else 1 - (at_most - below) / 2


def _centre_and_error(only_a: int, only_b: int, n: int) -> tuple[float, float]:
    """d and s of Bonett and Price's interval."""
    share_a, share_b = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    centre = share_a - share_b
    return centre, math.sqrt((share_a + share_b - centre**2) / (n + 2))


def _interval_p(only_a: int, only_b: int, n: int) -> float:
    from scipy.special import ndtr

    centre, error = _centre_and_error(only_a, only_b, n)
    return 2 * float(ndtr(-abs(centre) / error))


def _bonett_price(only_a: int, only_b: int, n: int, confidence: float) -> Interval:
    centre, error = _centre_and_error(only_a, only_b, n)
    half = _normal_quantile(confidence) * error
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return Interval((only_a - only_b) / n, low, high, float(confidence), "Bonett-Price")


def _around(mean: float, error: float, degrees: int, confidence: float, method: str) -> Interval:
    """``mean`` ± t · ``error``."""
    from scipy.special import stdtrit

    half = float(stdtrit(degrees, (1 + confidence) / 2)) * error
    return Interval(mean, mean - half, mean + half, float(confidence), method)


def _normal_quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))
