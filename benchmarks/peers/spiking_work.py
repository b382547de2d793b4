"""Three networks, what drives them and where they fire: the inputs of the topic ``spiking_networks``, without a peer.

Everything is float64 and made from whole numbers, files or ``Generator(PCG64(seed)).random``, so that a test makes the
same again; a float32 run takes these tensors rounded with ``.float()``. Each network is the ``fold_batch_norm`` of one
in float64 (folded in float32 the weights would hang on the last bits of a square root), its ReLUs are the neurons:

    mlp        64-100-60-10 with bias; weights (2u − 1)·sqrt(6/fan in), biases (2u − 1)/10, in the order of
               ``named_parameters``; driven by signed spikes of 4 rows with entries 2u − 1, for 60 steps
    vgg5       vgg5_fc512.safetensors; signed spikes of the first 4 test images of CIFAR-10 at 0.5/0.5, 40 steps
    resnet20   akamaster_resnet20.safetensors; the first 2 of them as its card normalises them, constant for 32 steps

A signed spike of x is sign(x) where u < |x|, u drawn anew for every step. Biases are added at every step.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import math
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, fx, nn

from benchmarks.measure import Unavailable
from weightsmith.data import load as load_data
from weightsmith.networks import card_of, fold_batch_norm, mlp
from weightsmith.networks import load as load_network

__all__ = ["NETWORKS", "RATES", "SETTINGS", "Setting", "Work", "digest", "thresholds", "work"]

NETWORKS = ("mlp", "vgg5", "resnet20")
RATES = (0.03, 0.15)
"""Between these lies the share of neurons of any layer that fire in a step."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """v ← leak·v + I, a spike at the threshold θ, then v ← v − θ (soft) or v ← 0 (hard); v is 0 at first."""

    leak: float
    reset: Literal["soft", "hard"]


# 1 − leak is a power of two: leak·v and v − v/16 are the same number, rounded once.
SETTINGS = {
    f"{neuron}_{reset}": Setting(leak, reset)
    for neuron, leak in (("if", 1.0), ("lif", 0.9375))
    for reset in ("soft", "hard")
}


@dataclasses.dataclass(frozen=True)
class Work:
    """A network (eval, float64), what it is given at every step, (steps, rows, …), and what its thresholds must give.

    In float64 no membrane comes nearer to its threshold θ than ``margin``·θ. So neither ≥ against > nor the order of
    sums decides a spike, hardly even in float32; one spike more or less in a deep network soon makes fifty.
    """

    network: fx.GraphModule
    drive: Tensor
    rate: float = 0.08
    margin: float = 2e-6

    @property
    def neurons(self) -> tuple[str, ...]:
        """The names of the ReLUs, in the order in which they are reached."""
        modules = dict(self.network.named_modules())
        targets = [str(node.target) for node in self.network.graph.nodes if node.op == "call_module"]
        return tuple(target for target in targets if isinstance(modules[target], nn.ReLU))


def work(name: str) -> Work:
    """The network of this name and its drive; ``vgg5`` and ``resnet20`` need ``WEIGHTSMITH_DATA``."""
    if name == "mlp":
        entries = 2 * _uniform(61)((4, 64)) - 1
        return Work(_folded(_drawn_mlp()), _signed_spikes(entries, steps=60, seed=62))
    if name == "vgg5":
        network, (pixels, mean, std) = _stored("vgg5_fc512", images=4)
        return Work(network, _signed_spikes((pixels / 255 - mean) / std, steps=40, seed=63), rate=0.05, margin=1e-6)
    if name == "resnet20":
        network, (pixels, mean, std) = _stored("akamaster_resnet20", images=2)
        image = torch.from_numpy((pixels / 255 - mean) / std)
        return Work(network, image.expand(32, *image.shape))
    raise ValueError(f"unknown network {name!r} (known: {', '.join(NETWORKS)})")


def digest(*tensors: Tensor) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of their bytes, row by row, one after the other."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:12]


@torch.no_grad()
def thresholds(given: Work, setting: Setting) -> tuple[float, ...]:
    """One per layer, of 12 binary digits, found from the first layer to the last for the rate of the work.

    Nothing here runs backwards in time, so a layer is run through all steps before the next one is looked at.
    """
    search = _Search(given, setting)
    search.run(given.drive.flatten(0, 1))
    return tuple(search.found)


class _Search(fx.Interpreter):
    """The network with all steps as one batch, in which every ReLU becomes a layer of neurons once it is reached."""

    def __init__(self, given: Work, setting: Setting) -> None:
        super().__init__(given.network)
        self._given, self._setting = given, setting
        self.found: list[float] = []

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(self.fetch_attr(target), nn.ReLU):
            return super().call_module(target, args, kwargs)
        current = args[0].unflatten(0, (len(self._given.drive), -1))
        threshold, spikes = _threshold(current, self._setting, self._given)
        self.found.append(threshold)
        return spikes.flatten(0, 1)


def _threshold(current: Tensor, setting: Setting, given: Work) -> tuple[float, Tensor]:
    """The threshold for this rate or, for the margin's sake, one slightly above it; and the spikes it gives."""
    low, high = 0.0, float(current.abs().amax()) * len(current)
    for _ in range(16):
        middle = (low + high) / 2
        busy = float(_fire(current, middle, setting)[0].mean()) > given.rate
        low, high = (middle, high) if busy else (low, middle)
    mantissa, exponent = math.frexp(high)
    for whole in itertools.count(round(mantissa * 2**12)):
        threshold = math.ldexp(whole, exponent - 12)
        spikes, nearest = _fire(current, threshold, setting, least=given.margin * threshold)
        if nearest > given.margin * threshold:
            return threshold, spikes
    raise AssertionError  # the count has no end


def _fire(current: Tensor, threshold: float, setting: Setting, least: float = -1.0) -> tuple[Tensor, float]:
    """Spikes of all steps and the least distance from the threshold; given up once that is not above ``least``."""
    spikes, nearest = torch.empty_like(current), math.inf
    v = torch.zeros_like(current[0])
    for step, value in enumerate(current):
        v = setting.leak * v + value
        nearest = min(nearest, float((v - threshold).abs().amin()))
        if nearest <= least:
            break
        spikes[step] = v > threshold
        v = v - threshold * spikes[step] if setting.reset == "soft" else v * (1 - spikes[step])
    return spikes, nearest


def _uniform(seed: int) -> Any:
    return np.random.Generator(np.random.PCG64(seed)).random


def _signed_spikes(x: Any, steps: int, seed: int) -> Tensor:
    drawn = _uniform(seed)((steps, *x.shape)) < np.abs(x)
    return torch.from_numpy(np.where(drawn, np.sign(x), 0.0))


@torch.no_grad()
def _drawn_mlp() -> nn.Module:
    network, uniform = mlp(64, 100, 60, 10).double(), _uniform(60)
    for parameter in network.parameters():
        scale = math.sqrt(6 / parameter.shape[1]) if parameter.dim() == 2 else 0.1
        parameter.copy_(torch.from_numpy(scale * (2 * uniform(tuple(parameter.shape)) - 1)))
    return network


def _folded(network: nn.Module) -> fx.GraphModule:
    return fold_batch_norm(network).network.requires_grad_(False)


def _stored(name: str, images: int) -> tuple[fx.GraphModule, tuple[Any, Any, Any]]:
    """The network in the file of this name; pixels of the first test images, and the mean and deviation it wants."""
    folder = os.environ.get("WEIGHTSMITH_DATA")
    if not folder:
        raise Unavailable("WEIGHTSMITH_DATA is not set: a folder with cifar10 and weights/*.safetensors")
    network = load_network(Path(folder) / "weights" / f"{name}.safetensors").double()
    card = card_of(network)
    assert card is not None
    assert card.normalisation is not None
    mean, std = (np.reshape(values, (-1, 1, 1)) for values in (card.normalisation.mean, card.normalisation.std))
    return _folded(network), (_test_images()[:images].astype(np.float64), mean, std)


@functools.cache
def _test_images() -> Any:
    return load_data("cifar10", splits=("test",)).split("test").x[:4].numpy()
