"""Calibration: few steps distort the outputs of a layer; its biases (and weights) are adjusted to correct them.

One pass on unlabelled training rows, layer by layer, each on its real inputs: the spikes of the layers already done.
With a the activations of the network and ŷ the values that the spikes of a population represent (their mean, or for
graded neurons their sum, times the value of a spike):

``bias``      twice: b ← b + mean over images and positions of (a − ŷ), channel by channel

``weights``   first, except for layers that read the input and the last one, least squares. With X the patches of the
              layer's input as the spikes represent it, and a column of ones, y = XW the layer's output, and N rows:

                  target = a where a > 0, else min(y, 0)        ΔW = (XᵀX/N + λI)⁻¹ Xᵀ(target − y)/N

              λ is ``ridge`` times the mean diagonal of XᵀX/N. Then the biases as above.

The biases of the last layer are adjusted once, so that its mean scores equal the network's. (Bias correction: Li et
al., "A free lunch from ANN", ICML 2021; least squares on real inputs: as in layer-wise quantisation of networks.)

>>> Calibrate.parse("weights:ridge=0.02")
CalibrateWeights(ridge=0.02, positions=48000, images=512)
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option, param
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Record
from weightsmith.core.seeds import pinned_threads, stream
from weightsmith.spiking.conversion.max_current import feeding, leading
from weightsmith.spiking.graph import INPUT, Add, Gate, Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.chunked import ChunkEngine
from weightsmith.spiking.simulation.reference import plain_value
from weightsmith.spiking.simulation.sources import source_of

__all__ = [
    "Calibrate",
    "CalibrateBias",
    "CalibrateDistill",
    "CalibrateWeights",
    "Calibration",
    "LayerCalibration",
    "calibrated",
]

_PASSES = 2
_BLOCK = 32  # images whose patches are unfolded together
_NEAR = 2_000_000  # values computed together, which fit in the cache


class Calibrate(Option, family="calibrate"):
    """The family of calibrations on unlabelled training rows: ``bias``, ``weights`` and ``distill``."""


class CalibrateBias(Calibrate, name="bias"):
    """Biases are adjusted so that the mean of every channel equals that of the network."""

    images: int = param(default=256, ge=1, doc="training images to use, without their labels")


class CalibrateWeights(Calibrate, name="weights"):
    """Weights are fitted to the network's values by least squares, then biases are adjusted."""

    ridge: float = param(default=0.01, gt=0, doc="penalty on the change, as a share of the mean square of an input")
    positions: int = param(default=48_000, ge=1, doc="positions of a layer used in the fit")
    images: int = param(default=512, ge=1, doc="training images to use, without their labels")


class CalibrateDistill(Calibrate, name="distill"):
    """After ``weights``, all weights are trained together (:mod:`weightsmith.spiking.conversion.distilling`)."""

    images: int | None = param(
        default=None, ge=16, doc="unlabelled training images; none: 12,000 divided by the steps, from 600 to 3,000"
    )
    rate: float | None = param(default=None, gt=0, lt=1, doc="rate of Adam; none: from the distance and the depth")
    batch: int = param(default=16, ge=1, doc="images per step")

    def rows(self, steps: int) -> int:
        """How many images it sees. Its cost grows with the steps, and what another image gains falls."""
        return self.images or min(max(12_000 // steps, 600), 3_000)


@dataclasses.dataclass(frozen=True, eq=False)
class LayerCalibration(Record):
    """The changes in one layer.

    ``weights`` is ‖ΔW‖/‖W‖ (None if unchanged), ``bias`` the root mean square of the changes of its biases. ``before``
    and ``after`` are the root mean square over channels of the population's mean error, before any bias was changed
    and at the end. All but ``weights`` are relative to the root mean square of the activations.
    """

    layer: str
    population: str
    weights: float | None
    bias: float
    before: float
    after: float


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration(Record):
    """A calibration: rows used, steps of the run, and the changes in each layer."""

    images: int
    steps: int
    layers: tuple[LayerCalibration, ...]


def calibrated(
    network: SpikingNetwork,
    plain: SpikingNetwork,
    how: CalibrateBias | CalibrateWeights,
    x: Tensor,
    *,
    steps: int,
    seed: int = 0,
    progress: StepCallback | None = None,
) -> tuple[SpikingNetwork, Calibration, tuple[str, ...]]:
    """The balanced ``network`` with biases (and weights) adjusted to give in ``steps`` steps the values of ``plain``.

    ``plain`` is the converted network before it was balanced: with ReLUs for neurons it computes the same as the
    original. ``x`` are unlabelled training inputs as they come from the data. The third result is the notes: layers
    that could not be calibrated, and why.
    """
    if len(x) == 0:
        raise UsageError("there are no calibration images; calibration needs some of the training data")
    for node in network.populations:
        if node.amplitude is None:
            raise UsageError(
                f"{node.name}: the value of a spike is not known, so it cannot be calibrated; use "
                "balance=percentile or mse, which set it"
            )
    with torch.no_grad(), pinned_threads(1):
        work = _Work(network, plain, how, x, steps=steps, seed=seed)
        for done, node in enumerate(network.populations, start=1):
            work.population(node)
            if progress is not None:
                progress(done, len(network.populations))
        work.last()
    return work.network, Calibration(len(x), steps, tuple(work.layers)), tuple(work.notes)


class _Work:
    """The pass over the populations: the network so far, the spikes of final populations, the plain activations."""

    def __init__(
        self,
        network: SpikingNetwork,
        plain: SpikingNetwork,
        how: CalibrateBias | CalibrateWeights,
        x: Tensor,
        *,
        steps: int,
        seed: int,
    ) -> None:
        self.network, self._how, self._steps, self._seed = network, how, steps, seed
        self._images = len(x)
        self._source = source_of(network, x, seed, 0)
        self._activations = _Activations(plain, self._source.x)
        self._once = isinstance(network.neuron, Graded)
        # The value of 1 in the sum of a population's spikes, in thresholds.
        self._share = 1 / network.neuron.largest if self._once else 1 / steps
        self._trains: dict[str, NDArray[Any]] = {}
        self._sums: dict[str, NDArray[np.float32]] = {}
        self.layers: list[LayerCalibration] = []
        self.notes: list[str] = []

    def population(self, given: Neurons) -> None:
        """Calibrate the layer of one population, and keep its spikes."""
        node = self.network.node(given.name)
        assert isinstance(node, Neurons)
        target = self._activations.after(node.name)
        synapses, reason = _calibrated_by(self.network, node)
        change = None
        if synapses is None:
            self.notes.append(f"{node.layer or node.name} was not calibrated: {reason}")
        elif isinstance(self._how, CalibrateWeights) and self._reads_spikes(synapses):
            change = self._fit(node, synapses, target)
        currents = self._computed(node.source, self._trains, self._steps)
        spikes, said = self._fired(node, currents)
        if synapses is not None:
            amplitude = node.amplitude.double().numpy()  # type: ignore[union-attr]  # checked before
            size, wanted = _size(target), _mean(target)
            total, errors = np.zeros(len(amplitude)), [wanted - _mean(said) * amplitude]
            for _ in range(_PASSES):
                total += errors[-1]
                spikes, said = self._fired(node, currents, errors[-1])
                errors.append(wanted - _mean(said) * amplitude)
            self._move_bias(synapses.name, total)
            shares = (_rms(values) / size for values in (total, errors[0], errors[-1]))
            self.layers.append(LayerCalibration(synapses.name, node.name, change, *shares))
        self._keep(node, spikes, said)

    def last(self) -> None:
        """Shift the biases of the last layer by the mean error of the scores."""
        node = self.network.nodes[-1]
        if not isinstance(node, Synapses):
            self.notes.append(f"{node.name} was not calibrated: it has no weights")
            return
        target = self._activations.after(node.name)
        said = self._over_steps(self._computed(node.name, self._trains, self._steps))
        error = _mean(target) - _mean(said)
        size = _size(target)
        self._move_bias(node.name, error)
        self.layers.append(LayerCalibration(node.name, "", None, _rms(error) / size, _rms(error) / size, 0.0))

    def _fit(self, node: Neurons, synapses: Synapses, target: NDArray[Any]) -> float | None:
        """Least squares on the layer's input as spikes represent it; returns the relative change of the weights."""
        if synapses.groups != 1:
            self.notes.append(f"{synapses.name}: only its biases were calibrated, since it has groups")
            return None
        own = self._mean_value(node.source)
        wanted = np.where(target > 0, target, np.minimum(own, 0))
        return self._regress(synapses, wanted - own)

    def _regress(self, synapses: Synapses, missing: NDArray[Any]) -> float:
        """Add to the weights the best linear prediction of ``missing`` from the layer's input."""
        entering = self._mean_value(synapses.source)
        gram, cross = self._products(synapses, entering, missing)
        inputs = len(gram)
        gram[np.diag_indices(inputs)] += self._how.ridge * np.trace(gram) / inputs  # type: ignore[union-attr]
        change = np.linalg.solve(gram, cross)  # (inputs and 1, outputs)
        weight = torch.from_numpy(change[:-1].T.reshape(synapses.weight.shape)).to(synapses.weight.dtype)
        self.network = self.network.replaced([dataclasses.replace(synapses, weight=synapses.weight + weight)])
        self._move_bias(synapses.name, change[-1])
        return float(weight.norm() / synapses.weight.norm())

    def _products(
        self, synapses: Synapses, entering: NDArray[Any], missing: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """XᵀX/N and Xᵀ(target − y)/N over drawn positions."""
        images, positions, outputs = missing.shape
        each = min(positions, math.ceil(self._how.positions / images))  # type: ignore[union-attr]
        generator = stream(self._seed, "calibration positions", synapses.name)
        gram: Any = 0.0
        cross: Any = 0.0
        for first in range(0, images, _BLOCK):
            part = slice(first, first + _BLOCK)
            windows = _windows(synapses, entering[part], self.network.shapes[synapses.source])
            drawn = generator.random((len(windows), positions)).argpartition(each - 1, axis=1)[:, :each]
            drawn.sort(axis=1)
            image = np.arange(len(windows))[:, None]
            y, x = np.divmod(drawn, windows.shape[2])
            rows = np.concatenate(
                [windows[image, y, x].reshape(drawn.size, -1), np.ones((drawn.size, 1), np.float32)], axis=1
            )
            apart = np.take_along_axis(missing[part], drawn[..., None], axis=1).reshape(-1, outputs)
            gram = gram + (rows.T @ rows).astype(np.float64)
            cross = cross + (rows.T @ apart.astype(rows.dtype)).astype(np.float64)
        return gram / (images * each), cross / (images * each)

    def _mean_value(self, name: str) -> NDArray[Any]:
        """The value of a node as spikes represent it: its mean over the steps, or its sum for graded neurons."""
        if any(isinstance(node, Gate) for node in leading(self.network.nodes, name)):
            return self._over_steps(self._computed(name, self._trains, self._steps))
        return self._computed(name, {root: said[:, None] for root, said in self._sums.items()}, 1)[:, 0]

    def _over_steps(self, values: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = values.sum(axis=1) if self._once else values.mean(axis=1)
        return found

    def _computed(self, name: str, given: dict[str, NDArray[Any]], steps: int) -> NDArray[Any]:
        """The values (images, steps, positions, channels) of a node for given outputs of the populations."""
        engine = ChunkEngine(self.network, self._source, "float32", steps, "dense")
        found = np.empty(0, np.float32)
        for part in self._parts(steps):
            engine.begin(np.arange(self._images)[part])
            values = engine.compute(name, 0, steps, {root: data[part] for root, data in given.items()})
            floats = values.floats(np.float32)
            if part.start == 0:
                found = np.empty((self._images, *floats.shape[1:]), np.float32)
            found[part] = floats
        return found

    def _fired(
        self, node: Neurons, currents: NDArray[Any], moved: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The spikes for shifted currents, and their sums (images, positions, channels) in thresholds."""
        engine = ChunkEngine(self.network, self._source, "float32", self._steps, "dense")
        spikes = np.empty(0)
        said = np.empty((self._images, *currents.shape[2:]), np.float32)
        for part in self._parts(self._steps):
            if moved is not None:
                currents[part, : 1 if self._once else None] += moved.astype(currents.dtype)
            engine.begin(np.arange(self._images)[part])
            fired = engine.compute(node.name, 0, self._steps, {node.source: currents[part]}).data
            if part.start == 0:
                spikes = np.empty((self._images, *fired.shape[1:]), fired.dtype)
            spikes[part] = fired
            said[part] = fired.sum(axis=1, dtype=np.int16) * np.float32(self._share)
        return spikes, said

    def _parts(self, steps: int) -> list[slice]:
        """Slices of the images, small enough for their values to fit in the cache."""
        largest = max(math.prod(shape) for shape in self.network.shapes.values())
        several = max(1, _NEAR // (steps * largest))
        return [slice(first, first + several) for first in range(0, self._images, several)]

    def _reads_spikes(self, synapses: Synapses) -> bool:
        """Whether all inputs of the layer come from neurons: the network's input is exact already."""
        return all(INPUT not in node.sources for node in (synapses, *leading(self.network.nodes, synapses.source)))

    def _move_bias(self, name: str, by: NDArray[np.float64]) -> None:
        node = self.network.node(name)
        assert isinstance(node, Synapses)
        moved = torch.from_numpy(by).to(node.weight.dtype)
        bias = moved if node.bias is None else node.bias + moved
        self.network = self.network.replaced([dataclasses.replace(node, bias=bias)])

    def _keep(self, done: Neurons, spikes: NDArray[Any], said: NDArray[np.float32]) -> None:
        """Keep the spikes of a finished population, and drop those that no later node reads."""
        self._trains[done.name], self._sums[done.name] = spikes, said
        nodes = self.network.nodes
        names = [node.name for node in self.network.populations]
        wanted = {node.name for node in leading(nodes, nodes[-1].name)}
        for later in self.network.populations[names.index(done.name) + 1 :]:
            wanted |= {node.name for node in feeding(nodes, later)}
        for kept in (self._trains, self._sums):
            for name in kept.keys() - wanted:
                del kept[name]


class _Activations:
    """The values of the plain network, computed node by node on demand; old ones are dropped."""

    def __init__(self, plain: SpikingNetwork, x: Tensor) -> None:
        self._nodes = plain.nodes
        self._values, self._done = {INPUT: x}, 0

    def after(self, name: str) -> NDArray[np.float32]:
        """The values (images, positions, channels) of the node ``name``; names must come in the network's order."""
        while name not in self._values:
            node = self._nodes[self._done]
            self._values[node.name] = plain_value(node, self._values)
            self._done += 1
            left = {source for later in self._nodes[self._done :] for source in later.sources}
            self._values = {kept: value for kept, value in self._values.items() if kept in left or kept == node.name}
        value = self._values[name]
        found: NDArray[np.float32] = value.reshape(*value.shape[:2], -1).transpose(1, 2).contiguous().numpy()
        return found


def _calibrated_by(network: SpikingNetwork, population: Neurons) -> tuple[Synapses | None, str]:
    """The layer whose biases reach this population and nothing else, or why there is none."""
    node = next((node for node in network.synapses if node.name == population.layer), None)
    if node is None:
        return None, "no layer with weights belongs to the neurons"
    name = node.name
    while name != population.source:
        readers = [other for other in network.nodes if name in other.sources]
        if len(readers) != 1 or not isinstance(readers[0], Add) or readers[0].sources.count(name) != 1:
            return None, "its output is read by other nodes too, or pooled or scaled before its neurons"
        name = readers[0].name
    if sum(name in other.sources for other in network.nodes) != 1:
        return None, "its output is read by other nodes too"
    return node, ""


def _windows(synapses: Synapses, entering: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A view of a layer's input (images, positions, channels) as (images, rows, columns, inputs of a position)."""
    images = len(entering)
    if synapses.dense:
        return entering.transpose(0, 2, 1).reshape(images, 1, 1, -1).astype(np.float32)
    (top, left), (down, right), stride = synapses.padding, synapses.dilation, synapses.stride
    height, width = (
        apart * (int(size) - 1) + 1 for apart, size in zip((down, right), synapses.weight.shape[2:], strict=True)
    )
    maps = np.pad(
        entering.reshape(images, shape[1], shape[2], shape[0]).astype(np.float32, copy=False),
        ((0, 0), (top, top), (left, left), (0, 0)),
    )
    views = np.lib.stride_tricks.sliding_window_view(maps, (height, width), axis=(1, 2))
    return views[:, :: stride[0], :: stride[1], :, ::down, ::right]


def _mean(values: NDArray[Any]) -> NDArray[np.float64]:
    """Per channel, over images and positions."""
    found: NDArray[np.float64] = values.reshape(-1, values.shape[-1]).mean(axis=0, dtype=np.float64)
    return found


def _size(values: NDArray[Any]) -> float:
    """The root mean square, bounded away from zero."""
    return max(math.sqrt(np.square(values).mean(dtype=np.float64)), 1e-30)


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.square(values).mean()))
