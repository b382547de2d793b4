from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.spiking.catalogue import draw_rivals
from weightsmith.reporting.figures.style import BLUE, GREY, ORANGE
from weightsmith.spiking.energy.cost import LayerCost, NeuronCost, SpikeCost
from weightsmith.spiking.energy.memory import MemoryAccess
from weightsmith.spiking.energy.prices import Prices
from weightsmith.spiking.energy.rivals import Rival

RIVALS = (
    Rival("float32", 32, 1e6, 4.6, 4.6e6, 2e9),
    Rival("int8", 8, 1e6, 0.23, 2.3e5, 8e8),
    Rival("int8, zeros skipped", 8, 5e5, 0.23, 1.15e5, 4e8, 64),
)


MEMORY = (MemoryAccess("weights", 1.0, 1.0, 1.5e9),)


def cost_of(rivals=RIVALS, memory=MEMORY, accumulates=1e6):
    layer = LayerCost("out", "synapses", 10**6, 3.0, np.array([accumulates]), 0, 0, 0, "counted")
    prices = Prices(neurons=False).of_run("float32")
    neurons = (NeuronCost("relu", "", 5, 0),)
    return SpikeCost(2, 1, np.ones(1), (layer,), neurons, prices, memory=memory, rivals=rivals)


def points(axes, colour):
    found = [line for line in axes.lines if line.get_marker() == "o" and same_color(line.get_color(), colour)]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in found]


def test_points_are_energies_and_what_takes_less_is_orange():
    figure = draw_rivals(cost_of())
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "spiking", "spiking, if all were integers", "network, float32", "network, int8", "network, int8, zeros skipped"
    ]  # fmt: skip
    assert points(left, BLUE) == [(pytest.approx(0.9), 0), (pytest.approx(0.1), 1)]
    assert points(left, GREY) == [(pytest.approx(4.6), 2)]
    assert points(left, ORANGE) == [(pytest.approx(0.23), 3), (pytest.approx(0.115), 4)]
    assert points(right, BLUE) == [(pytest.approx(1500), 0)]
    assert points(right, GREY) == [(pytest.approx(2000), 2)]
    assert [text.get_text() for text in right.texts] == ["1.5 mJ", "2 mJ", "800 µJ", "400 µJ"]
    assert figure.get_suptitle() == (
        "the network takes less arithmetic in int8; int8, zeros skipped\nzero activations were counted on 64 images"
    )


def test_a_run_below_every_rival_is_said_to_be_so():
    figure = draw_rivals(cost_of(accumulates=1e5))
    assert figure.get_suptitle().startswith("no other way to run the network takes less arithmetic")
    assert figure.axes[0].get_xlabel() == "energy per image (µJ)"


def test_without_memory_only_arithmetic_is_drawn_and_without_rivals_nothing():
    assert not draw_rivals(cost_of(memory=())).axes[1].get_visible()
    with pytest.raises(UsageError, match="older version"):
        draw_rivals(cost_of(rivals=()))
