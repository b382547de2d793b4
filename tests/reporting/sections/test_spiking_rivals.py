from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from weightsmith.reporting.sections._spiking_rivals import rival_rows, rivals_text
from weightsmith.spiking.energy.cost import LayerCost, NeuronCost, SpikeCost
from weightsmith.spiking.energy.memory import MemoryAccess
from weightsmith.spiking.energy.prices import Prices
from weightsmith.spiking.energy.rivals import Rival

RIVALS = (
    Rival("float32", 32, 1000.0, 4.6, 4600.0, 9000.0),
    Rival("int8", 8, 1000.0, 0.23, 230.0, 8000.0),
    Rival("int8, zeros skipped", 8, 500.0, 0.23, 115.0, 4000.0, 64),
)


def cost_of(accumulates, precision="float32", **more):
    """0.9 pJ each in float32, 0.1 in int8."""
    layer = LayerCost("out", "synapses", 1000, 3.0, np.array([accumulates, 2.0 * accumulates]), 0, 0, 0, "counted")
    prices = Prices(neurons=False).of_run(precision)
    return SpikeCost(2, 2, np.array([1.0, 2.0]), (layer,), (NeuronCost("relu", "", 5, 0),), prices, **more)


def test_the_rivals_that_take_less_are_counted_and_the_cheapest_named():
    cost = cost_of(1000, rivals=RIVALS)
    assert [rival.name for rival in cost.cheaper] == ["int8", "int8, zeros skipped"]
    assert rivals_text(cost) == (
        "2 of 3 rivals take less arithmetic, the cheapest (int8, zeros skipped) 115 pJ; with integer additions these "
        "spikes would take 200 pJ, more than 1 of 3"
    )


def test_a_run_that_no_rival_beats_is_said_to_be_so():
    cost = cost_of(500, "int8", rivals=RIVALS)
    assert (cost.energy, cost.cheaper) == (pytest.approx(100), ())
    assert rivals_text(cost) == "no rival takes less arithmetic, the cheapest (int8, zeros skipped) 115 pJ"
    assert rivals_text(cost_of(50, rivals=RIVALS)).endswith("would take 10 pJ, less than every rival")


def test_rows_are_the_run_and_its_rivals():
    accesses = (MemoryAccess("weights", 10.0, 0.0, 700.0), MemoryAccess("membranes", 10.0, 10.0, 300.0))
    cost = cost_of(1000, rivals=RIVALS, memory=accesses)
    rows = rival_rows(cost)
    assert [row["name"] for row in rows] == [
        "spiking",
        "spiking, if all were integers",
        "network, float32",
        "network, int8",
        "network, int8, zeros skipped",
    ]
    assert [row["energy_picojoule"] for row in rows] == pytest.approx([1800, 200, 4600, 230, 115])
    assert [row["memory_picojoule"] for row in rows] == [1000, None, 9000, 8000, 4000]
    assert len(rival_rows(dataclasses.replace(cost, prices=Prices().of_run("int8")))) == 4


def test_older_records_know_no_rivals():
    assert rivals_text(cost_of(10)) is None
