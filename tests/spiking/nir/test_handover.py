"""Our spikes against those of other simulators: recorded counts, and new ones where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import FileRefused, UnknownName, UsageError
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.nir import handover
from weightsmith.spiking.nir.export import export_nir
from weightsmith.spiking.nir.handover import (
    HandoverCheck,
    LayerCheck,
    compare,
    into_norse,
    into_snntorch,
    into_spikingjelly,
)

nir = pytest.importorskip("nir", reason="the extra nir is not installed")

ROOT = Path(__file__).parents[3]
SIMULATORS = ("spikingjelly", "norse", "snntorch")
LOADERS = {"spikingjelly": into_spikingjelly, "norse": into_norse, "snntorch": into_snntorch}
CASES = [
    *("mlp_if_hard", "mlp_lif_soft", "pools_if_hard", "pools_if_soft", "pools_if_soft_sumpool", "pools_lif_hard"),
    *("pools_lif_soft", "residual_if_hard", "residual_lif_soft"),
    *(pytest.param(f"vgg5_{name}_hard", marks=[pytest.mark.data, pytest.mark.slow]) for name in ("if", "lif")),
]

needs_benchmarks = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not part of the source archive"
)


def installed(simulator: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in (simulator, "nirtorch"))


@pytest.fixture
def work(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.peers.nir_work").CASES


@needs_benchmarks
@pytest.mark.parametrize("name", CASES)
def test_other_simulators_counted_the_same_spikes(tmp_path, work, reference, name):
    """The file is written anew; the counts of each simulator are in tests/reference/spiking_nir.json."""
    network, options = work[name].exported()
    export = export_nir(network, tmp_path / "n.nir", **options)
    facts = reference("spiking_nir")["cases"][name]
    assert (facts["populations"], facts["neuron"]) == (list(export.spikes), export.neuron)
    assert (facts["images"], facts["steps"]) == (export.images, export.steps)
    ours = np.array(list(export.spikes.values()))
    assert ours.min() > 10
    for simulator in SIMULATORS:
        off = np.abs(np.array(facts["counts"][simulator]) - ours) / ours
        assert off.max() <= work[name].tolerance, simulator


@needs_benchmarks
def test_what_must_be_shown_is_in_the_cases(work):
    """A VGG-5 with a hard reset: without leak to the last spike at 2⁻⁸, with leak within 10⁻⁴."""
    plain, leaky = work["vgg5_if_hard"], work["vgg5_lif_hard"]
    assert (plain.neuron, plain.options["rounding"], plain.tolerance) == (IF(reset="hard"), 8, 0.0)
    assert (leaky.neuron.reset, "rounding" in leaky.options, leaky.tolerance) == ("hard", False, 1e-4)


def test_why_norse_needs_another_order(reference):
    """As imported it adds the shortcut of the step before: all layers behind it fire otherwise."""
    facts = reference("spiking_nir")
    counts, right = facts["as_imported"]["norse"]["counts"], facts["cases"]["residual_if_hard"]["counts"]["norse"]
    assert [one == two for one, two in zip(counts, right, strict=True)] == [True, True, False, False]


def network(neuron: IF | LIF) -> SpikingNetwork:
    draw = torch.Generator().manual_seed(0)
    nodes = (
        Synapses("a.b", "input", torch.randn(8, 6, generator=draw)),
        Neurons("relu", "a.b", torch.full((8,), 1.25)),
        Synapses("head", "relu", torch.randn(3, 8, generator=draw)),
    )
    return SpikingNetwork(nodes, (6,), neuron, Poisson())


class Simulated(nn.Module):
    """A simulator of three lines: hard reset, no leak; it may be made to lose the first spike of each image."""

    def __init__(self, path: Path, forgetful: bool) -> None:
        super().__init__()
        graph = nir.read(path)
        self.weights = [torch.from_numpy(graph.nodes[name].weight) for name in ("a_b", "head")]
        self.threshold = float(graph.nodes["relu"].v_threshold[0])
        self.relu, self.forgetful = nn.Identity(), forgetful

    def forward(self, x, state):
        v, lost = (torch.zeros(len(x), 8), torch.zeros(len(x))) if state is None else state
        v = v + x @ self.weights[0].T
        spikes = (v > self.threshold).float()
        v = v * (1 - spikes)
        if self.forgetful:
            first = (spikes.sum(dim=1) > 0) & (lost == 0)
            lost = lost + first
            spikes[first, spikes[first].argmax(dim=1)] = 0
        return self.relu(spikes) @ self.weights[1].T, (v, lost)


@pytest.mark.parametrize("forgetful", [False, True])
def test_spikes_are_counted_and_compared(tmp_path, monkeypatch, forgetful):
    path = tmp_path / "n.nir"
    export = export_nir(network(IF(reset="hard")), path)
    loader = (lambda file: Simulated(file, forgetful), ("numpy",))
    monkeypatch.setitem(handover._LOADERS, "norse", loader)
    check = compare(path, "norse")
    lost = 2 if forgetful else 0  # one of each image
    assert check.layers == (LayerCheck("relu", export.spikes["relu"], export.spikes["relu"] - lost, lost),)
    assert check.worst == lost / export.spikes["relu"]
    assert (check.scores > 1e-3) == forgetful
    assert (check.file, check.simulator, check.neuron, check.images, check.steps) == (
        "n.nir", "norse", "if:reset=hard", 2, 32,
    )  # fmt: skip
    assert {"weightsmith", "torch", "numpy", "nir"} <= set(check.versions)
    assert HandoverCheck.from_json(check.to_json()) == check


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_a_missing_simulator_is_named(tmp_path, monkeypatch, simulator):
    export_nir(network(IF()), tmp_path / "n.nir")
    monkeypatch.setitem(sys.modules, simulator, None)
    with pytest.raises(UsageError, match=f"needs the package {simulator}, .*pip install {simulator}"):
        LOADERS[simulator](tmp_path / "n.nir")
    with pytest.raises(UsageError, match=f"needs the package {simulator}"):
        compare(tmp_path / "n.nir", simulator)


def test_wrong_calls_are_named(tmp_path):
    with pytest.raises(UnknownName, match="unknown simulator 'nors'; did you mean 'norse'"):
        compare(tmp_path / "n.nir", "nors")
    export_nir(network(IF()), tmp_path / "n.nir")
    (tmp_path / "n.vector.npz").unlink()
    with pytest.raises(FileRefused, match=r"n.vector.npz: no such file"):
        compare(tmp_path / "n.nir", "norse")


def test_nodes_come_after_all_that_they_read():
    nodes = {name: SimpleNamespace(name=name) for name in ("input", "conv", "relu", "shortcut", "output")}
    edges = [("input", "conv"), ("conv", "relu"), ("input", "shortcut"), ("shortcut", "relu"), ("relu", "output")]
    order = [node.name for node in handover._in_order(list(nodes.values()), edges)]
    assert sorted(order) == sorted(nodes)
    assert all(order.index(source) < order.index(target) for source, target in edges)


@needs_benchmarks
@pytest.mark.slow
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("name", ["mlp_lif_soft", "pools_if_hard", "pools_if_soft_sumpool", "residual_if_hard"])
def test_the_simulators_themselves(tmp_path, work, simulator, name):
    if not installed(simulator):
        pytest.skip(f"{simulator} is not installed here; benchmarks/peers/install.sh makes an environment that has it")
    given, options = work[name].exported()
    export_nir(given, tmp_path / "n.nir", **options)
    check = compare(tmp_path / "n.nir", simulator)
    assert check.worst <= work[name].tolerance
    assert check.scores < 1e-5


@pytest.mark.skipif(not installed("spikingjelly"), reason="SpikingJelly is not installed")
@pytest.mark.parametrize("start", [0.0, 0.5])
@pytest.mark.parametrize("neuron", [IF(), IF(reset="hard"), LIF(0.875), LIF(0.875, reset="hard")], ids=str)
def test_first_membranes_and_ties_are_ours_in_spikingjelly(tmp_path, neuron, start):
    """Weights and thresholds of few binary digits, so that membranes often stand exactly at the threshold."""
    draw = torch.Generator().manual_seed(3)

    def weights(*shape):
        return torch.randint(-4, 5, shape, generator=draw) / 4

    nodes = (
        Synapses("a", "input", weights(20, 12)),
        Neurons("n", "a", torch.full((20,), 1.0), start),
        Synapses("b", "n", weights(16, 20)),
        Neurons("m", "b", torch.full((16,), 1.0), start),
        Synapses("out", "m", weights(3, 16)),
    )
    export_nir(SpikingNetwork(nodes, (12,), neuron, Poisson()), tmp_path / "n.nir", steps=40)
    found = compare(tmp_path / "n.nir", "spikingjelly")
    assert sum(layer.ours for layer in found.layers) > 150
    assert [layer.difference for layer in found.layers] == [0, 0]
    if start:
        for load, name in ((into_norse, "Norse"), (into_snntorch, "snnTorch")):
            if installed(name.lower()):
                with pytest.raises(UsageError, match=f"not in {name}"):
                    load(tmp_path / "n.nir")
