"""The paper's VGG-5 run as a spiking network by the simulators people use today; each gives an :class:`Outcome`.

conv 64, pool, conv 128, conv 128, pool, dense 4096, dense 4096, output 10: 3×3 convolutions with padding 1, average
pools, no bias; widths are those of the weights given. The neuron is v ← leak·v + I, a spike beyond the threshold θ,
then v ← v − θ (soft) or v ← 0 (hard); the output's values are summed over the steps. What a simulator means otherwise
stands at its function. All of them share the tensors of the weights, and each is used the way its documentation shows.

Simulators are imported where they are used, so that a process with one of them holds the memory of one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, fx, nn

from benchmarks.peers.spiking_work import Setting, thresholds
from benchmarks.peers.spiking_work import Work as Search
from weightsmith.core.seeds import torch_stream

__all__ = [
    "Outcome",
    "Reset",
    "Work",
    "he_weights",
    "input_chunks",
    "input_spikes",
    "norse",
    "plain",
    "sinabs",
    "snntorch_",
    "spikingjelly_multi",
    "spikingjelly_single",
    "threshold_for_rate",
]

WIDTHS = (64, 128, 128, 4096, 4096, 10)
Reset: TypeAlias = Literal["soft", "hard"]


@dataclasses.dataclass(frozen=True)
class Work:
    """Weights of three convolutions, two dense layers and the output, five thresholds, spikes (T, B, 3, 32, 32)."""

    weights: Sequence[Tensor]
    thresholds: Sequence[float]
    spikes: Tensor
    leak: float = 1.0
    reset: Reset = "soft"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Spikes per layer over all steps and images, and the summed outputs (B, 10)."""

    counts: tuple[int, ...]
    scores: Tensor


# Inputs


def he_weights(seed: int = 0, widths: Sequence[int] = WIDTHS) -> list[Tensor]:
    """Gaussian weights of variance 2/(fan in) for images of 3 × 32 × 32."""
    c1, c2, c3, d1, d2, classes = widths
    shapes = [(c1, 3, 3, 3), (c2, c1, 3, 3), (c3, c2, 3, 3), (d1, c3 * 8 * 8), (d2, d1), (classes, d2)]
    generator = torch_stream(seed, "bench", "spiking", "weights")
    drawn = (torch.empty(shape).normal_(generator=generator) for shape in shapes)
    return [weight.mul_(math.sqrt(2 / weight[0].numel())) for weight in drawn]


def input_spikes(steps: int, batch: int, seed: int = 0) -> Tensor:
    """Signed spikes (T, B, 3, 32, 32): sign(x) with probability |x| at every step, x uniform in [−1, 1]."""
    [spikes] = input_chunks(steps, batch, steps, seed)
    return spikes


def input_chunks(steps: int, batch: int, size: int, seed: int = 0) -> Iterator[Tensor]:
    """The same spikes, ``size`` steps at a time; every step has a stream of its own, so they need not be kept."""
    images = 2 * torch.rand(batch, 3, 32, 32, generator=torch_stream(seed, "bench", "spiking", "images")) - 1
    for first in range(0, steps, size):
        chunk = torch.empty(min(size, steps - first), *images.shape)
        for offset, spikes in enumerate(chunk):
            drawn = torch.rand(images.shape, generator=torch_stream(seed, "bench", "spiking", "step", first + offset))
            spikes.copy_(images.sign() * (drawn < images.abs()))
        yield chunk


@torch.no_grad()
def threshold_for_rate(
    weights: Sequence[Tensor],
    spikes: Tensor,
    rate: float = 0.07,
    *,
    leak: float = 1.0,
    reset: Reset = "soft",
    margin: float = 0.0,
) -> list[float]:
    """Thresholds, from the first layer to the last, at which this share of the neurons fires in a step.

    All currents of a layer are held at once, in the first a quarter of a megabyte per step and image: give few images.
    With a margin no membrane comes nearer to its threshold than this share of it, so that rounding decides no spike.
    """
    network = nn.Sequential(*_layers(weights, [nn.ReLU() for _ in weights[1:]]))
    search = Search(fx.symbolic_trace(network), spikes, rate=rate, margin=margin)
    return list(thresholds(search, Setting(leak, reset)))


# Simulators


@torch.no_grad()
def plain(work: Work) -> Outcome:
    """Layers of torch and the neuron as it stands above, step by step."""
    layers = _layers(work.weights, [None for _ in work.thresholds])
    membranes = [torch.zeros(()) for _ in work.thresholds]
    counts, scores = [0 for _ in work.thresholds], torch.zeros(())
    for value in work.spikes:
        x, number = value, 0
        for layer in layers:
            if layer is not None:
                x = layer(x)
                continue
            v, threshold = work.leak * membranes[number] + x, work.thresholds[number]
            x = (v > threshold).to(v.dtype)
            membranes[number] = v - threshold * x if work.reset == "soft" else v * (1 - x)
            counts[number] += _count(x)
            number += 1
        scores = scores + x
    return Outcome(tuple(counts), scores)


@torch.no_grad()
def spikingjelly_single(work: Work) -> Outcome:
    """Single-step mode: one call per step. It fires at v ≥ θ; exact otherwise."""
    counted = _Counted([_spikingjelly_node(work, threshold) for threshold in work.thresholds])
    network = nn.Sequential(*_layers(work.weights, counted.neurons))
    scores = torch.zeros(())
    for value in work.spikes:
        scores = scores + network(value)
    return Outcome(counted.counts, scores)


@torch.no_grad()
def spikingjelly_multi(work: Work) -> Outcome:
    """Multi-step mode: all steps of a layer in one call, time folded into the batch of its convolutions."""
    from spikingjelly.activation_based import functional, layer

    counted = _Counted([_spikingjelly_node(work, threshold) for threshold in work.thresholds])
    network = nn.Sequential(*_layers(work.weights, counted.neurons, layer))
    functional.set_step_mode(network, "m")
    scores = network(work.spikes).sum(dim=0)
    return Outcome(counted.counts, scores)


def _spikingjelly_node(work: Work, threshold: float) -> Any:
    from spikingjelly.activation_based import neuron

    reset = None if work.reset == "soft" else 0.0
    if work.leak == 1:
        return neuron.IFNode(v_threshold=threshold, v_reset=reset)
    return neuron.LIFNode(1 / (1 - work.leak), decay_input=False, v_threshold=threshold, v_reset=reset)


@torch.no_grad()
def sinabs(work: Work) -> Outcome:
    """Squeezing layers: time folded into the batch everywhere but in the neurons, images outermost.

    It fires at v ≥ θ. By default it would fire several times in a step. With a leak, its factor is exp(−1/τ) in
    float32, which may miss the leak by its last bit.
    """
    from sinabs import activation, layers

    steps, batch = work.spikes.shape[:2]
    reset = activation.MembraneSubtract() if work.reset == "soft" else activation.MembraneReset()

    def neuron(threshold: float) -> Any:
        options = {
            "batch_size": batch,
            "spike_threshold": torch.tensor(threshold),
            "spike_fn": activation.SingleSpike,
            "reset_fn": reset,
        }
        if work.leak == 1:
            return layers.IAFSqueeze(**options)
        return layers.LIFSqueeze(tau_mem=-1 / math.log(work.leak), norm_input=False, **options)

    counted = _Counted([neuron(threshold) for threshold in work.thresholds])
    network = nn.Sequential(*_layers(work.weights, counted.neurons))
    outputs = network(work.spikes.transpose(0, 1).flatten(0, 1))
    return Outcome(counted.counts, outputs.unflatten(0, (batch, steps)).sum(dim=1))


@torch.no_grad()
def snntorch_(work: Work) -> Outcome:
    """``Leaky`` with its state inside and without surrogate.

    A soft reset is subtracted in the next step, as is its default: exact without leak; with a leak the subtracted
    amount is not leaked, which is another neuron. (With ``reset_delay=False`` it is neither of the two.)
    """
    import snntorch

    reset = "subtract" if work.reset == "soft" else "zero"
    options = {"reset_mechanism": reset, "init_hidden": True, "surrogate_disable": True}
    counted = _Counted([snntorch.Leaky(work.leak, threshold, **options) for threshold in work.thresholds])
    network = nn.Sequential(*_layers(work.weights, counted.neurons))
    scores = torch.zeros(())
    for value in work.spikes:
        scores = scores + network(value)
    snntorch.SpikingNeuron.instances.clear()  # it keeps every neuron that was ever made
    return Outcome(counted.counts, scores)


@torch.no_grad()
def norse(work: Work) -> Outcome:
    """``SequentialState``, one call per step. Without leak it has the hard reset only, and a soft one is refused.

    Its leaky neuron is an Euler step, v ← v + (1 − leak)·(I − v), so the threshold is multiplied by 1 − leak.
    """
    from norse.torch import IAFCell, IAFParameters, LIFBoxCell, LIFBoxParameters, SequentialState
    from norse.torch.functional.reset import reset_subtract, reset_value

    def neuron(threshold: float) -> Any:
        zero = torch.tensor(0.0)
        if work.leak == 1:
            return IAFCell(IAFParameters(v_th=torch.tensor(threshold), v_reset=zero))
        share, method = 1 - work.leak, reset_subtract if work.reset == "soft" else reset_value
        parameters = LIFBoxParameters(torch.tensor(share), zero, torch.tensor(share * threshold), reset_method=method)
        return LIFBoxCell(parameters, dt=1.0)

    if work.leak == 1 and work.reset == "soft":
        raise ValueError("Norse has no neuron with soft reset and without leak; ask for reset='hard' or a leak below 1")
    counted = _Counted([neuron(threshold) for threshold in work.thresholds])
    network = SequentialState(*_layers(work.weights, counted.neurons))
    scores, state = torch.zeros(()), None
    for value in work.spikes:
        outputs, state = network(value, state)
        scores = scores + outputs
    return Outcome(counted.counts, scores)


# What they share


def _layers(weights: Sequence[Tensor], neurons: Sequence[Any], kinds: Any = nn) -> list[Any]:
    """The layers in their order, with layers of ``kinds`` (torch's or a simulator's) around the weights as they are."""
    with torch.device("meta"):  # their own first weights would cost time and memory
        synapses = [
            kinds.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1, bias=False)
            if weight.dim() == 4
            else kinds.Linear(weight.shape[1], weight.shape[0], bias=False)
            for weight in weights
        ]
    for synapse, weight in zip(synapses, weights, strict=True):
        synapse.weight = nn.Parameter(weight, requires_grad=False)
    (c1, c2, c3, d1, d2, last), (n1, n2, n3, n4, n5) = synapses, neurons
    pools = [kinds.AvgPool2d(2) for _ in range(2)]
    return [c1, n1, pools[0], c2, n2, c3, n3, pools[1], kinds.Flatten(), d1, n4, d2, n5, last]


class _Counted:
    """Counts what the neurons give, whenever they are called."""

    def __init__(self, neurons: Sequence[nn.Module]) -> None:
        self.neurons = neurons
        self._counts = [0 for _ in neurons]
        for number, neuron in enumerate(neurons):
            neuron.register_forward_hook(lambda _neuron, _inputs, given, number=number: self._add(number, given))

    def _add(self, number: int, given: Tensor | tuple[Tensor, Any]) -> None:
        self._counts[number] += _count(given[0] if isinstance(given, tuple) else given)

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(self._counts)


def _count(spikes: Tensor) -> int:
    """Row by row, because float32 counts no further than 2²⁴."""
    return int(spikes.flatten(1).sum(dim=1).sum(dtype=torch.float64))
