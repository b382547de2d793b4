from __future__ import annotations

import pytest

from weightsmith.chain.tailor.choosing import Preference, relaxations, unreachable
from weightsmith.chain.tailor.limits import Limits

from .test_candidates import candidate

WHOLE = candidate(0, 0.0, 100.0, 200)
ROUNDED = candidate(1, 0.001, 5.0, 200)
CUT = candidate(2, 0.05, 40.0, 80)
CUT_ROUNDED = candidate(3, 0.06, 2.0, 80)
SPIKES = candidate(4, 0.02, 18.0, 200, steps=2)
ALL = [WHOLE, ROUNDED, CUT, CUT_ROUNDED, SPIKES]


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        (Limits(energy=20.0), ROUNDED),
        (Limits(params=100), CUT),
        (Limits(params=100, energy=20.0), CUT_ROUNDED),
        (Limits(energy=1.0), CUT_ROUNDED),
    ],
)
def test_within_the_costs_the_nearest_to_the_network_is_taken_else_the_nearest_to_the_limits(limits, taken):
    preference = Preference(limits)
    assert preference.best(ALL) is taken
    assert preference.sequence(ALL) == [taken]


def test_only_spiking_ones_count_where_they_are_asked_for():
    assert Preference(Limits(energy=20.0), spiking=True).best(ALL) is SPIKES
    assert Preference(Limits(points=0.02), spiking=True).sequence(ALL) == [SPIKES]
    assert Preference(Limits(energy=20.0), spiking=True).sequence(ALL[:3]) == []


def test_the_energy_of_spikes_keeps_a_distance_from_its_limit():
    assert Preference(Limits(energy=18.2), spiking=True).missed(SPIKES)
    assert not Preference(Limits(energy=19.0), spiking=True).missed(SPIKES)


def test_an_accuracy_alone_is_judged_from_the_safest_to_the_cheapest():
    assert Preference(Limits(points=0.02)).sequence(ALL) == [WHOLE, ROUNDED, CUT_ROUNDED]


def test_what_would_have_to_give_way():
    limits = Limits(params=50, energy=20.0)
    found = relaxations(ALL, limits)
    assert [(each.limit, each.to, each.candidate) for each in found] == [("params", 80.0, 3)]
    assert unreachable(ALL, limits) == ("params",)
    assert unreachable(ALL, Limits(params=100, energy=3.0)) == ()
