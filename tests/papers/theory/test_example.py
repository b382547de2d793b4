"""Figures 1 and 2 in numbers: equal means, unequal variances, and which is more often above a threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.papers.theory.example import AboveThreshold, SameMean, above_threshold, same_mean


@pytest.fixture(scope="module")
def above():
    return above_threshold(trials=50_000, duration=10.0, points=201)


def test_the_document_in_numbers():
    example = same_mean()
    assert (example.rates, example.weights, example.tau) == ((1.0, 2.0), (2.0, 1.0), 1.0)
    assert example.steady_means == (2.0, 2.0)
    assert example.steady_variances == (2.0, 1.0)


def test_moments_over_time():
    example = same_mean(duration=4.0, points=5)
    assert example.times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    rise, faster = 1 - np.exp(-example.times), 1 - np.exp(-2 * example.times)
    assert_allclose(example.means, [2 * rise, 2 * rise], rtol=1e-14)
    assert_allclose(example.variances, [2 * faster, faster], rtol=1e-14)


def test_input_spikes_come_at_their_rates():
    example = same_mean(duration=2000.0)
    for spikes, rate in zip(example.spikes, example.rates, strict=True):
        assert abs(spikes.size - 2000 * rate) < 4.5 * math.sqrt(2000 * rate)
        assert (np.diff(spikes) > 0).all()
        assert 0 < spikes[0] < spikes[-1] < 2000


def test_the_larger_variance_is_more_often_above_the_threshold(above):
    for shares in (above.above_simulated, above.above_lognormal, above.above_normal):
        assert shares[0] > 1.3 * shares[1]
    assert above.above_simulated[0] == pytest.approx(0.0958, abs=0.006)
    assert above.above_simulated[1] == pytest.approx(0.0385, abs=0.004)


def test_shares_fall_from_all_to_none(above):
    assert above.levels[0] == 0.0
    assert above.simulated[:, 0].tolist() == [1.0, 1.0]
    for values in (above.simulated, above.lognormal, above.normal):
        assert values.shape == (2, above.levels.size)
        assert (np.diff(values) <= 0).all()
    index = int(np.flatnonzero(above.levels == 4.0)[0])
    assert above.simulated[:, index].tolist() == list(above.above_simulated)
    assert_allclose(above.lognormal[:, index], above.above_lognormal, rtol=1e-14)


def test_the_area_below_the_shares_is_the_mean(above):
    # E[V] = ∫ P(V > v) dv for a potential that is never negative.
    areas = np.trapezoid(above.simulated, above.levels)
    assert_allclose(areas, 2.0, atol=4.5 * np.sqrt(2.0 / 50_000))


def test_paths_start_at_zero_jump_by_their_weight_and_decay(above):
    step = math.exp(-(above.times[1] - above.times[0]))
    for path, weight in zip(above.paths, above.weights, strict=True):
        assert path[0] == 0.0
        added = path[1:] - path[:-1] * step
        quiet = np.isclose(added, 0, atol=1e-12)
        assert 0.5 < quiet.mean() < 1
        assert added[~quiet].min() > weight * step - 1e-12


def test_same_seed_same_record_and_through_json(above):
    assert above == above_threshold(trials=50_000, duration=10.0, points=201)
    assert AboveThreshold.from_json(above.to_json()) == above
    example = same_mean(seed=7)
    assert SameMean.from_json(example.to_json()) == example
    assert example != same_mean(seed=8)


@pytest.mark.parametrize("duration", [0.0, -1.0, math.inf])
def test_durations_out_of_range_are_refused(duration):
    for make in (same_mean, above_threshold):
        with pytest.raises(UsageError, match="duration must be > 0 and finite"):
            make(duration=duration)


def test_counts_out_of_range_are_refused():
    with pytest.raises(OptionError, match="trials must be a whole number ≥ 1, not 0"):
        above_threshold(trials=0)
    with pytest.raises(OptionError, match="points must be a whole number ≥ 1, not 0"):
        same_mean(points=0)
