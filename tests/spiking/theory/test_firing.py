"""Neurons that fire, against a slow loop over single spikes and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.spiking.theory.firing import PoissonTrain, count_spikes, matching_threshold, poisson_train


def slow(train, weights, tau, threshold, reset):
    """When a unit fires: the membrane carried from spike to spike by hand."""
    now, potential, fired = 0.0, 0.0, []
    for interval, source in zip(train.intervals.tolist(), train.sources.tolist(), strict=True):
        now += interval
        potential = potential * math.exp(-interval / tau) + weights[source]
        if potential > threshold:
            fired.append(now)
            potential = 0.0 if reset == "hard" else potential - threshold
    return np.array(fired)


def train_of(*spikes, inputs=1, duration=10.0):
    times = [time for time, _ in spikes]
    return PoissonTrain(np.diff(times, prepend=0.0), np.array([source for _, source in spikes]), inputs, duration)


@pytest.mark.parametrize("reset", ["hard", "soft"])
@pytest.mark.parametrize("tau", [0.7, 3.0, math.inf])
def test_counts_are_those_of_a_slow_loop(reset, tau):
    random = np.random.default_rng(5)
    weights, thresholds = random.normal(0.3, 1, (4, 3)), np.array([0.5, 1.0, 2.0, 4.0])
    train = poisson_train([1.0, 2.5, 0.4], 300.0, seed=1)
    found = count_spikes(train, weights, tau, thresholds, reset=reset, parts=7)
    for unit in range(4):
        times = slow(train, weights[unit], tau, thresholds[unit], reset)
        expected, _ = np.histogram(times, np.linspace(0, 300.0, 8))
        assert found[unit].tolist() == expected.tolist()
    assert found.sum() > 50
    assert np.array_equal(count_spikes(train, weights, tau, thresholds, reset=reset)[:, 0], found.sum(1))


def test_a_spike_by_hand():
    train = train_of((1.0, 0), (2.0, 1), (2.5, 0), inputs=2)
    weights = [[1.0, 0.5]]
    # V after each: 1; e⁻¹ + 0.5 = 0.868; 0.868·e^(−½) + 1 = 1.526.
    assert count_spikes(train, weights, 1.0, 1.52).tolist() == [[1]]
    assert count_spikes(train, weights, 1.0, 1.53).tolist() == [[0]]
    # At exactly its threshold a neuron does not fire.
    assert count_spikes(train, weights, 1.0, 1.0, parts=10)[0].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]


def test_without_leak_a_soft_reset_loses_nothing():
    # The document, section 5.1: the rate of such a neuron is that of its input, whatever the variance.
    train = poisson_train([3.0, 1.0], 500.0, seed=2)
    weights = np.array([0.3, 0.7])
    total = weights[train.sources].sum()
    for threshold in (0.71, 1.9, 7.3):
        assert count_spikes(train, weights[None], math.inf, threshold, reset="soft")[0, 0] == total // threshold


def test_spikes_come_as_a_poisson_process():
    from scipy import stats

    rates, duration = np.array([2.0, 0.5, 0.0, 1.5]), 5000.0
    train = poisson_train(rates, duration, seed=0)
    assert abs(len(train) - 4 * duration) < 4.5 * math.sqrt(4 * duration)
    assert stats.kstest(train.intervals, "expon", args=(0, 0.25)).pvalue > 1e-3
    counts = np.bincount(train.sources, minlength=4)
    assert counts[2] == 0
    assert (np.abs(counts - rates * duration)[[0, 1, 3]] < 4.5 * np.sqrt(rates * duration)[[0, 1, 3]]).all()
    assert 0 < train.intervals.sum() < duration
    # Neither the input nor the interval tells the next one.
    assert abs(np.corrcoef(train.intervals[:-1], train.intervals[1:])[0, 1]) < 4.5 / math.sqrt(len(train))
    assert abs(np.corrcoef(train.intervals, train.sources)[0, 1]) < 4.5 / math.sqrt(len(train))


def test_the_number_of_spikes_varies_as_poisson_numbers_do():
    numbers = np.array([len(poisson_train([2.0], 10.0, seed)) for seed in range(2000)])
    assert abs(numbers.mean() - 20) < 4.5 * math.sqrt(20 / 2000)
    assert abs(numbers.var() / 20 - 1) < 4.5 * math.sqrt(2 / 2000)


def test_seeds_and_silence():
    one, same, other = (poisson_train([1.0], 50.0, seed) for seed in (3, 3, 4))
    assert np.array_equal(one.intervals, same.intervals)
    assert not np.array_equal(one.intervals[:5], other.intervals[:5])
    silent = poisson_train([0.0, 0.0], 50.0, seed=0)
    assert len(silent) == 0
    assert count_spikes(silent, [[1.0, 1.0]], 1.0, 0.5, parts=3).tolist() == [[0, 0, 0]]


def test_with_weights_that_only_lift_a_higher_threshold_fires_no_more():
    train = poisson_train([1.0, 1.0], 2000.0, seed=0)
    thresholds = np.linspace(0.2, 4, 60)
    counts = count_spikes(train, np.tile([0.8, 0.6], (60, 1)), 1.0, thresholds)[:, 0]
    assert (np.diff(counts) <= 0).all()
    assert counts[0] > 10 * counts[-1]


@pytest.mark.parametrize("reset", ["hard", "soft"])
def test_a_matching_threshold_fires_as_often_as_asked(reset):
    train, weights = poisson_train([1.0, 1.0], 5000.0, seed=0), [0.8, 0.6]
    for spikes in (3000, 500, 20, 0):
        found = matching_threshold(train, weights, 1.0, spikes, reset=reset)
        at, below = count_spikes(train, [weights] * 2, 1.0, [found, found * (1 - 1e-6)], reset=reset)[:, 0]
        assert at <= spikes < below


def test_the_same_weights_need_the_same_threshold():
    train, weights = poisson_train([1.0, 0.5], 20_000.0, seed=0), [1.0, 0.2]
    spikes = int(count_spikes(train, [weights], 1.0, 2.0).sum())
    assert matching_threshold(train, weights, 1.0, spikes) == pytest.approx(2.0, abs=2e-3)
    doubled = matching_threshold(train, [2.0, 0.4], 1.0, spikes)
    assert doubled == pytest.approx(2 * matching_threshold(train, weights, 1.0, spikes), rel=1e-6)


TRAIN = poisson_train([1.0, 1.0], 10.0, seed=0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: poisson_train([-1.0], 1.0, 0), OptionError, "rates must be ≥ 0, not -1"),
        (lambda: poisson_train(1.0, 1.0, 0), DataMismatch, "one value per input"),
        (lambda: poisson_train([1.0], 0.0, 0), OptionError, "duration must be > 0 and finite, not 0.0"),
        (lambda: poisson_train([1.0], math.inf, 0), OptionError, "duration must be > 0 and finite, not inf"),
        (lambda: poisson_train([1.0], 1e12, 0), OptionError, "1e+12 input spikes are expected"),
        (lambda: count_spikes(TRAIN, [1.0, 1.0], 1, 1), DataMismatch, "must be (units, 2)"),
        (lambda: count_spikes(TRAIN, [[1.0]], 1, 1), DataMismatch, "must be (units, 2)"),
        (lambda: count_spikes(TRAIN, [[1.0, math.nan]], 1, 1), UsageError, "weights hold NaN"),
        (lambda: count_spikes(TRAIN, [[1.0, 1.0]], 0, 1), OptionError, "tau must be > 0, not 0"),
        (lambda: count_spikes(TRAIN, [[1.0, 1.0]], 1, 0), OptionError, "thresholds must be > 0, not 0"),
        (lambda: count_spikes(TRAIN, [[1.0, 1.0]], 1, [1, 2]), DataMismatch, "one for each of 1 units"),
        (lambda: count_spikes(TRAIN, [[1.0, 1.0]], 1, 1, reset="sof"), UnknownName, "unknown reset 'sof'"),
        (lambda: count_spikes(TRAIN, [[1.0, 1.0]], 1, 1, parts=0), OptionError, "parts must be a whole number ≥ 1"),
        (lambda: matching_threshold(TRAIN, [1.0, 1.0], 1, 10**6), UsageError, "never fires 1000000 times"),
        (lambda: matching_threshold(TRAIN, [-1.0, -1.0], 1, 0), UsageError, "never fires 0 times"),
    ],
)
def test_bad_input_is_named(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
