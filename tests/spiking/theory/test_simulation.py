"""Simulated potentials and the formulas agree within Monte-Carlo error, and would not if one were off by a factor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.spiking.theory import simulation as theory_simulation
from weightsmith.spiking.theory.potential import shot_noise, step_noise
from weightsmith.spiking.theory.simulation import simulate_shot_noise, simulate_steps

TRIALS = 20_000
TIMES = (0.3, 1.0, 3.0, 10.0)
STEPS = (1, 3, 10, 40)


def scores(sample, mean, variance):
    """By how many standard errors mean and variance of the sample miss what is expected."""
    count = len(sample)
    away = sample - sample.mean()
    second, fourth = (away**2).mean(), (away**4).mean()
    of_mean = (sample.mean() - mean) / math.sqrt(variance / count)
    of_variance = (second * count / (count - 1) - variance) / math.sqrt((fourth - second**2) / count)
    return of_mean, of_variance


def random_neurons(seed):
    """Twenty neurons with 1 to 12 inputs, weights of both signs, some inputs silent."""
    random = np.random.default_rng(seed)
    for number in range(20):
        size = int(random.integers(1, 13))
        weights = random.normal(size=size)
        rates = random.gamma(1.0, 1.0, size) * (random.random(size) < 0.85)
        rates[0] += 0.3
        yield number, random, weights, rates


@pytest.fixture(scope="module")
def shot_scores():
    """(neurons, times, mean and variance), and the same had eq. 2 no factor ½ or another decay."""
    found, doubled, slower = [], [], []
    for number, random, weights, rates in random_neurons(1):
        tau = float(random.uniform(0.5, 5))
        paths = simulate_shot_noise(weights, rates, tau, TIMES, trials=TRIALS, seed=number)
        moments = shot_noise(weights, rates, tau, TIMES)
        expected = list(zip(paths.T, moments.mean, moments.variance, strict=True))
        found.append([scores(*one) for one in expected])
        doubled.append([scores(path, mean, 2 * variance)[1] for path, mean, variance in expected])
        wrong = shot_noise(weights, rates, 1.2 * tau, TIMES)
        slower.append([scores(*one) for one in zip(paths.T, wrong.mean, wrong.variance, strict=True)])
    return np.array(found), np.array(doubled), np.array(slower)


def test_shot_noise_of_20_neurons_has_the_moments_of_eqs_1_and_2(shot_scores):
    found, _, _ = shot_scores
    assert found.shape == (20, len(TIMES), 2)
    assert np.abs(found).max() < 4.5
    assert 0.6 < (found**2).mean() < 1.5  # the scores are as large as scores should be, no larger and no smaller


def test_a_factor_of_two_or_a_wrong_decay_would_be_seen(shot_scores):
    _, doubled, slower = shot_scores
    assert np.abs(doubled).min() > 20
    assert (np.abs(slower[:, -1]).max(axis=1) > 4.5).all()


@pytest.fixture(scope="module")
def step_scores():
    found, poisson = [], []
    for number, random, weights, _ in random_neurons(2):
        x = random.uniform(-0.9, 0.9, weights.size)
        leak = (1.0, 0.99, 0.95, 0.9, 0.5)[number % 5]
        paths = simulate_steps(weights, x, leak, STEPS, trials=TRIALS, seed=number)
        moments = step_noise(weights, x, leak, STEPS)
        found.append([scores(*one) for one in zip(paths.T, moments.mean, moments.variance, strict=True)])
        factor = (weights**2 * np.abs(x)).sum() / (weights**2 * (np.abs(x) - x**2)).sum()
        wrong = zip(paths.T, moments.mean, factor * moments.variance, strict=True)
        poisson.append([scores(*one)[1] for one in wrong])
    return np.array(found), np.array(poisson)


def test_steps_of_20_neurons_have_the_moments_of_the_formulas(step_scores):
    found, _ = step_scores
    assert found.shape == (20, len(STEPS), 2)
    assert np.abs(found).max() < 4.5
    assert 0.6 < (found**2).mean() < 1.5


def test_the_variance_of_poisson_spikes_would_be_seen(step_scores):
    _, poisson = step_scores
    assert (np.abs(poisson).max(axis=1) > 4.5).all()


def test_shot_noise_without_leak():
    sample = simulate_shot_noise([1.0, -0.5], [2.0, 3.0], math.inf, 4.0, trials=TRIALS, seed=0)
    assert np.abs(scores(sample, 2.0, 11.0)).max() < 4.5
    assert set((2 * sample) % 1) == {0.0}


def test_third_moment_by_campbells_theorem():
    # κ₃ = τ/3 Σ λ w³, so that the skewness of equal weights is 4/3 of std/mean.
    sample = simulate_shot_noise([1.5], [4.0], 1.0, 20.0, trials=200_000, seed=0)
    cubes = (sample - 6.0) ** 3
    assert abs(cubes.mean() - 4.0 * 1.5**3 / 3) < 4.5 * cubes.std() / math.sqrt(cubes.size)
    mean, variance = shot_noise([1.5], [4.0], 1.0)
    assert 4.0 * 1.5**3 / 3 / variance**1.5 == pytest.approx(4 / 3 * math.sqrt(variance) / mean)


def test_one_spike_per_time_constant_gives_the_dickman_distribution():
    # For λτ = 1 the density is e^(−γ)/w on [0, w].
    sample = simulate_shot_noise([2.0], [1.0], 1.0, 25.0, trials=100_000, seed=3)
    for level in (0.5, 1.0, 2.0):
        share = math.exp(-np.euler_gamma) * level / 2
        assert abs((sample <= level).mean() - share) < 4.5 * math.sqrt(share * (1 - share) / sample.size)


def test_a_path_remembers_as_long_as_tau_says():
    paths = simulate_shot_noise([1.0, -2.0], [3.0, 1.0], 2.0, [4.0, 5.0], trials=100_000, seed=0)
    products = (paths[:, 0] - paths[:, 0].mean()) * (paths[:, 1] - paths[:, 1].mean())
    expected = math.exp(-0.5) * float(shot_noise([1.0, -2.0], [3.0, 1.0], 2.0, 4.0).variance)
    assert abs(products.mean() - expected) < 4.5 * products.std() / math.sqrt(products.size)


def test_steps_follow_the_distribution_of_all_their_outcomes():
    trials, x = 50_000, 0.3
    sample = simulate_steps([2.0], [-x], 0.5, 2, trials=trials, seed=0)
    outcomes = {0.0: (1 - x) ** 2, -1.0: x * (1 - x), -2.0: x * (1 - x), -3.0: x * x}
    assert set(sample) == set(outcomes)
    for value, share in outcomes.items():
        assert abs((sample == value).mean() - share) < 4.5 * math.sqrt(share * (1 - share) / trials)


def test_certain_spikes_are_no_matter_of_chance():
    paths = simulate_steps([2.0, 3.0], [1.0, -1.0], 0.5, [1, 2, 3], trials=5, seed=0)
    assert (paths == [-1.0, -1.5, -1.75]).all()


def test_batches_do_not_show_in_the_moments(monkeypatch):
    monkeypatch.setattr(theory_simulation, "_BATCH", 500)
    weights, rates = [1.0, -0.5], [2.0, 3.0]
    sample = simulate_shot_noise(weights, rates, 2.0, [1.0, 3.0], trials=5000, seed=0)
    moments = shot_noise(weights, rates, 2.0, 3.0)
    assert np.abs(scores(sample[:, 1], *moments)).max() < 4.5
    steps = simulate_steps(weights, [0.3, -0.6], 0.9, 12, trials=5000, seed=0)
    assert np.abs(scores(steps, *step_noise(weights, [0.3, -0.6], 0.9, 12))).max() < 4.5


@pytest.mark.parametrize("size", [1, 7])
def test_shapes_and_seeds(size):
    weights, values = np.ones(size), np.full(size, 0.5)
    for simulate, last in ((simulate_shot_noise, 2.0), (simulate_steps, 0.9)):
        one = simulate(weights, values, last, 3, trials=11, seed=4)
        assert one.shape == (11,)
        assert simulate(weights, values, last, [3], trials=11, seed=4).shape == (11, 1)
        assert np.array_equal(one, simulate(weights, values, last, 3, trials=11, seed=4))
        assert not np.array_equal(one, simulate(weights, values, last, 3, trials=11, seed=5))


def test_silence_leaves_the_potential_at_zero():
    assert (simulate_shot_noise([1.0, 2.0], [0.0, 0.0], 1.0, [0.0, 5.0], trials=3, seed=0) == 0).all()
    assert (simulate_steps([1.0, 2.0], [0.0, 0.0], 0.9, 4, trials=3, seed=0) == 0).all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: simulate_shot_noise([1.0], [-1.0], 1, 1, trials=1, seed=0), OptionError, "rates must be ≥ 0, not -1"),
        (lambda: simulate_shot_noise([1.0], [1.0], 0, 1, trials=1, seed=0), OptionError, "tau must be > 0, not 0"),
        (lambda: simulate_shot_noise([1.0], [1.0], 1, -1, trials=1, seed=0), OptionError, "times must be ≥ 0, not -1"),
        (lambda: simulate_shot_noise([1.0], [1.0], 1, [2, 1], trials=1, seed=0), UsageError, "ascending order"),
        (lambda: simulate_shot_noise([1.0], [1.0], 1, [], trials=1, seed=0), UsageError, "ascending order"),
        (
            lambda: simulate_shot_noise([1.0], [1.0], 1, 1, trials=0, seed=0),
            OptionError,
            "trials must be a whole number",
        ),
        (lambda: simulate_shot_noise([1.0], [1.0], 1, 1, trials=1.5, seed=0), OptionError, "number ≥ 1, not 1.5"),
        (lambda: simulate_shot_noise([1.0], [1.0], 1, 1, trials=1, seed=-1), OptionError, "seed must be"),
        (lambda: simulate_shot_noise([1.0], [1e9], 1, 1, trials=1, seed=0), OptionError, "shorten the time"),
        (lambda: simulate_shot_noise([[1.0]], [1.0], 1, 1, trials=1, seed=0), DataMismatch, "one neuron is simulated"),
        (lambda: simulate_shot_noise([1.0], [1.0, 2.0], 1, 1, trials=1, seed=0), DataMismatch, "weights are for 1"),
        (lambda: simulate_steps([1.0], [1.01], 0.9, 1, trials=1, seed=0), OptionError, "≤ 1, not 1.01"),
        (lambda: simulate_steps([1.0], [1.0], 0, 1, trials=1, seed=0), OptionError, "leak must be > 0 and ≤ 1, not 0"),
        (lambda: simulate_steps([1.0], [1.0], 1.1, 1, trials=1, seed=0), OptionError, "≤ 1, not 1.1"),
        (lambda: simulate_steps([1.0], [1.0], 0.9, 0, trials=1, seed=0), OptionError, "steps must be ≥ 1, not 0"),
        (lambda: simulate_steps([1.0], [1.0], 0.9, 1.5, trials=1, seed=0), OptionError, "whole numbers"),
        (lambda: simulate_steps([1.0, 2.0], [1.0], 0.9, 1, trials=1, seed=0), DataMismatch, "inputs for 1"),
    ],
)
def test_bad_input_is_named(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
