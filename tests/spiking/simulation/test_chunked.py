from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.spiking.networks import KINDS, NEURONS, SIGNED, SpikeRecorder, chain, inputs, levels, network, weights

from weightsmith.core.errors import WeightsmithError
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, Graded
from weightsmith.spiking.simulation import chunked, path_costs, stages
from weightsmith.spiking.simulation.chunked import ChunkEngine
from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.simulate import run_block, simulate_trains
from weightsmith.spiking.simulation.sources import Trains, source_of
from weightsmith.spiking.simulation.stages import Stages, step_bytes
from weightsmith.spiking.simulation.tally import Tally
from weightsmith.spiking.simulation.values import Values

STEPS = 21
PATHS = ("events", "patterns", "dense", "auto")


@pytest.mark.parametrize("neuron", [IF(), IF(signed=True), Graded(5)])
def test_images_of_a_dense_layer_that_are_done_apart_fire_alike(monkeypatch, neuron):
    found = network("residual", neuron, Constant())
    x = inputs(found, 7)
    whole, cut = SpikeRecorder(), SpikeRecorder()
    monkeypatch.setattr(ChunkEngine, "_dense_firing", _all_at_once)
    found.run(x, STEPS, path="dense", observers=[whole])
    monkeypatch.undo()
    monkeypatch.setattr(chunked, "_NEAR", 1)  # one image at a time
    found.run(x, STEPS, path="dense", observers=[cut])
    for name, train in whole.trains.items():
        assert train.any(), name
        assert np.array_equal(cut.trains[name], train), name


def _all_at_once(self, node, before, target, chunk):
    chunk.values[node.name] = Values(self._conductor.dense(node, before, chunk.step))
    return self._fire(target, chunk).data


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Chunks of 8 steps and blocks of 2 images, so that small networks need several of both."""
    monkeypatch.setattr(chunked, "_CHUNK", 8)
    real = ChunkEngine.__init__

    def cut(self, *args, **options):
        real(self, *args, **options)
        self.block = min(self.block, 2)

    monkeypatch.setattr(ChunkEngine, "__init__", cut)


@functools.cache
def _reference(kind, neuron, encode):
    recorder = SpikeRecorder(inputs=True)
    found = network(kind, neuron, encode)
    return found.run(inputs(found), STEPS, path="steps", precision="float64", observers=[recorder]), recorder.trains


def _same(found, responses, trains, **options):
    """Hold a run against the reference engine's answers and every single spike."""
    recorder = SpikeRecorder(inputs=True)
    got = found.run(inputs(found), STEPS, observers=[recorder], **options)
    assert set(recorder.trains) == set(trains)
    for name, train in trains.items():
        assert np.array_equal(recorder.trains[name], train), name
    assert np.array_equal(got.answers, responses.answers)
    assert np.array_equal(got.scores, responses.scores)
    assert np.array_equal(got.ended, responses.ended)
    for name in responses.units:
        assert np.array_equal(got.spikes_per_step[name], responses.spikes_per_step[name])
        assert np.array_equal(got.spikes_per_image[name], responses.spikes_per_image[name])
    if responses.inputs_per_step is not None:
        assert np.array_equal(got.inputs_per_step, responses.inputs_per_step)
    return got


@pytest.mark.parametrize("neuron", [*NEURONS, SIGNED], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_spike_is_that_of_the_reference(kind, neuron):
    responses, trains = _reference(kind, neuron, Poisson(0.75))
    assert min(int((train != 0).sum()) for train in trains.values()) != 0
    for path in PATHS if neuron in (*NEURONS[:2], SIGNED) else ("events",):
        _same(network(kind, neuron, Poisson(0.75)), responses, trains, path=path, precision="float64")


@pytest.mark.parametrize("neuron", [IF(), LIF(0.8125, reset="hard"), SIGNED, Graded(3), Graded(7)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_constant_currents(kind, neuron):
    if isinstance(neuron, Graded) and kind == "gates":
        return  # refused: test_neurons.py
    responses, trains = _reference(kind, neuron, Constant())
    for precision in ("float64", "float32"):
        got = _same(network(kind, neuron, Constant()), responses, trains, precision=precision)
        assert got.inputs_per_step is None


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_exact_where_sums_are(kind, path):
    """Every current of these networks is a multiple of 1/64, or of 1/256 behind a pool: no rounding at all."""
    for neuron in (IF(), SIGNED):
        _same(network(kind, neuron, Poisson(0.75)), *_reference(kind, neuron, Poisson(0.75)), path=path)


@pytest.mark.parametrize("path", PATHS)
def test_float32_with_any_weights(path):
    generator = torch.Generator().manual_seed(0)
    found = chain(
        [
            Synapses("conv1", INPUT, torch.randn(16, 3, 3, 3, generator=generator) / 3, padding=(1, 1)),
            Neurons("relu1", "conv1", torch.rand(16, generator=generator) + 0.5),
            Pool("pool", "relu1", (3, 3), (2, 2), (1, 1)),
            Synapses("conv2", "pool", torch.randn(24, 16, 3, 3, generator=generator) / 4),
            Neurons("relu2", "conv2", torch.rand(24, generator=generator) + 0.5),
            Flatten("flat", "relu2"),
            Synapses("out", "flat", torch.randn(10, 24 * 9, generator=generator)),
        ],
        (3, 10, 10),
    )
    x = torch.rand(6, 3, 10, 10, generator=generator) * 2 - 1
    exact = found.run(x, 40, precision="float64", path="steps")
    close = found.run(x, 40, path=path)
    double = found.run(x, 40, precision="float64", path=path)
    for name, count in exact.spikes().items():
        assert count > 1000
        assert double.spikes()[name] == count
        assert close.spikes()[name] == pytest.approx(count, rel=2e-4)
    assert double.scores == pytest.approx(exact.scores, rel=1e-12, abs=1e-10)
    assert np.array_equal(double.answers, exact.answers)


_HELD = ("mlp", "wide mlp", "conv", "eights", "borders", "pools", "gates", "residual", "groups")


@pytest.mark.parametrize(
    ("kind", "neuron"),
    [
        *((kind, neuron) for kind in _HELD for neuron in (IF(), LIF(0.9, reset="hard"), SIGNED)),
        *((kind, Graded(5)) for kind in _HELD if kind != "gates"),
    ],
    ids=str,
)
def test_whole_numbers_are_exact(kind, neuron):
    """8-bit weights give the very bits of the float64 reference, also with a leak that no binary number is."""
    for encode in (Constant(), Constant(step=1 / 30), *([] if isinstance(neuron, Graded) else [Poisson()])):
        found = quantised(network(kind, neuron, encode))
        recorder = SpikeRecorder(membranes=True)
        reference = found.run(inputs(found), STEPS, precision="int8", path="steps", observers=[recorder])
        for path in ("events", "dense") if isinstance(encode, Poisson) else ("auto",):
            kept = SpikeRecorder(membranes=True)
            got = found.run(inputs(found), STEPS, precision="int8", path=path, observers=[kept])
            for name, train in recorder.trains.items():
                assert np.array_equal(kept.trains[name], train), (name, path)
                assert np.array_equal(kept.tested[name], recorder.tested[name]), (name, path)
            assert np.array_equal(got.scores, reference.scores)


def test_whole_numbers_beyond_float32():
    """A current of more than 2²⁴, which float32 would round: membranes and sums are held in float64."""
    total = 127 * 160_001
    nodes = [
        Synapses("one", INPUT, torch.full((3, 160_001), 127.0)),
        Neurons("relu", "one", torch.tensor([total - 1, total, total + 1], dtype=torch.float64)),
        Synapses("out", "relu", torch.ones(2, 3)),
    ]
    found, recorder = chain(nodes, (160_001,)), SpikeRecorder()
    for path in ("events", "dense"):
        recorder = SpikeRecorder()
        found.run(torch.ones(1, 160_001), 1, precision="int8", path=path, observers=[recorder])
        assert recorder.trains["relu"].reshape(-1).tolist() == [1, 0, 0]
    found.run(torch.ones(1, 160_001), 1, path="events", observers=[recorder := SpikeRecorder()])
    assert recorder.trains["relu"].reshape(-1).tolist() != [1, 0, 0]


@pytest.mark.parametrize("kind", ["mlp", "conv", "gates", "units", "flattened"])
def test_membranes_are_those_of_the_reference(kind):
    for neuron in (*NEURONS, SIGNED):
        found = network(kind, neuron)
        reference, kept = SpikeRecorder(membranes=True), SpikeRecorder(membranes=True)
        found.run(inputs(found), STEPS, precision="float64", path="steps", observers=[reference])
        found.run(inputs(found), STEPS, precision="float64", path="events", observers=[kept, SpikeRecorder()])
        for name, membranes in reference.tested.items():
            assert np.array_equal(kept.tested[name], membranes)
            assert np.array_equal(kept.trains[name], reference.trains[name])


@pytest.mark.parametrize("encode", [Poisson(), Constant()], ids=str)
def test_one_image_one_step_one_class(encode):
    one = [
        Synapses("a", INPUT, weights(1, 5, seed=0)),
        Neurons("n", "a", levels(1, seed=1)),
        Synapses("b", "n", levels(1, 1, seed=2)),
    ]
    found = chain(one, (5,), encode=encode)
    x = inputs(found, 1)
    for steps in (1, 8, 9):
        reference = found.run(x, steps, path="steps", precision="float64")
        got = found.run(x, steps, precision="float64")
        assert np.array_equal(got.answers, reference.answers)
        assert np.array_equal(got.scores, reference.scores)
        assert got.spikes() == reference.spikes()


def test_memory_bounds_the_block(monkeypatch):
    found = network("conv")
    source = source_of(found, inputs(found, 50), 0, 0)
    monkeypatch.undo()
    assert ChunkEngine(found, source, "float32", 100).block == 50
    monkeypatch.setattr(stages, "_GAIN", math.inf)  # no cuts
    monkeypatch.setattr(chunked, "_BUDGET", 34 * step_bytes(found) * 7 + 1)
    engine = ChunkEngine(found, source, "float32", 100)
    assert (engine.block, engine.chunk) == (7, 34)  # 50 images in 8 blocks of at most 7, 100 steps in 3 chunks
    assert ChunkEngine(found, source, "float32", 3).chunk == 3
    monkeypatch.setattr(chunked, "_BUDGET", 1)
    assert ChunkEngine(found, source, "float32", 100).block == 1


@pytest.mark.parametrize(("chunk", "block"), [(1, 1), (5, 3), (21, 7), (64, 1)])
def test_however_a_run_is_cut(monkeypatch, chunk, block):
    monkeypatch.undo()
    monkeypatch.setattr(stages, "_GAIN", math.inf)  # no cuts
    for kind in ("mlp", "residual", "gates", "units"):
        found = network(kind, LIF(0.9))
        x = inputs(found, 7)
        whole, cut = SpikeRecorder(), SpikeRecorder()
        found.run(x, STEPS, path="events", observers=[whole])
        with monkeypatch.context() as patch:
            patch.setattr(chunked, "_CHUNK", chunk)
            patch.setattr(chunked, "_BUDGET", min(chunk, STEPS) * step_bytes(found) * block)
            assert ChunkEngine(found, source_of(found, x, 0, 0), "float32", STEPS).block == block
            found.run(x, STEPS, path="events", observers=[cut])
        for name, train in whole.trains.items():
            assert np.array_equal(cut.trains[name], train)


def _cuts(found):
    """The numbers of nodes behind which only the values of the last of them are read, and these are stored."""
    names = [node.name for node in found.nodes]
    for cut in range(1, len(names)):
        if isinstance(found.nodes[cut - 1], Synapses | Add | Flatten):
            continue
        if {name for node in found.nodes[cut:] for name in node.sources} - set(names[cut:]) == {names[cut - 1]}:
            yield cut


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["mlp", "conv", "residual", "gates", "pools", "groups"])
def test_wherever_a_network_is_cut(monkeypatch, kind, path):
    """The front two images at a time, the others five at once: answers and counts are those of the reference."""
    found = network(kind, SIGNED)
    x = inputs(found, 7)
    reference = found.run(x, STEPS, early=Margin(2.0, least=2), precision="float64", path="steps")
    assert len(set(reference.ended.tolist())) > 1
    through = []
    real = ChunkEngine._last

    def counted(self, nodes, chunk):
        through.append((len(nodes), self._rows))
        return real(self, nodes, chunk)

    monkeypatch.undo()
    monkeypatch.setattr(chunked, "_CHUNK", 8)
    monkeypatch.setattr(ChunkEngine, "_last", counted)
    for cut in _cuts(found):
        monkeypatch.setattr(chunked, "stages_of", lambda *_, cut=cut: Stages(5, cut, 2))
        through.clear()
        got = found.run(x, STEPS, early=Margin(2.0, least=2), precision="float64", path=path)
        assert [part for part in through if part[0] == cut][:3] == [
            (cut, slice(0, 2)),
            (cut, slice(2, 4)),
            (cut, slice(4, 5)),
        ]
        assert np.array_equal(got.ended, reference.ended)
        assert np.array_equal(got.answers, reference.answers)
        assert np.array_equal(got.scores, reference.scores)
        assert got.spikes() == reference.spikes()
        assert all(np.array_equal(got.spikes_per_image[name], reference.spikes_per_image[name]) for name in got.units)
        recorder, whole = SpikeRecorder(inputs=True), SpikeRecorder(inputs=True)
        found.run(x, STEPS, precision="float64", path=path, observers=[recorder])
        found.run(x, STEPS, precision="float64", path="steps", observers=[whole])
        assert all(np.array_equal(recorder.trains[name], train) for name, train in whole.trains.items())


def test_the_choice_of_paths(monkeypatch):
    monkeypatch.setattr(path_costs, "_mac", lambda: 0.010)  # whatever the vectors of this processor
    few, many = torch.full((2, 64), 0.004), torch.full((2, 64), 0.9)
    found = chain(
        [
            Synapses("one", INPUT, weights(64, 64, seed=1)),
            Neurons("relu", "one", torch.full((64,), 1e6)),
            Synapses("two", "relu", weights(64, 64, seed=2)),
        ],
        (64,),
    )
    assert found.run(few, 16).paths == {"one": "events", "two": "events"}
    assert found.run(many, 16).paths == {"one": "dense", "two": "events"}
    assert found.run(torch.cat([few, many]), 16).paths == {"one": "dense and events", "two": "events"}
    assert found.run(many, 16, path="events").paths == {"one": "events", "two": "events"}
    assert found.run(few, 16, path="dense").paths == {"one": "dense", "two": "dense"}
    assert dataclasses.replace(found, encode=Constant()).run(few, 16).paths == {"one": "once", "two": "events"}
    assert network("groups").run(inputs(network("groups")), 3, path="events").paths["conv1"] == "dense"


@pytest.mark.parametrize("chunk", [8, 40])
def test_currents_shared_by_networks_with_other_neurons(monkeypatch, chunk):
    """What several settings have in common is computed once and handed to the engine of each, wherever it is cut."""
    monkeypatch.undo()
    monkeypatch.setattr(chunked, "_CHUNK", chunk)
    for kind, encode in (("conv", Poisson()), ("mlp", Poisson()), ("conv", Constant())):
        plain = network(kind, IF(), encode)
        x, first = inputs(plain, 4), plain.synapses[0].name
        source, rows = source_of(plain, x, 3, 0), np.arange(4)
        engine = ChunkEngine(plain, source, "float64", STEPS)
        engine.begin(rows)
        currents = engine.currents(first, STEPS)
        lengths = {8: [7, 7, 7], 40: [21]}[chunk]
        assert [part.shape[1] for part in currents] == (lengths if isinstance(encode, Poisson) else [1])
        other = plain.with_neuron(LIF(0.9, reset="hard")).with_factor(0.75)
        reference = other.run(x, STEPS, early=Margin(2.0, least=2), seed=3, precision="float64", path="steps")
        assert len(set(reference.ended.tolist())) > 1
        for cut in (0, *_cuts(other)):
            monkeypatch.setattr(chunked, "stages_of", lambda *_, cut=cut: Stages(4, cut, 3))
            sharing = ChunkEngine(other, source, "float64", STEPS)
            sharing.shared = first, currents
            tally = Tally(4, STEPS, other.classes, {}, Margin(2.0, least=2))
            run_block(sharing, rows, STEPS, tally)
            assert np.array_equal(tally.responses({}).answers, reference.answers)
            assert np.array_equal(tally.responses({}).scores, reference.scores)


@pytest.mark.parametrize(
    ("kind", "errors", "neuron"),
    [
        ("gates", 12.0, LIF(0.95)),
        ("residual", 4.0, LIF(0.95)),
        ("units", 2.0, LIF(0.95)),
        ("conv", 4.0, SIGNED),
        ("gates", 12.0, SIGNED),
    ],
)
def test_images_that_end_leave_the_others_alone(kind, errors, neuron):
    """Membranes, sums sent and the counts of gates go on with the images they belong to."""
    found, rule = network(kind, neuron), Margin(errors, least=2)
    x = inputs(found, 9)
    reference = found.run(x, 40, early=rule, precision="float64", path="steps")
    assert len(set(reference.ended.tolist())) > 3
    for path in PATHS:
        got = found.run(x, 40, early=rule, precision="float64", path=path)
        assert np.array_equal(got.ended, reference.ended)
        assert np.array_equal(got.answers, reference.answers)
        assert np.array_equal(got.scores, reference.scores)
        assert got.spikes() == reference.spikes()


@pytest.mark.parametrize("neuron", [IF(), LIF(0.75), SIGNED], ids=str)
@pytest.mark.parametrize("encode", [Constant(), Poisson()], ids=str)
def test_max_pooling_of_values_that_are_no_spikes(neuron, encode):
    """Of the input, of averaged spikes and of currents: every spike as the reference has it."""
    nodes = [
        Gate("first", INPUT, (2, 2), (2, 2)),
        Synapses("conv", "first", weights(4, 2, 3, 3, seed=1), padding=(1, 1)),
        Gate("currents", "conv", (2, 2), (1, 1)),
        Neurons("relu", "currents", levels(4, seed=2)),
        Pool("mean", "relu", (2, 2), (1, 1)),
        Gate("means", "mean", (2, 2), (2, 2), (1, 1)),
        Flatten("flat", "means"),
        Synapses("out", "flat", weights(3, 16, seed=3)),
    ]
    found = dataclasses.replace(chain(nodes, (2, 8, 8)), neuron=neuron, encode=encode)
    trains = []
    for path in ("steps", *PATHS):
        trains.append(SpikeRecorder())
        found.run(inputs(found), STEPS, path=path, precision="float64", observers=[trains[-1]])
    for name, train in trains[0].trains.items():
        assert train.any(), name
        assert all(np.array_equal(other.trains[name], train) for other in trains[1:]), name


def test_the_largest_sum_passes():
    """What a window lets pass adds up to the largest sum in it, whoever led on the way."""
    spikes = np.zeros((1, 6, 1, 1, 2), np.int8)
    spikes[0, :3, ..., 0], spikes[0, 2:, ..., 1] = 1, 1  # three of the first, then four of the second
    nodes = [
        Scale("same", INPUT, torch.tensor([0.5])),
        Gate("gate", "same", (1, 2), (1, 2)),
        Flatten("flat", "gate"),
        Neurons("high", "flat", torch.tensor([100.0])),
        Synapses("side", "flat", torch.tensor([[1.0]])),
        Synapses("none", "high", torch.tensor([[1.0]])),
        Add("out", ("side", "none")),
    ]
    assert simulate_trains(chain(nodes, (1, 1, 2)), spikes).scores.tolist() == [[2.0]]


def test_events_are_never_sought_behind_the_last(monkeypatch):
    """Windows that lie wholly beyond the right edge of the last row of the last step read nothing at all."""
    from weightsmith.spiking.simulation.values import Values

    real = Values.listed

    def guarded(self, across):
        starts, codes = real(self, across)
        if len(starts) and starts.base is None:
            longer = np.zeros(len(starts) + 64, starts.dtype)  # all events so far, if it were ever read
            longer[: len(starts)] = starts
            self.events = longer[: len(starts)], codes
        return self.events

    monkeypatch.setattr(Values, "listed", guarded)
    _same(network("borders", IF(), Poisson(0.75)), *_reference("borders", IF(), Poisson(0.75)), path="events")


def test_trains_into_a_layer_that_keeps_its_weights():
    """A network quantised for constant currents has a first layer of any weights; spikes into it are not cut off."""
    found = quantised(network("conv", IF(), Constant()))
    assert not torch.equal(found.synapses[0].weight, found.synapses[0].weight.round())
    trains = np.random.default_rng(0).integers(-1, 2, (2, 9, *found.input_shape)).astype(np.int8)
    reference, kept = SpikeRecorder(), SpikeRecorder()
    simulate_trains(found, trains, precision="int8", path="steps", observers=[reference])
    simulate_trains(found, trains, precision="int8", path="events", observers=[kept])
    assert all(np.array_equal(kept.trains[name], reference.trains[name]) for name in reference.trains)


# Networks of any make


@st.composite
def _networks(draw):
    """A few random layers between an image (or features) and two classes."""
    pick = st.integers
    channels, height, width = draw(pick(1, 9)), draw(pick(1, 7)), draw(pick(1, 7))
    seeds = iter(range(draw(pick(0, 999)) * 1000, 10**9))
    nodes, before, shape = [], INPUT, (channels, height, width)
    for number in range(draw(pick(1, 3))):
        groups = draw(st.sampled_from([1, 1, 1, shape[0]]))
        # Rows of neurons that fill vectors, do not, or take several tiles.
        out = groups * draw(st.sampled_from([*range(1, 10), 16, 33, 130]) if groups == 1 else pick(1, 2))
        pair = st.tuples(pick(1, 3), pick(1, 3))
        kernel, stride, dilation = draw(pair), draw(pair), draw(pair)
        padding = draw(st.tuples(pick(0, 4), pick(0, 4)))
        space = tuple(
            (shape[1 + k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) // stride[k] + 1 for k in (0, 1)
        )
        assume(min(space) >= 1)
        bias = weights(out, seed=next(seeds), size=0.3) if draw(st.booleans()) else None
        conv = weights(out, shape[0] // groups, *kernel, seed=next(seeds))
        nodes.append(Synapses(f"conv{number}", before, conv, bias, stride, padding, dilation, groups))
        before, shape = f"conv{number}", (out, *space)
        per_unit = draw(st.booleans())
        threshold = levels(*(shape if per_unit else shape[:1]), seed=next(seeds), least=0.25)
        leak = levels(out, seed=next(seeds), least=0.5, most=1) if draw(st.booleans()) else None
        nodes.append(Neurons(f"relu{number}", before, threshold, draw(st.sampled_from([0.0, 0.5])), leak))
        before = f"relu{number}"
        if draw(st.booleans()) and min(space) >= 2:
            edge = draw(st.sampled_from([(0, 0), (1, 1)]))
            kind = draw(st.sampled_from(["mean", "sum", "gate"]))
            step = draw(st.tuples(pick(1, 2), pick(1, 2)))
            pool = Gate(f"pool{number}", before, (2, 2), step, edge)
            if kind != "gate":
                pool = Pool(f"pool{number}", before, (2, 2), step, edge, average=kind == "mean")
            nodes.append(pool)
            before = pool.name
            shape = (out, *((space[k] + 2 * edge[k] - 2) // step[k] + 1 for k in (0, 1)))
    nodes.append(Flatten("flat", before))
    nodes.append(Synapses("out", "flat", weights(2, int(np.prod(shape)), seed=next(seeds))))
    neuron, encode = (
        draw(st.sampled_from((*NEURONS, SIGNED))),
        draw(st.sampled_from([Poisson(), Poisson(0.3), Constant()])),
    )
    return SpikingNetwork(tuple(nodes), (channels, height, width), neuron, encode)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(found=_networks(), images=st.integers(1, 3), path=st.sampled_from(PATHS), data=st.data())
def test_random_networks(found, images, path, data):
    x, reference = inputs(found, images)[:images], SpikeRecorder(inputs=True)
    expected = found.run(x, 11, path="steps", precision="float64", observers=[reference])
    with pytest.MonkeyPatch.context() as patch:
        cut = data.draw(st.sampled_from([0, *_cuts(found)]))
        patch.setattr(chunked, "stages_of", lambda *_: Stages(2, cut, 1))
        got = found.run(x, 11, path=path, precision="float64")
    assert got.spikes() == expected.spikes()
    assert np.array_equal(got.scores, expected.scores)
    for precision in ("float64", "float32"):
        kept = SpikeRecorder(inputs=True)
        found.run(x, 11, path=path, precision=precision, observers=[kept])
        assert all(np.array_equal(kept.trains[name], train) for name, train in reference.trains.items())
    try:
        whole = quantised(found)
    except WeightsmithError:
        return
    kept, reference = SpikeRecorder(), SpikeRecorder()
    whole.run(x, 11, path="steps", precision="int8", observers=[reference])
    whole.run(x, 11, path=path, precision="int8", observers=[kept])
    assert all(np.array_equal(kept.trains[name], train) for name, train in reference.trains.items())


def test_an_add_of_one_node_with_itself():
    nodes = [
        Synapses("a", INPUT, weights(4, 6, seed=1)),
        Add("twice", ("a", "a")),
        Neurons("n", "twice", levels(4, seed=2)),
        Synapses("b", "n", weights(2, 4, seed=3)),
    ]
    found = chain(nodes, (6,))
    kept, reference = SpikeRecorder(), SpikeRecorder()
    found.run(inputs(found), 12, path="steps", observers=[reference])
    found.run(inputs(found), 12, path="events", observers=[kept])
    assert np.array_equal(kept.trains["n"], reference.trains["n"])
    assert int(reference.trains["n"].sum()) > 10


def test_spike_trains_come_in_channel_order():
    found = network("conv")
    trains = np.random.default_rng(1).integers(-1, 2, (3, 17, *found.input_shape)).astype(np.int8)
    engine = ChunkEngine(found, Trains(trains), "float32", 17)
    engine.begin(np.arange(2))
    recorder = SpikeRecorder(inputs=True)
    engine.advance(0, 8, [recorder])
    engine.keep(np.array([False, True]))
    engine.advance(8, 8, [recorder])
    shown = recorder.trains[INPUT]
    assert np.array_equal(shown[0, :8], trains[0, :8].transpose(0, 2, 3, 1).reshape(8, 42, 3))
    assert np.array_equal(shown[1, :16], trains[1, :16].transpose(0, 2, 3, 1).reshape(16, 42, 3))
    assert not shown[0, 8:].any()
