"""Spike counts of the engines against SpikingJelly's, on the networks and trains of the topic ``spiking_networks``.

The networks come from ``benchmarks/peers/spiking_work.py`` as the peer was given them, go through our conversion, and
take the peer's thresholds. In float64 no membrane comes nearer to its threshold than a millionth of it: every order of
sums gives the same spikes, so that counts must be equal, and not merely close.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.networks.card import Card
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation.responses import Responses
from weightsmith.spiking.simulation.simulate import simulate, simulate_trains

ROOT = Path(__file__).parents[2]
SETTINGS = ["if_hard", "if_soft", "lif_hard", "lif_soft"]
STORED = ["vgg5", "resnet20"]
NETWORKS = ["mlp", *(pytest.param(name, marks=[pytest.mark.data, pytest.mark.slow]) for name in STORED)]

needs_benchmarks = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not part of the source archive"
)


def _neuron(setting: str, leak: float) -> IF | LIF:
    reset = setting.partition("_")[2]
    return IF(reset=reset) if setting.startswith("if") else LIF(leak, reset=reset)


class _Trains:
    """Keeps all spikes, as the peer lists them: (steps, images, channels, …)."""

    membranes, inputs = False, False

    def __init__(self) -> None:
        self.parts: dict[str, dict[int, list[np.ndarray]]] = {}  # chunks of each block, by its first image

    def see(self, population: str, images: np.ndarray, step: int, spikes: np.ndarray, membranes: object) -> None:
        self.parts.setdefault(population, {}).setdefault(int(images[0]), []).append(spikes.copy())

    def digest(self, population: str) -> str:
        whole = np.concatenate([np.concatenate(chunks, axis=1) for chunks in self.parts[population].values()])
        ordered = np.ascontiguousarray(whole.transpose(1, 0, 3, 2))
        return hashlib.sha256(ordered.astype(np.uint8).tobytes()).hexdigest()[:12]


@pytest.fixture(scope="module")
def made() -> Callable[[str], tuple[SpikingNetwork, Any]]:
    """A network converted (in double precision) and what drives it, by name; each is made once."""
    known: dict[str, tuple[SpikingNetwork, Any]] = {}

    def of(name: str) -> tuple[SpikingNetwork, Any]:
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.syspath_prepend(str(ROOT))
                work = importlib.import_module("benchmarks.peers.spiking_work").work(name)
            encode = Constant() if name == "resnet20" else Poisson()
            found = convert(work.network, IF(), encode, input_shape=tuple(work.drive.shape[2:])).network
            modules = dict(work.network.named_modules())
            double: list[Synapses] = []
            for node in found.synapses:
                module = modules.get(node.name)
                if not isinstance(module, nn.Linear | nn.Conv2d):  # a shortcut: its weights are zeros and ones
                    assert set(node.weight.unique().tolist()) <= {0.0, 1.0}
                    continue
                bias = None if module.bias is None else module.bias.detach()
                assert torch.equal(node.weight, module.weight.float())
                double.append(dataclasses.replace(node, weight=module.weight.detach(), bias=bias))
            # The drive is normalised already, so that the card must not do it again.
            known[name] = dataclasses.replace(found.replaced(double), card=Card()), work.drive
        return known[name]

    return of


def _with(found: SpikingNetwork, entry: Any, setting: str) -> SpikingNetwork:
    """The network with the peer's thresholds and neuron; populations are the peer's, in its order."""
    assert [node.name for node in found.populations] == entry["neurons"]
    nodes = [
        dataclasses.replace(node, threshold=torch.full_like(node.threshold, value, dtype=torch.float64))
        for node, value in zip(found.populations, entry["runs"][setting]["thresholds"], strict=True)
    ]
    return found.replaced(nodes).with_neuron(_neuron(setting, 0.9375))


def _run(found: SpikingNetwork, drive: torch.Tensor, **options: Any) -> Responses:
    if isinstance(found.encode, Constant):
        assert torch.equal(drive[0], drive[-1])
        return simulate(found, drive[0], len(drive), **options)
    return simulate_trains(found, drive.transpose(0, 1).to(torch.int8).numpy(), **options)


@needs_benchmarks
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_spike_in_float64(reference: Any, made: Any, name: str, setting: str) -> None:
    entry = reference("spiking_networks")["networks"][name]
    run = entry["runs"][setting]
    found, drive = made(name)
    network, trains = _with(found, entry, setting), _Trains()
    got = _run(network, drive, precision="float64", observers=[trains])
    names = entry["neurons"]
    assert [got.spikes()[layer] for layer in names] == run["counts"]["float64"]
    assert [trains.digest(layer) for layer in names] == run["sha256"]
    last = run["counts_per_step"]
    assert [got.spikes_per_step[layer].tolist() for layer in names[-len(last) :]] == last
    assert got.scores[0].tolist() == pytest.approx(run["scores"], rel=1e-9)
    assert [got.units[layer] for layer in names] == entry["sizes"]


@needs_benchmarks
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_float32_is_as_near_as_sums_allow(reference: Any, made: Any, name: str, setting: str) -> None:
    entry = reference("spiking_networks")["networks"][name]
    found, drive = made(name)
    got = _run(_with(found, entry, setting), drive)
    for layer, count in zip(entry["neurons"], entry["runs"][setting]["counts"]["float32"], strict=True):
        assert got.spikes()[layer] == pytest.approx(count, rel=2e-4)


@needs_benchmarks
@pytest.mark.parametrize("path", ["events", "dense", "steps"])
@pytest.mark.parametrize("name", ["mlp", pytest.param("vgg5", marks=[pytest.mark.data, pytest.mark.slow])])
def test_each_path_in_float64(reference: Any, made: Any, name: str, path: str) -> None:
    entry = reference("spiking_networks")["networks"][name]
    found, drive = made(name)
    for setting in SETTINGS if name == "mlp" else ["lif_soft"]:
        trains = _Trains()
        _run(_with(found, entry, setting), drive, precision="float64", path=path, observers=[trains])
        assert [trains.digest(layer) for layer in entry["neurons"]] == entry["runs"][setting]["sha256"]


# One neuron, which is given another current at each step: input t fires at step t only, and weighs what flows then.


def _digits(vectors: Any, neuron: IF | LIF, path: str, precision: str) -> str:
    current = torch.tensor(vectors["current"], dtype=torch.float64)
    steps = len(current)
    nodes = (
        Synapses("w", INPUT, current[None]),
        Neurons("n", "w", torch.full((1,), vectors["threshold"], dtype=torch.float64)),
        Synapses("o", "n", torch.ones(1, 1)),
    )
    found = SpikingNetwork(nodes, (steps,), neuron, Poisson())
    got = simulate_trains(found, np.eye(steps, dtype=np.int8)[None], path=path, precision=precision)
    return "".join(map(str, got.spikes_per_step["n"].tolist()))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("path", ["events", "dense", "steps"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_one_neuron(reference: Any, setting: str, path: str, precision: str) -> None:
    vectors = reference("spiking_neurons")
    trains = vectors["trains"][setting]
    assert _digits(vectors, _neuron(setting, vectors["leak"]), path, precision) == trains["spikingjelly"]


@pytest.mark.parametrize("path", ["events", "dense", "steps"])
@pytest.mark.parametrize("setting", ["if_soft", "lif_soft"])
def test_one_neuron_with_a_delay(reference: Any, setting: str, path: str) -> None:
    """It fires one step later than snnTorch's neuron that resets a step late: the same membranes, tested later."""
    vectors = reference("spiking_neurons")
    delayed = dataclasses.replace(_neuron(setting, vectors["leak"]), delay=True)
    expected = vectors["trains"][setting]["snntorch_reset_delay"]
    assert _digits(vectors, delayed, path, "float64") == "0" + expected[:-1]
