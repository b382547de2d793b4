"""The genetic search: what it keeps, what it finds, and that it goes on as if it had never stopped."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.seeds import stream
from weightsmith.reducing.search.evolution import State, children, evolve
from weightsmith.reducing.search.operators import hold, initial


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
