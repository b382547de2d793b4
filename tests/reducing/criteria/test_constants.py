"""Which units are constant or short, and in which order they go."""

from __future__ import annotations

import numpy as np
import pytest

from weightsmith.reducing.criteria.constants import constant_units, into_bias, short_units
from weightsmith.reducing.criteria.gram import Gram


def gram_of(columns: list[list[float]], centre: float = 0.0) -> Gram:
    gram = Gram(len(columns), centre)
    gram.add(np.array(columns).T)
    return gram


def test_steadiest_first_and_of_equals_the_later() -> None:
    gram = gram_of([[0.0, 1.0], [0.3, 0.4], [0.7, 0.7], [0.2, 0.25], [5.0, 5.0]])
    assert constant_units(gram, 0.2) == [4, 2, 3, 1]
    assert constant_units(gram, 0.06) == [4, 2, 3]
    assert constant_units(gram, 1e-6) == [4, 2]


def test_share_is_strict_and_zero_is_off_but_for_zero_vectors() -> None:
    gram = gram_of([[0.0, 1.0], [0.0, 0.5], [0.7, 0.7], [0.5, 0.5]], centre=0.5)
    assert constant_units(gram, 0.5) == [3, 2]
    assert constant_units(gram, 0.0) == [3]
    assert constant_units(gram.about_mean(), 0.0) == [3, 2]


def test_short_units_are_measured_by_the_median_of_those_that_count() -> None:
    gram = gram_of([[1.0, -1.0], [2.0, -2.0], [0.1, -0.1], [4.0, -4.0], [0.0, 0.0]])
    among = np.array([True, True, True, True, False])
    assert short_units(gram, 0.5, among) == [2]  # the median is 1.5 · √2
    assert short_units(gram, 0.7, among) == [2, 0]
    assert short_units(gram, 0.0, among) == []
    assert short_units(gram, 0.5, np.zeros(5, dtype=np.bool_)) == []


def test_the_mean_stands_in() -> None:
    gram = gram_of([[1.0, 2.0, 6.0]])
    removal = into_bias(gram, 0, "short")
    assert (removal.constant, removal.into, removal.reason) == (pytest.approx(3.0), (), "short")
    assert into_bias(gram, 0, "short", constants=False).constant == 0.0
