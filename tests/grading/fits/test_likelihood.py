"""The compiled likelihoods against fifty digits of mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.grading.fits.likelihood import _moments, bends, inverse_mills, lognormal_edge, truncated_fit


@pytest.fixture(autouse=True, scope="module")
def _fifty_digits():
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize("d", [0.0, 1e-12, 1e-5, 0.1, 0.999, 1.0, 1.001, 5.0, 100.0])
def test_bends(d):
    exact = mpmath.expm1(mpmath.mpf(d)) - mpmath.mpf(d)
    assert bends(np.array([d]))[0] == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("edge", [-40.0, -3.0, -0.2, 0.0, 1.0, 2.99, 3.01, 6.0, 50.0, 3e4])
def test_inverse_mills(edge):
    h = mpmath.mpf(edge)
    ratio = mpmath.npdf(h) / (mpmath.erfc(h / mpmath.sqrt(2)) / 2)
    log_ratio, mean, square = inverse_mills(edge)
    assert log_ratio == pytest.approx(float(mpmath.log(ratio)), rel=1e-13, abs=1e-14)
    assert mean == pytest.approx(float(ratio - h), rel=1e-12)
    assert square == pytest.approx(float(1 - h * (ratio - h)), rel=1e-12)


@settings(deadline=None)  # the first call compiles
@given(st.floats(-60, 300))
def test_the_edge_is_found_from_the_shape(edge):
    _, mean, square = inverse_mills(edge)
    found = lognormal_edge(square / mean**2)
    # The shape goes to 1 and to 2 as 1/h²: this many digits of h are left in it.
    assert found == pytest.approx(edge, abs=1e-11 * (1 + abs(edge) ** 3))


# Exponents above and below one, zero and far below; cut-offs far beyond the data and right at λ_min; narrow and long.
LAWS = [
    (2.5, 1e-3),
    (1.01, 1e-9),
    (0.3, 1e-12),
    (1.5, 1e-13),
    (0.0, 0.5),
    (-0.5, 3.0),
    (-5.0, 0.1),
    (30.0, 2.0),
    (60.0, 1e-3),
    (3.2, 300.0),
    (-3.0, 1e-6),
    (-100.0, 40.0),
    (-1000.0, 900.0),
    (-200.0, 1000.0),
]


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_the_normaliser_is_the_incomplete_gamma_function(alpha, beta):
    """∫ λ^(−α)·e^(−βλ) dλ from 1 = β^(α−1)·Γ(1 − α, β) = E_α(β), for any α, and its derivatives."""
    a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
    whole = mpmath.expint(a, b)
    first, second = mpmath.expint(a - 1, b) / whole, mpmath.expint(a - 2, b) / whole  # E λ, E λ²
    log_mean = mpmath.diff(lambda order: mpmath.log(mpmath.expint(a - order, b)), 0)  # E ln λ
    log_variance = mpmath.diff(lambda order: mpmath.log(mpmath.expint(a - order, b)), 0, 2)
    # Cov(λ, ln λ) = d E[λ] / d(1 − α)
    crossed = mpmath.diff(lambda order: mpmath.expint(a - 1 - order, b) / mpmath.expint(a - order, b), 0)
    variance = second - first**2
    exact = (
        mpmath.log(whole) + b,
        log_mean,
        first - 1 - log_mean,
        log_variance,
        crossed - log_variance,
        variance - 2 * crossed + log_variance,
    )
    found = _moments(alpha + beta - 1, beta, 1.0, 1.0)
    assert found == pytest.approx([float(value) for value in exact], rel=1e-10, abs=1e-13)


@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_the_law_is_found_from_its_own_means(alpha, beta):
    """At the maximum the means of ln λ and λ are those of the sample: here those of the law itself."""
    _, mean, mean_bend, *_ = _moments(alpha + beta - 1, beta, 1.0, 1.0)
    slope, cutoff, _, is_found = truncated_fit(mean, mean_bend, 1.0, 0.1)
    assert is_found
    assert (slope / mean, cutoff / mean_bend) == pytest.approx((alpha + beta - 1, beta), rel=1e-5)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-12, 1.3), st.integers(3, 400), st.sampled_from("nuepb"))
def test_the_maximum_is_found_in_any_tail(seed, decades, size, kind):
    """Gradient zero is all there is to check: the likelihood is concave."""
    draw, scale = np.random.default_rng(seed), 10.0**decades
    excess = {
        "n": np.abs(draw.normal(draw.uniform(-3, 3), 1, size)) * scale,
        "u": draw.uniform(0, 1, size) * scale,
        "e": np.log1p(draw.exponential(scale, size)),
        "p": np.log1p(draw.pareto(draw.uniform(0.3, 5), size) * scale),
        "b": (draw.random(size) < 0.6) * scale,
    }[kind]
    excess = excess - excess.min()
    mean, mean_bend = excess.mean(), bends(excess).mean()
    k = 1 / mean if mean else np.inf
    if not mean_bend or (k > 1 and k * (k - 1) * mean_bend >= 1):  # no spread, or the power law itself
        return
    slope, cutoff, _, is_found = truncated_fit(mean, mean_bend, 1.0, 0.1)
    assert is_found
    assert cutoff > 0
    if cutoff > 1e-12:
        _, x_mean, t_mean, xx, _, tt = _moments(slope, cutoff, mean, mean_bend)
        assert abs(x_mean - 1) < 1e-6 * max(xx, 1) ** 0.5
        assert abs(t_mean - 1) < 1e-6 * max(tt, 1) ** 0.5
