"""Racing against the binomial written out, and what it must never do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weightsmith.core.errors import OptionError
from weightsmith.spiking.sweep.racing import Racing, dropped


def one_sided(only_leader: int, only_other: int) -> float:
    """P(X ≤ only_other), X ~ Binomial(n, ½), by counting."""
    n = only_leader + only_other
    return sum(math.comb(n, k) for k in range(only_other + 1)) / 2**n


@settings(deadline=None)
@given(arrays(bool, st.tuples(st.integers(2, 5), st.integers(1, 40))), st.sampled_from([0.4, 0.1, 0.01]))
def test_by_the_exact_test(right: np.ndarray, level: float) -> None:
    lost = dropped(right, Racing(level, least=1))
    leader = int(right.sum(axis=1).argmax())
    for index, row in enumerate(right):
        more, fewer = int((right[leader] & ~row).sum()), int((row & ~right[leader]).sum())
        assert lost[index] == (more > fewer and one_sided(more, fewer) < level)
    assert not lost[leader]


def test_nothing_is_dropped_before_the_least_number_of_images() -> None:
    right = np.array([[True] * 20, [False] * 20])
    assert dropped(right, Racing(least=20)).tolist() == [False, True]
    assert dropped(right, Racing(least=21)).tolist() == [False, False]


def test_equal_settings_all_stay() -> None:
    right = np.tile(np.arange(50) % 2 == 0, (4, 1))
    assert not dropped(right, Racing(0.4, least=1)).any()


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_levels_that_make_no_sense(level: float) -> None:
    with pytest.raises(OptionError, match="level"):
        Racing(level)
