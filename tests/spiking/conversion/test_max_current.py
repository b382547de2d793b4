from __future__ import annotations

import dataclasses
import tempfile

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import weightsmith as ws
from weightsmith.core.errors import DataMismatch
from weightsmith.networks.files import load
from weightsmith.networks.models.paper_resnet import paper_resnet
from weightsmith.networks.models.vgg import vgg
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.conversion.max_current import (
    PackedSpikes,
    ancestors,
    feeding,
    in_residual_blocks,
    largest_currents,
)
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Gate, Neurons, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation import chunked
from weightsmith.spiking.simulation.reference import Stepper
from weightsmith.spiking.simulation.sources import source_of
from weightsmith.spiking.simulation.stages import step_bytes


class Gated(nn.Module):
    """Max pooling, a residual sum of raw spikes, and a skip over two populations."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.c, self.d = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Linear(16, 3, bias=False)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        y = F.relu(self.b(x))
        y = F.relu(self.c(y) + x)
        return self.d(F.avg_pool2d(y + x, 2).flatten(1))


NETWORKS = {
    "vgg": lambda: vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8, 6), seed=1),
    "vgg max": lambda: vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), pool="max", seed=2),
    "resnet": lambda: paper_resnet((3, 8, 8), 4, widths=(4, 6), seed=3),
    "gated": Gated,
}


def exact(network):
    """The network with weights of few bits, whose sums do not depend on their order, not even in float32.

    They are more positive than negative, so that spikes reach the last layer within a few steps.
    """

    def moved(node):
        if not isinstance(node, Synapses):
            return node
        return dataclasses.replace(node, weight=torch.round((node.weight + 0.9 * node.weight.abs()) * 64) / 64)

    return dataclasses.replace(network, nodes=tuple(map(moved, network.nodes)))


def literally(network, source, steps, searched=None):
    """Restart from the input for every layer, those before it at the thresholds found."""
    running = network.with_neuron(IF(delay=network.neuron.delay)).replaced(
        dataclasses.replace(node, start=0.0, leak=None) for node in network.populations
    )
    found = {}
    for node in network.populations:
        if searched is not None and node.name not in searched:
            continue
        stepper = Stepper(running, torch.float64)
        state = stepper.begin(len(source))
        largest = -float("inf")
        for step in range(steps):
            values, _ = stepper.step(state, source.step(slice(None), step))
            largest = max(largest, float(values[node.source].max()))
        found[node.name] = largest
        running = running.replaced(
            [dataclasses.replace(running.node(node.name), threshold=torch.full_like(node.threshold, largest))]
        )
    return found


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("neuron", "encode"), [(IF(), Poisson(0.9)), (LIF(0.9, reset="hard", delay=True), Constant())])
def test_it_is_what_starting_over_for_every_layer_gives(name, neuron, encode, monkeypatch):
    network = exact(convert(NETWORKS[name](), neuron, encode, input_shape=(3, 8, 8)).network)
    # Grey levels on a grid, so that constant currents are exact as well.
    x = torch.round((torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1) * 32) / 32
    source = source_of(network, x, 5, 0)
    expected = literally(network, source, 40)
    assert largest_currents(network, source, 40) == expected
    # In other parts: three images and seven steps at a time.
    monkeypatch.setattr(chunked, "_CHUNK", 7)
    monkeypatch.setattr(chunked, "_BUDGET", 3 * 7 * step_bytes(network))
    assert chunked.ChunkEngine(network, source, "float32", 40).block == 3
    calls = []
    assert largest_currents(network, source, 40, progress=lambda *parts: calls.append(parts)) == expected
    many = len(network.populations)
    assert calls == [(done, many) for done in range(1, many + 1)]


@pytest.mark.parametrize("searched", [["relu_2"], ["relu", "relu_2"], ["relu"]])
def test_those_that_are_not_searched_fire_at_the_threshold_they_have(searched):
    network = exact(convert(Gated(), IF(), Poisson(), input_shape=(3, 8, 8)).network)
    network = network.with_factor(0.25)
    x = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    source = source_of(network, x, 0, 0)
    assert largest_currents(network, source, 8, searched=searched) == literally(network, source, 8, searched)


def test_spikes_are_kept_only_as_long_as_they_are_read(monkeypatch, tmp_path):
    network = exact(convert(NETWORKS["resnet"](), IF(), Poisson()).network)
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = []
    largest_currents(
        network,
        source_of(network, x, 0, 0),
        30,
        progress=lambda *_: files.append(len([path for path in tmp_path.rglob("*") if path.is_file()])),
    )
    assert files[0] == 1
    assert max(files) == 2  # a block's own neurons and the input of the block
    assert list(tmp_path.iterdir()) == []


def test_a_layer_without_positive_current_is_dead():
    network = convert(NETWORKS["vgg"](), IF(), Poisson()).network
    node = network.node("features.4")
    dead = network.replaced(
        [dataclasses.replace(network.node("features.3"), weight=-network.node("features.3").weight.abs())]
    )
    assert isinstance(node, Neurons)
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with pytest.raises(DataMismatch, match=r"dead layer: features\.3 never gives a positive current.*features\.4"):
        largest_currents(dead, source_of(dead, x, 0, 0), 5)


@pytest.mark.parametrize("encode", [Poisson(), Constant()])
def test_neurons_before_any_weights_and_behind_other_neurons(encode):
    nodes = (
        Neurons("first", INPUT, torch.full((3,), 9.0)),
        Neurons("second", "first", torch.full((3,), 9.0)),
        Synapses("w", "second", torch.tensor([[1.0, 2.0, 4.0]])),
    )
    network = SpikingNetwork(nodes, (3,), IF(), encode)
    x = torch.tensor([[0.5, -1.0, 0.25], [0.75, 0.5, -0.5]])
    source = source_of(network, x, 1, 0)
    expected = {"first": 1.0 if isinstance(encode, Poisson) else 0.75, "second": 1.0}
    assert largest_currents(network, source, 30) == literally(network, source, 30) == expected


def test_leaks_and_starts_of_populations_play_no_part():
    plain = exact(convert(NETWORKS["vgg"](), IF(), Poisson(), input_shape=(3, 8, 8)).network)
    other = plain.replaced(
        dataclasses.replace(node, start=0.5, leak=torch.full_like(node.threshold, 0.5)) for node in plain.populations
    ).with_neuron(LIF(0.8, reset="hard"))
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert largest_currents(other, source_of(other, x, 0, 0), 20) == largest_currents(
        plain, source_of(plain, x, 0, 0), 20
    )


@pytest.mark.data
@pytest.mark.slow
def test_a_trained_network_has_the_currents_of_the_slow_definition(shared_data):
    network = convert(load(shared_data / "weights" / "vgg5_fc512.safetensors"), IF(), Poisson()).network
    source = source_of(network, ws.data.load("cifar10").split("train").x[:2], 0, 0)
    assert largest_currents(network, source, 30) == pytest.approx(literally(network, source, 30), rel=1e-5)


@pytest.mark.parametrize("shapes", [[(2, 3, 4, 8)], [(3, 2, 5, 1), (1, 2, 5, 1), (3, 1, 5, 1)]])
def test_parts_come_back_in_any_order(tmp_path, shapes):
    draw = np.random.default_rng(0)
    parts = {(number, 0): draw.integers(0, 2, shape, dtype=np.uint8) for number, shape in enumerate(shapes)}
    kept = PackedSpikes(tmp_path / "spikes")
    for part, spikes in parts.items():
        kept.write(part, spikes)
    for part in reversed(parts):
        found = kept.read(part)
        assert found.dtype == np.uint8
        assert np.array_equal(found, parts[part])
    assert (tmp_path / "spikes").stat().st_size == sum(-(-spikes.size // 8) for spikes in parts.values())


def test_the_room_is_given_back(tmp_path):
    kept = PackedSpikes(tmp_path / "spikes")
    kept.write("a", np.ones((2, 2), np.uint8))
    kept.remove()
    assert list(tmp_path.iterdir()) == []


ONE = torch.ones(1)
WEIGHT = torch.ones(1, 1, 1, 1)

# input → a → fire_a → gate ─┬→ b → fire_b → c ─┬→ sum → fire_c → d → fire_d
#                            └────── half ───────┘
NODES = (
    Synapses("a", INPUT, WEIGHT),
    Neurons("fire_a", "a", ONE),
    Gate("gate", "fire_a", (1, 1), (1, 1)),
    Synapses("b", "gate", WEIGHT),
    Neurons("fire_b", "b", ONE),
    Synapses("c", "fire_b", WEIGHT),
    Scale("half", "gate", ONE / 2),
    Add("sum", ("c", "half")),
    Neurons("fire_c", "sum", ONE),
    Synapses("d", "fire_c", WEIGHT),
    Neurons("fire_d", "d", ONE),
)


def population(name: str) -> Neurons:
    return next(node for node in NODES if node.name == name)


def test_what_feeds_a_population_ends_at_the_spikes_it_reads():
    names = {name: [node.name for node in feeding(NODES, population(name))] for name in ("fire_a", "fire_c", "fire_d")}
    assert names == {
        "fire_a": ["a"],
        "fire_c": ["fire_a", "gate", "fire_b", "c", "half", "sum"],
        "fire_d": ["fire_c", "d"],
    }


def test_ancestors_reach_back_to_the_input():
    found = ancestors(NODES)
    assert found["gate"] == {INPUT, "a", "fire_a", "gate"}
    assert found["half"] == found["gate"] | {"half"}
    assert found["sum"] == found["half"] | {"b", "fire_b", "c", "sum"}


def test_a_residual_block_holds_what_is_on_one_branch_and_what_thresholds_the_sum():
    assert in_residual_blocks(NODES) == {"fire_b", "fire_c"}
