"""NSGA-II: fronts and room as pymoo finds them, and the true front where all masks can be tried."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.reducing.search.evolution import State, hold
from weightsmith.reducing.search.fitness import units
from weightsmith.reducing.search.nsga2 import _survivors, crowding, explore, first_front, ranks

POINTS = ["three_objectives", "two_objectives", "with_a_point_twice"]
COARSE = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40)


def _options(**changes: Any) -> Any:
    usual = {"population": 40, "generations": 30, "tournament": 2, "crossover": 0.8, "mutation": 0.2, "flip": 0.1}
    return SimpleNamespace(**{**usual, **changes})


@pytest.mark.parametrize("name", POINTS)
def test_ranks_and_crowding_as_pymoo(reference, name):
    entry = reference("pymoo_nsga2")[name]
    points = np.array(entry["points"])
    found = ranks(points)
    assert found.tolist() == entry["ranks"]
    expected = [math.inf if value is None else value for value in entry["crowding"]]
    np.testing.assert_allclose(crowding(points, found), expected, rtol=1e-12)


def _dominates(a: Any, b: Any) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@settings(max_examples=150, deadline=None)
@given(COARSE)
def test_ranks_by_definition_with_many_equal_values(points):
    expected, left, rank = dict.fromkeys(range(len(points)), -1), set(range(len(points))), 0
    while left:
        front = {i for i in left if not any(_dominates(points[j], points[i]) for j in left)}
        expected |= dict.fromkeys(front, rank)
        left, rank = left - front, rank + 1
    assert ranks(np.array(points, float)).tolist() == list(expected.values())


@settings(max_examples=150, deadline=None)
@given(COARSE)
def test_first_front_is_that_of_rank_0_each_point_once_from_cheap_to_dear(points):
    values = np.array(points, float)
    found = first_front(values)
    assert {points[i] for i in found} == {points[i] for i in np.flatnonzero(ranks(values) == 0)}
    assert len({points[i] for i in found}) == len(found)
    assert (np.diff(values[found, 0]) > 0).all()
    assert all(points.index(points[i]) == i for i in found)


@pytest.mark.parametrize("count", [1, 2])
def test_a_front_of_one_or_two_points_is_all_ends(count):
    points = np.arange(2.0 * count).reshape(count, 2)
    assert crowding(points, np.zeros(count, np.intp)).tolist() == [math.inf] * count


def test_a_front_of_equal_points_has_no_room_between_its_ends():
    room = crowding(np.ones((4, 2)), np.zeros(4, np.intp))
    assert sorted(room.tolist()) == [0.0, 0.0, math.inf, math.inf]


def _worth(bits: int) -> Any:
    gain = np.random.default_rng(2).integers(1, 40, bits).astype(float)
    form = np.random.default_rng(3).integers(-6, 4, (bits, bits)).astype(float)

    def score(masks: np.ndarray) -> np.ndarray:
        some = masks.astype(float)
        values = some @ gain + np.einsum("pi,ij,pj->p", some, form, some)
        return np.where(masks.any(axis=1), values, -np.inf)

    return score


def test_the_true_front_is_found_where_all_masks_can_be_tried():
    score = _worth(11)
    everything = np.array(list(itertools.product([False, True], repeat=11)))[1:]
    truth = np.column_stack([units(everything), -score(everything)])
    state = explore(score, units, 11, _options(population=100, generations=60), 0)
    np.testing.assert_array_equal(state.hall_scores, truth[first_front(truth)])
    np.testing.assert_array_equal(np.column_stack([units(state.hall), -score(state.hall)]), state.hall_scores)


def test_the_front_of_a_sum_is_its_largest_terms():
    """With worths that add up, the best mask of k units is that of the k most worthy: the whole front is known."""
    gain = np.array([1.0, 2, 4, 8, 16, 32, 64, 128])
    score = lambda masks: np.where(masks.any(axis=1), masks @ gain, -np.inf)  # noqa: E731
    state = explore(score, units, 8, _options(generations=60), 1)
    assert [tuple(np.flatnonzero(mask).tolist()) for mask in state.hall] == [
        tuple(range(8 - count, 8)) for count in range(1, 9)
    ]


def test_every_generation_holds_distinct_networks_and_a_front_that_only_gets_better():
    score, states = _worth(14), []
    explore(score, units, 14, _options(), 0, each=states.append)
    assert [state.generation for state in states] == list(range(31))
    for before, state in itertools.pairwise([states[0], *states]):
        assert len(state.population) <= 40
        assert len({tuple(mask) for mask in state.population.tolist()}) == len(state.population)
        assert state.population.any(axis=1).all()
        np.testing.assert_array_equal(
            state.scores, np.column_stack([units(state.population), -score(state.population)])
        )
        together = np.concatenate([before.hall_scores, state.hall_scores])
        np.testing.assert_array_equal(together[first_front(together)], state.hall_scores)
        row = state.rows[-1]
        assert row.best == score(state.hall).max()
        assert row.best_units == units(state.hall)[score(state.hall).argmax()]
        assert row.mean == pytest.approx(score(state.population).mean())
        assert row.mean_units == pytest.approx(units(state.population).mean())
        assert row.evaluated == state.met - (before.met if before is not state else 0)


def test_the_whole_network_is_among_the_first():
    state = explore(_worth(20), units, 20, _options(generations=0), 0)
    assert np.packbits(np.ones(20, np.bool_)).tobytes() in state.known
    assert units(state.population).min() < 5


def test_a_price_is_the_second_objective():
    cost = np.array([5.0, 1.0, 1.0, 1.0])
    score = lambda masks: np.where(masks.any(axis=1), masks @ np.array([9.0, 4.0, 2.0, 1.0]), -np.inf)  # noqa: E731
    state = explore(score, lambda masks: masks @ cost, 4, _options(), 0)
    assert state.hall_scores[:, 0].tolist() == [1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 8.0]


def test_it_goes_on_from_any_state_as_if_it_had_never_stopped():
    score, states = _worth(16), []
    whole = explore(score, units, 16, _options(), 4, each=states.append)
    for start in (states[0], states[11]):
        again = explore(score, units, 16, _options(), 4, start=start)
        assert again.rows == whole.rows
        for name in ("population", "scores", "hall", "hall_scores"):
            np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


def test_held_counts_leave_one_point():
    states: list[State] = []
    explore(_worth(12), units, 12, _options(), 0, repair=hold([slice(0, 12)], [4]), each=states.append)
    assert all((state.population.sum(axis=1) == 4).all() for state in states)
    everything = np.array([mask for mask in itertools.product([False, True], repeat=12) if sum(mask) == 4])
    assert states[-1].hall_scores.tolist() == [[4.0, -_worth(12)(everything).max()]]


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(OptionError, match="a chromosome of 0 bits"):
        explore(_worth(3), units, 0, _options(), 0)
    with pytest.raises(UsageError, match="no mask of the first population"):
        explore(lambda masks: np.full(len(masks), -np.inf), units, 3, _options(), 0)


def test_within_a_front_the_roomier_point_survives_and_a_copy_does_not() -> None:
    """Five points of one front: ends first, then the one with most room; a copy of an end comes last of all."""
    points = np.array([[0.0, 0.0], [1.0, -1.0], [1.2, -1.2], [9.0, -9.0], [10.0, -10.0], [0.0, 0.0]])
    assert set(_survivors(points, 2)) == {0, 4}
    assert set(_survivors(points, 4)) == {0, 4, 2, 3}
    assert int(_survivors(points, 6)[-1]) == 5
