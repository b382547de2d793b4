from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.chain.tailor.limits import Limits, Wanted, read_seconds
from weightsmith.core.errors import OptionError, UsageError


@pytest.mark.parametrize(
    ("accuracy", "found"),
    [(0.9, 0.9), ("0.9", 0.9), ("90%", 0.9), ("92.5 %", 0.925), (1, 1.0), ("100%", 1.0), (90, 0.9)],
)
def test_an_accuracy_is_a_share(accuracy, found):
    assert Wanted.read(accuracy=accuracy).of(energy=1.0, params=1).accuracy == pytest.approx(found)


@pytest.mark.parametrize(
    ("energy", "found"),
    [(0.2, 200.0), ("20%", 200.0), (1, 1000.0), ("7pJ", 7.0), ("1.5nJ", 1500.0), ("1.5uJ", 1.5e6), ("2 µJ", 2e6)],
)  # fmt: skip
def test_an_energy_is_a_share_or_an_amount(energy, found):
    assert Wanted.read(energy=energy).of(energy=1000.0, params=1).energy == pytest.approx(found)


@pytest.mark.parametrize(
    ("params", "found"), [(0.5, 250), ("50%", 250), (1.0, 501), (20000, 20000), ("20_000", 20000), ("2e4", 20000)]
)
def test_parameters_are_a_share_or_a_count(params, found):
    assert Wanted.read(params=params).of(energy=1.0, params=501).params == found


def test_a_share_of_parameters_is_exact_where_it_is_whole():
    assert Wanted.read(params=0.7).of(energy=1.0, params=10).params == 7  # 0.7 · 10 is a little less than 7


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"accuracy": "101%"}, "at most 100 %"),
        ({"accuracy": -100}, "fewer than 100 points"),
        ({"accuracy": 0}, "> 0"),
        ({"accuracy": "0.9uJ"}, "as 90, 90% or 0.9"),
        ({"accuracy": "most"}, "does not begin with a number"),
        ({"accuracy": float("nan")}, "finite"),
        ({"accuracy": True}, "a number or text"),
        ({"energy": 5}, "needs its unit, as 1.5uJ"),
        ({"energy": "5J"}, "a share as 0.2 or 20%"),
        ({"energy": "-1uJ"}, "must be > 0"),
        ({"energy": "0%"}, "> 0 and ≤ 1"),
        ({"params": 1.5}, "a share ≤ 1 or a whole number"),
        ({"params": "150%"}, "> 0 and ≤ 1"),
        ({"params": -3}, "> 0 and ≤ 1"),
        ({"params": "5kB"}, "or a number"),
        ({"bytes": 3}, "as 300kB"),
        ({"time": "2s"}, "a share of the network's own time"),
    ],
)
def test_what_is_no_limit_is_refused_in_one_line(limit, words):
    with pytest.raises(OptionError, match=words) as refused:
        Wanted.read(**limit)
    assert "\n" not in str(refused.value)


def test_no_limit_at_all_is_refused():
    with pytest.raises(UsageError, match="at least one"):
        Wanted.read()


@pytest.mark.parametrize(
    ("given_", "seconds"), [(90, 90.0), ("90", 90.0), ("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0)]
)
def test_a_budget_is_a_duration(given_, seconds):
    assert read_seconds(given_) == seconds


@pytest.mark.parametrize("budget", ["10 days", 0, "-3m", "soon"])
def test_what_is_no_duration_is_refused(budget):
    with pytest.raises(OptionError, match="budget"):
        read_seconds(budget)


def test_excess_names_each_limit_that_is_missed():
    limits = Limits(accuracy=0.8, energy=100.0, params=50)
    assert limits.excess(accuracy=0.8, energy=100.0, params=50) == {}
    missed = limits.excess(accuracy=0.6, energy=150.0, params=55)
    assert missed == {"accuracy": pytest.approx(0.2), "energy": pytest.approx(0.5), "params": pytest.approx(0.1)}


@given(
    limits=st.builds(
        Limits,
        accuracy=st.none() | st.floats(0.01, 1),
        energy=st.none() | st.floats(1, 1e9),
        params=st.none() | st.integers(1, 10**6),
    ),
    accuracy=st.floats(0, 1),
    energy=st.floats(0, 1e9),
    params=st.integers(0, 10**6),
)
def test_a_limit_is_missed_if_and_only_if_its_excess_is_positive(limits, accuracy, energy, params):
    missed = limits.excess(accuracy=accuracy, energy=energy, params=params)
    assert all(share > 0 for share in missed.values())
    kept = {
        "accuracy": limits.accuracy is None or accuracy >= limits.accuracy,
        "energy": limits.energy is None or energy <= limits.energy,
        "params": limits.params is None or params <= limits.params,
    }
    # A hair's breadth can vanish in the division, but never the other way round.
    assert all(not kept[name] for name in missed)
    assert Limits.from_json(limits.to_json()) == limits


def test_points_below_the_network_are_a_limit_too():
    limits = Wanted.read(accuracy=-2, bytes="300kB", macs="50%", time="40%").of(macs=1001, bytes=10**6)
    assert (limits.accuracy, limits.points, limits.macs, limits.bytes, limits.time) == (None, 0.02, 500, 300_000, 0.4)
    assert limits.limits_accuracy
    assert limits.costs == {"macs": 500, "bytes": 300_000, "time": 0.4}
    assert limits.excess(loss=0.02, macs=500, time=0.3) == {}
    assert limits.excess(loss=0.05, macs=750) == {"accuracy": pytest.approx(0.03), "macs": 0.5}


def test_a_cost_that_is_not_known_misses_nothing():
    assert Limits(time=0.5).excess(time=None) == {}
