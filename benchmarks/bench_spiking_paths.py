"""The paths of our spiking engine, each alone and as the engine chooses among them, on a ResNet-20.

No peer takes part; ``bench_spiking`` has them.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Literal

import weightsmith as ws
from benchmarks.bench_spiking import Within, agree, outcome_of
from benchmarks.measure import Case, Unavailable
from benchmarks.spiking_peers import Outcome

__all__ = ["cases", "resnet"]

Route = Literal["auto", "events", "patterns", "dense"]
_ROUTES: dict[str, Route] = {
    "chosen layer by layer": "auto",
    "patterns alone": "patterns",
    "dense alone": "dense",
    "events alone": "events",
}
_SAME = partial(agree, within=Within(2e-3, 0.2))


def cases() -> list[Case]:
    """The pretrained network; its layers have 4 to 20 % of their inputs active."""
    data = os.environ.get("WEIGHTSMITH_DATA")
    if data is None:
        raise Unavailable("WEIGHTSMITH_DATA must name the folder with cifar10 and the pretrained networks")
    return [resnet(Path(data))]


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
        repeats=3,
    )
