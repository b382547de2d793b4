"""SpikingJelly's spikes of whole networks against neurons and layers written out step by step.

Nothing is folded, traced or run ahead here: inputs come from their formulas, batch norm is applied to every current,
and each layer has a membrane that is moved on by one step at a time.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, linear, pad

from weightsmith.data import load as load_data
from weightsmith.networks import load as load_network

ROOT = Path(__file__).parents[2]
SETTINGS = ["if_hard", "if_soft", "lif_hard", "lif_soft"]
FILES = {"vgg5": "vgg5_fc512", "resnet20": "akamaster_resnet20"}
NETWORKS = ["mlp", *(pytest.param(name, marks=[pytest.mark.data, pytest.mark.slow]) for name in FILES)]

Weights = dict[str, Tensor]
Fire = Callable[[Tensor], Tensor]


# Inputs


def _uniform(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _signed_spikes(x: np.ndarray, steps: int, seed: int) -> Tensor:
    generator = _uniform(seed)
    steps_of_spikes = [np.where(generator.random(x.shape) < abs(x), np.copysign(1, x), 0) for _ in range(steps)]
    return torch.from_numpy(np.stack(steps_of_spikes))


def _mlp_inputs() -> tuple[Weights, Tensor]:
    generator, weights = _uniform(60), {}
    for layer, inputs, outputs in (("dense1", 64, 100), ("dense2", 100, 60), ("output", 60, 10)):
        weights[f"{layer}.weight"] = math.sqrt(6 / inputs) * (2 * generator.random((outputs, inputs)) - 1)
        weights[f"{layer}.bias"] = 0.1 * (2 * generator.random(outputs) - 1)
    rows = 2 * _uniform(61).random((4, 64)) - 1
    return {name: torch.from_numpy(value) for name, value in weights.items()}, _signed_spikes(rows, 60, seed=62)


@pytest.fixture(scope="module")
def inputs(request: pytest.FixtureRequest) -> Callable[[str], tuple[Weights, Tensor]]:
    """Weights and drive of a network in float64; data are read once, and only when asked for."""
    known: dict[str, tuple[Weights, Tensor]] = {}

    def pixels(images: int) -> np.ndarray:
        return load_data("cifar10", splits=("test",)).split("test").x[:images].numpy() / 255

    def of(name: str) -> tuple[Weights, Tensor]:
        if name == "mlp":
            return _mlp_inputs()
        if name not in known:
            folder = request.getfixturevalue("shared_data") / "weights"
            weights = load_network(folder / f"{FILES[name]}.safetensors").double().state_dict()
            if name == "vgg5":
                known[name] = weights, _signed_spikes((pixels(4) - 0.5) / 0.5, 40, seed=63)
            else:
                mean, std = (np.reshape(v, (3, 1, 1)) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
                known[name] = weights, torch.from_numpy(np.stack([(pixels(2) - mean) / std] * 32))
        return known[name]

    return of


# Networks: one step of each, a ReLU being a call of ``fire``


def _mlp(weights: Weights, x: Tensor, fire: Fire) -> Tensor:
    for layer in ("dense1", "dense2"):
        x = fire(linear(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"]))
    return linear(x, weights["output.weight"], weights["output.bias"])


def _vgg5(weights: Weights, x: Tensor, fire: Fire) -> Tensor:
    x = avg_pool2d(fire(conv2d(x, weights["features.0.weight"], padding=1)), 2)
    x = fire(conv2d(x, weights["features.3.weight"], padding=1))
    x = avg_pool2d(fire(conv2d(x, weights["features.6.weight"], padding=1)), 2).flatten(1)
    for layer in ("classifier.1", "classifier.4"):
        x = fire(linear(x, weights[f"{layer}.weight"]))
    return linear(x, weights["classifier.7.weight"])


def _resnet20(weights: Weights, x: Tensor, fire: Fire) -> Tensor:
    def convolved(x: Tensor, block: str, number: int, stride: int = 1) -> Tensor:
        norm = [weights[f"{block}bn{number}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return batch_norm(conv2d(x, weights[f"{block}conv{number}.weight"], stride=stride, padding=1), *norm)

    x = fire(convolved(x, "", 1))
    for stage in (1, 2, 3):
        for number in range(3):
            block, narrows = f"layer{stage}.{number}.", stage > 1 and number == 0
            inside = fire(convolved(x, block, 1, stride=2 if narrows else 1))
            if narrows:
                extra = x.shape[1] // 2
                x = pad(x[:, :, ::2, ::2], (0, 0, 0, 0, extra, extra))
            x = fire(convolved(inside, block, 2) + x)
    return linear(x.mean(dim=(2, 3)), weights["fc.weight"], weights["fc.bias"])


STEPS = {"mlp": _mlp, "vgg5": _vgg5, "resnet20": _resnet20}


class _Neurons:
    """Layers of neurons, called in turn within a step; ``nearest`` is the least |v − θ|/θ that was ever seen."""

    def __init__(self, thresholds: list[float], leak: float, soft: bool) -> None:
        self.thresholds, self.leak, self.soft = thresholds, leak, soft
        self.membranes: list[Tensor | float] = [0.0] * len(thresholds)
        self.trains: list[list[Tensor]] = [[] for _ in thresholds]
        self.nearest, self.layer = math.inf, 0

    def __call__(self, current: Tensor) -> Tensor:
        layer, threshold = self.layer, self.thresholds[self.layer]
        v = self.membranes[layer] * self.leak + current
        self.nearest = min(self.nearest, float((v - threshold).abs().min()) / threshold)
        fired = v > threshold
        self.membranes[layer] = torch.where(fired, v - threshold if self.soft else 0.0, v)
        self.trains[layer].append(fired.to(torch.uint8))
        self.layer = (layer + 1) % len(self.thresholds)
        return fired.to(current.dtype)


def _digest(*arrays: Tensor) -> str:
    return hashlib.sha256(b"".join(array.numpy().tobytes() for array in arrays)).hexdigest()[:12]


def _simulated(name: str, given: tuple[Weights, Tensor], thresholds: list[float], setting: str) -> tuple[Any, Tensor]:
    weights, drive = given
    neurons = _Neurons(thresholds, 0.9375 if setting.startswith("lif") else 1.0, setting.endswith("soft"))
    with torch.no_grad():
        scores = sum(STEPS[name](weights, x, neurons) for x in drive)
    return neurons, scores


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_spike_in_float64(reference: Any, inputs: Any, name: str, setting: str) -> None:
    entry = reference("spiking_networks")["networks"][name]
    run = entry["runs"][setting]
    neurons, scores = _simulated(name, inputs(name), run["thresholds"], setting)
    trains = [torch.stack(train) for train in neurons.trains]
    assert run["counts"]["float64"] == [int(train.sum()) for train in trains]
    assert run["sha256"] == [_digest(train) for train in trains]
    per_step = [[int(step.sum()) for step in train] for train in trains]
    assert run["counts_per_step"] == per_step[-len(run["counts_per_step"]) :]
    assert entry["sizes"] == [train[0, 0].numel() for train in trains]
    assert run["scores"] == pytest.approx(scores[0].tolist(), rel=1e-9)
    # No order of sums, nor the choice between > and ≥, can have decided any of them.
    assert neurons.nearest > 0.9e-6
    assert all(0.03 < float(train.double().mean()) < 0.15 for train in trains)


@pytest.mark.parametrize("setting", SETTINGS)
def test_float32(reference: Any, setting: str) -> None:
    run = reference("spiking_networks")["networks"]["mlp"]["runs"][setting]
    weights, drive = _mlp_inputs()
    single = {name: value.float() for name, value in weights.items()}
    neurons, _ = _simulated("mlp", (single, drive.float()), run["thresholds"], setting)
    assert run["counts"]["float32"] == [int(torch.stack(train).sum()) for train in neurons.trains]


def test_float32_is_float64_but_for_rounding(reference: Any) -> None:
    for entry in reference("spiking_networks")["networks"].values():
        for run in entry["runs"].values():
            assert run["counts"]["float32"] == pytest.approx(run["counts"]["float64"], rel=2e-4)
            assert [float(np.float32(threshold)) for threshold in run["thresholds"]] == run["thresholds"]


def test_settings_differ(reference: Any) -> None:
    """Neither leak nor reset is without effect, or one run could stand for another."""
    vectors = reference("spiking_networks")
    assert vectors["settings"] == {
        name: {"leak": 1.0 if name.startswith("if") else 0.9375, "reset": name.partition("_")[2]} for name in SETTINGS
    }
    for entry in vectors["networks"].values():
        trains = [digest for run in entry["runs"].values() for digest in run["sha256"]]
        assert len(set(trains)) == len(trains) == 4 * len(entry["neurons"])


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_are_those_of_the_writer(reference: Any, inputs: Any, name: str) -> None:
    entry = reference("spiking_networks")["networks"][name]
    weights, drive = inputs(name)
    assert entry["drive"] == {"sha256": _digest(drive), "shape": list(drive.shape)}
    if name == "mlp":
        assert entry["weights"] == {"sha256": _digest(*weights.values())}


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not part of the source archive")
@pytest.mark.parametrize("name", NETWORKS)
def test_the_shared_module_makes_the_same(
    reference: Any, inputs: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    made = importlib.import_module("benchmarks.peers.spiking_work")
    work, entry, (_, drive) = made.work(name), reference("spiking_networks")["networks"][name], inputs(name)
    assert torch.equal(work.drive, drive)
    assert list(work.neurons) == entry["neurons"]
    if name == "mlp":
        found = {setting: list(made.thresholds(work, made.SETTINGS[setting])) for setting in SETTINGS}
        assert found == {setting: entry["runs"][setting]["thresholds"] for setting in SETTINGS}
