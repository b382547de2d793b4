"""Which units are constant or short, and in which order they go."""

from __future__ import annotations

import numpy as np
import pytest

from weightsmith.reducing.criteria.constants import carried, constant_units, into_bias, short_units
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.decisions import Choice, Removal


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


def test_constants_are_carried_by_the_largest_constant_unit() -> None:
    gram = Gram(4)
    gram.add(np.array([[1.0, -2.0, 0.2, 0.8], [1.0, -2.0, 0.3, 0.7]]))
    removals = (Removal(0, constant=1.0), Removal(1, constant=-2.0), Removal(3, (2,), (-1.0,), 1.0))
    found = carried(Choice("a", 4, removals), gram)
    assert found.kept == (1, 2)
    assert [(each.unit, each.into, each.factors, each.constant) for each in found.removals] == [
        (0, (1,), (-0.5,), 0.0),
        (3, (2, 1), (-1.0, -0.5), 0.0),
    ]
    assert "unit 1" in found.notes[0]


def test_a_lone_constant_and_units_at_zero_carry_nothing() -> None:
    gram = Gram(3)
    gram.add(np.array([[0.0, 3.0, 0.2], [0.0, 3.0, 0.3]]))
    lone = Choice("a", 3, (Removal(1, constant=3.0),))
    assert carried(lone, gram) is lone
    silent = Choice("a", 3, (Removal(0), Removal(2, (1,), (1.0,), 0.5)))
    assert carried(silent, gram) is silent
