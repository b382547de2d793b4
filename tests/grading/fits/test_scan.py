"""The compiled search against the full scan, bit for bit, and against a slow version in NumPy."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.grading.fits.scan import best_cut, scan

few_levels = st.lists(st.integers(1, 5).map(float), min_size=1, max_size=60)
plateaus = st.lists(st.tuples(st.floats(1e-3, 1e3), st.integers(1, 20)), min_size=1, max_size=6).map(
    lambda runs: [value for value, count in runs for _ in range(count)]
)
decades = st.lists(st.floats(-140, 140).map(lambda power: 10**power), min_size=1, max_size=60)
near = st.lists(st.integers(0, 40).map(lambda steps: 1 + steps * 2**-45), min_size=1, max_size=40)
spectra = st.one_of(few_levels, plateaus, decades, near)


def logarithms(values: list[float]) -> np.ndarray:
    ordered = np.sort(np.array(values, np.float64))
    return np.log(ordered / ordered[-1])


def slow_candidates(logs: np.ndarray, least: int) -> list[tuple[int, float, float]]:
    """Start, α and D of every tail whose first value is new and whose values differ, as the definition reads."""
    found = []
    for start in range(len(logs) - max(least, 2) + 1):
        excess = logs[start:] - logs[start]
        if (start and logs[start] == logs[start - 1]) or excess[-1] == 0:
            continue
        alpha = 1 + len(excess) / math.fsum(excess)
        steps = np.arange(len(excess)) / len(excess)
        found.append((start, alpha, float(np.abs(steps - (1 - np.exp((1 - alpha) * excess))).max())))
    return found


@settings(deadline=None)  # the first call compiles
@given(spectra, st.integers(0, 10))
def test_the_search_returns_what_the_full_scan_does(values, least):
    logs = logarithms(values)
    starts, alphas, distances = scan(logs, least)
    found = best_cut(logs, least)
    if not len(starts):
        assert found[0] == -1
        return
    best = int(np.argmin(distances))
    assert found == (starts[best], alphas[best], distances[best])


@settings(deadline=None)  # the first call compiles
@given(spectra, st.integers(0, 10))
def test_the_scan_is_the_definition(values, least):
    logs = logarithms(values)
    starts, alphas, distances = scan(logs, least)
    slow = slow_candidates(logs, least)
    assert list(starts) == [start for start, _, _ in slow]
    assert alphas == pytest.approx([alpha for _, alpha, _ in slow], rel=1e-12)
    assert distances == pytest.approx([distance for _, _, distance in slow], abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(100, 700), st.sampled_from(["pareto", "squares", "steps", "bulk"]))
def test_long_spectra_are_searched_exactly(seed, size, kind):
    """Long enough for the coarse round and for the probes of a tail to be more than all of it."""
    draw = np.random.default_rng(seed)
    values = {
        "pareto": draw.pareto(2.0, size) + 1,
        "squares": draw.normal(size=size) ** 2,
        "steps": np.ceil(draw.exponential(10.0, size)),
        "bulk": draw.uniform(1, 2, size) ** 2 + (draw.random(size) < 0.02) * draw.pareto(1.0, size),
    }[kind]
    logs = logarithms(list(values))
    starts, alphas, distances = scan(logs, 2)
    best = int(np.argmin(distances))
    assert best_cut(logs, 2) == (starts[best], alphas[best], distances[best])
    slow = {start: (alpha, distance) for start, alpha, distance in slow_candidates(logs, 2)}
    assert (alphas[best], distances[best]) == pytest.approx(slow[starts[best]], rel=1e-11)
    assert distances[best] == pytest.approx(min(distance for _, distance in slow.values()), abs=1e-12)


def test_two_values_have_a_closed_form():
    """α = 1 + 2/ln r, so that (λ/λ_min)^(1−α) is e^(−2) at the larger, whatever r is."""
    start, alpha, distance = best_cut(np.log(np.array([1.0, 2.0]) / 2), 2)
    assert (start, alpha) == (0, 1 + 2 / math.log(2))
    assert distance == pytest.approx(0.5 - math.exp(-2), rel=1e-15)


def test_equal_values_are_not_parted():
    assert list(scan(np.log(np.array([1.0, 1.0, 1.0, 2.0, 2.0, 4.0]) / 4), 2)[0]) == [0, 3]


def test_a_least_tail_is_kept():
    logs = np.log(np.sort(np.random.default_rng(0).pareto(1.5, 80) + 1))
    for least in (2, 8, 40, 79, 80):
        assert 80 - best_cut(logs - logs[-1], least)[0] >= least
    assert best_cut(logs - logs[-1], 81)[0] == -1


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_without_spread_there_is_no_tail(size):
    assert best_cut(np.zeros(size), 2)[0] == -1
    assert all(len(column) == 0 for column in scan(np.zeros(size), 2))


@pytest.mark.slow
def test_whether_kernels_are_compiled_is_known(tmp_path):
    code = (
        "import numpy as np\nfrom weightsmith.grading.fits.scan import best_cut, is_compiled\n"
        "print(is_compiled())\nbest_cut(np.array([-1.0, 0.0]), 2)\nprint(is_compiled())"
    )
    command = [sys.executable, "-c", code]
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    )
    assert answer.stdout.split() == ["False", "True"]
