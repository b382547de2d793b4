from __future__ import annotations

import pytest

from weightsmith.core.errors import OptionError
from weightsmith.spiking.energy.prices import FLOAT_MAC, PICOJOULES, PriceList, Prices, mac_price


def test_prices_are_those_of_horowitz():
    """ISSCC 2014, fig. 1.1.9."""
    assert (PICOJOULES["float32 add"], PICOJOULES["float32 multiply"]) == (0.9, 3.7)
    assert (PICOJOULES["int8 add"], PICOJOULES["int8 multiply"]) == (0.03, 0.2)
    assert (PICOJOULES["int32 add"], PICOJOULES["int32 multiply"]) == (0.1, 3.1)
    assert (pytest.approx(4.6), pytest.approx(0.23)) == (FLOAT_MAC, mac_price(8))


def test_fewer_bits_cost_less_in_proportion_of_the_multiplication():
    assert [mac_price(bits) for bits in (1, 2, 4)] == pytest.approx([0.055, 0.08, 0.13])


def test_what_is_not_given_follows_the_numbers_of_the_run():
    assert Prices().of_run("float32") == Prices().of_run("float64") == Prices(numbers="float32").of_run("int8")
    found = Prices().of_run("int8")
    assert (found.ac, found.mac, found.leak_update) == (0.1, 0.23, 3.2)
    assert (found.graded_ac, found.random_draw) == (pytest.approx(0.157), pytest.approx(0.79))
    assert found.of_run("float32") == found  # filled once
    mixed = Prices(accumulate=0.5).of_run("int8")
    assert (mixed.ac, mixed.mac) == (0.5, 0.23)


def test_where_sums_are_shifted_an_event_is_an_addition():
    ordered = Prices(shifts="sums").of_run("int8")
    assert (ordered.graded_ac, ordered.graded_sum(5)) == (0.1, pytest.approx(4 * 0.13 + 0.1))
    assert (Prices().graded_sum(5), Prices(shifts="sums", doubling=1.0).graded_sum(3)) == (0.0, pytest.approx(2.9))
    with pytest.raises(OptionError, match="shifts must be one of weights, sums"):
        Prices(shifts="events")


def test_a_price_of_multiplications_is_that_of_leaks_unless_one_is_given():
    assert Prices(2.0, 10.0).of_run("int8").leak_update == 10.0
    assert Prices(2.0, 10.0, leak=1.0).leak_update == 1.0


def test_prices_are_options():
    assert PriceList.parse("picojoule") == Prices()
    assert PriceList.parse("picojoule:0.1,3.2,neurons=false") == Prices(0.1, 3.2, neurons=False)
    assert PriceList.from_dict(Prices().of_run("int8").to_dict()) == Prices().of_run("int8")
    with pytest.raises(OptionError, match="accumulate must be ≥ 0"):
        Prices(-1)
    with pytest.raises(OptionError, match="numbers must be one of float32, int8"):
        Prices(numbers="int4")
