"""The genetic search: what it keeps, what it finds, and that it goes on as if it had never stopped."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.search.evolution import State, children, crossed, evolve, hold, initial, mutated, tournament


def _options(**changes: Any) -> Any:
    paper = {"population": 100, "generations": 50, "tournament": 3, "crossover": 0.8, "mutation": 0.2, "flip": 0.1}
    return SimpleNamespace(**{**paper, "elite": 5, **changes})


def _ones(masks: np.ndarray) -> np.ndarray:
    return np.where(masks.any(axis=1), masks.sum(axis=1), -np.inf).astype(float)


def _rugged(bits: int) -> Any:
    """A fitness with many local optima: a quadratic form of random sign."""
    form = np.random.default_rng(7).normal(size=(bits, bits))
    return lambda masks: np.einsum("pi,ij,pj->p", masks.astype(float), form, masks.astype(float))


def _same(first: State, second: State) -> bool:
    arrays = ("population", "scores", "hall", "hall_scores")
    return (
        all(np.array_equal(getattr(first, name), getattr(second, name)) for name in arrays)
        and first.rows == second.rows
        and list(first.known.items())[: first.met] == list(second.known.items())[: second.met]
    )


def test_the_best_of_all_masks_is_found_where_all_can_be_tried():
    score = _rugged(10)
    everything = np.array(list(itertools.product([False, True], repeat=10)))
    best = evolve(score, 10, _options(), seed=0)
    assert best.hall_scores[0] == pytest.approx(score(everything).max())
    np.testing.assert_allclose(score(best.hall), best.hall_scores)


def test_every_generation_against_its_own_description():
    """A slow version that keeps all it has met in a list, generation by generation."""
    options, bits, score = _options(population=21, generations=12, elite=4), 9, _rugged(9)
    states: list[State] = []
    evolve(score, bits, options, seed=3, each=states.append)
    assert [state.generation for state in states] == list(range(13))
    met: dict[tuple[bool, ...], float] = {}
    population = initial(21, bits, stream(3, "generation", 0))
    for state in states:
        if state.generation:
            before = states[state.generation - 1]
            offspring = children(
                before.population, before.scores, 17, options, stream(3, "generation", state.generation)
            )
            population = np.concatenate([offspring, before.hall])
        np.testing.assert_array_equal(state.population, population)
        np.testing.assert_allclose(state.scores, score(population))
        new = {tuple(mask): float(score(np.array([mask]))[0]) for mask in population.tolist()}
        evaluated = len(new.keys() - met.keys())
        met |= new
        fame = sorted(met.values(), reverse=True)[:4]
        np.testing.assert_allclose(state.hall_scores, fame)
        assert len({tuple(mask) for mask in state.hall.tolist()}) == 4
        row = state.rows[-1]
        assert (row.generation, row.evaluated, state.met) == (state.generation, evaluated, len(met))
        assert row.best == pytest.approx(fame[0])
        assert row.mean == pytest.approx(np.mean(state.scores))
        assert row.best_units == state.hall[0].sum()
        assert row.mean_units == pytest.approx(population.sum(axis=1).mean())


def test_the_best_is_never_lost():
    for seed in range(50):
        state = evolve(_ones, 40, _options(population=20, generations=10), seed)
        best = [row.best for row in state.rows]
        assert best == sorted(best)
        assert state.scores.max() == best[-1]


def test_same_seed_same_search_and_more_generations_begin_alike():
    score = _rugged(30)
    first, again = (evolve(score, 30, _options(generations=6), 5) for _ in range(2))
    longer = evolve(score, 30, _options(generations=9), 5)
    assert _same(first, again)
    assert longer.rows[:7] == first.rows
    assert not np.array_equal(evolve(score, 30, _options(generations=6), 6).population, first.population)


def test_it_goes_on_from_any_state_as_if_it_had_never_stopped():
    score, options, states = _rugged(25), _options(generations=15), []
    whole = evolve(score, 25, options, 1, each=states.append)
    for state in (states[0], states[7], states[15]):
        asked: list[int] = []

        def counted(masks, asked=asked):
            asked.append(len(masks))
            return score(masks)

        assert _same(evolve(counted, 25, options, 1, start=state), whole)
        # What had been met is not computed again, what came later is.
        assert sum(asked) == whole.met - state.met


def test_of_equally_fit_masks_the_smaller_comes_first():
    state = evolve(lambda masks: np.zeros(len(masks)), 12, _options(generations=20), 0)
    sizes = state.hall.sum(axis=1).tolist()
    assert sizes == sorted(sizes)
    assert sizes[0] == 0


def test_an_empty_mask_never_wins():
    state = evolve(lambda masks: np.where(masks.any(axis=1), -masks.sum(axis=1), -np.inf), 6, _options(), 0)
    assert state.hall.any(axis=1).all()
    assert state.hall_scores[0] == -1
    assert np.isneginf(state.scores[~state.population.any(axis=1)]).all()
    assert all(np.isfinite(row.mean) for row in state.rows)


def test_the_whole_network_stands_in_when_chance_gives_none():
    only = lambda masks: np.where(masks.all(axis=1), 1.0, -np.inf)  # noqa: E731
    state = evolve(only, 40, _options(population=6, generations=2), 0)
    assert state.hall.tolist() == [[True] * 40]
    assert state.rows[0].mean_units == 40
    assert state.rows[0].evaluated == 7  # six masks of chance, and the whole one
    assert len(state.population) == 6  # a hall that is not full leaves its places to offspring


def test_a_single_bit_can_be_searched():
    state = evolve(_ones, 1, _options(population=6, generations=3), 0)
    assert state.hall.tolist() == [[True]]


def test_repaired_masks_hold_their_counts():
    repair = hold([slice(0, 10), slice(10, 30)], [3, 7])
    states: list[State] = []
    evolve(_rugged(30), 30, _options(generations=8), 0, repair=repair, each=states.append)
    for state in states:
        assert (state.population[:, :10].sum(axis=1) == 3).all()
        assert (state.population[:, 10:].sum(axis=1) == 7).all()
    assert states[-1].hall_scores[0] > states[0].hall_scores[0]


@pytest.mark.parametrize("bits", [0, -3])
def test_an_empty_chromosome_is_refused(bits):
    with pytest.raises(OptionError, match=f"a chromosome of {bits} bits"):
        evolve(_ones, bits, _options(), 0)


def test_a_fitness_that_nothing_has_is_refused():
    with pytest.raises(UsageError, match="nor the whole network has a finite fitness"):
        evolve(lambda masks: np.full(len(masks), -np.inf), 5, _options(), 0)


def test_states_are_frozen():
    state = evolve(_ones, 5, _options(generations=1), 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.generation = 3  # type: ignore[misc]


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
