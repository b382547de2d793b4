from __future__ import annotations

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.chain.prices import Price, Synaptic, SynapticPrice, price_of
from weightsmith.core.errors import DataMismatch, UnknownName
from weightsmith.core.identity import identity_of


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def run(digits):
    return ws.train("mlp:30,20", digits, optimiser="adam", schedule=0.01, epochs=3, seed=0)


def test_the_price_of_a_mask_is_the_sum_over_its_units(run, digits):
    price = price_of("synaptic:steps=8,images=50", run.network, digits)
    assert price.of_unit.shape == (50,)
    assert (price.of_unit >= 0).all()
    assert price.of_unit.sum() > 0
    masks = np.random.default_rng(0).random((5, 50)) < 0.5
    slow = [sum(price.of_unit[unit] for unit in range(50) if mask[unit]) for mask in masks]
    assert price(masks) == pytest.approx(slow)


def test_a_unit_that_never_fires_costs_only_what_reaches_it(digits):
    """Outgoing accumulates of a dead unit are none: its price is its incoming spikes alone."""
    run = ws.train("mlp:30,20", digits, optimiser="adam", schedule=0.01, epochs=2, seed=0)
    dead = run.network
    dead.dense2.weight.data[3] = 0
    dead.dense2.bias.data[3] = -1
    price = price_of("synaptic:steps=8,images=50", dead, digits).of_unit[30:]
    # Each unit of dense2 is reached by every spike of dense1 whose weight is not 0.
    assert price[3] == 0
    assert (price[:3] > 0).all()


def test_a_search_with_the_price_takes_out_what_costs_more(run, digits):
    """With one half of a layer a thousand times as dear as the other, the search leaves it out first."""
    dear = SynapticPrice(np.concatenate([np.full(15, 1000.0), np.full(15, 1.0)]))
    by = ws.Genetic(60, generations=60, rows=300)
    kept = ws.reduce(run.network, digits, by=by, price=dear, latency=False, random=0, layers="dense1", seed=0).kept
    first = [unit for unit in kept["dense1"] if unit < 15]
    assert len(first) < len(kept["dense1"]) - len(first)


def test_prices_of_other_layers_are_refused():
    with pytest.raises(DataMismatch, match="prices of 3 units, but the masks have 4"):
        SynapticPrice(np.ones(3))(np.ones((1, 4), bool))


def test_prices_are_told_apart_by_their_numbers():
    one, two = SynapticPrice(np.ones(3)), SynapticPrice(np.full(3, 2.0))
    assert identity_of(one) == identity_of(SynapticPrice(np.ones(3)))
    assert identity_of(one) != identity_of(two)


def test_what_cannot_spike_has_no_price(digits):
    run = ws.train("mlp:10,activation=tanh", digits, schedule=0.05, epochs=1)
    with pytest.raises((DataMismatch, ws.UsageError), match="only ReLU converts"):
        price_of("synaptic", run.network, digits)


def test_input_spikes_are_part_of_the_price_where_there_are_any(run, digits):
    """A constant input is multiplied once; spikes that are fed in reach every unit of the first layer."""
    constant = price_of("synaptic:steps=8,images=50", run.network, digits)
    poisson = price_of("synaptic:steps=8,images=50,encode=poisson", run.network, digits)
    assert poisson.of_unit[:30].mean() > 2 * constant.of_unit[:30].mean()


def test_prices_have_a_text_form():
    assert Price.parse("synaptic:encode=poisson,neuron=lif:0.9") == Synaptic(encode="poisson", neuron="lif:0.9")
    with pytest.raises(UnknownName, match="did you mean 'poisson'"):
        Synaptic(encode="poison")


def test_units_need_no_function(run, digits):
    assert price_of("units", run.network, digits) is None
