"""The memory of scores: each distinct mask is computed once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.reducing.memory import Memory


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
