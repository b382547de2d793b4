"""How long a sweep of 240 settings takes: ours with and without racing, beside SpikingJelly setting by setting.

``vgg5_fc512`` on CIFAR-10, 75 steps, the default grid of ``ws.spike_sweep`` (5 leaks, 2 resets, 4 threshold factors,
each without and with 5 smoothings), on the same training images with the same spikes. SpikingJelly runs 4 of the
settings to the end, single-step, its fastest way here; the time of 240 is extrapolated. Only choosing is timed, in CPU
seconds of one thread; balancing, mean membranes and testing are left out on both sides. Grids do not grow here
(``widen=0``), so that there are 240 settings.

    python -m benchmarks.spiking_sweep
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weightsmith as ws
from benchmarks.measure import machine
from benchmarks.spiking_peers import Reset, Work, spikingjelly_single
from weightsmith.core.records import versions
from weightsmith.core.storage import write_atomic
from weightsmith.spiking.conversion.preparing import ConversionSettings, calibration_rows, prepare
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.simulation.sources import source_of
from weightsmith.spiking.sweep.grid import neuron_of
from weightsmith.spiking.sweep.results import SpikeSweep
from weightsmith.spiking.sweep.work import SweepWork

__all__ = ["main"]

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "spiking_sweep.md"
_STEPS, _BATCH = 75, 32
_SAMPLE: tuple[tuple[float, Reset], ...] = ((1.0, "soft"), (1.0, "hard"), (0.9, "soft"), (0.9, "hard"))


def main(arguments: list[str] | None = None) -> int:
    """Run both and write the page; 1 if racing chose otherwise than full runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spiking_sweep", description=__doc__)
    parser.add_argument("--images", type=int, default=200, help="training images that choose")
    asked = parser.parse_args(arguments)
    data = os.environ.get("WEIGHTSMITH_DATA")
    if data is None:
        parser.error("WEIGHTSMITH_DATA must name the folder with cifar10 and the pretrained networks")
    torch.set_num_threads(1)
    network = ws.load(Path(data) / "weights" / "vgg5_fc512.safetensors")
    images = ws.data.load("cifar10")
    raced, racing = _swept(network, images, asked.images, race="racing")
    full, whole = _swept(network, images, asked.images, race=None)
    peer = _peer(network, images, asked.images) * len(full.table) / len(_SAMPLE)
    same = [_choice(one) == _choice(other) for one, other in zip(raced.chosen, full.chosen, strict=True)]
    seen = sum(row.seen for row in raced.table)
    times = {"racing": racing, "whole": whole, "peer": peer}
    write_atomic(_PAGE, _page(asked.images, times, (sum(same), len(same)), seen))
    return 0 if all(same) else 1


def _swept(network: torch.nn.Module, data: Any, images: int, race: str | None) -> tuple[SpikeSweep, float]:
    """A sweep, and the CPU seconds of choosing; eight test images, since testing is not what is timed."""
    spent = 0.0
    choose = SweepWork.choose

    def timed(self: Any, *given: Any) -> Any:
        nonlocal spent
        begin = time.process_time()
        answer = choose(self, *given)
        spent = time.process_time() - begin
        return answer

    SweepWork.choose = timed  # type: ignore[method-assign,assignment]
    try:
        result = ws.spike_sweep(
            network, data, steps=_STEPS, rows=images, test_rows=8, race=race, balance="max-current:128,50", widen=0
        )
    finally:
        SweepWork.choose = choose  # type: ignore[method-assign]
    return result, spent


def _peer(network: torch.nn.Module, data: Any, images: int) -> float:
    """CPU seconds of four settings in SpikingJelly, for as many images."""
    subject = read_subject(network, data, images=8, seed=0)
    recipe = ConversionSettings(
        neuron=ws.IF(), encode=ws.Poisson(), balance=ws.MaxCurrent(128, 50), adjust=None, mismatch=None,
        precision="float32", steps=_STEPS, seed=0,
    )  # fmt: skip
    spiking = prepare(subject, recipe).network
    rows = calibration_rows(len(subject.train), images, 0)[:_BATCH]
    source = source_of(spiking, subject.train.x[rows], 0, 0)
    spikes = torch.stack([source.step(slice(None), step) for step in range(_STEPS)])
    weights = [node.weight for node in spiking.synapses]
    thresholds = [float(node.threshold[0]) * 0.4 for node in spiking.populations]
    spent = 0.0
    for leak, reset in _SAMPLE:
        work = Work(weights, thresholds, spikes, leak=leak, reset=reset)
        spikingjelly_single(dataclasses.replace(work, spikes=spikes[:2, :1]))
        begin = time.process_time()
        outcome = spikingjelly_single(work)
        spent += time.process_time() - begin
        ours = spiking.with_factor(0.4).with_neuron(neuron_of(leak, reset, delay=False))
        answers = ours.run(subject.train.x[rows], _STEPS).scores.argmax(axis=1)
        if np.mean(outcome.scores.argmax(dim=1).numpy() == answers) < 0.9:
            raise RuntimeError(f"SpikingJelly answers otherwise at leak {leak:g}, {reset} reset")
    return spent * images / len(rows)


def _choice(chosen: Any) -> tuple[str, str | None]:
    return chosen.baseline.key, None if chosen.adjusted is None else chosen.adjusted.key


def _page(images: int, times: dict[str, float], same: tuple[int, int], seen: int) -> str:
    racing, whole, peer = times["racing"], times["whole"], times["peer"]
    return f"""# spiking: sweeps

The 240 settings of `ws.spike_sweep` on `vgg5_fc512` (75 steps, Poisson input, {images} training images with the same
spikes for all): CPU seconds of one thread for choosing the best of each leak and reset, without and with the L4
adjustment. SpikingJelly ran 4 settings to the end on 32 of the images; its figure is extrapolated to 240 settings and
{images} images.

| | CPU seconds | against SpikingJelly |
|---|---|---|
| weightsmith, racing ({seen:,} of {240 * images:,} image runs) | {racing:,.0f} | {peer / racing:.1f}× |
| weightsmith, every setting to the end | {whole:,.0f} | {peer / whole:.1f}× |
| SpikingJelly, single-step, every setting to the end | {peer:,.0f} | 1× |

Racing chose the same settings as full runs in {same[0]} of {same[1]} cases.

Versions: {", ".join(f"{k} {v}" for k, v in versions("numba", "spikingjelly").items())}. {machine()}. Made by
`python -m benchmarks.spiking_sweep`.
"""


if __name__ == "__main__":
    sys.exit(main())
