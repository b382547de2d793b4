"""The networks of the topic ``spiking_nir``, without a peer: what is written to NIR files, and with which options.

Weights are whole numbers divided by 64 (``inputs.py``) times a scale, so that a test makes the same files again;
``vgg5`` takes those of vgg5_fc512.safetensors. Thresholds are chosen so that a few percent of all neurons fire in a
step, and so that no membrane meets its threshold exactly, which one simulator counts as a spike and the others do not.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Unavailable
from benchmarks.peers.inputs import weights
from weightsmith.data import load as load_data
from weightsmith.data.normalise import HALF
from weightsmith.networks import load as load_network
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import Add, Flatten, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF

__all__ = ["CASES", "Case"]

_LEAK = 0.9375


@dataclasses.dataclass(frozen=True)
class Case:
    """A network and how it is exported: the options of ``export_nir``, images among them."""

    network: Callable[[IF | LIF], SpikingNetwork]
    neuron: IF | LIF
    options: dict[str, Any]
    images: int = 0
    tolerance: float = 0.0

    def exported(self) -> tuple[SpikingNetwork, dict[str, Any]]:
        """What to call ``export_nir`` with."""
        options = dict(self.options)
        if self.images:
            options["x"] = load_data("cifar10", splits=("test",)).split("test").x[: self.images]
        return self.network(self.neuron), options


def _weights(*shape: int, salt: int, scale: float) -> Tensor:
    return torch.from_numpy(weights(*shape, salt=salt) * scale).float()


def _thresholds(base: float, channels: int) -> Tensor:
    """Another one for every channel, and none that sums of the weights could meet."""
    return base + torch.arange(channels) / 37 + 1 / 301


def _mlp(neuron: IF | LIF) -> SpikingNetwork:
    nodes: tuple[Node, ...] = (
        Synapses("0", "input", _weights(40, 24, salt=71, scale=0.25), _weights(40, salt=72, scale=0.02)),
        Neurons("1", "0", _thresholds(2, 40)),
        Synapses("2", "1", _weights(30, 40, salt=73, scale=0.25)),
        Neurons("3", "2", _thresholds(1, 30)),
        Synapses("4", "3", _weights(6, 30, salt=74, scale=0.25)),
    )
    return SpikingNetwork(nodes, (24,), neuron, Poisson())


def _pools(neuron: IF | LIF) -> SpikingNetwork:
    """Thresholds per channel, groups, a pool before a convolution, one before a dense layer, one that leaves a rest."""
    nodes: tuple[Node, ...] = (
        Synapses("conv1", "input", _weights(8, 2, 3, 3, salt=75, scale=0.25), padding=(1, 1)),
        Neurons("relu1", "conv1", _thresholds(1.5, 8)),
        Pool("pool1", "relu1", (2, 2), (2, 2)),
        Synapses("conv2", "pool1", _weights(8, 4, 3, 3, salt=76, scale=0.5), padding=(1, 1), groups=2),
        Neurons("relu2", "conv2", _thresholds(1.0, 8)),
        Pool("pool2", "relu2", (2, 2), (2, 2)),
        Synapses("conv3", "pool2", _weights(8, 8, 3, 3, salt=77, scale=0.75), padding=(1, 1)),
        Neurons("relu3", "conv3", _thresholds(0.75, 8)),
        Pool("pool3", "relu3", (3, 3), (3, 3)),
        Flatten("flatten", "pool3"),
        Synapses("dense", "flatten", _weights(5, 8, salt=78, scale=0.25)),
    )
    return SpikingNetwork(nodes, (2, 14, 14), neuron, Poisson())


def _residual(neuron: IF | LIF) -> SpikingNetwork:
    """A block with a convolution as its shortcut, then one with a scaled identity."""
    nodes: tuple[Node, ...] = (
        Synapses("stem", "input", _weights(6, 2, 3, 3, salt=79, scale=0.25), padding=(1, 1)),
        Neurons("relu0", "stem", _thresholds(1.5, 6)),
        Synapses("one.conv1", "relu0", _weights(6, 6, 3, 3, salt=80, scale=0.2), padding=(1, 1)),
        Neurons("one.relu1", "one.conv1", _thresholds(1.0, 6)),
        Synapses("one.conv2", "one.relu1", _weights(6, 6, 3, 3, salt=81, scale=0.2), padding=(1, 1)),
        Synapses("one.shortcut", "relu0", _weights(6, 6, 1, 1, salt=82, scale=0.3)),
        Add("one.add", ("one.conv2", "one.shortcut")),
        Neurons("one.relu2", "one.add", _thresholds(1.0, 6)),
        Synapses("two.conv", "one.relu2", _weights(6, 6, 3, 3, salt=83, scale=0.2), padding=(1, 1)),
        Scale("two.scale", "one.relu2", torch.linspace(0.5, 1, 6)),
        Add("two.add", ("two.conv", "two.scale")),
        Neurons("two.relu", "two.add", _thresholds(1.0, 6)),
        Pool("average", "two.relu", (8, 8), (8, 8)),
        Flatten("flatten", "average"),
        Synapses("dense", "flatten", _weights(5, 6, salt=84, scale=1.0)),
    )
    return SpikingNetwork(nodes, (2, 8, 8), neuron, Poisson())


_VGG5 = {
    "if": (2.28125, 0.38671875, 0.10546875, 1.3515625, 2.0),
    "lif": (2.0068359375, 0.40673828125, 0.14215087890625, 1.18359375, 1.603515625),
}


def _vgg5(neuron: IF | LIF) -> SpikingNetwork:
    folder = os.environ.get("WEIGHTSMITH_DATA")
    if not folder:
        raise Unavailable("WEIGHTSMITH_DATA is not set: a folder with cifar10 and weights/*.safetensors")
    state = load_network(Path(folder) / "weights" / "vgg5_fc512.safetensors").state_dict()
    thresholds = iter(_VGG5[neuron.name])
    nodes: list[Node] = []

    def layer(name: str, relu: str | None, padding: int = 0) -> None:
        source = nodes[-1].name if nodes else "input"
        nodes.append(Synapses(name, source, state[f"{name}.weight"], padding=(padding, padding)))
        if relu is not None:
            channels = len(state[f"{name}.weight"])
            nodes.append(Neurons(relu, name, torch.full((channels,), next(thresholds)), layer=name))

    layer("features.0", "features.1", 1)
    nodes.append(Pool("features.2", "features.1", (2, 2), (2, 2)))
    layer("features.3", "features.4", 1)
    layer("features.6", "features.7", 1)
    nodes.append(Pool("features.8", "features.7", (2, 2), (2, 2)))
    nodes.append(Flatten("classifier.0", "features.8"))
    layer("classifier.1", "classifier.2")
    layer("classifier.4", "classifier.5")
    layer("classifier.7", None)
    return SpikingNetwork(tuple(nodes), (3, 32, 32), neuron, Poisson(), Card(normalisation=HALF))


_EIGHT = {"rounding": 8}
CASES = {
    "mlp_if_hard": Case(_mlp, IF(reset="hard"), _EIGHT),
    "mlp_lif_soft": Case(_mlp, LIF(_LEAK), {}, tolerance=1e-4),
    "pools_if_hard": Case(_pools, IF(reset="hard"), _EIGHT),
    "pools_if_soft": Case(_pools, IF(), _EIGHT),
    "pools_if_soft_sumpool": Case(_pools, IF(), {**_EIGHT, "sumpool": True}),
    "pools_lif_hard": Case(_pools, LIF(_LEAK, reset="hard"), {}, tolerance=1e-4),
    "pools_lif_soft": Case(_pools, LIF(_LEAK), {}, tolerance=1e-4),
    "residual_if_hard": Case(_residual, IF(reset="hard"), _EIGHT),
    "residual_lif_soft": Case(_residual, LIF(_LEAK), {}, tolerance=1e-4),
    "vgg5_if_hard": Case(_vgg5, IF(reset="hard"), {**_EIGHT, "steps": 20}, images=2),
    "vgg5_lif_hard": Case(_vgg5, LIF(_LEAK, reset="hard"), {"steps": 20}, images=2, tolerance=1e-4),
}
