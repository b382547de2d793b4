"""Small spiking networks of every kind, and an observer that keeps all of a run.

Weights, biases and thresholds are multiples of 1/64: every current is then exact in float32, whatever the order of its
sum, and two engines must agree to the last spike even where a membrane stands exactly at its threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.seeds import torch_stream
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, AnyNeuron

NEURONS = tuple(
    neuron
    for reset in ("soft", "hard")
    for delay in (False, True)
    for neuron in (IF(reset=reset, delay=delay), LIF(0.8125, reset=reset, delay=delay))
)
SIGNED = IF(signed=True)


class SpikeRecorder:
    """An observer that keeps the spikes (and membranes) of all populations: (images, steps, positions, channels)."""

    def __init__(self, membranes: bool = False, inputs: bool = False) -> None:
        self.membranes, self.inputs = membranes, inputs
        self.parts: dict[str, list[tuple[np.ndarray, int, np.ndarray, np.ndarray | None]]] = {}

    def see(self, population, images, step, spikes, membranes) -> None:
        kept = None if membranes is None else membranes.copy()
        self.parts.setdefault(population, []).append((images.copy(), step, spikes.copy(), kept))

    def _whole(self, name: str, field: int) -> np.ndarray:
        parts = self.parts[name]
        images, steps = (max(top) for top in zip(*((p[0].max() + 1, p[1] + p[2].shape[1]) for p in parts), strict=True))
        whole = np.zeros((images, steps, *parts[0][2].shape[2:]), parts[0][field].dtype)
        for part in parts:
            whole[part[0], part[1] : part[1] + part[2].shape[1]] = part[field]
        return whole

    @property
    def trains(self) -> dict[str, np.ndarray]:
        return {name: self._whole(name, 2) for name in self.parts}

    @property
    def tested(self) -> dict[str, np.ndarray]:
        return {name: self._whole(name, 3) for name, parts in self.parts.items() if parts[0][3] is not None}


def weights(*shape: int, seed: int, size: float = 1.0) -> Tensor:
    """Multiples of 1/64 between −size and size."""
    most = int(64 * size)
    return torch.randint(-most, most + 1, shape, generator=torch_stream(seed, "weights")) / 64


def levels(*shape: int, seed: int, least: float = 0.5, most: float = 2.0) -> Tensor:
    """Multiples of 1/64 between ``least`` and ``most``: thresholds."""
    return torch.randint(int(64 * least), int(64 * most) + 1, shape, generator=torch_stream(seed, "levels")) / 64


def inputs(network: SpikingNetwork, images: int = 3, seed: int = 0) -> Tensor:
    """Multiples of 1/128 between −1 and 1, the ends and zero among them."""
    x = torch.randint(-128, 129, (images, *network.input_shape), generator=torch_stream(seed, "inputs")) / 128
    rows = x.view(images, -1)
    rows[:, :3] = torch.tensor([1.0, 0.0, -1.0])[: rows.shape[1]]
    return x


def _mlp() -> tuple[tuple[int, ...], list[Node]]:
    return (127,), [
        Synapses("one", INPUT, weights(17, 127, seed=1, size=0.5), weights(17, seed=2, size=0.3)),
        Neurons("relu1", "one", levels(17, seed=3), start=0.5, layer="one"),
        Synapses("two", "relu1", weights(100, 17, seed=4)),
        Neurons("relu2", "two", levels(100, seed=5), layer="two"),
        Synapses("three", "relu2", weights(10, 100, seed=6), weights(10, seed=7)),
    ]


def _wide_mlp() -> tuple[tuple[int, ...], list[Node]]:
    """Inputs and hidden units that come in several parts and tiles."""
    return (192,), [
        Synapses("one", INPUT, weights(160, 192, seed=1, size=0.3)),
        Neurons("relu1", "one", levels(160, seed=3), layer="one"),
        Synapses("two", "relu1", weights(3, 160, seed=6)),
    ]


def _conv() -> tuple[tuple[int, ...], list[Node]]:
    return (3, 7, 6), [
        Synapses("conv1", INPUT, weights(5, 3, 3, 3, seed=1), weights(5, seed=2, size=0.2), padding=(1, 1)),
        Neurons("relu1", "conv1", levels(5, seed=3), start=0.5, layer="conv1"),
        Synapses("conv2", "relu1", weights(17, 5, 3, 2, seed=4), stride=(2, 1), padding=(0, 1)),
        Neurons("relu2", "conv2", levels(17, seed=5), layer="conv2"),
        Flatten("flat", "relu2"),
        Synapses("out", "flat", weights(10, 17 * 3 * 7, seed=6), weights(10, seed=7)),
    ]


def _eights() -> tuple[tuple[int, ...], list[Node]]:
    """Channels that fill whole words and whole tiles."""
    return (8, 6, 6), [
        Synapses("conv1", INPUT, weights(16, 8, 3, 3, seed=1), padding=(1, 1)),
        Neurons("relu1", "conv1", levels(16, seed=3), layer="conv1"),
        Synapses("conv2", "relu1", weights(64, 16, 3, 3, seed=4), padding=(1, 1)),
        Neurons("relu2", "conv2", levels(64, seed=5), layer="conv2"),
        Pool("pool", "relu2", (2, 2), (2, 2)),
        Flatten("flat", "pool"),
        Synapses("out", "flat", weights(8, 64 * 9, seed=6)),
    ]


def _borders() -> tuple[tuple[int, ...], list[Node]]:
    """Padding larger than the kernel, a 1×1 kernel, dilation, uneven strides."""
    return (3, 5, 6), [
        Synapses("conv1", INPUT, weights(10, 3, 1, 1, seed=1), weights(10, seed=2), padding=(2, 3)),
        Neurons("relu1", "conv1", levels(10, seed=3), layer="conv1"),
        Synapses("conv2", "relu1", weights(4, 10, 2, 3, seed=4), stride=(3, 2), padding=(4, 5), dilation=(2, 3)),
        Neurons("relu2", "conv2", levels(4, seed=5), layer="conv2"),
        Synapses("conv3", "relu2", weights(8, 4, 3, 3, seed=8), padding=(2, 2), dilation=(2, 2)),
        Neurons("relu3", "conv3", levels(8, seed=9), layer="conv3"),
        Flatten("flat", "relu3"),
        Synapses("out", "flat", weights(3, 8 * 5 * 8, seed=6, size=0.2)),
    ]


def _pools() -> tuple[tuple[int, ...], list[Node]]:
    """Windows that overlap and reach over the edge, averages and sums, a pool of a pool."""
    return (2, 9, 8), [
        Synapses("conv1", INPUT, weights(5, 2, 3, 3, seed=1), padding=(1, 1)),
        Neurons("relu1", "conv1", levels(5, seed=3), layer="conv1"),
        Pool("mean", "relu1", (2, 2), (1, 2), (1, 1)),
        Synapses("conv2", "mean", weights(8, 5, 3, 3, seed=4), weights(8, seed=2)),
        Neurons("relu2", "conv2", levels(8, seed=5), layer="conv2"),
        Pool("sum", "relu2", (3, 2), (2, 1), (1, 0), average=False),
        Pool("again", "sum", (2, 1), (1, 1)),
        Synapses("conv3", "again", weights(3, 8, 1, 1, seed=8, size=0.5)),
        Neurons("relu3", "conv3", levels(3, seed=9), layer="conv3"),
        Pool("last", "relu3", (2, 2), (1, 1)),
        Flatten("flat", "last"),
        Synapses("out", "flat", weights(4, 6, seed=6)),
    ]


def _gates() -> tuple[tuple[int, ...], list[Node]]:
    return (3, 8, 7), [
        Synapses("conv1", INPUT, weights(5, 3, 3, 3, seed=1), padding=(1, 1)),
        Neurons("relu1", "conv1", levels(5, seed=3), layer="conv1"),
        Gate("gate1", "relu1", (3, 2), (2, 1), (1, 1)),
        Synapses("conv2", "gate1", weights(8, 5, 3, 3, seed=4)),
        Neurons("relu2", "conv2", levels(8, seed=5), layer="conv2"),
        Gate("gate2", "relu2", (2, 2), (2, 2)),
        Flatten("flat", "gate2"),
        Synapses("out", "flat", weights(10, 8 * 3, seed=6), weights(10, seed=7)),
    ]


def _residual() -> tuple[tuple[int, ...], list[Node]]:
    return (3, 6, 6), [
        Synapses("conv1", INPUT, weights(4, 3, 3, 3, seed=1), padding=(1, 1)),
        Neurons("relu1", "conv1", levels(4, seed=3), layer="conv1"),
        Synapses("conv2", "relu1", weights(4, 4, 3, 3, seed=4), padding=(1, 1)),
        Scale("same", "relu1", levels(4, seed=8)),
        Add("sum2", ("conv2", "same")),
        Neurons("relu2", "sum2", levels(4, seed=5), layer="conv2"),
        Synapses("conv3", "relu2", weights(6, 4, 3, 3, seed=9), stride=(2, 2), padding=(1, 1)),
        Synapses("short", "relu2", weights(6, 4, 1, 1, seed=10), stride=(2, 2)),
        Synapses("early", "relu1", weights(6, 4, 2, 2, seed=12), stride=(2, 2)),
        Add("sum3", ("conv3", "short", "early")),
        Neurons("relu3", "sum3", levels(6, seed=11), layer="conv3"),
        Pool("all", "relu3", (3, 3), (3, 3), average=False),
        Flatten("flat", "all"),
        Synapses("out", "flat", weights(5, 6, seed=6)),
    ]


def _groups() -> tuple[tuple[int, ...], list[Node]]:
    return (4, 5, 5), [
        Synapses("conv1", INPUT, weights(4, 1, 3, 3, seed=1), padding=(1, 1), groups=4),
        Neurons("relu1", "conv1", levels(4, seed=3), layer="conv1"),
        Synapses("conv2", "relu1", weights(10, 2, 3, 3, seed=4), weights(10, seed=2), stride=(2, 2), groups=2),
        Neurons("relu2", "conv2", levels(10, seed=5), layer="conv2"),
        Flatten("flat", "relu2"),
        Synapses("out", "flat", weights(3, 40, seed=6)),
    ]


def _flattened() -> tuple[tuple[int, ...], list[Node]]:
    """Features are counted channel by channel: neurons, scales and sums behind a flatten, and one that is the end."""
    return (3, 4, 5), [
        Synapses("conv1", INPUT, weights(4, 3, 2, 2, seed=1)),
        Flatten("flat1", "conv1"),
        Neurons("relu1", "flat1", levels(48, seed=3), layer="conv1"),
        Flatten("flat0", INPUT),
        Synapses("dense", "flat0", weights(48, 60, seed=4, size=0.5)),
        Scale("scale", "flat1", levels(48, seed=8)),
        Add("sum", ("dense", "scale", "relu1")),
        Neurons("relu2", "sum", levels(48, seed=5), layer="dense"),
        Synapses("out", "relu2", weights(3, 48, seed=6)),
        Flatten("end", "out"),
    ]


def _units() -> tuple[tuple[int, ...], list[Node]]:
    """A threshold and a leak for every single neuron, or for every channel."""
    shape = (5, 6, 5)
    return (2, 6, 5), [
        Synapses("conv1", INPUT, weights(5, 2, 3, 3, seed=1), padding=(1, 1)),
        Neurons("relu1", "conv1", levels(*shape, seed=3), 0.5, levels(*shape, seed=20, least=0.5, most=1)),
        Synapses("conv2", "relu1", weights(8, 5, 3, 3, seed=4)),
        Neurons("relu2", "conv2", levels(8, seed=5), 0.25, levels(8, 4, 3, seed=21, least=0.5, most=1)),
        Synapses("conv3", "relu2", weights(3, 8, 3, 3, seed=8)),
        Neurons("relu3", "conv3", levels(3, 2, 1, seed=9), leak=levels(3, seed=22, least=0.5, most=1)),
        Flatten("flat", "relu3"),
        Synapses("dense", "flat", weights(7, 6, seed=10)),
        Neurons("relu4", "dense", levels(7, seed=11), leak=levels(7, seed=23, least=0.5, most=1)),
        Synapses("out", "relu4", weights(4, 7, seed=6)),
    ]


def _input_pools() -> tuple[tuple[int, ...], list[Node]]:
    """Several input spikes of either sign that meet in one window; neurons and scales that read the input itself."""
    return (8, 6, 6), [
        Pool("mean", INPUT, (2, 2), (2, 2)),
        Synapses("conv1", "mean", weights(16, 8, 2, 2, seed=1)),
        Neurons("relu1", "conv1", levels(16, seed=3), layer="conv1"),
        Pool("sum", INPUT, (3, 3), (3, 3), average=False),
        Flatten("flat0", "sum"),
        Synapses("dense", "flat0", weights(9, 32, seed=4)),
        Neurons("relu2", "dense", levels(9, seed=5), layer="dense"),
        Neurons("plain", INPUT, levels(8, seed=9), layer=INPUT),
        Flatten("flat1", "plain"),
        Synapses("part1", "flat1", weights(4, 288, seed=6)),
        Scale("scaled", "relu2", levels(9, seed=12)),
        Synapses("part2", "scaled", weights(4, 9, seed=7)),
        Flatten("flat2", "relu1"),
        Synapses("part3", "flat2", weights(4, 64, seed=8)),
        Add("out", ("part1", "part2", "part3")),
    ]


_MAKERS: dict[str, Callable[[], tuple[tuple[int, ...], list[Node]]]] = {
    "mlp": _mlp,
    "wide mlp": _wide_mlp,
    "conv": _conv,
    "eights": _eights,
    "borders": _borders,
    "pools": _pools,
    "gates": _gates,
    "residual": _residual,
    "groups": _groups,
    "flattened": _flattened,
    "units": _units,
    "input pools": _input_pools,
}
KINDS = tuple(_MAKERS)
WHOLE = ("mlp", "wide mlp", "conv", "eights", "borders", "residual", "groups", "gates")  # of these int8 makes sense


def network(kind: str, neuron: AnyNeuron | None = None, encode: Poisson | Constant | None = None) -> SpikingNetwork:
    """A network of that kind; its weights are always the same."""
    shape, nodes = _MAKERS[kind]()
    return SpikingNetwork(tuple(nodes), shape, neuron or IF(), encode or Poisson())


def chain(nodes: Sequence[Node], shape: Sequence[int], **options) -> SpikingNetwork:
    """These nodes as a network of plain neurons with Poisson input, or as the options say."""
    return SpikingNetwork(tuple(nodes), tuple(shape), options.pop("neuron", IF()), options.pop("encode", Poisson()))
