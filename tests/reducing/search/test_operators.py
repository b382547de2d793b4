"""The genetic operators: what they can give and how often, as DEAP's do."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.reducing.search.operators import crossed, hold, initial, mutated, tournament

DRAWS = 20_000


def _random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _two_samples(ours: list[int], theirs: list[int]) -> float:
    """χ² of two samples of equal size being from one distribution; cells that are empty in both do not count."""
    return sum((a - b) ** 2 / (a + b) for a, b in zip(ours, theirs, strict=True) if a + b)


def test_initial_bits_are_fair_and_independent():
    masks = initial(400, 500, _random())
    assert masks.dtype == np.bool_
    assert abs(masks.mean() - 0.5) < 4 * 0.5 / math.sqrt(masks.size)
    assert abs(masks.sum(axis=1).std() - math.sqrt(500) / 2) < 1.5


def test_tournament_as_deap(reference):
    entry = reference("genetic_operators")["tournament"]
    order = np.arange(10.0)[::-1].copy()  # the best does not stand last
    wins = Counter((9 - tournament(order, entry["draws"], entry["size"], _random())).tolist())
    assert _two_samples([wins[rank] for rank in range(10)], entry["wins"]) < 27.9  # 99.9 %, 9 degrees of freedom
    assert wins[0] > 0  # with replacement


def test_what_is_never_to_win_does_not():
    order = np.array([-np.inf, 1.0, -np.inf, -np.inf])
    winners = tournament(order, 1000, 4, _random())
    drawn_without = (3 / 4) ** 4
    assert abs((winners == 1).mean() - (1 - drawn_without)) < 0.06


def test_crossover_as_deap(reference):
    entry = reference("genetic_operators")["crossover"]
    pairs = np.zeros((2 * entry["draws"], entry["length"]), np.bool_)
    pairs[1::2] = True
    children = crossed(pairs, 1.0, _random())
    text = ["".join("01"[bit] for bit in row) for row in children.tolist()]
    counts = Counter(f"{a}/{b}" for a, b in zip(text[::2], text[1::2], strict=True))
    assert set(counts) == set(entry["children"])
    names = sorted(counts)
    ours, theirs = [counts[name] for name in names], [entry["children"][name] for name in names]
    assert _two_samples(ours, theirs) < 22.5  # 6 degrees of freedom
    assert not pairs[::2].any()  # what was handed in is as it was


def test_crossover_has_its_probability_and_leaves_the_odd_one():
    pairs = np.zeros((2 * DRAWS + 1, 8), np.bool_)
    pairs[1::2] = True
    children = crossed(pairs, 0.8, _random())
    changed = children[:-1:2].any(axis=1)
    np.testing.assert_array_equal(changed, ~children[1::2].all(axis=1))
    assert abs(changed.mean() - 0.8) < 4 * math.sqrt(0.16 / DRAWS)
    assert not children[-1].any()
    np.testing.assert_array_equal(crossed(pairs, 0.0, _random()), pairs)
    np.testing.assert_array_equal(crossed(pairs[:, :1], 1.0, _random()), pairs[:, :1])


def test_mutation_as_deap(reference):
    entry = reference("genetic_operators")["mutation"]
    masks = np.zeros((entry["draws"], entry["length"]), np.bool_)
    flipped = np.bincount(mutated(masks, 1.0, entry["probability"], _random()).sum(axis=1), minlength=9)
    ours = [*flipped[:4].tolist(), int(flipped[4:].sum())]
    theirs = [*entry["flipped"][:4], sum(entry["flipped"][4:])]
    assert _two_samples(ours, theirs) < 18.5  # 4 degrees of freedom


def test_mutation_has_its_probability_and_flips_both_ways():
    masks = initial(DRAWS, 16, _random())
    flips = mutated(masks, 0.2, 1.0, _random(1)) ^ masks
    changed = flips.any(axis=1)
    assert abs(changed.mean() - 0.2) < 4 * math.sqrt(0.16 / DRAWS)
    assert flips[changed].all()
    np.testing.assert_array_equal(mutated(masks, 0.0, 1.0, _random()), masks)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 10**6), st.data())
def test_held_counts_are_exact_with_the_fewest_changes(sizes, seed, data):
    ends = np.cumsum(sizes).tolist()
    positions = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    counts = [data.draw(st.integers(1, size)) for size in sizes]
    masks = initial(20, ends[-1] + 2, _random(seed))
    repaired = hold(positions, counts)(masks, _random(seed + 1))
    for position, count in zip(positions, counts, strict=True):
        before, after = masks[:, position], repaired[:, position]
        assert (after.sum(axis=1) == count).all()
        np.testing.assert_array_equal((before ^ after).sum(axis=1), abs(before.sum(axis=1) - count))
    np.testing.assert_array_equal(repaired[:, ends[-1] :], masks[:, ends[-1] :])  # what no count names


def test_which_bits_are_switched_is_fair():
    switched = hold([slice(0, 5)], [1])(np.zeros((DRAWS, 5), np.bool_), _random()).sum(axis=0)
    assert ((switched - DRAWS / 5) ** 2 / (DRAWS / 5)).sum() < 18.5
    left = hold([slice(0, 5)], [4])(np.ones((DRAWS, 5), np.bool_), _random()).sum(axis=0)
    assert ((left - DRAWS * 4 / 5) ** 2 / (DRAWS / 5)).sum() < 18.5


@pytest.mark.parametrize("count", [0, 6, -1])
def test_counts_that_cannot_be_held_are_refused(count):
    with pytest.raises(OptionError, match=f"{count} of 5 units cannot be kept"):
        hold([slice(2, 7)], [count])
