"""What a mask is worth: equations 5 and 6, prices, and masks that leave no network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.reducing.search.fitness import Memory, guarded, penalised, priced, units, viable


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 100), st.integers(1, 30), st.integers(0, 10**6))
def test_equation_6_is_equation_5_with_the_penalty_times_all_units(penalty, bits, seed):
    random = np.random.default_rng(seed)
    accuracy, masks = 100 * random.random(10), random.random((10, bits)) < 0.5
    sixth = penalised(penalty, "units", bits)(accuracy, masks)
    expected = [a - penalty * sum(mask) for a, mask in zip(accuracy, masks.tolist(), strict=True)]
    np.testing.assert_allclose(sixth, expected, atol=1e-9)
    np.testing.assert_allclose(penalised(penalty * bits, "share", bits)(accuracy, masks), sixth, atol=1e-9)


def test_a_price_stands_in_for_the_units_in_both():
    cost = np.array([1.0, 2.0, 5.0])
    masks = np.array([[True, True, False], [False, False, True]])
    accuracy = np.array([50.0, 60.0])
    assert penalised(8, "share", 3, lambda m: m @ cost)(accuracy, masks).tolist() == [47.0, 55.0]
    assert penalised(8, "units", 3, lambda m: m @ cost)(accuracy, masks).tolist() == [26.0, 20.0]
    assert units(masks).tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (lambda masks: np.zeros(len(masks)), "the price of the whole network is 0"),
        (lambda masks: np.zeros((len(masks), 2)), "must be 1 numbers"),
        (lambda masks: np.full(len(masks), np.nan), "negative, NaN or infinite"),
        (lambda masks: np.full(len(masks), -1.0), "negative, NaN or infinite"),
    ],
)
def test_prices_that_are_none_are_refused(price, message):
    with pytest.raises(UsageError, match=message):
        penalised(50, "share", 4, price)


def test_a_price_of_nothing_is_good_where_no_share_is_taken():
    assert priced(lambda masks: np.zeros(len(masks)), np.ones((1, 4), np.bool_)).tolist() == [0.0]


def test_a_mask_that_empties_any_place_is_no_network_and_is_not_evaluated():
    positions = (slice(0, 2), slice(2, 5))
    masks = np.array([[1, 0, 0, 1, 0], [0, 0, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], np.bool_)
    assert viable(masks, positions).tolist() == [True, False, False, False]
    seen: list[int] = []

    def evaluate(some):
        seen.append(len(some))
        return np.full(len(some), 70.0)

    score = guarded(evaluate, lambda accuracy, some: accuracy - some.sum(axis=1), positions)
    assert score(masks).tolist() == [68.0, -np.inf, -np.inf, -np.inf]
    assert score(masks[1:]).tolist() == [-np.inf] * 3
    assert seen == [1]


def test_a_fitness_of_another_shape_is_refused():
    score = guarded(lambda masks: np.zeros(len(masks)), lambda accuracy, masks: accuracy[:1], (slice(0, 3),))
    with pytest.raises(UsageError, match="the fitness of 2 masks"):
        score(np.ones((2, 3), np.bool_))


def _value(masks: np.ndarray) -> np.ndarray:
    return masks @ (2.0 ** np.arange(masks.shape[1]))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(0, 10**6))
def test_every_mask_is_computed_once_and_scores_are_right(bits, seed):
    asked: list[float] = []

    def score(masks):
        asked.extend(_value(masks).tolist())
        return _value(masks)

    memory, random = Memory(score), np.random.default_rng(seed)
    batches = [random.random((30, bits)) < random.random() for _ in range(4)]
    for masks in batches:
        before = len(asked)
        scores, fresh = memory(masks)
        np.testing.assert_array_equal(scores, _value(masks))
        np.testing.assert_array_equal(_value(masks[fresh]), asked[before:])
    assert len(asked) == len(set(asked)) == len(memory.known)
    assert set(asked) == set(np.concatenate([_value(masks) for masks in batches]).tolist())


def test_masks_that_differ_in_the_last_bits_only_are_told_apart():
    masks = np.zeros((3, 17), np.bool_)
    masks[1, 16] = masks[2, 15] = True
    scores, fresh = Memory(_value)(masks)
    assert scores.tolist() == [0.0, 2.0**16, 2.0**15]
    assert len(fresh) == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda masks: np.zeros((len(masks), 1)), "must be 2 numbers, not an array of shape"),
        (lambda masks: np.zeros(1), "must be 2 numbers"),
        (lambda masks: np.full(len(masks), np.nan), "NaN or infinite"),
        (lambda masks: np.full(len(masks), np.inf), "NaN or infinite"),
    ],
)
def test_scores_that_are_none_are_refused(answer, message):
    with pytest.raises(UsageError, match=message):
        Memory(answer)(np.eye(2, dtype=np.bool_))


def test_minus_infinity_is_a_score():
    assert Memory(lambda masks: np.full(len(masks), -np.inf))(np.eye(2, dtype=np.bool_))[0].tolist() == [-np.inf] * 2
