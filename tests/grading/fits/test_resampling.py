"""The interval and the test against slow versions, their promises on any spectrum, and planted truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.grading.fits.cuts import Hill, SmallestDistance, TailCut, UnitDeterminant
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.fits.refits import resample
from weightsmith.grading.fits.resampling import Goodness, Resampled, alpha_interval, goodness_of_fit, resample_alpha

CUTS = [SmallestDistance(), Hill(), UnitDeterminant()]
spectra = st.one_of(
    st.lists(st.integers(1, 5).map(float), min_size=1, max_size=60),
    st.lists(st.floats(-30, 30).map(lambda power: 10**power), min_size=1, max_size=60),
    st.lists(st.integers(0, 40).map(lambda steps: 1 + steps * 2**-30), min_size=1, max_size=40),
).map(lambda values: np.sort(np.array(values)))


def pareto(alpha: float, size: int, seed: int, body: int = 0) -> np.ndarray:
    rng = stream(seed, "planted", str(alpha), size)
    tail = (1 - rng.random(size)) ** (-1 / (alpha - 1))
    return np.sort(np.concatenate([1 - rng.random(body) / (alpha - 1), tail]))


def draws(seed: int = 0) -> np.random.Generator:
    return stream(seed, "resamples")


def slow_interval(
    values: np.ndarray, cut: TailCut, resamples: int, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """As the module says it, with fits by the definition; for fits with a tail of 8 or more."""
    centre = math.log(fit_power_law(values, cut).alpha - 1)
    refits = []
    seed = int(rng.integers(1 << 62))
    for number in range(resamples):
        sample = values[resample(np.arange(float(values.size)), seed, number).astype(int)]
        alpha = slow_search(sample, 8) if isinstance(cut, SmallestDistance) else fit_power_law(sample, cut).alpha
        refits.append(math.log(alpha - 1))
    low, high = np.quantile(refits, [(1 - confidence) / 2, (1 + confidence) / 2])
    ends = [(low + 2 * centre - high) / 2, (high + 2 * centre - low) / 2]  # of percentile and basic, the mean
    if isinstance(cut, SmallestDistance):
        below, above = slow_average(values, (1 - confidence) / 2)
        ends = [min(ends[0], below), max(ends[1], above)]
    return 1 + math.exp(ends[0]), 1 + math.exp(ends[1])


def slow_average(values: np.ndarray, outside: float) -> tuple[float, float]:
    """Quantiles of the mixture over tails of 8 to all values, by the definition of the module ``averaging``."""
    lengths = sorted({min(int(8 * (values.size / 8) ** (step / 63) + 0.5), values.size) for step in range(64)})
    rows = []
    for n in lengths:
        ratios = values[-n:] / values[-n]
        alpha = 1 + n / np.log(ratios).sum()
        distance = np.abs(np.arange(n) / n - 1 + ratios ** (1 - alpha)).max()
        rows.append((n, math.log(alpha - 1), n * n * math.exp(-3.3 * n * distance**2)))
    n, centres, weights = np.array(rows).T
    weights /= weights.sum()

    def beyond(x: float, share: float) -> float:
        return float(weights @ ndtr((x - centres) * np.sqrt(n))) - share

    ends = [brentq(beyond, -20, 20, args=(share,), xtol=1e-13) for share in (outside, 1 - outside)]
    return ends[0], ends[1]


def slow_search(values: np.ndarray, least: int) -> float:
    fits = []
    for start in sorted(set(np.unique(values, return_index=True)[1])):
        ratios = values[start:] / values[start]
        if ratios.size < least or ratios[-1] == 1:
            continue
        alpha = 1 + ratios.size / np.log(ratios).sum()
        steps = np.arange(ratios.size) / ratios.size
        fits.append((np.abs(steps - 1 + ratios ** (1 - alpha)).max(), start, alpha))
    return float(min(fits)[2])


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_is_the_mean_of_percentile_and_basic(cut, confidence):
    values = pareto(3.0, 30, 1, body=30)
    found = alpha_interval(values, cut=cut, resamples=60, confidence=confidence, rng=draws())
    assert (found.low, found.high) == pytest.approx(slow_interval(values, cut, 60, confidence, draws()), rel=1e-6)
    assert (found.confidence, found.value) == (confidence, fit_power_law(values, cut).alpha)
    assert "60 resamples" in found.method


def test_deviations_are_symmetric_and_make_the_interval():
    found = resample_alpha(pareto(3.0, 60, 1, body=60), resamples=201, seed=4)
    assert found.deviations == pytest.approx(-found.deviations[::-1])
    interval = found.interval(0.95)
    low, high = np.quantile(found.alphas, [0.025, 0.975], method="linear")
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=0.02)
    factor = math.exp(np.quantile(found.deviations, 0.975))
    assert interval.high == pytest.approx(1 + (found.centre - 1) * factor, rel=1e-12)


def test_resamples_go_on_until_the_borders_are_settled():
    values = pareto(3.0, 60, 1, body=60)
    plain = resample_alpha(values, resamples=100, seed=4)
    interval = plain.interval(0.95)
    doubtful = resample_alpha(values, resamples=100, most=1600, borders=(interval.high,), seed=4)
    clear = resample_alpha(values, resamples=100, most=1600, borders=(plain.value, interval.high), seed=4)
    far = resample_alpha(values, resamples=100, most=1600, borders=(1000.0,), seed=4)
    assert (doubtful.resamples, clear.resamples, far.resamples) == (1600, 100, 100)
    np.testing.assert_array_equal(clear.deviations, plain.deviations)
    again = resample_alpha(values, resamples=1600, seed=4)
    np.testing.assert_array_equal(doubtful.deviations, again.deviations)  # the same resamples, drawn in portions


@pytest.mark.parametrize(("beyond", "settled"), [(0, True), (3, False), (10, False), (40, True), (200, True)])
def test_a_share_is_settled_when_its_interval_leaves_out_the_level(beyond, settled):
    """Of 200 deviations upwards so many are beyond the border; the level is 2.5 % of all 400."""
    half = np.concatenate([np.linspace(0.1, 0.5, 200 - min(beyond, 200)), np.linspace(1.1, 1.5, min(beyond, 200))])
    found = Resampled(2.0, 2.0, np.sort(np.concatenate([-half, half])), 400)
    assert found.is_settled((1 + math.e,), 0.95) is settled


def test_the_same_stream_gives_the_same_bytes_and_another_one_others():
    values = pareto(3.0, 100, 0)
    fit = fit_power_law(values)
    first, again, other = (alpha_interval(values, cut=CUTS[-1], rng=draws(seed)) for seed in (0, 0, 1))
    assert first.to_json() == again.to_json() != other.to_json()
    assert first.value == other.value
    assert alpha_interval(values, rng=draws()).to_json() == alpha_interval(values, rng=draws()).to_json()
    tests = [goodness_of_fit(values, fit, resamples=500, rng=draws(seed)) for seed in (0, 0, 1)]
    assert tests[0].to_json() == tests[1].to_json() != tests[2].to_json()


@settings(deadline=None, max_examples=60)
@given(spectra, st.sampled_from(CUTS), st.integers(0, 99), st.sampled_from([0.5, 0.95, 0.999]))
def test_an_interval_is_finite_and_holds_the_fit(values, cut, seed, confidence):
    found = alpha_interval(values, cut=cut, resamples=20, confidence=confidence, rng=draws(seed))
    fit = fit_power_law(values, cut)
    if fit is None or values.size < 8:
        assert found is None
    if found is not None:
        assert found.value == fit.alpha
        assert 1 <= found.low <= found.value <= found.high < math.inf


@settings(deadline=None, max_examples=60)
@given(spectra, st.sampled_from(CUTS), st.integers(0, 99))
def test_a_p_is_a_share_of_samples(values, cut, seed):
    fit = fit_power_law(values, cut)
    if fit is not None:
        found = goodness_of_fit(values, fit, resamples=19, rng=draws(seed))
        assert found.p * 20 == pytest.approx(round(found.p * 20))
        assert 1 / 20 <= found.p <= 1


def test_a_fit_with_a_short_tail_is_held_as_well():
    """The best tail has fewer than 8 values: the interval reaches from below the best one of 8 to beyond the fit."""
    values = next(
        values
        for seed in range(100)
        if fit_power_law(values := pareto(3.0, 20, seed)).tail < 8 and fit_power_law(values).alpha > 8
    )
    refits = resample_alpha(values, seed=1)
    found = replace(refits, tails=np.empty((0, 3))).interval(0.5)  # without averaging over λ_min
    assert found.value == fit_power_law(values).alpha
    assert found.low < slow_search(values, 8) < found.value < found.high
    up, down = (found.high - 1) / (found.value - 1), (slow_search(values, 8) - 1) / (found.low - 1)
    assert up == pytest.approx(down)
    whole = refits.interval(0.5)
    assert whole.low <= found.low
    assert found.high <= whole.high
    longer = resample_alpha(values, least=fit_power_law(values).tail, seed=1)
    longer = replace(longer, tails=np.empty((0, 3))).interval(0.5)
    assert (longer.low - 1) * (longer.high - 1) == pytest.approx((longer.value - 1) ** 2)


def test_more_confidence_is_wider_and_more_values_are_narrower():
    values = pareto(3.0, 200, 0)
    widths = [
        (found := alpha_interval(values, confidence=confidence, rng=draws())).high - found.low
        for confidence in (0.5, 0.8, 0.95, 0.99)
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    many = alpha_interval(pareto(3.0, 3200, 0), rng=draws())
    assert many.high - many.low < widths[2] / 2


@pytest.mark.parametrize("scale", [2.0**-100, 1e-30, 1e30])
def test_the_scale_of_the_weights_does_not_matter(scale):
    values = pareto(2.5, 150, 3)
    plain, scaled = (alpha_interval(each, rng=draws()) for each in (values, values * scale))
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((plain.value, plain.low, plain.high), rel=1e-9)
    tests = [goodness_of_fit(each, fit_power_law(each), rng=draws()) for each in (values, values * scale)]
    assert tests[0] == tests[1]


@pytest.mark.parametrize(
    "values",
    [
        np.array([]),
        np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),  # fewer than 8
        np.ones(50),  # no slope
        np.array([1.0] * 49 + [2.0]),  # a resample has none in (1 − 1/50)^50 = 36 %
    ],
    ids=["none", "few", "equal", "one other"],
)
def test_where_nothing_can_be_said_nothing_is(values):
    assert alpha_interval(values, rng=draws()) is None


def test_what_makes_no_sense_is_refused():
    values = pareto(3.0, 50, 0)
    fit = fit_power_law(values)
    with pytest.raises(OptionError, match="resamples must be ≥ 2, not 1"):
        alpha_interval(values, resamples=1, rng=draws())
    with pytest.raises(OptionError, match="least must be ≥ 2, not 0"):
        alpha_interval(values, least=0, rng=draws())
    with pytest.raises(OptionError, match="confidence"):
        alpha_interval(values, confidence=95, rng=draws())
    with pytest.raises(OptionError, match="resamples must be ≥ 2, not 0"):
        goodness_of_fit(values, fit, resamples=0, rng=draws())
    with pytest.raises(UsageError, match="> 0"):
        alpha_interval(np.concatenate([[0.0], values]), rng=draws())
    with pytest.raises(DataMismatch, match="the same eigenvalues"):
        goodness_of_fit(values[1:], fit, rng=draws())
    with pytest.raises(DataMismatch, match="the same eigenvalues"):
        goodness_of_fit(values * 2, fit, rng=draws())


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_p_counts_the_samples_that_lie_as_far_off(cut):
    values = pareto(3.0, 40, 2, body=30)
    fit = fit_power_law(values, cut)
    rng, farther = draws(), 0
    for _ in range(50):
        drawn = values[(rng.random(values.size) * values.size).astype(int)]
        body = drawn[drawn < fit.xmin]
        tail = fit.xmin * np.exp(rng.standard_exponential(values.size - body.size) / (fit.alpha - 1))
        farther += fit_power_law(np.sort(np.concatenate([body, tail])), cut).D >= fit.D
    found = goodness_of_fit(values, fit, resamples=50, rng=draws())
    assert found.p == (farther + 1) / 51
    assert 0 < farther < 50


def test_p_at_its_ends():
    values = pareto(3.0, 60, 0)
    fit = fit_power_law(values)
    assert goodness_of_fit(values, replace(fit, D=0.0), resamples=99, rng=draws()) == Goodness(1.0, 99, False)
    assert goodness_of_fit(values, replace(fit, D=1.0), resamples=99, rng=draws()) == Goodness(0.01, 99, True)


def test_a_tail_that_is_none_is_rejected():
    """With all values as the tail, so that the fit cannot retreat to their end."""
    values = np.sort(15 + 8 * stream(0, "exponential").standard_exponential(500))
    assert goodness_of_fit(values, fit_power_law(values, Hill(1.0)), rng=draws()).p == 1 / 201


@pytest.mark.slow
@pytest.mark.parametrize(("size", "trials"), [(50, 600), (500, 200)])
@pytest.mark.parametrize("body", [0, 1], ids=["tail alone", "with a body"])
def test_the_interval_covers_the_truth(size, trials, body):
    """Fixed seeds, all α of the study in turn; the bounds are 92–98 % and two standard errors of so many trials."""
    covered, known = [], []
    for trial in range(trials):
        alpha = (2.0, 3.0, 4.5)[trial % 3]
        found = alpha_interval(pareto(alpha, size, trial, body * size), rng=draws(trial))
        fit = fit_power_law(pareto(alpha, size, trial, body * size))
        covered.append(found.low <= alpha <= found.high)
        known.append(abs(fit.alpha - alpha) <= 1.96 * fit.sigma)
    slack = 2 * math.sqrt(0.05 * 0.95 / trials)
    assert 0.92 - slack <= np.mean(covered) <= 0.98 + slack
    assert np.mean(known) < np.mean(covered)


@pytest.mark.slow
@pytest.mark.parametrize("body", [0, 100], ids=["tail alone", "with a body"])
def test_the_law_itself_is_rejected_in_a_tenth_of_trials(body):
    ps = []
    for trial in range(300):
        values = pareto(3.0, 100, trial, body)
        ps.append(goodness_of_fit(values, fit_power_law(values), resamples=99, rng=draws(trial)).p)
    assert 0.04 <= np.mean(np.array(ps) < 0.1) <= 0.14
    assert 0.35 <= np.mean(np.array(ps) < 0.5) <= 0.55
