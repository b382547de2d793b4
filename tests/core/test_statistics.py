from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.core.seeds import stream
from weightsmith.core.statistics import (
    Comparison,
    ComparisonStatus,
    Interval,
    bootstrap,
    corrected_t,
    holm,
    mcnemar,
    mean_interval,
    rank_correlation,
    wilson,
)

FINITE = st.floats(-1e6, 1e6)


# Wilson


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_agrees_with_scipy(counts, confidence):
    successes, trials = counts
    ours = wilson(successes, trials, confidence)
    theirs = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)
    assert 0 <= ours.low <= ours.value <= ours.high <= 1


def test_wilson_at_the_ends_has_its_closed_form():
    z2 = stats.norm.ppf(0.975) ** 2
    assert wilson(0, 10).low == 0.0
    assert wilson(0, 10).high == pytest.approx(z2 / (10 + z2), rel=1e-12)
    assert wilson(10, 10).high == 1.0
    assert wilson(10, 10).low == pytest.approx(10 / (10 + z2), rel=1e-12)


@pytest.mark.parametrize("counts", [(0, 0), (3, 2), (-1, 5)])
def test_wilson_refuses_impossible_counts(counts):
    with pytest.raises(UsageError, match=f"{counts[0]} successes of {counts[1]} trials"):
        wilson(*counts)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, math.nan])
def test_confidence_must_be_a_share(confidence):
    for call in (
        lambda: wilson(1, 2, confidence),
        lambda: mean_interval([1, 2], confidence),
        lambda: bootstrap([1, 2], seed=0, confidence=confidence),
        lambda: mcnemar([1], [0], confidence=confidence),
        lambda: corrected_t([1, 2], 9, 1, confidence),
    ):
        with pytest.raises(OptionError, match="confidence must be between 0 and 1"):
            call()


# Mean


def test_mean_interval_agrees_with_scipy():
    values = stream(0, "values").normal(3, 2, size=7)
    ours = mean_interval(values, 0.9)
    low, high = stats.t.interval(0.9, 6, np.mean(values), stats.sem(values))
    assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-12)
    assert ours.value == np.mean(values)


def test_mean_interval_of_two_values_has_its_closed_form():
    # One degree of freedom is the Cauchy law: its 0.975 quantile is tan(0.475·π).
    ours = mean_interval([0.0, 2.0])
    assert ours.high == pytest.approx(1 + math.tan(0.475 * math.pi), rel=1e-10)


def test_mean_of_one_value_has_no_interval():
    with pytest.raises(UsageError, match=r"1 value\(s\): at least 2"):
        mean_interval([1.0])


# Bootstrap


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_agrees_with_a_slow_version(method):
    values = stream(1, "values").exponential(size=12)
    ours = bootstrap(values, np.median, seed=5, resamples=499, confidence=0.9, method=method)
    draws = stream(5, "bootstrap").integers(0, 12, (499, 12))
    found = np.array([np.median(values[row]) for row in draws])
    low, high = 0.05, 0.95
    if method == "bca":
        shift = stats.norm.ppf((np.mean(found < ours.value) + np.mean(found <= ours.value)) / 2)
        left_out = np.array([np.median(np.delete(values, i)) for i in range(12)])
        lean = np.mean(left_out) - left_out
        skew = np.sum(lean**3) / (6 * np.sum(lean**2) ** 1.5)
        low, high = (
            stats.norm.cdf(shift + (shift + z) / (1 - skew * (shift + z))) for z in stats.norm.ppf([low, high])
        )
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(found, [low, high])), rel=1e-9)
    assert ours.method == f"{method} bootstrap, 499 resamples"


def test_bootstrap_depends_on_the_seed_alone():
    values = stream(2, "values").normal(size=30)
    np.random.seed(0)  # the global state must not matter
    first = bootstrap(values, seed=3, resamples=99)
    np.random.seed(1)
    assert bootstrap(values, seed=3, resamples=99) == first
    assert bootstrap(values, seed=4, resamples=99) != first


def test_a_statistic_without_axis_gives_the_same_interval():
    values = stream(3, "values").normal(size=20)
    one_by_one = bootstrap(values, lambda row: float(np.mean(row)), seed=0, resamples=199)
    together = bootstrap(values, np.mean, seed=0, resamples=199)
    assert (one_by_one.low, one_by_one.high) == pytest.approx((together.low, together.high), rel=1e-12)
    assert bootstrap(values, max, seed=0, resamples=19).value == values.max()


def test_bootstrap_covers_the_truth_as_often_as_it_says():
    hits = 0
    for trial in range(200):
        values = stream(trial, "coverage").normal(size=40)
        interval = bootstrap(values, seed=trial, resamples=400, confidence=0.8, method="bca")
        hits += interval.low <= 0 <= interval.high
    assert abs(hits / 200 - 0.8) < 3.5 * math.sqrt(0.8 * 0.2 / 200)


def test_constant_values_have_an_interval_of_no_width():
    for method in ("percentile", "bca"):
        found = bootstrap([0.1, 0.1, 0.1], np.median, seed=0, method=method)
        assert (found.value, found.low, found.high) == (0.1, 0.1, 0.1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:The BCa")
def test_an_undefined_bca_interval_is_refused():
    # No resample of thirty distinct values holds thirty: all of them lie below the estimate.
    with pytest.raises(UsageError, match="bca interval is undefined for these 30 values; try 'percentile'"):
        bootstrap(range(30), lambda row: len(set(row)), seed=0, resamples=99, method="bca")


def test_bootstrap_refuses_by_name():
    with pytest.raises(UnknownName, match="bootstrap method 'basic'"):
        bootstrap([1, 2], seed=0, method="basic")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="resamples must be ≥ 2, not 0"):
        bootstrap([1, 2], seed=0, resamples=0)
    with pytest.raises(UsageError, match=r"values\[1\] is nan"):
        bootstrap([1, math.nan], seed=0)
    with pytest.raises(UsageError, match=r"values\[0\] is 1e\+200: all values must be finite, below 1e\+150"):
        bootstrap([1e200, 0], seed=0)
    with pytest.raises(UsageError, match="statistic of the values is inf"):
        bootstrap([1, 2], lambda row: math.inf, seed=0)
    with pytest.raises(UsageError, match="one row of numbers, not an array of shape"):
        bootstrap(np.ones((2, 2)), seed=0)
    with pytest.raises(UsageError, match="values must be numbers, not str"):
        bootstrap(["a", "b"], seed=0)


# McNemar


def _answers(both, only_a, only_b, neither):
    a = [1] * both + [1] * only_a + [0] * only_b + [0] * neither
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return np.array(a, bool), np.array(b, bool)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 9))
def test_mcnemar_against_the_sum_over_the_binomial(only_a, only_b, both):
    a, b = _answers(both, only_a, only_b, 1)
    total = only_a + only_b
    share = [math.comb(total, k) / 2**total for k in range(total + 1)]
    away = abs(only_a - total / 2)
    exact = sum(s for k, s in enumerate(share) if abs(k - total / 2) >= away)
    ours = mcnemar(a, b, method="exact")
    assert ours.p == pytest.approx(exact, rel=1e-9)
    assert (ours.only_a, ours.only_b, ours.n) == (only_a, only_b, total + both + 1)
    assert ours.difference == pytest.approx(a.mean() - b.mean(), abs=1e-12)
    if total:
        # Mid-p: as extreme outcomes count half.
        as_extreme = sum(s for k, s in enumerate(share) if abs(k - total / 2) == away)
        assert mcnemar(a, b, method="mid-p").p == pytest.approx(exact - as_extreme / 2, rel=1e-9)
    swapped = mcnemar(b, a, method="exact")
    assert (swapped.p, swapped.difference) == (ours.p, -ours.difference)


def test_mcnemar_on_published_counts():
    # Fagerland, Lydersen and Laake (2013), table 1: 1 against 7 discordant pairs of 21; exact p .0703, mid-p .0391.
    a, b = _answers(1, 7, 1, 12)
    assert mcnemar(a, b, method="exact").p == pytest.approx(0.0703, abs=5e-5)
    assert mcnemar(a, b, method="mid-p").p == pytest.approx(0.0391, abs=5e-5)


def test_the_difference_interval_by_hand_and_by_coverage():
    a, b = _answers(1, 7, 1, 12)
    found = mcnemar(a, b).interval
    assert found is not None
    first, second = 8 / 23, 2 / 23
    half = 1.959963984540054 * math.sqrt((first + second - (first - second) ** 2) / 23)
    assert (found.low, found.high) == pytest.approx((first - second - half, first - second + half), rel=1e-12)
    assert found.value == 6 / 21
    hits, draws = 0, stream(0, "coverage").multinomial(60, [0.6, 0.2, 0.1, 0.1], size=2000)
    for both, only_a, only_b, neither in draws:
        interval = mcnemar(*_answers(both, only_a, only_b, neither)).interval
        assert interval is not None
        hits += interval.low <= 0.1 <= interval.high
    assert 0.94 < hits / 2000 < 0.97


def test_mcnemar_of_equal_answers_is_one():
    for method in ("interval", "exact", "mid-p"):
        assert mcnemar([1, 0, 1], [1, 0, 1], method=method).p == 1.0


@pytest.mark.parametrize("n", [20, 360])
def test_the_test_and_the_interval_never_contradict_each_other(n):
    for only_a in range(0, 20):
        for only_b in range(0, min(20, n - only_a) + 1):
            found = mcnemar(*_answers(0, only_a, only_b, n - only_a - only_b))
            assert (found.p < 0.05) == found.decided, (only_a, only_b)


def test_the_level_of_the_test_is_kept():
    """Under equal networks that disagree on 10 % of 360 images, by the multinomial law itself."""
    n, share, rejected = 360, 0.1, 0.0
    for total in range(n + 1):
        weight = stats.binom.pmf(total, n, share)
        if weight > 1e-9:
            found = [mcnemar(*_answers(0, k, total - k, n - total)).decided for k in range(total + 1)]
            rejected += weight * float(stats.binom.pmf(np.arange(total + 1), total, 0.5)[found].sum())
    assert 0.03 < rejected <= 0.05


def test_equal_answers_still_leave_room_for_a_loss():
    found = mcnemar([1] * 360, [1] * 360)
    assert found.interval.low < -0.005
    assert (found.decided, found.worst) == (False, found.interval.low)


def test_mcnemar_refuses_by_name():
    with pytest.raises(UsageError, match=r"b_right\[1\] is 2: must be true or false"):
        mcnemar([1, 0], [0, 2])
    with pytest.raises(DataMismatch, match="a_right has 1 values and b_right has 2"):
        mcnemar([1], [0, 1])
    with pytest.raises(UnknownName, match="McNemar method 'chi'"):
        mcnemar([1], [0], method="chi")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a_right has 0"):
        mcnemar([], [])


# Corrected t


def test_corrected_t_by_hand():
    # d̄ = 2, s² = 1, J = 3, n_test/n_train = 1/9: t = 2 / √(1/3 + 1/9) = 3; two degrees of freedom have a closed form.
    ours = corrected_t([1, 2, 3], train_size=90, test_size=10)
    assert ours.statistic == pytest.approx(3, rel=1e-12)
    assert ours.p == pytest.approx(1 - 3 / math.sqrt(2 + 9), rel=1e-12)
    assert ours.interval is not None
    half = stats.t.ppf(0.975, 2) * 2 / 3
    assert (ours.interval.low, ours.interval.high) == pytest.approx((2 - half, 2 + half), rel=1e-12)


def test_without_the_correction_it_is_the_plain_t_test():
    values = stream(6, "values").normal(0.3, 1, size=15)
    ours = corrected_t(values, train_size=1, test_size=1e-15)
    theirs = stats.ttest_1samp(values, 0)
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)


def test_the_correction_keeps_the_level_that_the_plain_test_breaks():
    # Ten folds of the same 200 cases, no true difference: splits share data, so their differences are correlated.
    plain = corrected = 0
    for trial in range(300):
        random = stream(trial, "level")
        cases = random.normal(size=200)
        splits = [np.mean(cases[random.permutation(200)[:40]]) for _ in range(10)]
        plain += stats.ttest_1samp(splits, 0).pvalue < 0.05
        p = corrected_t(splits, train_size=160, test_size=40).p
        corrected += p is not None and p < 0.05
    assert plain / 300 > 0.2
    assert corrected / 300 < 0.12


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_no_variance_is_a_status(value):
    ours = corrected_t([value] * 3, 9, 1)
    assert ours == Comparison(value, None, 3, "corrected resampled t-test", ComparisonStatus.NO_VARIANCE)


@pytest.mark.parametrize("sizes", [(0, 1), (9, -1), (math.inf, 1), (math.nan, 1)])
def test_corrected_t_refuses_sizes(sizes):
    with pytest.raises(UsageError, match="train_size and test_size must be > 0"):
        corrected_t([1, 2], *sizes)


# Rank correlation


def _slow_p(x, y, kind):
    def score(order):
        if kind == "kendall":
            return stats.kendalltau(x, order).statistic
        return stats.spearmanr(x, order).statistic

    seen = abs(score(y))
    return np.mean([abs(score(order)) >= seen - 1e-12 for order in itertools.permutations(y)])


@pytest.mark.parametrize("kind", ["kendall", "spearman"])
@settings(max_examples=25, deadline=None)
@given(values=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=5))
def test_small_samples_are_enumerated(kind, values):
    x, y = zip(*values, strict=True)
    if len(set(x)) == 1 or len(set(y)) == 1:
        with pytest.raises(UsageError, match="is constant"):
            rank_correlation(x, y, kind)
        return
    ours = rank_correlation(x, y, kind)
    theirs = stats.kendalltau(x, y) if kind == "kendall" else stats.spearmanr(x, y)
    assert ours.value == pytest.approx(theirs.statistic, abs=1e-12)
    assert ours.p == pytest.approx(_slow_p(x, y, kind), abs=1e-12)


def test_kendall_of_four_in_order():
    ours = rank_correlation([8.27, 7.37, 6.90, 6.61], [128.9, 72.8, -45.2, -158.2])
    assert (ours.value, ours.p) == (1.0, pytest.approx(1 / 12))
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]).value == -1.0


@pytest.mark.parametrize("n", [6, 9])
def test_kendall_without_ties_agrees_with_the_exact_law(n):
    x, y = stream(n, "x").normal(size=n), stream(n, "y").normal(size=n)
    theirs = stats.kendalltau(x, y, method="exact")
    ours = rank_correlation(x, y)
    assert (ours.value, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-12)


def test_spearman_of_nine_agrees_with_published_critical_values():
    # The two-sided 5 % critical value for n = 9 is .700 (Zar, J. Am. Stat. Assoc. 67 (1972) 578).
    at = rank_correlation(range(9), [2, 0, 3, 5, 6, 1, 4, 8, 7], "spearman")
    assert (at.value, at.p < 0.05) == (0.7, True)
    below = rank_correlation(range(9), [1, 0, 6, 4, 5, 2, 3, 7, 8], "spearman")
    assert (below.value, below.p > 0.05) == (pytest.approx(0.7 - 2 / 120), True)


@pytest.mark.parametrize(
    ("n", "ties", "kind", "how"),
    [
        (12, False, "kendall", "Kendall tau-b, exact, no ties"),
        (12, True, "kendall", "Kendall tau-b, normal approximation"),
        (171, False, "kendall", "Kendall tau-b, normal approximation"),
        (12, False, "spearman", "Spearman rho, t approximation"),
    ],
)
def test_larger_samples_say_how_p_was_computed(n, ties, kind, how):
    x, y = stream(n, "x").normal(size=n), stream(n, "y").normal(size=n)
    if ties:
        x = np.round(x)
    ours = rank_correlation(x, y, kind)
    assert ours.method == how
    method = "exact" if "exact" in how else "asymptotic"
    theirs = stats.kendalltau(x, y, method=method) if kind == "kendall" else stats.spearmanr(x, y)
    assert (ours.value, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-12)


def test_the_approximation_is_near_the_exact_value():
    # Ten values with ties, against a seeded sample of orders.
    x, y = np.array([1, 1, 2, 3, 4, 4, 5, 6, 7, 8]), np.array([2, 1, 1, 5, 3, 4, 4, 9, 6, 7])
    shuffled = [stats.kendalltau(x, stream(i, "order").permutation(y)).statistic for i in range(2000)]
    seen = rank_correlation(x, y)
    p = np.mean(np.abs(shuffled) >= abs(seen.value) - 1e-12)
    assert seen.p == pytest.approx(p, abs=0.01)


def test_a_perfect_order_never_has_p_zero():
    ours = rank_correlation(range(12), range(12), "spearman")
    assert (ours.value, ours.p) == (pytest.approx(1.0), pytest.approx(2 / math.factorial(12)))


def test_rank_correlation_refuses_by_name():
    with pytest.raises(UsageError, match=r"y is constant \(2\): it has no order"):
        rank_correlation([1, 2, 3], [2, 2, 2])
    with pytest.raises(DataMismatch, match="x has 3 values and y has 2"):
        rank_correlation([1, 2, 3], [1, 2])
    with pytest.raises(UnknownName, match="did you mean 'kendall'"):
        rank_correlation([1, 2], [1, 2], "kendal")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="x has 1 value"):
        rank_correlation([1], [1])


# Records


def test_holm_is_that_of_the_worked_example():
    # Holm (1979) by hand, m = 4: 4·0.005, 3·0.01, 2·0.03, 1·0.04 → the last is raised to the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.none() | st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(ps):
    found = holm(ps)
    assert [p is None for p in found] == [p is None for p in ps]
    pairs = sorted((p, q) for p, q in zip(ps, found, strict=True) if p is not None)
    assert [q for _, q in pairs] == sorted(q for _, q in pairs)
    for p, q in pairs:
        assert p <= q <= min(1, len(pairs) * p) or q == pytest.approx(min(1, len(pairs) * p))


def test_results_survive_json():
    for result in (
        wilson(3, 4),
        mcnemar([1, 0], [0, 0]),
        corrected_t([1, 2, 3], 9, 1),
        corrected_t([1, 1], 9, 1),
        rank_correlation([1, 2, 3], [1, 3, 2]),
    ):
        assert type(result).from_json(result.to_json()) == result


@given(st.lists(FINITE, min_size=2, max_size=8))
def test_no_result_is_ever_not_a_number(values):
    found: list[Interval | Comparison] = [mean_interval(values), corrected_t(values, 9, 1)]
    for result in found:
        assert type(result).from_json(result.to_json()) == result  # to_json refuses NaN and infinity
