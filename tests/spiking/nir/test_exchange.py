"""NIR files: what is written fires as the network that was given, and what is read is what was written."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from weightsmith.core.errors import FileRefused, MissingExtra, UsageError
from weightsmith.core.records import Lineage
from weightsmith.data.normalise import HALF
from weightsmith.networks.card import Card
from weightsmith.spiking.conversion.preparing import with_mismatch
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.files import spiking_digest
from weightsmith.spiking.graph import Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, Mismatch
from weightsmith.spiking.nir._importing import network_of
from weightsmith.spiking.nir._scales import with_one_threshold
from weightsmith.spiking.nir._vector import read_vector, run_drive, vector_path
from weightsmith.spiking.nir._windows import Kernel, as_convolutions
from weightsmith.spiking.nir.exchange import import_nir, nir_obstacle
from weightsmith.spiking.nir.export import export_nir
from weightsmith.spiking.simulation.simulate import simulate_trains

nir = pytest.importorskip("nir", reason="the extra nir is not installed")
h5py = pytest.importorskip("h5py")

FILES = Path(__file__).parents[2] / "reference" / "nir_files"


def drawn(seed: int):
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator)


def network(
    neuron: IF | LIF | None = None, *, seed: int = 0, encode: Poisson | Constant | None = None
) -> SpikingNetwork:
    """Thresholds per channel, groups, pools before a convolution and before a dense layer, names that are no names."""
    draw = drawn(seed)
    nodes = (
        Synapses("conv.1", "input", draw(6, 2, 3, 3) * 0.5, draw(6) * 0.02, padding=(1, 1)),
        Neurons("if", "conv.1", draw(6).abs() + 1, amplitude=draw(6).abs(), layer="conv.1"),
        Pool("pop", "if", (2, 2), (2, 2)),
        Synapses("conv 2", "pop", draw(6, 3, 3, 3) * 0.5, None, padding=(1, 1), groups=2),
        Neurons("relu", "conv 2", draw(6).abs() + 0.5),
        Pool("pool", "relu", (2, 2), (2, 2)),
        Flatten("flat", "pool"),
        Synapses("5", "flat", draw(12, 24) * 0.5),
        Neurons("output", "5", draw(12).abs() + 0.5),
        Synapses("last", "output", draw(4, 12)),
    )
    card = Card(normalisation=HALF, lineage=Lineage("trained"), classes=tuple("abcd"))
    return SpikingNetwork(nodes, (2, 8, 8), neuron or IF(reset="hard"), encode or Poisson(), card)


def mlp(neuron: IF | LIF | None = None) -> SpikingNetwork:
    draw = drawn(1)
    nodes = (
        Synapses("a", "input", draw(10, 6), draw(10) * 0.1),
        Neurons("ra", "a", draw(10).abs() + 1),
        Synapses("b", "ra", draw(3, 10)),
    )
    return SpikingNetwork(nodes, (6,), neuron or IF(reset="hard"), Poisson())


def trains(shape: tuple[int, ...], images: int = 2, steps: int = 15) -> np.ndarray:
    return np.random.default_rng(5).integers(-1, 2, (images, steps, *shape)).astype(np.int8)


def read_graph(path: Path):
    """As any other tool reads it: with the checks of the nir package."""
    return nir.read(path)


# What is written


@pytest.mark.parametrize("neuron", [IF(reset="hard"), IF(), LIF(0.9, reset="hard"), LIF(0.875)], ids=str)
@pytest.mark.parametrize("sumpool", [False, True])
def test_the_file_fires_as_the_network_and_comes_back_the_same(tmp_path, neuron, sumpool):
    given_ = network(neuron)
    export = export_nir(given_, tmp_path / "n.nir", sumpool=sumpool)
    assert export.spikes == export.before
    assert all(count > 0 for count in export.spikes.values())
    back, vector = import_nir(tmp_path / "n.nir"), read_vector(tmp_path / "n.nir")
    assert back.neuron == neuron
    answers = run_drive(back, vector.drive)
    assert answers.spikes() == export.spikes
    np.testing.assert_array_equal(answers.scores, vector.scores)
    np.testing.assert_allclose(run_drive(given_, vector.drive).scores, vector.scores, atol=1e-5)


def test_what_print_shows(tmp_path):
    export = dataclasses.replace(export_nir(network(), tmp_path / "n.nir"), notes=("one", "two"))
    line, *notes = str(export).splitlines()
    assert line.startswith("n.nir: 9 nodes, neuron if:reset=hard; n.vector.npz: ")
    assert line.endswith(f" images, {export.steps} steps, {sum(export.spikes.values()):,} spikes")
    assert notes == ["one", "two"]


def test_only_what_all_importers_read_is_written(tmp_path):
    export = export_nir(network(), tmp_path / "n.nir")
    graph = read_graph(tmp_path / "n.nir")
    kinds = [(node.name, node.kind, node.shape) for node in export.nodes]
    assert kinds == [
        ("input", "Input", (2, 8, 8)),
        ("conv_1", "Conv2d", (6, 8, 8)),
        ("if_2", "IF", (6, 8, 8)),
        ("conv_2", "Conv2d", (6, 4, 4)),
        ("relu", "IF", (6, 4, 4)),
        ("layer_5", "Conv2d", (12, 1, 1)),
        ("output_2", "IF", (12, 1, 1)),
        ("last", "Conv2d", (4, 1, 1)),
        ("output", "Output", (4, 1, 1)),
    ]
    for node in graph.nodes.values():
        if isinstance(node, nir.Conv2d):
            assert node.groups == 1
            assert node.bias.shape == node.weight.shape[:1]
            assert node.weight.dtype == np.float32
        if isinstance(node, nir.IF):
            assert (np.unique(node.r).tolist(), np.unique(node.v_reset).tolist()) == ([1.0], [0.0])
            assert np.unique(node.v_threshold).size == 1
    folded = graph.nodes["conv_2"]
    assert folded.weight.shape == (6, 6, 6, 6)
    assert (folded.stride.tolist(), folded.padding.tolist()) == ([2, 2], [2, 2])
    assert graph.nodes["layer_5"].weight.shape == (12, 6, 4, 4)
    assert (float(graph.metadata["dt"]), graph.metadata["reset"]) == (1.0, "hard")
    assert (export.dt, export.reset, export.file, export.vector) == (1.0, "hard", "n.nir", "n.vector.npz")
    assert "pool pool into 5" in export.folded
    assert "thresholds of if into conv.1" in export.folded


def test_leaky_neurons_are_written_for_euler_steps(tmp_path):
    plain = mlp(LIF(0.9375))
    same = plain.replaced([Neurons("ra", "a", torch.full((10,), 1.5))])
    export = export_nir(same, tmp_path / "n.nir")
    graph = read_graph(tmp_path / "n.nir")
    node = graph.nodes["ra"]
    assert isinstance(graph.nodes["a"], nir.Affine)
    np.testing.assert_allclose(node.tau, 1e-4 / 0.0625, rtol=1e-7)
    np.testing.assert_allclose(node.v_threshold, 1.5 * 0.0625, rtol=1e-7)
    assert not node.v_leak.any()
    assert not node.v_reset.any()
    assert np.unique(node.r).tolist() == [1.0]
    assert (export.dt, graph.metadata["reset"]) == (1e-4, "soft")
    assert float(graph.metadata["dt"]) == 1e-4
    assert any("hard reset only" in note for note in export.notes)
    np.testing.assert_array_equal(graph.nodes["a"].weight, same.synapses[0].weight.numpy())


def test_euler_steps_give_our_spikes(tmp_path):
    """The file read as its equations say, step by step in plain NumPy: nothing of ours but the test vector."""
    export_nir(mlp(LIF(0.9, reset="hard")), tmp_path / "n.nir")
    graph, vector = read_graph(tmp_path / "n.nir"), read_vector(tmp_path / "n.nir")
    first, node, last = (graph.nodes[name] for name in ("a", "ra", "b"))
    v, fired, scores = np.zeros((2, 10)), 0, 0.0
    for step in range(vector.drive.steps):
        current = vector.drive.values[:, step] @ first.weight.T.astype(np.float64) + first.bias
        v = v + 1e-4 / node.tau.astype(np.float64) * (-v + node.r * current)
        spikes = v > node.v_threshold
        v = np.where(spikes, node.v_reset, v)
        fired = fired + spikes.sum(axis=1)
        scores = scores + spikes @ last.weight.T.astype(np.float64) + last.bias
    np.testing.assert_array_equal(fired, vector.spikes["ra"])
    np.testing.assert_allclose(scores, vector.scores, atol=1e-9)


def test_the_same_network_gives_the_same_bytes(tmp_path):
    one, two = (export_nir(network(), tmp_path / f"{name}.nir") for name in "ab")
    assert one.sha256 == two.sha256
    assert (tmp_path / "a.nir").read_bytes() == (tmp_path / "b.nir").read_bytes()
    assert (tmp_path / "a.vector.npz").read_bytes() == (tmp_path / "b.vector.npz").read_bytes()
    assert dataclasses.replace(two, file="a.nir", vector="a.vector.npz") == one
    assert type(one).from_json(one.to_json()) == one


def test_what_nir_has_no_field_for_comes_back(tmp_path):
    given_ = network(encode=Constant())
    export_nir(given_, tmp_path / "n.nir", x=torch.rand(3, 2, 8, 8))
    back = import_nir(tmp_path / "n.nir")
    assert [node.name for node in back.populations] == ["if", "relu", "output"]
    assert (back.populations[0].layer, back.encode) == ("conv.1", Constant())
    torch.testing.assert_close(back.populations[0].amplitude, given_.populations[0].amplitude)
    assert back.card.normalisation == HALF
    assert back.card.classes == tuple("abcd")
    assert back.card.lineage == Lineage("trained").then("written as NIR", spiking_digest(given_))


def test_images_are_encoded_as_the_network_says(tmp_path):
    x = torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(2))
    export = export_nir(network(), tmp_path / "n.nir", x=x, steps=9, seed=4)
    assert (export.images, export.steps) == (3, 9)
    drive = read_vector(tmp_path / "n.nir").drive
    assert drive.values.shape == (3, 9, 2, 8, 8)
    assert drive.values.dtype == np.int8
    assert network().run(x, 9, seed=4, precision="float64").spikes() == export.before
    currents = export_nir(network(encode=Constant()), tmp_path / "c.nir", x=x, steps=9)
    drive = read_vector(tmp_path / "c.nir").drive
    np.testing.assert_allclose(drive.values, (x.numpy() - 0.5) / 0.5, rtol=1e-6)
    assert network(encode=Constant()).run(x, 9, precision="float64").spikes() == currents.before
    stepped = network(encode=Constant(step=0.125))
    whole = export_nir(stepped, tmp_path / "w.nir", x=x, steps=9)
    drive = read_vector(tmp_path / "w.nir").drive
    np.testing.assert_array_equal(drive.values, np.round((x.numpy() - np.float32(0.5)) / np.float32(0.0625)))
    assert stepped.run(x, 9, precision="float64").spikes() == whole.before
    assert import_nir(tmp_path / "w.nir").encode == Constant(step=0.125)


def test_sums_of_windows_keep_kernels_small(tmp_path):
    export_nir(network(), tmp_path / "n.nir")
    export = export_nir(network(), tmp_path / "s.nir", sumpool=True)
    kinds = {node.name: node.kind for node in export.nodes}
    assert (kinds["pop_2"], kinds["pool"]) == ("SumPool2d", "SumPool2d")
    graph = read_graph(tmp_path / "s.nir")
    assert graph.nodes["layer_5"].weight.shape == (12, 6, 2, 2)
    whole = read_graph(tmp_path / "n.nir")
    assert graph.nodes["layer_5"].weight.size * 4 == whole.nodes["layer_5"].weight.size


@pytest.mark.parametrize("reset", ["hard", "soft"])
def test_rounded_numbers_are_multiples_and_no_membrane_meets_its_threshold(tmp_path, reset):
    export = export_nir(network(IF(reset=reset)), tmp_path / "n.nir", rounding=8)
    graph = read_graph(tmp_path / "n.nir")
    # pools of four windows take two more digits
    for name, digits in (("conv_1", 8), ("conv_2", 10), ("layer_5", 10), ("last", 8)):
        scaled = graph.nodes[name].weight.astype(np.float64) * 2**digits
        np.testing.assert_array_equal(scaled, np.round(scaled))
        assert np.abs(scaled).max() > 8
    for name, digits in (("if_2", 8), ("relu", 10), ("output_2", 10)):
        steps = float(graph.nodes[name].v_threshold.flat[0]) * 2**digits
        assert steps % 1 == (0.5 if reset == "hard" else 0)
    assert export.spikes != export.before
    for name, count in export.spikes.items():
        assert abs(count - export.before[name]) < 0.1 * export.before[name]


def test_half_a_step_changes_no_spike_of_ours(tmp_path):
    """The given network with rounded numbers, pools and all, against the file with its thresholds between steps."""
    even = network().replaced(
        [dataclasses.replace(n, threshold=torch.full((len(n.threshold),), 1.0)) for n in network().populations]
    )
    by_hand = even.replaced(
        [
            dataclasses.replace(
                node,
                weight=torch.round(node.weight * 256) / 256,
                bias=None if node.bias is None else torch.round(node.bias * 256) / 256,
            )
            for node in even.synapses
        ]
    )
    export = export_nir(even, tmp_path / "n.nir", rounding=8)
    assert export_nir(by_hand, tmp_path / "m.nir").before == export.spikes


def whole_numbers(reset: str) -> SpikingNetwork:
    """Weights and thresholds that are whole, as in quantised networks: membranes often meet their thresholds."""
    plain = network(IF(reset=reset))
    nodes = [dataclasses.replace(n, weight=torch.round(n.weight * 4), bias=None) for n in plain.synapses]
    nodes += [dataclasses.replace(n, threshold=torch.round(n.threshold * 6)) for n in plain.populations]
    last = plain.replaced(nodes)
    return dataclasses.replace(last, nodes=(*last.nodes, Scale("units", "last", torch.full((4,), 0.3))))


def test_whole_numbers_fire_the_same_although_thresholds_are_met(tmp_path):
    export = export_nir(whole_numbers("hard"), tmp_path / "n.nir")
    assert export.spikes == export.before
    assert export.notes == ()
    soft = export_nir(whole_numbers("soft"), tmp_path / "n.nir")
    assert soft.spikes != soft.before  # so thresholds are met indeed
    assert any("fires differently than in the given network" in note for note in soft.notes)


def test_notes_say_what_to_look_at(tmp_path):
    quiet = mlp().with_factor(1000)
    export = export_nir(quiet, tmp_path / "n.nir")
    assert any("ra never fires" in note for note in export.notes)
    assert export_nir(mlp(), tmp_path / "n.nir").notes == ()


# Folding


@settings(max_examples=150, deadline=None)
@given(
    size=st.tuples(st.integers(3, 11), st.integers(3, 11)),
    pool=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1)),
    taps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    window=st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 2)),
    average=st.booleans(),
)
def test_a_pool_goes_into_a_kernel_exactly_or_not_at_all(size, pool, taps, window, average):
    height, width, stride, padding = pool
    assume(2 * padding <= min(height, width))
    node = Pool("p", "x", (height, width), (stride, stride), (padding, padding), average)
    x = drawn(3)(1, 2, *size).double()
    pooled = functional.avg_pool2d(x, node.kernel, node.stride, node.padding) * (1 if average else height * width)
    step, margin, dilation = window
    inner = (int(pooled.shape[2]), int(pooled.shape[3]))
    assume(all(n + 2 * margin >= dilation * (k - 1) + 1 for n, k in zip(inner, taps, strict=True)))
    kernel = Kernel(drawn(4)(3, 2, *taps).double(), inner, (step, step), (margin, margin), (dilation, dilation))
    expected = functional.conv2d(pooled, kernel.weight, None, step, margin, dilation)
    folded = kernel.behind(node, size)
    if folded is None:
        assert margin > 0 or expected.shape[2:] != (1, 1)
        return
    found = functional.conv2d(x, folded.weight, None, folded.stride, folded.padding, folded.dilation)
    assert folded.outputs == tuple(expected.shape[2:])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("size", "margin", "folds"), [(8, 1, True), (9, 0, True), (9, 1, False), (6, 2, True)])
def test_where_folding_is_exact(size, margin, folds):
    """Two by two windows before three by three taps: a row that the pool leaves over must not come back."""
    kernel = Kernel(torch.ones(1, 1, 3, 3), (size // 2, size // 2), padding=(margin, margin))
    folded = kernel.behind(Pool("p", "x", (2, 2), (2, 2)), (size, size))
    assert (folded is not None) == folds
    if folded is not None:
        assert (folded.weight.shape[2:], folded.stride, folded.padding) == ((6, 6), (2, 2), (2 * margin, 2 * margin))
        assert float(folded.weight[0, 0, 0, 0]) == 0.25


@settings(max_examples=100, deadline=None)
@given(
    size=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    taps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    window=st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(1, 2)),
)
def test_kernels_are_made_square_exactly_or_not_at_all(size, taps, window):
    step, margin, dilation = window
    assume(all(n + 2 * margin >= dilation * (k - 1) + 1 for n, k in zip(size, taps, strict=True)))
    kernel = Kernel(drawn(6)(2, 2, *taps).double(), size, (step, step), (margin, margin), (dilation, dilation))
    square = kernel.squared()
    if square is None:
        assert step == 1
        assert (taps[0] - taps[1]) * dilation % 2 == 1
        return
    assert square.weight.shape[2] == square.weight.shape[3]
    x = drawn(7)(1, 2, *size).double()
    expected = functional.conv2d(x, kernel.weight, None, step, margin, dilation)
    found = functional.conv2d(x, square.weight, None, square.stride, square.padding, square.dilation)
    torch.testing.assert_close(found, expected)


def lowered(given_: SpikingNetwork, **options: bool) -> SpikingNetwork:
    nodes, _ = with_one_threshold(given_.nodes, given_.input_shape)
    nodes, _ = as_convolutions(nodes, given_.input_shape, **options)
    return dataclasses.replace(given_, nodes=nodes)


def awkward() -> dict[str, SpikingNetwork]:
    """Networks in which something has no convolution to go into."""
    draw = drawn(8)

    def built(*nodes, shape=(2, 9, 7)):
        return SpikingNetwork(tuple(nodes), shape, IF(), Poisson())

    def stem(name="stem"):
        return Synapses(name, "input", draw(3, 2, 3, 3), padding=(1, 1)), Neurons("n", name, draw(3).abs() + 1)

    head = Synapses("head", "flat", draw(4, 3 * 9 * 7))
    return {
        "pool before neurons": built(
            Synapses("c", "input", draw(3, 2, 3, 3), padding=(1, 1)),
            Pool("p", "c", (3, 2), (2, 2), (1, 1)),
            Neurons("n", "p", draw(3).abs() + 0.5),
            Flatten("flat", "n"),
            Synapses("head", "flat", draw(4, 3 * 5 * 4)),
        ),
        "pool in two places": built(
            *stem(),
            Pool("p", "n", (3, 3), (1, 1), (1, 1)),
            Synapses("c", "p", draw(3, 3, 3, 3), padding=(1, 1)),
            Add("a", ("c", "p")),
            Neurons("m", "a", draw(3).abs() + 1),
            Flatten("flat", "m"),
            head,
        ),
        "sum of sums, scaled": built(
            *stem(),
            Synapses("c", "n", draw(3, 3, 3, 3), draw(3), padding=(1, 1)),
            Add("a", ("c", "n")),
            Scale("s", "a", draw(3)),
            Synapses("d", "n", draw(3, 3, 1, 1)),
            Add("b", ("s", "d")),
            Neurons("m", "b", draw(3).abs() + 1),
            Flatten("flat", "m"),
            head,
        ),
        "neurons after flatten": built(
            Synapses("c", "input", draw(3, 2, 3, 3), padding=(1, 1)),
            Flatten("flat", "c"),
            Neurons("n", "flat", torch.full((189,), 1.3)),
            Synapses("head", "n", draw(4, 189)),
        ),
        "input flattened": built(
            Flatten("flat", "input"),
            Synapses("d", "flat", draw(11, 126)),
            Neurons("n", "d", draw(11).abs() + 1),
            Synapses("head", "n", draw(4, 11)),
            Scale("scale", "head", draw(4)),
        ),
        "ends with a sum": built(
            *stem(),
            Pool("p", "n", (9, 7), (9, 7)),
            Flatten("flat", "p"),
            Synapses("d", "flat", draw(3, 3)),
            Add("a", ("d", "flat")),
        ),
        "ends with a pool": built(*stem(), Pool("p", "n", (9, 7), (9, 7)), Flatten("flat", "p")),
        "two pools in a row": built(
            *stem(),
            Pool("p", "n", (2, 2), (2, 2)),
            Pool("q", "p", (2, 3), (2, 3)),
            Flatten("flat", "q"),
            Synapses("head", "flat", draw(4, 6)),
        ),
        "a branch that leads nowhere": built(
            *stem(),
            Synapses("c", "n", draw(3, 3, 1, 1)),
            Neurons("dead", "c", draw(3).abs() + 1),
            Flatten("flat", "n"),
            head,
        ),
        "features": built(
            Synapses("d", "input", draw(9, 5)),
            Neurons("n", "d", draw(9).abs() + 1),
            Synapses("e", "n", draw(9, 9)),
            Scale("s", "n", draw(9)),
            Add("a", ("e", "s")),
            Neurons("m", "a", draw(9).abs() + 1),
            Flatten("flat", "m"),
            Synapses("head", "flat", draw(3, 9)),
            shape=(5,),
        ),
    }


@pytest.mark.parametrize("sumpool", [False, True])
@pytest.mark.parametrize("name", awkward())
def test_awkward_networks_fire_the_same(tmp_path, name, sumpool):
    given_ = awkward()[name]
    drive = trains(given_.input_shape)
    one = simulate_trains(given_, drive, precision="float64")
    two = simulate_trains(lowered(given_, sumpool=sumpool), drive, precision="float64")
    assert one.spikes() == two.spikes()
    assert min(one.spikes().values()) > 0
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-9)
    export = export_nir(given_, tmp_path / "n.nir", sumpool=sumpool)
    assert export.spikes == export.before
    read_graph(tmp_path / "n.nir")


def refused_networks() -> dict[str, tuple[SpikingNetwork, str]]:
    draw, plain = drawn(9), network()
    gate = tuple(Gate("pop", "if", (2, 2), (2, 2)) if node.name == "pop" else node for node in plain.nodes)
    first = plain.populations[0]
    twice = (*mlp().nodes[:2], Add("t", ("ra", "ra")), Synapses("b", "t", draw(3, 10)))
    flat = (
        Synapses("c", "input", draw(3, 2, 3, 3), padding=(1, 1)),
        Flatten("f", "c"),
        Flatten("g", "input"),
        Synapses("d", "g", draw(192, 128)),
        Add("sum", ("f", "d")),
        Neurons("n", "sum", torch.full((192,), 2.0)),
        Synapses("e", "n", draw(2, 192)),
    )
    tall = (
        Synapses("tall", "input", draw(3, 2, 3, 2)),
        Neurons("n", "tall", draw(3).abs() + 1),
        Flatten("f", "n"),
        Synapses("d", "f", draw(2, 3 * 6 * 7)),
    )
    leaky = plain.replaced([dataclasses.replace(first, leak=torch.full((6,), 0.5))])
    return {
        "gate": (dataclasses.replace(plain, nodes=gate), "pop gates spikes .max pooling.* use average pooling"),
        "gate and neuron": (dataclasses.replace(plain, nodes=gate, neuron=IF(signed=True)), "pop gates spikes"),
        "delay": (network(IF(delay=True)), "fires one step late.*use delay=False"),
        "signed": (network(IF(signed=True)), r"if:signed=true: NIR has no neuron that takes spikes back.*--for nir"),
        "threshold per unit": (
            plain.replaced([dataclasses.replace(first, threshold=draw(6, 8, 8).abs() + 1)]),
            "if has thresholds that differ within a channel.*without mismatch",
        ),
        "leak per unit": (
            plain.replaced([dataclasses.replace(first, leak=draw(6).sigmoid())]),
            "if has leaks that differ.*without mismatch",
        ),
        "leak in one layer": (leaky, "if leaks and relu does not"),
        "added to itself": (dataclasses.replace(mlp(), nodes=twice), "t adds a node to itself"),
        "features to image": (dataclasses.replace(plain, nodes=flat), "sum adds features to a flattened image"),
        "three by two": (dataclasses.replace(plain, nodes=tall), r"tall: its kernel of \(3, 2\) cannot be made square"),
    }


@pytest.mark.parametrize("name", refused_networks())
def test_what_nir_cannot_say_is_refused_by_name(tmp_path, name):
    given_, reason = refused_networks()[name]
    with pytest.raises(UsageError, match=reason) as refused:
        export_nir(given_, tmp_path / "n.nir")
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rounding": 0}, "rounding must be ≥ 1"),
        ({"rounding": 30}, "rounding must be ≤ 20, not 30"),
        ({"rounding": 1}, "conv.1: all weights are 0|its threshold is 0|all weights are 0"),
        ({"steps": 0}, "steps must be a whole number ≥ 1, not 0"),
        ({"x": torch.zeros(0, 2, 8, 8)}, "no image"),
    ],
)
def test_wrong_options_are_named(tmp_path, options, reason):
    small = network().with_factor(0.1)
    with pytest.raises(UsageError, match=reason):
        export_nir(small, tmp_path / "n.nir", **options)
    with pytest.raises(UsageError, match=r"n.h5: NIR files end in .nir"):
        export_nir(small, tmp_path / "n.h5")
    assert list(tmp_path.iterdir()) == []


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nir", None)
    with pytest.raises(MissingExtra, match=r"\[nir\]"):
        export_nir(mlp(), tmp_path / "n.nir")


# The test vector


def test_a_vector_of_another_file_is_refused(tmp_path):
    export_nir(mlp(), tmp_path / "n.nir")
    (tmp_path / "m.nir").write_bytes((tmp_path / "n.nir").read_bytes() + b"\0")
    vector_path(tmp_path / "m.nir").write_bytes(vector_path(tmp_path / "n.nir").read_bytes())
    with pytest.raises(FileRefused, match=r"m.vector.npz: does not belong to this m.nir"):
        read_vector(tmp_path / "m.nir")
    with pytest.raises(FileRefused, match="no such file"):
        read_vector(tmp_path / "none.nir")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("drive", np.zeros((2, 32, 6)), "neither spikes nor currents"),
        ("drive", np.full((2, 6), np.nan, np.float32), "neither spikes nor currents"),
        ("steps", np.int64(31), "number of steps"),
        ("steps", np.zeros(3, np.int64), "number of steps"),
        ("spikes", np.zeros((2, 2), np.int64), "one count per population"),
        ("names", np.arange(1), "one count per population"),
        ("scores", np.zeros(3), "one row of scores"),
        ("digest", None, "has no array 'digest'"),
    ],
)
def test_a_forged_vector_is_refused(tmp_path, name, value, reason):
    export_nir(mlp(), tmp_path / "n.nir")
    vector = vector_path(tmp_path / "n.nir")
    arrays = dict(np.load(vector))
    arrays[name] = value
    np.savez(vector, **{key: item for key, item in arrays.items() if item is not None})
    with pytest.raises(FileRefused, match=reason):
        read_vector(tmp_path / "n.nir")


# What is read


def codes(*shape: int, salt: int) -> np.ndarray:
    """Signs from the formula of ``benchmarks/peers/inputs.py``, in plain whole numbers."""
    found, mask = [], 2**64 - 1
    for n in range(int(np.prod(shape))):
        z = (salt * 2**32 + n + 0x9E3779B97F4A7C15) & mask
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        found.append((z ^ (z >> 31)) % 3 - 1)
    return np.array(found, np.int8).reshape(shape)


@pytest.mark.parametrize("name", ["if", "lif"])
def test_files_of_spikingjelly_fire_as_there(name):
    read = import_nir(FILES / f"spikingjelly_{name}.nir")
    drive = codes(24, 3, 2, 6, 6, salt=90).swapaxes(0, 1)
    counts = list(simulate_trains(read, drive, precision="float64").spikes().values())
    assert counts == json.loads((FILES / "counts.json").read_text())["counts"][name]
    assert read.neuron == (IF(reset="hard") if name == "if" else LIF(read.neuron.leak, reset="hard"))
    assert read.neuron.leak == pytest.approx(1.0 if name == "if" else 0.75, abs=1e-7)
    assert isinstance(read.nodes[-1], Scale)  # it ends with neurons, whose spikes are counted
    assert read.card.lineage.operation == f"read from spikingjelly_{name}.nir (NIR)"


def units(shape, value):
    return np.full(shape, value, np.float32)


def neuron(shape=(3,), threshold=1.0, **changes):
    values = {"r": units(shape, 1), "v_threshold": units(shape, threshold), "v_reset": units(shape, 0), **changes}
    return nir.IF(**values)


def leaky(shape=(3,), **changes):
    values = {
        "tau": units(shape, 4e-4),
        "r": units(shape, 1),
        "v_leak": units(shape, 0),
        "v_threshold": units(shape, 1),
    }
    return nir.LIF(**{**values, "v_reset": units(shape, 0), **changes})


def chain(*nodes, shape=(4,), ends=(3,), edges=None, **extra):
    """The dictionary of a graph that nobody has checked."""
    named = {f"n{index}": node.to_dict() for index, node in enumerate(nodes)}
    order = ["input", *named, "output"]
    named["input"] = nir.Input({"input": np.array(shape)}).to_dict()
    named["output"] = nir.Output({"output": np.array(ends)}).to_dict()
    found = [list(edge) for edge in itertools.pairwise(order)] if edges is None else edges
    return {"type": "NIRGraph", "nodes": named, "edges": found, "metadata": {}, **extra}


AFFINE = nir.Affine(np.ones((3, 4), np.float32), np.zeros(3, np.float32))


def read_chain(*nodes, **options):
    return network_of(Path("x.nir"), chain(*nodes, **options))


def test_nodes_of_other_tools():
    convolution = nir.Conv2d((6, 6), np.ones((4, 2, 3, 3), np.float32), 1, "same", 1, 2, np.zeros(4, np.float32))
    read = read_chain(
        convolution,
        neuron((4, 6, 6)),
        nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0])),
        nir.AvgPool2d(np.array([3, 3]), np.array([3, 3]), np.array([0, 0])),
        nir.Scale(np.full((4, 1, 1), 2.0)),
        nir.Flatten(np.array([4, 1, 1]), 0, -1),
        nir.Linear(np.ones((3, 4))),
        shape=(4, 6, 6),
    )
    kinds = [type(node).__name__ for node in read.nodes]
    assert kinds == ["Synapses", "Neurons", "Pool", "Pool", "Scale", "Flatten", "Synapses"]
    first, pools = read.synapses[0], [node for node in read.nodes if isinstance(node, Pool)]
    assert (first.padding, first.groups, first.bias) == ((1, 1), 2, None)
    assert [pool.average for pool in pools] == [False, True]
    assert read.synapses[1].weight.dtype == torch.float64
    assert (read.encode, read.neuron) == (Poisson(), IF(reset="hard"))


def test_leaks_and_thresholds_of_their_own():
    tau, threshold = units((3,), 4e-4), np.array([1, 2, 3], np.float32)
    read = read_chain(
        AFFINE,
        leaky(tau=tau, r=units((3,), 4), v_threshold=threshold),
        nir.Affine(np.ones((3, 3)), np.ones(3)),
        leaky(tau=tau * 2, r=units((3,), 1)),
        nir.Linear(np.ones((3, 3))),
    )
    first, second = read.populations
    assert read.neuron.leak == pytest.approx(0.75, abs=1e-7)
    assert first.leak is None
    torch.testing.assert_close(first.threshold, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    torch.testing.assert_close(second.leak, torch.full((3,), 0.875, dtype=torch.float64))
    torch.testing.assert_close(second.threshold, torch.full((3,), 8.0, dtype=torch.float64))
    coarse = network_of(Path("x.nir"), chain(AFFINE, leaky(), nir.Linear(np.ones((3, 3)))), dt=2e-4)
    assert coarse.neuron.leak == pytest.approx(0.5, abs=1e-7)


def test_edges_that_meet_are_added():
    edges = [("input", "n0"), ("input", "n1"), ("n0", "n2"), ("n1", "n2"), ("n2", "n3"), ("n3", "output")]
    read = read_chain(AFFINE, AFFINE, neuron(), nir.Linear(np.ones((3, 3))), edges=edges)
    (added,) = [node for node in read.nodes if isinstance(node, Add)]
    assert sorted(added.sources) == ["n0", "n1"]
    assert read.populations[0].source == added.name


LINEAR = nir.Linear(np.ones((3, 3)))
LOOP = [("input", "n0"), ("n0", "n1"), ("n1", "n2"), ("n2", "n1"), ("n2", "output")]
LOOSE = [("input", "n0"), ("n0", "output"), ("n1", "n2")]


def good(**options):
    return chain(AFFINE, neuron(), LINEAR, **options)


def with_first(node):
    """A graph in which the first node is this dictionary."""
    graph = good()
    graph["nodes"]["n0"] = node
    return graph


def windows(kernel=3, stride=1, padding=0):
    weight, bias = np.ones((3, 2, kernel, kernel)), np.zeros(3)
    return chain(nir.Conv2d(None, weight, stride, padding, 1, 1, bias), shape=(2, 3, 3))


REFUSED = {
    "another type": (chain(AFFINE, nir.CubaLIF(*(units((3,), 1),) * 5)), "'n1' is of type 'CubaLIF'"),
    "a delay": (chain(AFFINE, nir.Delay(units((3,), 1)), neuron(), LINEAR), "'n1' is of type 'Delay', which is not"),
    "no graph": ({"type": "Affine"}, "does not hold a NIR graph"),
    "no edges": ({"type": "NIRGraph", "nodes": {}}, "no list of edges"),
    "two inputs": (chain(nir.Input({"input": np.array([4])}), AFFINE, neuron(), LINEAR), "2 nodes of type Input"),
    "no input": ({"type": "NIRGraph", "edges": [], "nodes": {"a": AFFINE.to_dict()}}, "0 nodes of type Input"),
    "a loop": (good(edges=LOOP), "recurrent networks are not read"),
    "an edge to nowhere": (good(edges=[("input", "x")]), "an edge between unknown nodes"),
    "an edge of three": (good(edges=[("input", "n0", "output")]), "an edge between unknown nodes"),
    "an edge of numbers": (good(edges=[[1, [2]]]), "an edge between unknown nodes"),
    "an edge twice": (good(edges=[("input", "n0")] * 2), "twice"),
    "a loose end": (good(edges=LOOSE), "is not on a path from input to output"),
    "no neurons": (chain(AFFINE), "nothing in it would spike"),
    "sizes": (chain(AFFINE, neuron((5,)), LINEAR), r"'n1' .IF. has v_threshold of shape \(5,\) for values of"),
    "sizes of weights": (chain(AFFINE, neuron(), AFFINE), "cannot read values of shape"),
    "threshold": (chain(AFFINE, neuron(threshold=0.0), LINEAR), "'n1' .IF. has a threshold .* that is not positive"),
    "NaN": (
        chain(nir.Linear(np.full((3, 4), np.nan)), neuron(), LINEAR),
        "'n0' .Linear. holds NaN or infinity in weight",
    ),
    "text for weights": (chain(nir.Linear(np.array([["a"]])), neuron(), LINEAR), "no numbers under weight"),
    "reset": (chain(AFFINE, neuron(v_reset=units((3,), 0.5)), LINEAR), "a v_reset that is not 0"),
    "leak": (chain(AFFINE, leaky(v_leak=units((3,), 0.5)), LINEAR), "a v_leak that is not 0"),
    "resistance": (chain(AFFINE, neuron(r=units((3,), 7)), LINEAR), "neither 1 nor 1/dt"),
    "time constant": (chain(AFFINE, leaky(tau=units((3,), 5e-5)), LINEAR), "a time constant of 5e-05, not above"),
    "stride": (windows(stride=0), "has stride 0"),
    "padding": (windows(padding=10**9), "has padding 1000000000"),
    "padding in words": (windows(kernel=2, padding="same"), "padding 'same', which is not supported"),
    "input shape": (good(shape=(0,)), "has shape 0"),
    "huge input": (good(shape=(10**18,)), "has shape"),
    "two dimensions": (good(shape=(2, 2)), "one or three dimensions"),
    "half flattened": (chain(nir.Flatten(np.array([2, 2, 2]), 0, 1), shape=(2, 2, 2)), "flattens dimensions 0 to 1"),
    "scale of units": (chain(nir.Scale(np.arange(8.0).reshape(2, 2, 2)), shape=(2, 2, 2)), "differs within a channel"),
    "a strange field": (with_first({**AFFINE.to_dict(), "spell": 1}), "has a field 'spell'"),
    "a missing field": (with_first({"type": "Affine"}), "has no numbers under weight"),
    "no type": (with_first({}), "'n0' has no type"),
    "reset unknown": (good(metadata={"reset": "none"}), "reset is 'none'"),
    "dt": (good(metadata={"dt": -1.0}), "dt is -1"),
    "dt in words": (good(metadata={"dt": "fast"}), "not a number"),
    "our JSON": (good(metadata={"weightsmith": "{"}), "is not JSON"),
    "our version": (good(metadata={"weightsmith": '{"version": 9}'}), "have version 9, not 1"),
    "our fields": (good(metadata={"weightsmith": '{"version": 1, "a": 2}'}), "no field 'a'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(name):
    tree, reason = REFUSED[name]
    with pytest.raises(FileRefused, match=reason) as refused:
        network_of(Path("x.nir"), tree)
    assert refused.value.path == "x.nir"
    assert "\n" not in str(refused.value)


def external_link(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = np.ones(3)
    file["node/nodes/a/weight"] = h5py.ExternalLink("other.h5", "secret")


def soft_link(file, folder):
    file["node/edges"] = h5py.SoftLink("/node")


def external_storage(file, folder):
    (folder / "raw").write_bytes(bytes(64))
    file.create_dataset("node/weight", (16,), "<f4", external=[(str(folder / "raw"), 0, 64)])


def virtual_dataset(file, folder):
    layout = h5py.VirtualLayout((3,), "<f4")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (3,))
    file.create_virtual_dataset("node/weight", layout)


def expanding(file, folder):
    file.create_dataset("node/weight", (1 << 32,), "<f4", compression="gzip", chunks=(1 << 20,))
    file["node/weight"][:5] = 1


def many_names(file, folder):
    file["node/first"] = np.ones(1000)
    for number in range(50):
        file[f"node/again{number}"] = file["node/first"]


def group_in_itself(file, folder):
    file["node/type"] = "NIRGraph"
    file["node/inner"] = file["node"]


def no_node(file, folder):
    file["weights"] = np.ones(3)


def strange_type(file, folder):
    file["node/type"] = np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")])


HDF5 = {
    external_link: "link to somewhere else",
    soft_link: "link to somewhere else",
    external_storage: "another file",
    virtual_dataset: "another file",
    expanding: "expands|claims",
    many_names: "one dataset with two names",
    group_in_itself: "has two names",
    no_node: "no group called 'node'",
    strange_type: "damaged or cut-off",
}


@pytest.mark.parametrize("build", HDF5, ids=lambda build: build.__name__)
def test_hostile_hdf5_is_refused(tmp_path, build):
    path = tmp_path / "h.nir"
    with h5py.File(path, "w") as file:
        file.create_group("node")
        if build is no_node:
            del file["node"]
        build(file, tmp_path)
    with pytest.raises(FileRefused, match=HDF5[build]) as refused:
        import_nir(path)
    assert "\n" not in str(refused.value)


def test_what_is_no_hdf5_is_refused(tmp_path):
    path = tmp_path / "h.nir"
    for content in (b"", b"abc", b"\x89HDF\r\n\x1a\n" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(FileRefused, match="h.nir: is"):
            import_nir(path)
    with pytest.raises(FileRefused, match="no such file"):
        import_nir(tmp_path / "none.nir")
    with pytest.raises(UsageError, match="dt must be > 0"):
        import_nir(path, dt=0.0)


@pytest.mark.slow
def test_damaged_files_are_refused_or_read_as_they_are(tmp_path):
    export_nir(mlp(), tmp_path / "n.nir")
    good = (tmp_path / "n.nir").read_bytes()
    draws = np.random.default_rng(0)
    for _ in range(25):
        bad = bytearray(good)
        for offset in draws.integers(0, len(bad), 4):
            bad[offset] ^= 1 << int(draws.integers(8))
        (tmp_path / "bad.nir").write_bytes(bad[: int(draws.integers(len(bad) // 2, len(bad) + 1))])
        try:
            found = import_nir(tmp_path / "bad.nir")
        except FileRefused:
            continue
        assert found.input_shape == (6,)


@pytest.mark.parametrize("given_", ["runs/snn", None, torch.nn.Linear(2, 2)])
def test_what_is_no_spiking_network_is_named(tmp_path, given_):
    with pytest.raises(UsageError, match=r"export_nir writes a SpikingNetwork .*SpikeRun.*, not (str|NoneType|Linear)"):
        export_nir(given_, tmp_path / "n.nir")
    assert list(tmp_path.iterdir()) == []


def test_mismatch_goes_out_as_thresholds_of_dense_layers_alone(tmp_path):
    """As docs/spiking.md says."""
    spread = with_mismatch(mlp(), Mismatch(threshold=0.3), 0)
    written = export_nir(spread, tmp_path / "n.nir")
    assert any(line.startswith("thresholds of ra into ") for line in written.folded)
    assert written.spikes == written.before
    for given_, mismatch, reason in (
        (network(), Mismatch(threshold=0.3), "thresholds that differ within a channel"),
        (mlp(LIF(0.9)), Mismatch(leak=0.3), "leaks that differ"),
    ):
        with pytest.raises(UsageError, match=reason):
            export_nir(with_mismatch(given_, mismatch, 0), tmp_path / "m.nir")


@pytest.mark.parametrize("neuron", [IF(), IF(reset="hard"), LIF(0.875), LIF(0.875, reset="hard")], ids=str)
def test_membranes_that_start_above_zero_travel(tmp_path, neuron):
    plain = network(neuron)
    given_ = plain.replaced([dataclasses.replace(node, start=0.5) for node in plain.populations])
    assert nir_obstacle(given_) is None
    report = export_nir(given_, tmp_path / "n.nir", steps=8)
    assert report.spikes == report.before
    assert report.spikes != export_nir(plain, tmp_path / "p.nir", steps=8).spikes  # the start matters
    assert any("no initial membrane" in note for note in report.notes)
    assert {node.start for node in import_nir(tmp_path / "n.nir").populations} == {0.5}
    with pytest.raises(UsageError, match="starts at 0.5 thresholds, which rounding would change"):
        export_nir(given_, tmp_path / "n.nir", rounding=8)
