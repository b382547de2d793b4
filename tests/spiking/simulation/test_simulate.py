from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest
import torch
from tests.spiking.networks import KINDS, NEURONS, SpikeRecorder, inputs, network

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.files import load_spiking, save_spiking
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Pool, Synapses
from weightsmith.spiking.monitors.unit_counts import UnitCounts
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation import chunked
from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.reference import StepEngine
from weightsmith.spiking.simulation.simulate import run_block, simulate, simulate_trains
from weightsmith.spiking.simulation.sources import source_of
from weightsmith.spiking.simulation.tally import Tally


@pytest.mark.parametrize("path", ["auto", "events", "steps"])
def test_any_part_of_the_images_sees_the_same_spikes(path):
    found = network("conv", LIF(0.9))
    x, whole = inputs(found, 9), SpikeRecorder(inputs=True)
    full = simulate(found, x, 20, seed=3, path=path, precision="float64", observers=[whole])
    for rows in (slice(0, 1), slice(2, 7), slice(8, 9)):
        part = SpikeRecorder(inputs=True)
        got = simulate(found, x[rows], 20, seed=3, first=rows.start, path=path, precision="float64", observers=[part])
        assert np.array_equal(got.answers, full.answers[rows])
        assert np.array_equal(got.scores, full.scores[rows])
        for name, train in whole.trains.items():
            assert np.array_equal(part.trains[name], train[rows])
    other = simulate(found, x, 20, seed=4, path=path, precision="float64")
    assert not np.array_equal(other.scores, full.scores)


def test_the_number_of_steps_changes_nothing_before():
    found = network("residual")
    x = inputs(found)
    short, long = (simulate(found, x, steps, precision="float64") for steps in (13, 40))
    assert np.array_equal(short.answers, long.answers[:, :13])
    for name, counts in short.spikes_per_step.items():
        assert np.array_equal(counts, long.spikes_per_step[name][:13])


def _scaled(found, population, unit, factor):
    """``found`` with one unit's threshold and all that leads to it (weights and bias) times ``factor``."""
    node = found.node(population)
    front = found.node(node.source)
    factors = torch.ones(len(front.weight))
    factors[unit] = factor
    bias = None if front.bias is None else front.bias * factors
    shape = (-1, *[1] * (front.weight.dim() - 1))
    return found.replaced(
        [
            dataclasses.replace(node, threshold=node.threshold * factors),
            dataclasses.replace(front, weight=front.weight * factors.reshape(shape), bias=bias),
        ]
    )


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    ("kind", "population", "unit"), [("mlp", "relu1", 4), ("mlp", "relu2", 99), ("conv", "relu1", 2)]
)
def test_a_threshold_and_its_weights_times_a_power_of_two(kind, population, unit, precision):
    """Numbers are scaled without rounding: the very same spikes, even for weights that are no short fractions."""
    generator = torch.Generator().manual_seed(1)
    for neuron in NEURONS:
        found = network(kind, neuron)
        noise = [
            node.weight * (1 + 0.1 * torch.randn(node.weight.shape, generator=generator)) for node in found.synapses
        ]
        found = found.replaced(
            dataclasses.replace(node, weight=weight) for node, weight in zip(found.synapses, noise, strict=True)
        )
        x, plain = inputs(found), SpikeRecorder()
        simulate(found, x, 20, precision=precision, observers=[plain])
        for factor in (0.125, 8.0):
            kept = SpikeRecorder()
            simulate(_scaled(found, population, unit, factor), x, 20, precision=precision, observers=[kept])
            assert all(np.array_equal(kept.trains[name], train) for name, train in plain.trains.items())
    assert int(plain.trains[population][..., unit].sum()) > 0


def test_given_trains_are_the_run_that_draws_them():
    for kind in ("mlp", "conv", "gates"):
        found = network(kind, LIF(0.9))
        x, recorder = inputs(found), SpikeRecorder(inputs=True)
        drawn = simulate(found, x, 18, precision="float64", observers=[recorder])
        shown = recorder.trains[INPUT]
        trains = shown.transpose(0, 1, 3, 2).reshape(3, 18, *found.input_shape)
        for path in ("auto", "events", "dense", "steps"):
            got = simulate_trains(found, trains, precision="float64", path=path)
            assert np.array_equal(got.scores, drawn.scores)
            assert np.array_equal(got.answers, drawn.answers)
            assert got.spikes() == drawn.spikes()
            assert np.array_equal(got.inputs_per_step, drawn.inputs_per_step)
        early = simulate_trains(found, trains, early=Margin(0.5, least=2))
        assert np.array_equal(early.ended, simulate(found, x, 18, early=Margin(0.5, least=2)).ended)


def _peak(found, x, steps, **options):
    tracemalloc.start()
    simulate(found, x, steps, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("kind", ["mlp", "eights", "gates"])
def test_memory_does_not_grow_with_the_steps(kind):
    """Of all arrays only answers and counts per step grow, by a few bytes for each step."""
    found = network(kind)
    x = inputs(found, 8)
    for path in ("events", "dense"):
        simulate(found, x, 64, path=path)
        two = 2 * chunked._CHUNK
        few, many = (_peak(found, x, steps, path=path) for steps in (two, two + 448))
        chunk = chunked._CHUNK * 8 * sum(int(np.prod(shape)) for shape in found.shapes.values())
        assert many - few < 448 * (2 * 8 + 8 * 8) + chunk / 10
        assert few > chunk / 4  # the arrays of a run are seen at all


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_trains(kind):
    found, recorder = network(kind), SpikeRecorder(inputs=True)
    got = simulate(found, inputs(found, 4), 10, observers=[recorder])
    for name, units in got.units.items():
        train = recorder.trains[name]
        assert units == train[0, 0].size
        assert np.array_equal(got.spikes_per_step[name], train.sum(axis=(0, 2, 3)))
        assert np.array_equal(got.spikes_per_image[name], train.sum(axis=(1, 2, 3)))
        assert got.rates()[name] == pytest.approx(train.mean())
    assert np.array_equal(got.inputs_per_step, np.abs(recorder.trains[INPUT].astype(int)).sum(axis=(0, 2, 3)))
    assert (got.images, got.steps) == (4, 10)


def test_progress_is_reported_block_by_block(monkeypatch):
    found, calls = network("mlp"), []
    monkeypatch.setattr(StepEngine, "block", 2)
    simulate(found, inputs(found, 5), 3, path="steps", progress=lambda done, total: calls.append((done, total)))
    assert calls == [(2, 5), (4, 5), (5, 5)]


def test_a_block_of_some_rows():
    found = network("mlp")
    x = inputs(found, 6)
    engine = StepEngine(found, source_of(found, x, 0, 0), "float64", "cpu")
    tally = Tally(6, 9, found.classes, {}, None)
    run_block(engine, np.array([1, 4]), 9, tally)
    got, whole = tally.responses({}), simulate(found, x, 9, precision="float64")
    assert np.array_equal(got.scores[[1, 4]], whole.scores[[1, 4]])
    assert not got.scores[[0, 2, 3, 5]].any()


def test_threads_and_random_state_stay_as_they_are():
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_num_threads(), torch.random.get_rng_state().tolist(), np.random.get_state()[1].tolist()
    torch.set_num_threads(2)
    try:
        simulate(network("mlp"), inputs(network("mlp")), 5)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before[0])
    assert torch.random.get_rng_state().tolist() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]


@pytest.mark.parametrize("steps", [0, -1, 2.5, True, "8", None])
def test_steps_that_are_no_number_of_steps(steps):
    found = network("mlp")
    with pytest.raises(UsageError, match="steps must be a whole number ≥ 1, not"):
        simulate(found, inputs(found), steps)


def test_numpy_steps_will_do():
    found = network("mlp")
    assert simulate(found, inputs(found), np.int64(4)).steps == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"precision": "float16"}, UnknownName, "unknown precision 'float16'; did you mean"),
        ({"precision": "int8"}, UsageError, "one: int8 runs need weights of 8 bits"),
        ({"path": "event"}, UnknownName, "unknown path 'event'; did you mean 'events'"),
        ({"device": "abacus"}, UsageError, "device 'abacus' cannot be used here"),
        ({"seed": -1}, UsageError, "seed must be"),
    ],
)
def test_options_that_are_refused(options, error, message):
    found = network("mlp")
    with pytest.raises(error, match=message):
        simulate(found, inputs(found), 4, **options)


@pytest.mark.parametrize("path", ["auto", "events", "dense", "steps"])
@pytest.mark.parametrize(("kind", "errors"), [("mlp", 2.0), ("conv", 2.0), ("gates", 12.0)])
def test_observers_see_no_step_after_the_end_of_an_image(kind, errors, path):
    found = network(kind)
    recorder, counts = SpikeRecorder(), UnitCounts(found)
    got = found.run(inputs(found, 9), 40, early=Margin(errors, least=2), path=path, observers=[recorder, counts])
    assert 2 <= got.ended.min() < got.ended.max()
    for name, train in recorder.trains.items():
        for image, end in enumerate(got.ended):
            assert not train[image, end:].any()
        assert np.array_equal((train != 0).sum(axis=(1, 2, 3)), got.spikes_per_image[name])
        assert np.array_equal(counts.fired(name, 40), got.spikes_per_step[name])


@pytest.mark.parametrize("path", ["auto", "steps"])
def test_trains_of_any_type_and_order_in_memory_run_alike(path):
    found = network("conv")
    trains = np.random.default_rng(0).integers(-1, 2, (3, 19, *found.input_shape)).astype(np.int8)
    expected = simulate_trains(found, trains, path=path)
    by_steps = np.ascontiguousarray(trains.swapaxes(0, 1)).swapaxes(0, 1)
    for other in (by_steps, by_steps.astype(np.float32), trains.astype(np.float64), trains.astype(np.int64)):
        got = simulate_trains(found, other, path=path)
        assert np.array_equal(got.scores, expected.scores)
        assert got.spikes() == expected.spikes()
    plain = simulate_trains(found, trains != 0, path=path)
    assert np.array_equal(plain.scores, simulate_trains(found, abs(trains), path=path).scores)


@pytest.mark.parametrize(
    ("trains", "message"),
    [
        (np.zeros((2, 5, 126), np.int8), r"spike trains are \(images, steps, \*\(127,\)\), not \(2, 5, 126\)"),
        (np.zeros((0, 5, 127), np.int8), "spike trains are"),
        (np.zeros((5, 127), np.int8), "spike trains are"),
        (np.full((1, 5, 127), 2, np.int8), "made of −1, 0 and \\+1 only"),
        (np.full((1, 5, 127), -128, np.int8), "made of −1, 0 and \\+1 only"),
        (np.full((1, 5, 127), 0.5), "made of −1, 0 and \\+1 only"),
        (np.full((1, 5, 127), np.nan), "made of −1, 0 and \\+1 only"),
    ],
)
def test_trains_that_are_refused(trains, message):
    with pytest.raises(DataMismatch, match=message):
        simulate_trains(network("mlp"), trains)


def test_no_steps_of_trains():
    with pytest.raises(UsageError, match="steps must be a whole number ≥ 1, not 0"):
        simulate_trains(network("mlp"), np.zeros((1, 0, 127), np.int8))


def test_inputs_that_cannot_be_spikes():
    found = network("mlp")
    with pytest.raises(DataMismatch, match="between −1 and 1, these reach 2"):
        simulate(found, 2 * inputs(found), 4)
    simulate(dataclasses.replace(found, encode=Poisson(0.5)), 2 * inputs(found), 4)
    simulate(dataclasses.replace(found, encode=Constant()), 2 * inputs(found), 4)
    broken = inputs(found)
    broken[2, 5] = torch.nan
    with pytest.raises(DataMismatch, match="image 2 holds NaN"):
        simulate(found, broken, 4)


def test_thresholds_one_float_apart():
    """A current exactly at the threshold fires no neuron; the next smaller threshold does."""
    found = network("wide mlp", IF(), Constant())
    x = inputs(found, 1)
    current = (found.node("one").weight.double() @ x[0].double()).float()
    at = current.clamp(min=1.0)
    below = torch.nextafter(at, torch.zeros(160))
    spikes = []
    for threshold in (at, below):
        changed = found.replaced([Neurons("relu1", "one", threshold)])
        spikes.append(simulate(changed, x, 1).spikes()["relu1"])
    assert spikes[0] == 0
    assert spikes[1] == int((current >= 1.0).sum()) > 10


def test_a_tiny_file_that_describes_tens_of_gigabytes_is_refused_with_the_figure(tmp_path, monkeypatch):
    """A convolution of one weight on an input of 2^27 values."""
    nodes = [
        Synapses("conv", INPUT, torch.ones(1, 1, 1, 1)),
        Neurons("spikes", "conv", torch.ones(1)),
        Pool("pool", "spikes", kernel=(1 << 13, 1 << 14), stride=(1, 1)),
        Flatten("flat", "pool"),
        Synapses("scores", "flat", torch.ones(2, 1)),
    ]
    large = SpikingNetwork(tuple(nodes), (1, 1 << 13, 1 << 14), IF(), Constant(), Card())
    path = save_spiking(large, tmp_path / "large.safetensors")
    assert path.stat().st_size < 3_000
    monkeypatch.setattr("weightsmith.core.memory.free_memory", lambda: 8_000_000_000)
    with pytest.raises(
        UsageError, match=r"402,653,188 values .* needs 14\.5 GB of memory at once, but 8\.0 GB are free"
    ):
        simulate(load_spiking(path), torch.zeros(1), 16)
