"""Latency and file size: time per image and bytes on disk, measured.

The clock is the processor time of the computing thread (``time.thread_time``) if ``threads`` is 1, so that other
programs on the machine do not count; with more threads it is the wall clock (``time.perf_counter``), which includes the
time that threads wait for each other. The result names the clock. Two networks are compared in alternation, one sample
of each after the other, so that changes over time, such as the processor's frequency, affect both.

Times differ from run to run. They are plain dataclasses, kept out of the records, which are compared byte for byte.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import pinned_threads
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.files import save
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import FAILURES, arranged, cannot_take

__all__ = ["Latency", "LatencyComparison", "Ratio", "Timing", "compare_latency", "file_bytes", "latency"]

_BATCHES = (1, 64)
_WARM_UP = 3  # unmeasured passes: memory allocation, choice of kernels
_SAMPLE = 0.005  # minimum seconds per sample, well above the resolution of the clock
_MOST_CALLS = 1000


class _Clock(NamedTuple):
    """A clock, and its resolution: no sample is shorter."""

    read: Callable[[], float]
    grain: float


@dataclass(frozen=True)
class Timing:
    """Seconds per image in batches of one size: the median and the best of the samples, and their middle half."""

    batch: int
    median: float
    best: float
    low: float
    high: float


@dataclass(frozen=True)
class Latency:
    """The latency of a network by batch size; ``clock`` names the clock."""

    timings: tuple[Timing, ...]
    clock: str
    threads: int
    samples: int

    def at(self, batch: int) -> Timing:
        """The timing for batches of this size."""
        return _found(self.timings, batch)


@dataclass(frozen=True)
class Ratio:
    """Time after / time before in batches of one size: the median over pairs of samples, and their middle half."""

    batch: int
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class LatencyComparison:
    """Two networks measured in alternation; a ratio below 1 means that the second one is faster."""

    before: Latency
    after: Latency
    ratios: tuple[Ratio, ...]

    def at(self, batch: int) -> Ratio:
        """The ratio for batches of this size."""
        return _found(self.ratios, batch)


def latency(
    network: nn.Module, example: Tensor, *, batches: Sequence[int] = _BATCHES, repeats: int = 20, threads: int = 1
) -> Latency:
    """The time of ``network`` per image: ``repeats`` samples for each batch size.

    ``example`` is a batch of inputs as the network takes them (normalised); its rows are repeated to fill a batch.
    """
    (samples,) = _measured([network], example, batches, repeats, threads)
    return _latency(samples, repeats, threads)


def compare_latency(
    before: nn.Module,
    after: nn.Module,
    example: Tensor,
    *,
    batches: Sequence[int] = _BATCHES,
    repeats: int = 20,
    threads: int = 1,
) -> LatencyComparison:
    """The time of two networks per image, measured in alternation, and the ratio of each pair of samples."""
    first, second = _measured([before, after], example, batches, repeats, threads)
    ratios = []
    for batch in first:
        quotients = [later / earlier for earlier, later in zip(first[batch], second[batch], strict=True)]
        low, median, high = _quartiles(quotients)
        ratios.append(Ratio(batch, median, low, high))
    return LatencyComparison(_latency(first, repeats, threads), _latency(second, repeats, threads), tuple(ratios))


def file_bytes(network: nn.Module) -> int:
    """The size of the ``.safetensors`` file that ``save`` would write, card included."""
    with tempfile.TemporaryDirectory(prefix="weightsmith-") as folder:
        return save(network, Path(folder) / "network.safetensors").stat().st_size


def _measured(
    networks: Sequence[nn.Module], example: Tensor, batches: Sequence[int], repeats: int, threads: int
) -> list[dict[int, list[float]]]:
    """Seconds per image of each sample, by batch size, for each network."""
    if repeats < 2 or not batches or min(batches) < 1:
        raise UsageError(
            f"{repeats} repeats of batches of {list(batches)}: at least 2 repeats and batches of at least 1 are needed"
        )
    if example.dim() < 2 or len(example) == 0:
        raise UsageError(f"the example must be a batch of at least one input, not of shape {tuple(example.shape)}")
    clock = _clock(threads)
    running = [copied(network).cpu().eval() for network in networks]
    found: list[dict[int, list[float]]] = [{} for _ in networks]
    with pinned_threads(threads), torch.inference_mode():
        for batch in dict.fromkeys(batches):
            inputs = [_inputs(network, example, batch) for network in running]
            calls = [_warmed(network, x, clock) for network, x in zip(running, inputs, strict=True)]
            for samples in found:
                samples[batch] = []
            for _ in range(repeats):
                for samples, network, x, count in zip(found, running, inputs, calls, strict=True):
                    samples[batch].append(_seconds(network, x, count, clock) / (count * batch))
    return found


def _inputs(network: nn.Module, example: Tensor, batch: int) -> Tensor:
    """``batch`` rows, repeating the example, in the layout of :func:`weightsmith.evaluate`."""
    rows = example.detach().cpu()[torch.arange(batch) % len(example)].to(input_type(network))
    return arranged(network, rows)


def _warmed(network: nn.Module, x: Tensor, clock: _Clock) -> int:
    """Run a few unmeasured passes; return the number of passes per sample."""
    try:
        network(x)
    except FAILURES as error:
        raise cannot_take(network, x, error) from error
    seconds = _seconds(network, x, _WARM_UP, clock) / _WARM_UP
    return min(_MOST_CALLS, math.ceil(_SAMPLE / seconds))


def _seconds(network: nn.Module, x: Tensor, calls: int, clock: _Clock) -> float:
    start = clock.read()
    for _ in range(calls):
        network(x)
    return max(clock.read() - start, clock.grain)


def _clock(threads: int) -> _Clock:
    if threads == 1:
        return _Clock(time.thread_time, time.get_clock_info("thread_time").resolution)
    return _Clock(time.perf_counter, time.get_clock_info("perf_counter").resolution)


def _latency(samples: dict[int, list[float]], repeats: int, threads: int) -> Latency:
    timings = []
    for batch, seconds in samples.items():
        low, median, high = _quartiles(seconds)
        timings.append(Timing(batch, median, min(seconds), low, high))
    clock = "processor time of the computing thread" if threads == 1 else "wall clock"
    return Latency(tuple(timings), clock, threads, repeats)


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


_Measured = TypeVar("_Measured", Timing, Ratio)


def _found(items: tuple[_Measured, ...], batch: int) -> _Measured:
    for item in items:
        if item.batch == batch:
            return item
    known = ", ".join(str(item.batch) for item in items)
    raise UsageError(f"batches of {batch} were not measured, only of {known}")
