from __future__ import annotations

import inspect

import numpy as np
import pytest
from tests.spiking.networks import SpikeRecorder, inputs, network

from weightsmith.spiking.graph import INPUT
from weightsmith.spiking.l4.membranes import MembraneMoments
from weightsmith.spiking.monitors.activity import Statistics
from weightsmith.spiking.monitors.correspondence import Rates
from weightsmith.spiking.monitors.observing import Observer
from weightsmith.spiking.monitors.raster import Raster
from weightsmith.spiking.monitors.unit_counts import UnitCounts

MAKERS = {
    "keeper": lambda found: SpikeRecorder(),
    "statistics": lambda found: Statistics(found, images=2),
    "rates": lambda found: Rates(found, images=2),
    "moments": lambda found: MembraneMoments([node.name for node in found.populations]),
    "raster": lambda found: Raster(found, images=2, membranes=True),
    "unit counts": UnitCounts,
}


@pytest.mark.parametrize("name", MAKERS)
def test_all_observers_keep_to_the_protocol(name):
    found = network("conv")
    observer: Observer = MAKERS[name](found)
    assert isinstance(observer.membranes, bool)
    assert isinstance(observer.inputs, bool)
    wanted = list(inspect.signature(Observer.see).parameters)
    assert list(inspect.signature(type(observer).see).parameters) == wanted
    for path in ("auto", "steps"):
        found.run(inputs(found, 2), 5, observers=[MAKERS[name](found)], path=path)


@pytest.mark.parametrize("path", ["events", "steps"])
def test_each_is_shown_what_it_asks_for(path):
    found = network("conv")
    plain, all_of_it = SpikeRecorder(), SpikeRecorder(membranes=True, inputs=True)
    found.run(inputs(found, 2), 5, observers=[plain, all_of_it], path=path)
    assert list(plain.parts) == ["relu1", "relu2"]
    assert list(all_of_it.parts) == [INPUT, "relu1", "relu2"]
    assert all(part[3] is None for parts in plain.parts.values() for part in parts)
    assert all(part[3] is None for part in all_of_it.parts[INPUT])
    for name in ("relu1", "relu2"):
        assert all(part[3].shape == part[2].shape for part in all_of_it.parts[name])
        assert all_of_it.trains[name].dtype == np.uint8
        assert np.array_equal(plain.trains[name], all_of_it.trains[name])
    assert all_of_it.trains[INPUT].dtype == np.int8
    assert set(np.unique(all_of_it.trains[INPUT])) == {-1, 0, 1}
