from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Gate, Neurons, Synapses
from weightsmith.spiking.monitors.unit_counts import Passing, UnitCounts
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation.reference import Stepper


def gated(encode=None):
    generator = torch.Generator().manual_seed(0)
    return SpikingNetwork(
        (
            Synapses("conv", INPUT, torch.randn(3, 2, 3, 3, generator=generator), padding=(1, 1)),
            Neurons("one", "conv", torch.full((3,), 1.0)),
            Gate("most", "one", (2, 2), (2, 2)),
            Flatten("flat", "most"),
            Synapses("dense", "flat", torch.randn(6, 12, generator=generator)),
            Neurons("two", "dense", torch.full((6,), 1.0)),
            Synapses("out", "two", torch.randn(4, 6, generator=generator)),
        ),
        (2, 4, 5),
        LIF(0.9),
        encode or Poisson(),
    )


class Everything:
    """Keeps all that is shown."""

    membranes, inputs = False, True

    def __init__(self):
        self.seen = {}

    def see(self, population, images, step, spikes, membranes):
        for row, image in enumerate(images):
            for offset in range(spikes.shape[1]):
                self.seen[population, int(image), step + offset] = spikes[row, offset].astype(int)


def rows(images):
    return torch.rand(images, 2, 4, 5, generator=torch.Generator().manual_seed(1)) * 2 - 1


def test_units_and_steps_add_up_to_what_was_shown():
    network, everything = gated(), Everything()
    counts = UnitCounts(network)
    responses = network.run(rows(70), 20, seed=5, observers=[everything, counts])
    assert counts.images == 70
    for name in ("one", "two"):
        shown = [spikes for (population, _, _), spikes in everything.seen.items() if population == name]
        assert np.array_equal(counts.units(name), sum(shown))
        assert counts.fired(name, 20).tolist() == responses.spikes_per_step[name].tolist()
        assert counts.units(name).sum() > 500
    # Dense layers are reached by 4 and 6 connections per spike; behind the gate only what passed.
    assert counts.landed("out", "two", 20).tolist() == (4 * counts.fired("two", 20)).tolist()
    assert counts.landed("dense", "most", 20).tolist() == (6 * counts.fired("most", 20)).tolist()
    assert 0 < counts.units("most").sum() < counts.units("one").sum()
    assert counts.population_of("most") == counts.population_of("one") == "one"
    assert counts.population_of(INPUT) == INPUT


@pytest.mark.parametrize("chunk", [1, 4, 9])
def test_parts_of_any_length_give_the_same(chunk):
    network = gated()
    spikes = np.random.default_rng(0).random((300, 9, 20, 3)) < 0.2  # more than 8 bits can count
    spikes[:, 0, 0, 0] = True
    one = UnitCounts(network)
    one.see("one", np.arange(300), 0, spikes.view(np.uint8), None)
    parts = UnitCounts(network)
    for block in (np.arange(100), np.arange(100, 300)):
        for step in range(0, 9, chunk):
            part = spikes[block, step : step + chunk].astype(np.uint8)
            parts.see("one", block, step, part, None)
    assert one.units("one")[0, 0] >= 300
    for name in ("one", "most"):
        assert np.array_equal(one.units(name), parts.units(name))
        assert np.array_equal(one.fired(name, 12), parts.fired(name, 12))
    assert np.array_equal(one.landed("dense", "most", 12), parts.landed("dense", "most", 12))
    assert one.fired("one", 12)[9:].tolist() == [0, 0, 0]
    assert one.images == parts.images == 300


def test_inputs_are_counted_as_the_run_drew_them():
    network, x = gated(), rows(70)
    counts = UnitCounts(network)
    responses = network.run(x, 20, seed=5, first=30, observers=[counts])
    assert counts.fired(INPUT, 20).tolist() == responses.inputs_per_step.tolist()
    expected = 20 * x.abs().sum(dim=0).flatten(1).T.numpy()
    assert np.abs(counts.units(INPUT) - expected).max() < 5 * np.sqrt(70 * 20 / 4)


def test_spikes_with_a_sign_count_alike():
    counts = UnitCounts(gated())
    counts.see(INPUT, np.arange(1), 0, np.array([-1, 1, 0, 1] * 10, np.int8).reshape(1, 1, 20, 2), None)
    assert counts.units(INPUT).sum() == 30


def test_what_cannot_be_counted_is_refused():
    counts = UnitCounts(gated())
    with pytest.raises(UsageError, match=r"no spikes of 'one' were seen .*observers"):
        counts.units("one")
    with pytest.raises(DataMismatch, match=r"one has \(20, 3\) positions and channels, not \(3, 20\)"):
        counts.see("one", np.arange(1), 0, np.zeros((1, 1, 3, 20), np.uint8), None)


def from_stepping(gate, steps, images, neuron=None):
    """Spikes in front of a gate and behind it, (images, steps, positions, channels), from the reference engine."""
    generator = torch.Generator().manual_seed(3)
    nodes = (
        Synapses("first", INPUT, torch.randn(3, 2, 3, 3, generator=generator), padding=(1, 1)),
        Neurons("one", "first", torch.full((3,), 1.5)),
        gate,
        Flatten("flat", gate.name),
    )
    shape = SpikingNetwork(nodes, (2, 5, 6), IF(), Poisson()).shapes["flat"]
    last = Synapses("out", "flat", torch.ones(2, *shape))
    network = SpikingNetwork((*nodes, last), (2, 5, 6), neuron or IF(), Poisson())
    stepper = Stepper(network)
    state = stepper.begin(images)
    before, behind = [], []
    for _ in range(steps):
        values, _ = stepper.step(state, torch.randint(-1, 2, (images, 2, 5, 6), generator=generator))
        before.append(values["one"].flatten(2).transpose(1, 2))
        behind.append(values[gate.name].flatten(2).transpose(1, 2))
    return (torch.stack(part, dim=1).to(torch.int8).numpy() for part in (before, behind))


@pytest.mark.parametrize("window", [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 1), (1, 1))])
@pytest.mark.parametrize("chunk", [1, 3, 11])
def test_what_passes_is_what_the_reference_lets_pass(window, chunk, monkeypatch):
    monkeypatch.setattr(
        "weightsmith.spiking.monitors.unit_counts._AT_ONCE", 2000
    )  # several images, but not all at once
    gate = Gate("most", "one", *window)
    before, behind = from_stepping(gate, 11, 5)
    assert 0.05 < before.mean() < 0.6
    passing = Passing(gate, (3, 5, 6))
    for step in range(0, 11, chunk):
        # Images 11 and 14 end after six steps.
        kept = [0, 1, 2, 3, 4] if step < 6 else [0, 2, 3]
        part = slice(step, step + chunk)
        found = passing.passed(np.array(kept) + 10, step, before[kept, part])
        assert np.array_equal(found, behind[kept, part])


def test_of_signed_spikes_the_change_of_the_largest_count_passes():
    gate = Gate("most", "one", (3, 2), (2, 1), (1, 1))
    before, behind = from_stepping(gate, 11, 5, IF(signed=True))
    assert (before < 0).sum() > 100
    passing = Passing(gate, (3, 5, 6), signed=True)
    parts = [passing.passed(np.arange(5), step, before[:, step : step + 4]) for step in (0, 4, 8)]
    assert np.array_equal(np.concatenate(parts, axis=1), behind)
    # Its sum is the largest sum of each window, whatever led before.
    sums = before.sum(axis=1).transpose(0, 2, 1).reshape(5, 3, 5, 6)
    pooled = torch.nn.functional.max_pool2d(torch.from_numpy(sums).float(), (3, 2), (2, 1), (1, 1))
    assert np.array_equal(behind.sum(axis=1).transpose(0, 2, 1).reshape(pooled.shape), pooled.numpy())


def test_a_new_block_begins_with_clean_counts():
    passing = Passing(Gate("most", "one", (1, 2), (1, 2)), (1, 1, 2))
    left, right = np.array([[[[1], [0]]]], np.uint8), np.array([[[[0], [1]]]], np.uint8)
    assert passing.passed(np.array([0]), 0, left).item() == 1
    assert passing.passed(np.array([0]), 1, right).item() == 0  # one each: the first of equals passes
    assert passing.passed(np.array([1]), 0, right).item() == 1
    with pytest.raises(UsageError, match="most: images begin at step 4"):
        passing.passed(np.array([2]), 4, right)
