"""The compiled samples and refits against the same written in NumPy, draw for draw."""

from __future__ import annotations

import numpy as np
import pytest

from weightsmith.grading.fits.refits import refitted_alphas, refitted_distances, resample, simulate


def generator(seed: int = 5) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def logarithms(size: int, seed: int = 0) -> np.ndarray:
    values = np.sort(generator(seed).pareto(1.5, size) + 1)
    return np.log(values / values[-1])


def mixed(x: int) -> int:
    """SplitMix64 in Python's whole numbers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def slow_resample(logs: np.ndarray, seed: int, number: int) -> np.ndarray:
    state = mixed((seed + number * 0xD1B54A32D192ED03) % 2**64)
    halves: list[int] = []
    while len(halves) < logs.size:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        halves += [mixed(state) % 2**32, mixed(state) >> 32]
    return np.sort(logs[[half * logs.size >> 32 for half in halves[: logs.size]]])


def slow_simulate(logs: np.ndarray, start: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    drawn = (rng.random(logs.size) * logs.size).astype(int)
    body = logs[drawn[drawn < start]]
    tail = logs[start] + rng.standard_exponential(logs.size - body.size) / (alpha - 1)
    return np.sort(np.concatenate([body, tail]))


def slow_fit(logs: np.ndarray, least: int) -> tuple[float, float]:
    """α and D of the tail with the smallest D, as the definition reads."""
    best = np.inf, np.inf
    for start in range(logs.size - least + 1):
        excess = logs[start:] - logs[start]
        if excess[-1] == 0 or (start and logs[start] == logs[start - 1]):
            continue
        alpha = 1 + excess.size / excess.sum()
        steps = np.arange(excess.size) / excess.size
        distance = np.abs(steps - (1 - np.exp((1 - alpha) * excess))).max()
        if distance < best[1]:
            best = alpha, distance
    return best


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_a_resample_is_what_its_generator_gives(size):
    logs = logarithms(size)
    for seed, number in ((0, 0), (2**62 + 5, 3), (7, 6399)):
        np.testing.assert_array_equal(resample(logs, seed, number), slow_resample(logs, seed, number))


def test_resamples_are_even_and_independent():
    """Each of 50 values is drawn once on average, with the variance of a multinomial, and neighbours do not agree."""
    logs = np.arange(50.0)
    counts = np.array([np.bincount(resample(logs, 3, number).astype(int), minlength=50) for number in range(4000)])
    assert counts.mean(axis=0) == pytest.approx(np.ones(50), abs=5 * np.sqrt(0.98 / 4000))
    assert counts.var() == pytest.approx(0.98, abs=0.03)
    assert abs(np.corrcoef(counts[:-1].ravel(), counts[1:].ravel())[0, 1]) < 5 / np.sqrt(200_000)


@pytest.mark.parametrize("start", [0, 1, 40, 58])
def test_a_sample_of_the_law_is_what_numpy_draws(start):
    ours, theirs = generator(), generator()
    logs = logarithms(60)
    for _ in range(3):
        expected = slow_simulate(logs, start, 2.7, theirs)
        np.testing.assert_allclose(simulate(logs, start, 2.7, ours), expected, rtol=1e-15, atol=1e-15)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_the_law_is_the_one_asked_for():
    """Beyond λ_min the mean of ln(λ/λ_min) is 1/(α − 1); below it nothing but old values, in their old share."""
    logs = logarithms(20_000)
    sample = simulate(logs, 12_000, 3.5, generator())
    tail = sample[sample >= logs[12_000]]
    assert tail.size == pytest.approx(8_000, abs=4 * np.sqrt(20_000 * 0.4 * 0.6))
    assert (tail - logs[12_000]).mean() == pytest.approx(0.4, abs=4 * 0.4 / np.sqrt(8_000))
    assert np.isin(sample[: -tail.size], logs[:12_000]).all()


@pytest.mark.parametrize("least", [2, 8, 20])
@pytest.mark.parametrize(("size", "hint"), [(40, 0.0), (40, -9.0), (300, -1.0)])
def test_refits_of_resamples_are_the_definition(size, least, hint):
    logs = logarithms(size)
    expected = [slow_fit(slow_resample(logs, 11, number), least)[0] for number in range(25)]
    assert refitted_alphas(logs, 11, (0, 25), least, hint) == pytest.approx(expected, rel=1e-9)
    assert refitted_alphas(logs, 11, (20, 25), least, hint) == pytest.approx(expected[20:], rel=1e-9)


def test_refits_with_equal_eigenvalues_are_the_definition():
    logs = np.sort(np.round(logarithms(120), 1))
    expected = [slow_fit(slow_resample(logs, 2, number), 8)[0] for number in range(40)]
    assert refitted_alphas(logs, 2, (0, 40), 8, -1.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("size", "start"), [(40, 0), (40, 15), (12, 2)], ids=["all", "tail", "no least tail"])
def test_refits_of_the_law_are_the_definition(size, start):
    logs, rng = logarithms(size), generator()
    expected = [slow_fit(slow_simulate(logs, start, 2.2, rng), 2)[1] for _ in range(25)]
    assert refitted_distances(logs, start, 2.2, generator(), 25) == pytest.approx(expected, abs=1e-12)


def test_without_a_slope_there_is_infinity_and_no_number():
    assert np.isinf(refitted_alphas(np.zeros(10), 5, (0, 3), 8, 0.0)).all()
    assert np.isinf(refitted_alphas(logarithms(5), 5, (0, 3), 8, 0.0)).all()


def test_the_input_is_not_changed():
    logs = logarithms(30)
    before = logs.copy()
    refitted_alphas(logs, 5, (0, 5), 8, 0.0)
    refitted_distances(logs, 10, 2.0, generator(), 5)
    np.testing.assert_array_equal(logs, before)
