"""The paths of our spiking engine, alone and as the engine chooses among them: a ResNet-20 and the paper's VGG-5.

The description of the VGG-5 holds the peak memory of a run, in a process of its own. No peer takes part
(``bench_spiking`` has them).
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Literal

import weightsmith as ws
from benchmarks.bench_spiking import BATCH, STEPS, Within, agree, memory, network_of, outcome_of, work
from benchmarks.measure import Case, Unavailable
from benchmarks.spiking_peers import Outcome
from weightsmith.spiking.simulation.simulate import simulate_trains

__all__ = ["cases", "resnet", "vgg5"]

Route = Literal["auto", "events", "dense"]
_ROUTES: dict[str, Route] = {"chosen layer by layer": "auto", "dense alone": "dense", "events alone": "events"}
_SAME = partial(agree, within=Within(2e-3, 0.2))


def cases() -> list[Case]:
    """Both networks; the ResNet-20 is the pretrained one."""
    data = os.environ.get("WEIGHTSMITH_DATA")
    if data is None:
        raise Unavailable("WEIGHTSMITH_DATA must name the folder with cifar10 and the pretrained networks")
    return [resnet(Path(data)), vgg5()]


def resnet(folder: Path, images: int = 16, steps: int = 32) -> Case:
    """Plain neurons on constant input, 4 to 20 % of them firing."""
    data = ws.data.load("cifar10")
    plain = ws.load(folder / "weights" / "akamaster_resnet20.safetensors")
    network = ws.spike(plain, data, neuron="if", steps=2, test_rows=1, watch=0).network

    assert data.test is not None
    x = data.test.x[:images]

    def run(route: Route) -> Outcome:
        return outcome_of(network.run(x, steps, path=route))

    return Case(
        "ResNet-20",
        f"{images} test images of CIFAR-10, {steps} steps, constant input, plain neurons (percentile), float32",
        {name: partial(run, route) for name, route in _ROUTES.items()},
        _SAME,
        repeats=5,
    )


def vgg5() -> Case:
    """The work of ``bench_spiking``, soft reset."""
    given = work()
    network = network_of(given, "float32")
    trains = given.spikes.transpose(0, 1).contiguous().char().numpy()
    peaks = memory(("weightsmith, float32", "weightsmith, int8 weights"), given)

    def run(route: Route) -> Outcome:
        return outcome_of(simulate_trains(network, trains, path=route))

    return Case(
        "VGG-5",
        f"{BATCH} images, {STEPS} steps, 7% of the neurons firing, float32. Peak memory in MB, input and libraries "
        f"included: {', '.join(f'{name} {peak / 1e6:.0f}' for name, peak in peaks.items())}",
        {name: partial(run, route) for name, route in _ROUTES.items()},
        _SAME,
        long=True,
    )
