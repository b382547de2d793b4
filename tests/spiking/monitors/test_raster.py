from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.monitors.raster import Raster, RasterRecord
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import LIF
from weightsmith.spiking.simulation.exits import Margin


def drawn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def network():
    return SpikingNetwork(
        (
            Synapses("conv", INPUT, drawn(3, 1, 3, 3, seed=0), padding=(1, 1)),
            Neurons("one", "conv", torch.tensor([0.5, 1.0, 2.0]), layer="conv"),
            Flatten("flat", "one"),
            Synapses("dense", "flat", drawn(4, 60, seed=1)),
            Neurons("two", "dense", torch.full((4,), 1.5), layer="dense"),
            Synapses("out", "two", drawn(2, 4, seed=2)),
        ),
        (1, 4, 5),
        LIF(0.9),
        Poisson(),
    )


class Everything:
    """All spikes and membranes of a run, as (images, steps, positions, channels)."""

    membranes, inputs = True, False

    def __init__(self):
        self.spikes, self.tested = {}, {}

    def see(self, population, images, step, spikes, membranes):
        for row, image in enumerate(images.tolist()):
            for offset in range(spikes.shape[1]):
                self.spikes[population, image, step + offset] = spikes[row, offset].copy()
                self.tested[population, image, step + offset] = np.array(membranes[row, offset])


def rows(images):
    return torch.rand(images, 1, 4, 5, generator=torch.Generator().manual_seed(3)) * 2 - 1


def test_the_spikes_and_membranes_kept_are_those_of_the_run():
    net, everything = network(), Everything()
    raster = Raster(net, images=[2, 7, 300], units=9, membranes=True, seed=4)
    net.run(rows(10), 40, observers=[raster, everything])
    record = raster.record()
    assert (record.images, record.steps) == ((2, 7), (40, 40))
    for found, units in zip(record.populations, (9, 4), strict=True):
        assert found.membranes.shape == (2, 40, units)
        again = np.zeros((2, 40, units), bool)
        again[found.spike_images, found.spike_steps, found.spike_rows] = True
        for index, image in enumerate((2, 7)):
            for step in range(40):
                key = found.name, image, step
                at = found.positions, found.channels
                assert np.array_equal(again[index, step], everything.spikes[key][at])
                assert np.array_equal(found.membranes[index, step], everything.tested[key][at])
            steps, numbers = found.spikes(index)
            assert len(steps) == again[index].sum() > 0
            assert (np.diff(steps * units + numbers) > 0).all()
    first, second = record.populations
    assert (first.layer, second.layer) == ("conv", "dense")
    assert first.thresholds.tolist() == np.array([0.5, 1.0, 2.0])[first.channels].tolist()
    assert second.channels.tolist() == [0, 1, 2, 3]


def test_units_are_drawn_by_the_seed():
    net = network()

    def units(seed):
        raster = Raster(net, units=9, seed=seed, populations=["one"])
        net.run(rows(1), 3, observers=[raster])
        (found,) = raster.record().populations
        assert found.membranes is None
        return list(zip(found.positions.tolist(), found.channels.tolist(), strict=True))

    assert units(0) == units(0) != units(1)
    assert len(set(units(0))) == 9
    assert len({channel for _, channel in units(0)}) > 1


def test_images_that_end_early_have_fewer_steps():
    net = network()
    raster = Raster(net, images=12, units=5, membranes=True)
    responses = net.run(rows(12), 80, observers=[raster], early=Margin(1.5, least=2))
    record = raster.record()
    assert min(record.steps) < 80
    assert (np.array(record.steps) >= responses.ended).all()
    for found in record.populations:
        for index, steps in enumerate(record.steps):
            assert not found.membranes[index, steps:].any()
            assert (found.spikes(index)[0] < steps).all()
    assert RasterRecord.from_json(record.to_json()) == record


def test_a_population_that_never_fires_is_an_empty_raster():
    net = network().with_factor(1e6)
    raster = Raster(net, units=3)
    net.run(rows(1), 5, observers=[raster])
    record = raster.record()
    assert [len(found.spike_steps) for found in record.populations] == [0, 0]
    assert RasterRecord.from_json(record.to_json()) == record


def test_what_cannot_be_kept_is_refused():
    net = network()
    with pytest.raises(UsageError, match="units must be ≥ 1"):
        Raster(net, units=0)
    with pytest.raises(UnknownName, match="unknown population 'conv'"):
        Raster(net, populations=["conv"])
    with pytest.raises(UsageError, match="images must be"):
        Raster(net, images=[-1, 2])
    with pytest.raises(UsageError, match="has seen nothing"):
        Raster(net).record()
    raster = Raster(net)
    net.run(rows(1), 5, observers=[raster])
    with pytest.raises(UsageError, match="watches one whole run"):
        net.run(rows(1), 5, observers=[raster])
