"""Mean and variance of a potential: the document's example, closed forms, limits, and a recursion step by step."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.spiking.theory.potential import (
    exceeds,
    leak_of,
    lognormal,
    shot_noise,
    std_bound,
    step_noise,
    time_constant,
)

leaks = st.floats(0.01, 1.0)
weights = st.lists(st.floats(-3, 3), min_size=3, max_size=3)
inputs = st.lists(st.floats(-1, 1), min_size=3, max_size=3)
rates = st.lists(st.floats(0, 5), min_size=3, max_size=3)


def test_the_two_neurons_of_the_document_exactly():
    first, second = shot_noise([2.0], [1.0], tau=1.0), shot_noise([1.0], [2.0], tau=1.0)
    assert (first.mean, second.mean) == (2.0, 2.0)
    assert (first.variance, second.variance) == (2.0, 1.0)
    assert first.std == math.sqrt(2)


def test_shot_noise_is_what_the_equations_say():
    w, lam, tau, t = np.array([0.5, -1.5, 2.0]), np.array([3.0, 0.2, 1.1]), 2.5, 1.7
    mean, variance = shot_noise(w, lam, tau, t)
    assert mean == pytest.approx(tau * (w @ lam) * (1 - math.exp(-t / tau)), rel=1e-14)
    assert variance == pytest.approx(0.5 * tau * (lam @ w**2) * (1 - math.exp(-2 * t / tau)), rel=1e-14)


def test_shot_noise_begins_at_zero_and_settles():
    mean, variance = shot_noise([2.0, -0.5], [1.0, 3.0], tau=3.0, time=[0.0, 1e-9, 1e3])
    assert (mean[0], variance[0]) == (0.0, 0.0)
    assert mean[1] == pytest.approx((2.0 - 1.5) * 1e-9, rel=1e-8)
    assert variance[1] == pytest.approx((4.0 + 0.75) * 1e-9, rel=1e-8)
    assert (mean[2], variance[2]) == shot_noise([2.0, -0.5], [1.0, 3.0], tau=3.0)


def test_without_leak_moments_grow_with_time():
    mean, variance = shot_noise([2.0, -0.5], [1.0, 3.0], tau=math.inf, time=[1.0, 4.0])
    assert mean.tolist() == [0.5, 2.0]
    assert variance.tolist() == [4.75, 19.0]
    near = shot_noise([2.0, -0.5], [1.0, 3.0], tau=1e12, time=[1.0, 4.0])
    assert_allclose(near.mean, mean, rtol=1e-11)
    assert_allclose(near.variance, variance, rtol=1e-11)


def test_axes_are_neurons_then_times():
    random = np.random.default_rng(0)
    w, lam, times = random.normal(size=(4, 5)), random.random(5), np.array([[0.5, 1.0, 2.0]] * 2)
    found = shot_noise(w, lam, 1.5, times)
    assert found.mean.shape == found.variance.shape == (4, 2, 3)
    assert found.mean[2, 1, 0] == pytest.approx(float(shot_noise(w[2], lam, 1.5, 0.5).mean), rel=1e-14)
    pairs = shot_noise(w[:, None], random.random((7, 5)), 1.5)
    assert pairs.mean.shape == (4, 7)
    assert step_noise(w, random.random(5), 0.9, [1, 2]).variance.shape == (4, 2)
    assert std_bound(w, lam, 1.5, times).shape == (4, 2, 3)


@given(weights, inputs, leaks, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_step_noise_is_the_recursion_run_to_its_end(w, x, leak, steps):
    mean = variance = 0.0
    for _ in range(steps):
        mean = leak * mean + sum(a * b for a, b in zip(w, x, strict=True))
        variance = leak**2 * variance + sum(a * a * (abs(b) - b * b) for a, b in zip(w, x, strict=True))
    found = step_noise(w, x, leak, steps)
    assert float(found.mean) == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert float(found.variance) == pytest.approx(variance, rel=1e-9, abs=1e-9)


def test_step_noise_as_it_is_printed():
    w, x, leak, t = np.array([1.0, -2.0]), np.array([0.3, 0.8]), 0.9, 7
    mean, variance = step_noise(w, x, leak, t)
    assert mean == pytest.approx((w @ x) * (1 - leak**t) / (1 - leak), rel=1e-13)
    expected = (w**2 * (np.abs(x) - x**2)).sum() * (1 - leak ** (2 * t)) / (1 - leak**2)
    assert variance == pytest.approx(expected, rel=1e-13)
    mean, variance = step_noise(w, x, leak)
    assert mean == pytest.approx((w @ x) / (1 - leak), rel=1e-13)
    assert variance == pytest.approx((w**2 * (x - x**2)).sum() / (1 - leak**2), rel=1e-13)


def test_step_noise_without_leak_and_close_to_it():
    mean, variance = step_noise([1.0, 2.0], [0.5, -0.25], leak=1.0, steps=[0, 1, 8])
    assert mean.tolist() == [0.0, 0.0, 0.0]
    assert variance.tolist() == [0.0, 1.0, 8.0]
    near = step_noise([1.0], [0.5], leak=1 - 1e-12, steps=1000)
    assert float(near.mean) == pytest.approx(500.0, rel=1e-8)
    assert float(near.variance) == pytest.approx(250.0, rel=1e-8)


def test_spikes_in_every_step_have_no_noise():
    mean, variance = step_noise([2.0, 3.0], [1.0, -1.0], leak=0.5, steps=3)
    assert (mean, variance) == (-1.75, 0.0)


def test_short_steps_become_shot_noise_and_the_gap_goes_with_their_length():
    w, lam, tau, time = np.array([0.5, -1.5, 2.0]), np.array([3.0, 0.2, 1.1]), 2.0, 3.0
    exact = shot_noise(w, lam, tau, time)
    gaps = []
    for steps in (300, 600, 1200):
        length = time / steps
        found = step_noise(w, lam * length, math.exp(-length / tau), steps)
        gaps.append([float(found.mean - exact.mean), float(found.variance - exact.variance)])
    assert np.abs(gaps[2]).max() < 0.02
    assert_allclose(np.divide(gaps[0], gaps[1]), 2, rtol=0.01)
    assert_allclose(np.divide(gaps[1], gaps[2]), 2, rtol=0.01)


@given(leaks)
def test_time_constant_and_leak_undo_each_other(leak):
    assert leak_of(time_constant(leak)) == pytest.approx(leak, rel=1e-12)


def test_time_constants_known():
    assert time_constant(math.exp(-0.25)) == pytest.approx(4.0, rel=1e-14)
    assert (time_constant(1.0), leak_of(math.inf)) == (math.inf, 1.0)
    assert leak_of(1.0) == pytest.approx(1 / math.e, rel=1e-15)


@given(weights, rates, st.floats(0.1, 20), st.one_of(st.none(), st.floats(0, 50)))
@settings(max_examples=100, deadline=None)
def test_no_potential_varies_more_than_the_l4_norm_lets_it(w, lam, tau, time):
    assert float(shot_noise(w, lam, tau, time).std) <= float(std_bound(w, lam, tau, time)) * (1 + 1e-12)


@given(weights, st.floats(0.1, 20), st.one_of(st.none(), st.floats(0.1, 50)))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_reached_where_rates_are_squares_of_weights(w, tau, time):
    lam = np.square(w)
    assert float(std_bound(w, lam, tau, time)) == pytest.approx(float(shot_noise(w, lam, tau, time).std), rel=1e-9)


def test_l4_norms_of_section_3_3():
    flat = std_bound([math.sqrt(0.5)] * 2, [2.0, 0.0], tau=1)
    assert float(flat) == pytest.approx(0.5**0.25, rel=1e-14)  # ≈ 0.84
    assert float(std_bound([1.0, 0.0], [2.0, 0.0], tau=1)) == pytest.approx(1.0, rel=1e-14)


@given(st.floats(1e-3, 1e3), st.floats(0, 1e3))
def test_the_lognormal_has_the_moments_it_was_made_for(mean, variance):
    mu, sigma = lognormal(mean, variance)
    assert math.exp(float(mu) + float(sigma) ** 2 / 2) == pytest.approx(mean, rel=1e-9)
    assert math.expm1(float(sigma) ** 2) * mean**2 == pytest.approx(variance, rel=1e-9)


def test_probabilities_are_those_of_scipy():
    from scipy import stats

    levels, mean, variance = np.array([0.5, 2.0, 4.0, 9.0]), 2.0, 3.0
    mu, sigma = lognormal(mean, variance)
    expected = stats.lognorm.sf(levels, s=float(sigma), scale=math.exp(float(mu)))
    assert_allclose(exceeds(levels, mean, variance), expected, rtol=1e-12)
    assert_allclose(exceeds(levels, mean, variance, "normal"), stats.norm.sf(levels, 2.0, math.sqrt(3.0)), rtol=1e-12)
    assert_allclose(exceeds(levels, -mean, variance, "normal"), stats.norm.sf(levels, -2.0, math.sqrt(3.0)), rtol=1e-12)


def test_more_variance_is_more_often_above_a_threshold_beyond_the_mean():
    moments = shot_noise([[2.0], [1.0]], [[1.0], [2.0]], tau=1)
    for threshold in (3.0, 4.0, 6.0):
        first, second = exceeds(threshold, *moments)
        assert first > second
        first, second = exceeds(threshold, *moments, kind="normal")
        assert first > second


def test_a_potential_that_does_not_vary_is_above_or_not():
    assert exceeds([1.9, 2.0, 2.1], 2.0, 0.0).tolist() == [1.0, 0.0, 0.0]
    assert exceeds([-2.1, -2.0], -2.0, 0.0, "normal").tolist() == [1.0, 0.0]


def test_a_lognormal_potential_is_always_above_zero():
    assert exceeds([-1.0, 0.0], 2.0, 3.0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("leak", [0, 0.0, -0.5, 1.1, math.nan])
def test_leaks_out_of_range_are_refused(leak):
    for call in (time_constant, lambda beta: step_noise([1.0], [0.5], beta, 3)):
        with pytest.raises(OptionError, match="leak must be > 0 and ≤ 1, not "):
            call(leak)


@pytest.mark.parametrize("tau", [0, -1.0, math.nan])
def test_time_constants_out_of_range_are_refused(tau):
    for call in (leak_of, lambda tau: shot_noise([1.0], [1.0], tau), lambda tau: std_bound([1.0], [1.0], tau)):
        with pytest.raises(OptionError, match="tau must be > 0, not "):
            call(tau)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: shot_noise([1.0], [-0.5], 1), OptionError, "rates must be ≥ 0, not -0.5"),
        (lambda: std_bound([1.0], [-0.5], 1), OptionError, "rates must be ≥ 0, not -0.5"),
        (lambda: step_noise([1.0, 1.0], [0.5, -1.5], 0.9, 1), OptionError, "inputs must be ≥ -1 and ≤ 1, not -1.5"),
        (lambda: shot_noise([1.0, 2.0], [1.0], 1), DataMismatch, "weights are for 2 inputs, rates for 1"),
        (lambda: step_noise([1.0, 2.0], [0.5], 0.9, 1), DataMismatch, "weights are for 2 inputs, inputs for 1"),
        (lambda: shot_noise(np.ones((2, 3)), np.ones((4, 3)), 1), DataMismatch, "(2, 3) and rates (4, 3) do not match"),
        (lambda: shot_noise(1.0, [1.0], 1), DataMismatch, "one value per input"),
        (lambda: shot_noise([], [], 1), DataMismatch, "one value per input"),
        (lambda: shot_noise([math.nan], [1.0], 1), UsageError, "weights hold NaN or infinity"),
        (lambda: shot_noise([1.0], [math.inf], 1), UsageError, "rates hold NaN or infinity"),
        (lambda: shot_noise(["a"], [1.0], 1), UsageError, "weights must be numbers"),
        (lambda: shot_noise([1.0], [1.0], 1, -2.0), OptionError, "times must be ≥ 0, not -2"),
        (lambda: shot_noise([1.0], [1.0], math.inf), OptionError, "no steady state: give a time"),
        (lambda: step_noise([1.0], [1.0], 1.0), OptionError, "no steady state: give a number of steps"),
        (lambda: step_noise([1.0], [1.0], 0.9, 2.5), OptionError, "steps must be whole numbers ≥ 0, not 2.5"),
        (lambda: step_noise([1.0], [1.0], 0.9, -1), OptionError, "steps must be whole numbers ≥ 0, not -1"),
        (lambda: leak_of(1e-4), OptionError, "tau of 0.0001 steps is too short"),
        (lambda: lognormal([1.0, -0.25], 1.0), UsageError, "mean > 0, not -0.25"),
        (lambda: exceeds(1.0, 0.0, 1.0), UsageError, "mean > 0, not 0; if it may be negative use kind='normal'"),
        (lambda: exceeds(1.0, 1.0, -1.0), OptionError, "variances must be ≥ 0, not -1"),
        (lambda: exceeds(1.0, 1.0, 1.0, "gamma"), UnknownName, "unknown distribution 'gamma'"),
        (lambda: exceeds(math.nan, 1.0, 1.0), UsageError, "thresholds hold NaN"),
    ],
)
def test_bad_input_is_named(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_handed_in_is_changed():
    w, lam = np.array([1.0, -2.0]), np.array([0.5, 0.25])
    shot_noise(w, lam, 1.0, 2.0), step_noise(w, lam, 0.5, 2), std_bound(w, lam, 1.0)
    assert (w.tolist(), lam.tolist()) == ([1.0, -2.0], [0.5, 0.25])
