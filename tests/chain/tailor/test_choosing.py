from __future__ import annotations

import numpy as np
import pytest

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import (
    LimitStatus,
    Preference,
    margin_for,
    relaxations,
    standing,
    unreachable,
    violation,
)
from weightsmith.chain.tailor.configurations import Configuration
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.statistics import wilson


def candidates(*values, images=1000):
    """One for each (right answers, energy, parameters)."""
    return [
        Candidate(
            number,
            Configuration(),
            None,
            images,
            correct,
            energy,
            energy / 100,
            parameters,
            parameters / 1000,
            1,
            "whole",
        )
        for number, (correct, energy, parameters) in enumerate(values)
    ]


LIMITS = Limits(accuracy=0.8, energy=50.0, params=500)


def best(found, limits=LIMITS, margin=0.0):
    return Preference(limits, margin).best(found).number


def test_of_those_that_keep_to_the_limits_the_cheapest_is_taken():
    found = candidates((990, 60.0, 400), (850, 40.0, 400), (810, 30.0, 450), (801, 30.0, 440), (799, 10.0, 10))
    assert best(found) == 3  # the energy decides, then the parameters


def test_a_margin_asks_for_more_than_a_lucky_estimate():
    found = candidates((810, 10.0, 400), (822, 20.0, 400), (850, 30.0, 400))
    # √(0.81·0.19/1000) = 0.0124, √(0.822·0.178/1000) = 0.0121, √(0.85·0.15/1000) = 0.0113
    assert [best(found, margin=margin) for margin in (0.0, 0.8, 0.9, 1.8, 1.9, 4.4)] == [0, 0, 1, 1, 2, 2]


def test_where_none_has_the_margin_the_most_accurate_is_taken():
    found = candidates((810, 10.0, 400), (822, 20.0, 400), (850, 30.0, 400))
    assert best(found, margin=5.0) == 2


def test_without_an_accuracy_the_most_accurate_within_the_others_is_taken():
    found = candidates((990, 60.0, 400), (850, 40.0, 400), (850, 39.0, 400), (810, 10.0, 10))
    assert best(found, Limits(energy=50.0)) == 2


def test_where_only_the_size_is_limited_parameters_come_before_energy():
    found = candidates((850, 10.0, 400), (850, 40.0, 300))
    assert best(found, Limits(accuracy=0.8, params=500)) == 1
    assert best(found, Limits(accuracy=0.8, energy=50.0, params=500)) == 0


def test_where_none_keeps_to_the_limits_the_least_violation_is_nearest():
    # missed: eight points; a fifth of the energy; one point and 8 % of the energy, which come to 0.18
    found = candidates((720, 50.0, 500), (800, 60.0, 500), (790, 54.0, 500))
    assert best(found) == 2
    assert [violation(each.excess(LIMITS)) for each in found] == pytest.approx([0.8, 0.2, 0.18])
    assert not Preference(LIMITS).met(found[2])


def test_of_equals_the_first_that_was_found_is_taken():
    assert best(candidates((850, 30.0, 400), (850, 30.0, 400))) == 0
    assert Preference(LIMITS).best([]) is None


def test_each_limit_is_relaxed_alone_as_little_as_will_do():
    found = candidates((720, 50.0, 500), (790, 45.0, 400), (900, 70.0, 400), (850, 60.0, 450), (850, 40.0, 600))
    by_name = {each.limit: (each.to, each.candidate) for each in relaxations(found, LIMITS)}
    assert by_name == {"accuracy": (0.79, 1), "energy": (60.0, 3), "params": (600.0, 4)}


def test_a_limit_that_cannot_be_relaxed_alone_is_not_named():
    # The only accurate one is too dear and too large: neither energy nor parameters alone would do.
    found = candidates((900, 70.0, 700), (700, 10.0, 10))
    assert [(each.limit, each.to) for each in relaxations(found, LIMITS)] == [("accuracy", 0.7)]


def test_limits_that_nothing_keeps_to_are_told_from_those_that_cannot_be_met_together():
    together = candidates((900, 70.0, 400), (700, 10.0, 10))
    assert unreachable(together, LIMITS) == ()
    assert unreachable(together, Limits(accuracy=0.95, energy=50.0)) == ("accuracy",)
    assert unreachable(together, Limits(accuracy=0.95, energy=5.0)) == ("accuracy", "energy")


@pytest.mark.parametrize(
    ("right", "expected"),
    [(900, LimitStatus.ABOVE), (810, LimitStatus.ESTIMATE), (800, LimitStatus.ESTIMATE), (799, LimitStatus.BELOW)],
)
def test_an_interval_above_is_told_from_an_estimate_above(right, expected):
    assert standing(wilson(right, 1000), 0.8) is expected
    assert standing(wilson(right, 1000), None) is LimitStatus.UNLIMITED


def test_of_what_misses_a_limit_equally_the_more_accurate_stands_for_it():
    found = candidates((500, 1.0, 600), (900, 2.0, 600))
    assert best(found, limits=Limits(accuracy=None, energy=50.0, params=500)) == 1


def test_the_more_ways_the_larger_the_margin():
    margins = [margin_for(ways) for ways in (1, 2, 20, 200)]
    assert margins == sorted(margins)
    # The chance that the best of 20 independent estimates at the limit passes by luck is 5 %, or a little less.
    draws = np.random.default_rng(0).normal(size=(20_000, 20)).max(axis=1)
    assert 0.04 < (draws > margin_for(20)).mean() < 0.055
