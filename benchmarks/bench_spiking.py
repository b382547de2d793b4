"""The paper's VGG-5 (dense layers of 4096) as a spiking network: 32 images, 75 steps, about 7 % of the neurons firing.

Equal work is checked twice. On two images, with thresholds that no membrane comes near, every arm must give exactly the
spikes per layer of the neuron written out in torch. At full size some membranes do come near, rounding decides, and one
spike more in the first layer makes tens in the last: there counts must be ours up to 0.2 %, scores up to a fifth.

The reset is soft in one case and hard in the other, where Norse, which has no soft reset without leak, takes part. The
description of a case holds the peak memory of each arm, in a process of its own. Eight images are timed as well, and a
pretrained ResNet-20 beside SpikingJelly, each after its own conversion with the same percentiles.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor

import weightsmith as ws
from benchmarks.few_steps_peer import answers_after, converted
from benchmarks.measure import Case, UnequalWork
from benchmarks.peak_memory import Peak, peak_of
from benchmarks.spiking_peers import (
    Outcome,
    Reset,
    Work,
    he_weights,
    input_spikes,
    norse,
    plain,
    sinabs,
    snntorch_,
    spikingjelly_multi,
    spikingjelly_single,
    threshold_for_rate,
)
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.files import load_spiking, save_spiking
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Node, Pool, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.simulation.responses import Responses
from weightsmith.spiking.simulation.simulate import simulate, simulate_trains

__all__ = [
    "Within",
    "agree",
    "arms",
    "case",
    "cases",
    "check_small",
    "memory",
    "ours",
    "ours_streamed",
    "outcome_of",
    "resnet",
    "work",
]

STEPS, LONG, BATCH, RATE = 75, 1000, 32, 0.07
_CALIBRATION = 2  # images, enough for rates of 7 % on 32 others

Precision: TypeAlias = Literal["float32", "int8"]
Arm: TypeAlias = Callable[[Work], Outcome]


@dataclasses.dataclass(frozen=True)
class Within:
    """How far each layer's count of spikes, and the scores (in norm), may lie from ours, as shares of ours."""

    counts: float
    scores: float


_EXACT = Within(0.0, 1e-5)
_ROUNDED = Within(2e-3, 0.2)
_INT8 = Within(5e-3, 0.5)  # other weights, in fact


def ours(
    weights: Sequence[Tensor],
    thresholds: Sequence[float],
    spikes: Tensor,
    precision: Precision,
    *,
    reset: Reset = "soft",
    leak: float = 1.0,
) -> Outcome:
    """Our engine on given spikes (T, B, 3, 32, 32)."""
    network = _network(tuple(weights), tuple(thresholds), precision, reset, leak)
    return outcome_of(simulate_trains(network, spikes.transpose(0, 1).numpy(), precision=precision))


def ours_streamed(
    weights: Sequence[Tensor], thresholds: Sequence[float], steps: int, batch: int, precision: Precision
) -> Outcome:
    """The same with spikes drawn as it goes, from images of the kind that ``input_spikes`` has: for memory."""
    network = _network(tuple(weights), tuple(thresholds), precision, "soft", 1.0)
    images = torch.rand((batch, 3, 32, 32), generator=torch.Generator().manual_seed(0)) * 2 - 1
    return outcome_of(simulate(network, images, steps, precision=precision))


@functools.lru_cache(maxsize=4)
def _network(
    weights: tuple[Tensor, ...], thresholds: tuple[float, ...], precision: Precision, reset: Reset, leak: float
) -> SpikingNetwork:
    """The paper's VGG-5 of our nodes; kept, so that weights are laid out for the engine once, as for any network."""
    convolutions, dense = weights[:3], weights[3:]
    nodes: list[Node] = []
    source = INPUT
    for number, weight in enumerate(convolutions):
        nodes.append(Synapses(f"conv{number}", source, weight, padding=(1, 1)))
        nodes.append(Neurons(f"fire{number}", f"conv{number}", torch.full((len(weight),), thresholds[number])))
        source = f"fire{number}"
        if number != 1:
            nodes.append(Pool(f"pool{number}", source, (2, 2), (2, 2)))
            source = f"pool{number}"
    nodes.append(Flatten("flat", source))
    source = "flat"
    for number, weight in enumerate(dense[:-1], start=len(convolutions)):
        nodes.append(Synapses(f"dense{number}", source, weight))
        nodes.append(Neurons(f"fire{number}", f"dense{number}", torch.full((len(weight),), thresholds[number])))
        source = f"fire{number}"
    nodes.append(Synapses("output", source, dense[-1]))
    neuron = IF(reset) if leak == 1 else LIF(leak, reset)
    network = SpikingNetwork(tuple(nodes), (3, 32, 32), neuron, Poisson())
    return quantised(network) if precision == "int8" else network


def outcome_of(responses: Responses) -> Outcome:
    """Spikes per layer and scores of our engine."""
    return Outcome(tuple(responses.spikes().values()), torch.from_numpy(responses.scores).float())


def _ours(given: Work, precision: Precision) -> Outcome:
    return ours(given.weights, given.thresholds, given.spikes, precision, reset=given.reset, leak=given.leak)


_FLOAT32, _INT8_ARM = "weightsmith, float32", "weightsmith, int8 weights"
_OURS: dict[str, Arm] = {
    _FLOAT32: partial(_ours, precision="float32"),
    _INT8_ARM: partial(_ours, precision="int8"),
}
_PEERS: dict[str, Arm] = {
    "SpikingJelly, single-step": spikingjelly_single,
    "SpikingJelly, multi-step": spikingjelly_multi,
    "sinabs": sinabs,
    "snnTorch": snntorch_,
    "Norse": norse,
}


def arms(reset: Reset) -> dict[str, Arm]:
    """Ours first; Norse with hard reset only."""
    return {name: arm for name, arm in {**_OURS, **_PEERS}.items() if (name, reset) != ("Norse", "soft")}


def cases() -> list[Case]:
    """Soft and hard reset, without leak; fewer images; a ResNet-20, where the data are at hand."""
    check_small({_FLOAT32: _OURS[_FLOAT32], **_PEERS})
    data = os.environ.get("WEIGHTSMITH_DATA")
    return [case("soft"), case("hard"), case("soft", batch=8), *([] if data is None else [resnet(Path(data))])]


def work(
    steps: int = STEPS, batch: int = BATCH, reset: Reset = "soft", thresholds: Sequence[float] | None = None
) -> Work:
    """Weights and spikes from fixed seeds; the thresholds are found from the first two images unless given."""
    weights, spikes = he_weights(), input_spikes(steps, batch)
    if thresholds is None:
        thresholds = threshold_for_rate(weights, spikes[:, :_CALIBRATION], RATE, reset=reset)
    return Work(weights, thresholds, spikes, reset=reset)


def check_small(
    arms: Mapping[str, Arm] = _PEERS, weights: Sequence[Tensor] | None = None, steps: int = 10, batch: int = 2
) -> None:
    """Every arm against the neuron written out in torch, in all settings that it knows."""
    weights, spikes = he_weights() if weights is None else weights, input_spikes(steps, batch)
    settings: tuple[tuple[Reset, float], ...] = (("soft", 1.0), ("hard", 1.0), ("soft", 0.9375), ("hard", 0.9375))
    for reset, leak in settings:
        thresholds = threshold_for_rate(weights, spikes, RATE, leak=leak, reset=reset, margin=2e-6)
        given = Work(weights, thresholds, spikes, leak, reset)
        expected = plain(given)
        for name, arm in arms.items():
            # Where Norse has no soft reset, and snnTorch another one.
            if reset == "soft" and (name, leak == 1) in {("Norse", True), ("snnTorch", False)}:
                continue
            if not agree(expected, arm(given), _EXACT):
                raise UnequalWork(f"{name!r} does not spike as a {reset} reset with leak {leak:g} does")


def memory(names: Sequence[str], given: Work) -> dict[str, Peak]:
    """The peak of each arm in a process of its own, and of one that only holds weights and spikes (``inputs``).

    Ours in 8 bits twice: rounded in that process, which holds the weights in 32 bits too, and read from its file.
    """
    steps, batch = given.spikes.shape[:2]
    arguments = (steps, batch, given.reset, list(given.thresholds))
    found = {name: peak_of("benchmarks.bench_spiking:run_arm", name, *arguments) for name in ("inputs", *names)}
    with tempfile.TemporaryDirectory() as folder:
        network = _network(tuple(given.weights), tuple(given.thresholds), "int8", given.reset, given.leak)
        file = save_spiking(network, Path(folder) / "int8.safetensors")
        read = peak_of("benchmarks.bench_spiking:run_file", str(file), steps, batch)
    return found | {f"{_INT8_ARM} from a file": read}


def run_file(file: str, steps: int, batch: int) -> None:
    """Ours on a network in 8 bits that is read from its file."""
    trains = input_spikes(steps, batch).transpose(0, 1).numpy()
    outcome_of(simulate_trains(load_spiking(file), trains, precision="int8"))


def run_arm(name: str, steps: int, batch: int, reset: Reset, thresholds: Sequence[float]) -> None:
    """One arm on the work of these numbers; what a process started by :func:`memory` does."""
    given = work(steps, batch, reset, thresholds)
    if name != "inputs":
        arms(reset)[name](given)


def run_streamed(steps: int, batch: int, thresholds: Sequence[float]) -> None:
    """Ours on spikes that are made as it goes."""
    ours_streamed(he_weights(), thresholds, steps, batch, "float32")


def agree(expected: Outcome, given: Outcome, within: Within) -> bool:
    """Whether counts and scores are the same up to ``within``."""
    pairs = zip(expected.counts, given.counts, strict=True)
    counts = all(abs(count - other) <= within.counts * count for count, other in pairs)
    return counts and bool((given.scores - expected.scores).norm() <= within.scores * expected.scores.norm())


def case(reset: Reset, steps: int = STEPS, batch: int = BATCH) -> Case:
    """One reset; peak memory is measured here, so that it is known before anything is timed."""
    given = work(steps, batch, reset)
    chosen = arms(reset)
    for arm in chosen.values():  # what is done once for a network, or once in a process, is not timed
        arm(dataclasses.replace(given, spikes=given.spikes[:2, :1]))
    told = ""
    if batch == BATCH:
        peaks = _told(memory(list(chosen), given))
        told = f". Peak memory in MB, input and libraries included (without pages of files): {peaks}"
    if reset == "soft" and (steps, batch) == (STEPS, BATCH):
        told += f"; ours on spikes made as it goes: {_told(_streamed(given.thresholds, batch))}"
    return Case(
        f"VGG-5, {reset} reset" + ("" if batch == BATCH else f", {batch} images"),
        f"{batch} images, {steps} steps, no leak, {RATE:.0%} of the neurons firing; from spikes in memory to spikes "
        f"per layer and scores{told}",
        {name: partial(_named, name, arm, given) for name, arm in chosen.items()},
        _same,
        packages=("spikingjelly", "sinabs", "snntorch", "norse"),
        repeats=3,
    )


def resnet(folder: Path, images: int = 32, steps: int = 32) -> Case:
    """Plain neurons, thresholds by channel at the 99.9th percentile, membranes at half a threshold, constant input.

    SpikingJelly converts by its own rules, so that spikes differ; most answers must be the same.
    """
    data = ws.data.load("cifar10")
    plain = ws.load(folder / "weights" / "akamaster_resnet20.safetensors").eval()
    network = ws.spike(plain, data, neuron="if", balance="percentile", steps=2, test_rows=1, watch=0).network
    module = converted(plain, data.split("train").x)
    x = data.split("test").x[:images]
    _, given = next(batches_for(card_of(plain), x, images))
    return Case(
        "ResNet-20",
        f"{images} test images of CIFAR-10, {steps} steps, constant input, plain neurons; each by its own conversion",
        {
            _FLOAT32: lambda: torch.from_numpy(network.run(x, steps).answers[:, -1]),
            "SpikingJelly, single-step": lambda: answers_after(module, given, [steps])[steps],
        },
        lambda ours, theirs: bool((ours == theirs).float().mean() >= _SAME_ANSWERS),
        packages=("spikingjelly",),
        repeats=3,
    )


_SAME_ANSWERS = 0.75


def _streamed(thresholds: Sequence[float], batch: int) -> dict[str, Peak]:
    function = "benchmarks.bench_spiking:run_streamed"
    return {f"{steps} steps": peak_of(function, steps, batch, list(thresholds)) for steps in (STEPS, LONG)}


def _named(name: str, arm: Arm, given: Work) -> tuple[str, Outcome]:
    return name, arm(given)


def _same(expected: tuple[str, Outcome], given: tuple[str, Outcome]) -> bool:
    return agree(expected[1], given[1], _INT8 if "int8" in given[0] else _ROUNDED)


def _told(peaks: Mapping[str, Peak]) -> str:
    return ", ".join(f"{name} {peak}" for name, peak in peaks.items())
