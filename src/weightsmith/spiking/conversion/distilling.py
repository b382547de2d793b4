"""Distillation: all weights and thresholds of a spiking network are moved together towards the original network.

A calibration layer by layer (:mod:`weightsmith.spiking.conversion.calibrate`) corrects each layer for the errors before
it, not for those behind it. Here batches of unlabelled rows run through the network as it spikes, and Adam minimises

    L = ‖z′ − z‖² / var z + mean over populations of ‖ŷ − a‖² / var a

with z, a the scores and activations of the original network, z′ the scores, and ŷ the values that the spikes of a
population represent. With A the value of a spike in every step, which is its threshold, and I the mean current, ŷ = A·s
where s follows I/A in small stairs. Stairs have no derivative; s is differentiated as if it were I/A where
0 < I < A and constant elsewhere:

    ∂ŷ/∂I = 1 where 0 < I < A, else 0                ∂ŷ/∂A = s − (I/A where 0 < I < A, else 0)

Graded neurons have no upper limit, and their thresholds stay: smaller ones would cost more spikes.

Everything between two populations is linear, so the mean currents follow from the mean values ŷ, and a single pass,
without the steps, gives all gradients. (Wu et al., "A tandem learning rule", IEEE TNNLS 2021; Meng et al., "Training
high-performance low-latency SNNs by differentiation on spike representation", CVPR 2022; thresholds as the steps of
Esser et al., "Learned step size quantization", ICLR 2020.) Updates are relative to each threshold and to the weights of
each neuron: a unit that says little has small weights, which steps of one size for a whole layer would destroy. If each
of n populations adds a change δ of its own, scores move by about δ·√n; with d the distance of the scores before, the
default rate is a tenth of the δ that makes up for it,

    rate = √(d/n)/10, but at most 36/(n·√(n·S)) in S steps,

and falls along a cosine. What batches do not agree on moves weights at random, by rate·√S in all, and a deep network
bears less of it; this bound, which matters in long runs only, was found with 19 and 55 populations in 2,500 steps. The
result is kept only if the scores on held-back rows come nearer to the original ones.

For a run in int8 the network spikes with rounded weights, and gradients pass the rounding as if it were not there.
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
from weightsmith.core.progress import StepCallback
from weightsmith.core.records import Record
from weightsmith.core.seeds import pinned_threads, stream
from weightsmith.spiking.conversion.amplitudes import with_amplitudes
from weightsmith.spiking.conversion.calibrate import CalibrateDistill
from weightsmith.spiking.conversion.quantise import dequantised, quantised
from weightsmith.spiking.graph import INPUT, Neurons, Node, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.chunked import ChunkEngine
from weightsmith.spiking.simulation.reference import linear, plain_value
from weightsmith.spiking.simulation.sources import Currents, source_of

__all__ = ["Distillation", "distilled"]

_WARM = 10  # steps of warm-up
_SHARE = 0.1  # of the change that would make up for the distance, in one step
_WANDERED = 36  # the most that weights may move at random in a whole run, times n·√n
_HELD, _MOST_HELD = 8, 512  # one row in eight is held back, at most so many
_FEWEST = 16  # rows


@dataclasses.dataclass(frozen=True, eq=False)
class Distillation(Record):
    """A distillation: rows trained on and held back, and ‖z′ − z‖²/‖z − z̄‖² of the scores on the latter.

    ``kept`` is whether ``after`` is below ``before``; if not, the network stayed as it was. ``rate`` is that of Adam
    (None in records of earlier versions).
    """

    images: int
    held: int
    steps: int
    before: float
    after: float
    rate: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the scores on held-back rows came nearer to the original ones."""
        return self.after < self.before


def distilled(
    network: SpikingNetwork,
    plain: SpikingNetwork,
    how: CalibrateDistill,
    x: Tensor,
    *,
    steps: int,
    seed: int = 0,
    whole: bool = False,
    progress: StepCallback | None = None,
) -> tuple[SpikingNetwork, Distillation]:
    """The calibrated ``network`` with weights and thresholds trained to give in ``steps`` steps what ``plain`` gives.

    ``plain`` is the converted network before it was balanced; ``x`` are unlabelled training inputs. ``whole``: the
    weights will be rounded to 8 bits.
    """
    if len(x) < _FEWEST:
        raise UsageError(
            f"calibrate=distill needs at least {_FEWEST} training rows, not {len(x)}; use calibrate=weights or bias"
        )
    held = min(_MOST_HELD, max(1, len(x) // _HELD))
    order = torch.from_numpy(stream(seed, "distillation").permutation(len(x)))
    batches = [rows for rows in torch.split(order[held:], how.batch) if 2 * len(rows) >= min(how.batch, len(x) - held)]
    with pinned_threads(1), torch.inference_mode(False):
        lessons = _Lessons(network, plain, x, steps=steps, seed=seed)
        student = _Student(network, steps, whole=whole)
        before = lessons.distance(student, order[:held], how.batch)
        with torch.enable_grad():
            rate = _rate(before, len(network.populations), len(batches)) if how.rate is None else how.rate
            _train(student, lessons, batches, rate, progress)
        after = lessons.distance(student, order[:held], how.batch)
    found = Distillation(len(x) - held, held, steps, before, after, rate)
    return student.network() if found.kept else network, found


def _rate(distance: float, populations: int, steps: int) -> float:
    """The default rate of Adam: for a distance of the scores, a depth, and a number of steps."""
    wandered = _WANDERED / (populations * math.sqrt(populations * steps))
    return min(_SHARE * math.sqrt(min(distance, 1.0) / populations), wandered)


def _train(
    student: _Student, lessons: _Lessons, batches: list[Tensor], rate: float, progress: StepCallback | None
) -> None:
    """Adam on all weights, biases and thresholds, each in its own unit."""
    optimiser = torch.optim.Adam(student.trained(), lr=rate)
    for step, rows in enumerate(batches):
        optimiser.param_groups[0]["lr"] = (
            rate * min(1.0, (step + 1) / _WARM) * (1 + math.cos(math.pi * step / len(batches))) / 2
        )
        optimiser.zero_grad()
        lessons.loss(student, rows).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if progress is not None:
            progress(step + 1, len(batches))


class _Moving:
    """Weights that are trained: as they were, plus a change, each in a unit of its own."""

    def __init__(self, before: Tensor, unit: Tensor) -> None:
        self._before, self._unit = _near(before), _near(unit)
        self.change = _trainable(torch.zeros_like(self._before))

    def now(self) -> Tensor:
        """The values as they are now."""
        return self._before + self._unit * self.change


class _Student:
    """The spiking network with weights that are being trained, in the units of the original network.

    There a spike is worth its amplitude, and weights are not multiplied by it. The unit in which a weight or a bias
    moves is the root mean square of the weights of its neuron, as spikes see them.
    """

    def __init__(self, network: SpikingNetwork, steps: int, *, whole: bool = False) -> None:
        self._neuron, self.steps, self.whole = network.neuron, steps, whole
        amplitudes = {node.name: _amplitude(node) for node in network.populations}
        inverse = {name: 1 / value for name, value in amplitudes.items()}
        self._unfolded = with_amplitudes(network, inverse)
        self._before = amplitudes
        self._logarithms = {name: _trainable(value.log()) for name, value in amplitudes.items()}
        sized = network.replaced(dataclasses.replace(node, weight=_sizes(node)) for node in network.synapses)
        units = {node.name: node.weight for node in with_amplitudes(sized, inverse).synapses}
        self._weights = {node.name: _Moving(node.weight, units[node.name]) for node in self._unfolded.synapses}
        self._biases = {
            node.name: _Moving(node.bias, sizes.weight.flatten(1)[:, 0])
            for node, sizes in zip(self._unfolded.synapses, sized.synapses, strict=True)
            if node.bias is not None
        }

    def trained(self) -> list[Tensor]:
        """The changes of weights and biases in their units, and the logarithms of the amplitudes."""
        found = [each.change for each in (*self._weights.values(), *self._biases.values())]
        return found if isinstance(self._neuron, Graded) else [*found, *self._logarithms.values()]

    def _now(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Weights and biases of a layer as they are now."""
        return self._weights[name].now(), self._biases[name].now() if name in self._biases else None

    def network(self) -> SpikingNetwork:
        """The spiking network as it is now."""
        nodes: list[Node] = []
        for node in self._unfolded.synapses:
            weight, bias = self._now(node.name)
            weight = weight.detach().contiguous().to(node.weight.dtype)
            nodes.append(dataclasses.replace(node, weight=weight, bias=None if bias is None else bias.detach()))
        amplitudes = {node.name: self._amplitude(node).detach() for node in self._unfolded.populations}
        for population in self._unfolded.populations:
            moved = amplitudes[population.name] / self._before[population.name]
            threshold = population.threshold * moved.reshape(-1, *[1] * (population.threshold.dim() - 1))
            nodes.append(dataclasses.replace(population, threshold=threshold.to(population.threshold.dtype)))
        return with_amplitudes(self._unfolded.replaced(nodes), amplitudes)

    def __call__(self, inputs: Tensor, sums: dict[str, NDArray[Any]]) -> tuple[Tensor, dict[str, Tensor]]:
        """Scores and values of the populations for given sums of spikes, differentiable as the docstring above says."""
        values, represented = {INPUT: inputs}, {}
        nodes = self._rounded() if self.whole else self._unfolded.nodes
        for node in nodes:
            match node:
                case Neurons():
                    values[node.name] = self._represented(node, values[node.source], sums[node.name])
                    represented[node.name] = values[node.name]
                case Synapses():
                    weight, bias = self._now(node.name)
                    if self.whole:
                        weight, bias = _passed(weight, node.weight), None if bias is None else _passed(bias, node.bias)
                    values[node.name] = linear(dataclasses.replace(node, weight=weight, bias=bias), values)
                case _:
                    values[node.name] = plain_value(node, values)
        return values[nodes[-1].name], represented

    def _rounded(self) -> tuple[Node, ...]:
        """The nodes with the weights that 8 bits leave, in the units of the original network."""
        amplitudes = {node.name: 1 / self._amplitude(node).detach() for node in self._unfolded.populations}
        return with_amplitudes(dequantised(self.network()), amplitudes).nodes

    def _represented(self, node: Neurons, mean: Tensor, sums: NDArray[Any]) -> Tensor:
        """The values that spikes represent, with the derivatives that the docstring above gives them."""
        graded = isinstance(self._neuron, Graded)
        amplitude = self._amplitude(node).reshape(1, -1, *[1] * (mean.dim() - 2))
        amplitude = amplitude.detach() if graded else amplitude
        maps = torch.from_numpy(sums.astype(np.float32)).reshape(len(mean), *mean.shape[2:], mean.shape[1])
        shares = maps.movedim(-1, 1) * (1 / self._neuron.largest if graded else 1 / self.steps)
        top = math.inf if graded else 1.0
        found: Tensor = _Stairs.apply(mean, amplitude, shares, top)  # type: ignore[no-untyped-call]
        return found

    def _amplitude(self, node: Neurons) -> Tensor:
        """The value of a spike in every step; where the network clips, the neurons clip too."""
        return self._logarithms[node.name].exp().clamp(max=node.ceiling)


class _Stairs(torch.autograd.Function):
    """ŷ = A·s for given s, with the derivatives of s = I/A where 0 < I/A < ``top``."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, amplitude: Tensor, shares: Tensor, top: float) -> Tensor:
        """ŷ."""
        ctx.save_for_backward(mean, amplitude, shares)
        ctx.top = top
        return amplitude * shares

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        """The derivatives with respect to I and A."""
        mean, amplitude, shares = ctx.saved_tensors
        by_mean = given * ((mean > 0) & (mean < ctx.top * amplitude))
        if not ctx.needs_input_grad[1]:
            return by_mean, None, None, None
        by_amplitude = given * shares - by_mean * mean / amplitude
        return by_mean, by_amplitude.sum_to_size(amplitude.shape), None, None


class _Lessons:
    """The rows, what the original network computes for them, and what the spikes of a student represent."""

    def __init__(self, network: SpikingNetwork, plain: SpikingNetwork, x: Tensor, *, steps: int, seed: int) -> None:
        self._source, self._plain, self._steps = source_of(network, x, seed, 0), plain, steps
        self._scales: dict[str, float] = {}

    def loss(self, student: _Student, rows: Tensor) -> Tensor:
        """The distance of the student from the original network on these rows."""
        given, values = student(self._inputs(rows), self._sums(student, rows))
        expected, targets = self._original(rows)
        shares = torch.stack([self._share(name, value, targets[name]) for name, value in values.items()])
        return self._share("", given, expected) + shares.mean()

    @torch.no_grad()
    def distance(self, student: _Student, rows: Tensor, batch: int) -> float:
        """The squared distance of the scores of these rows from the original ones, as a share of their variance."""
        parts = [
            (student(self._inputs(part), self._sums(student, part))[0], self._original(part)[0])
            for part in torch.split(rows, batch)
        ]
        given, expected = (torch.cat([part[number] for part in parts]).double() for number in (0, 1))
        spread = (expected - expected.mean(dim=0)).square().sum()
        if not spread > torch.finfo(torch.float32).eps ** 2 * expected.square().sum():
            raise UsageError(
                f"calibrate=distill: the network gives the same scores for all of the {len(rows)} rows that are held "
                "back, so they show no progress; give rows that differ"
            )
        return float((given - expected).square().sum() / spread)

    def _inputs(self, rows: Tensor) -> Tensor:
        """The mean input over the steps."""
        if isinstance(self._source, Currents):
            return _near(self._source.x[rows].float())
        return _near(torch.stack([self._source.step(rows, now) for now in range(self._steps)]).float().mean(dim=0))

    def _sums(self, student: _Student, rows: Tensor) -> dict[str, NDArray[Any]]:
        """The sums of the spikes of all populations (images, positions, channels), in units of the smallest."""
        network = quantised(student.network()) if student.whole else student.network()
        engine = ChunkEngine(network, self._source, "int8" if student.whole else "float32", self._steps)
        sums = _Sums()
        engine.begin(rows.numpy())
        for first in range(0, self._steps, engine.chunk):
            engine.advance(first, min(engine.chunk, self._steps - first), (sums,))
        return sums.found

    @torch.no_grad()
    def _original(self, rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Scores and activations of the original network."""
        values: dict[str, Tensor] = {INPUT: _near(self._source.x[rows].float())}
        for node in self._plain.nodes:
            values[node.name] = plain_value(node, values)
        return values[self._plain.nodes[-1].name], values

    def _share(self, name: str, given: Tensor, expected: Tensor) -> Tensor:
        """The squared distance as a share of the variance in the first batch."""
        if name not in self._scales:
            self._scales[name] = max(float(expected.var()), torch.finfo(torch.float32).tiny)
        return (given - expected).square().mean() / self._scales[name]


class _Sums:
    """An observer that adds up the spikes of each population over the steps."""

    membranes = inputs = False

    def __init__(self) -> None:
        self.found: dict[str, NDArray[Any]] = {}

    def see(self, population: str, _images: Any, _step: int, spikes: NDArray[Any], _membranes: Any) -> None:
        """Add the spikes of a chunk."""
        self.found[population] = self.found.get(population, 0) + spikes.sum(axis=1, dtype=np.int16)


def _sizes(node: Synapses) -> Tensor:
    """In place of every weight the root mean square of the weights of its neuron."""
    size = node.weight.float().flatten(1).square().mean(dim=1).sqrt()
    return size.reshape(-1, *[1] * (node.weight.dim() - 1)).expand(node.weight.shape)


def _amplitude(node: Neurons) -> Tensor:
    assert node.amplitude is not None  # calibration, which comes first, has checked it
    return node.amplitude


def _passed(trained: Tensor, given: Tensor | None) -> Tensor:
    """The ``given`` values, with the gradient of those that are trained."""
    return trained if given is None else trained + (given - trained).detach()


def _trainable(values: Tensor) -> Tensor:
    return _near(values.detach().float().clone()).requires_grad_()


def _near(values: Tensor) -> Tensor:
    """Images and filters with the channels last, which convolutions prefer."""
    return values.contiguous(memory_format=torch.channels_last) if values.dim() == 4 else values
