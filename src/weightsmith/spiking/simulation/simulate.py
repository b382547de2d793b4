"""Run a spiking network: blocks of images, in time chunks, with membranes carried from chunk to chunk.

Memory does not grow with the number of steps: only sums of each chunk are kept. The engine that computes a chunk is the
compiled one on the CPU and the reference engine elsewhere; both begin every block with clean membranes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.memory import check_memory
from weightsmith.core.options import check_int
from weightsmith.core.parallel import completed, is_spread
from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import pinned_threads
from weightsmith.spiking.conversion.quantise import check_quantised
from weightsmith.spiking.monitors.observing import Counting, Observer
from weightsmith.spiking.network import Precision, SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.exits import Exit, Margin
from weightsmith.spiking.simulation.responses import Responses
from weightsmith.spiking.simulation.sources import Source, Trains, source_of
from weightsmith.spiking.simulation.tally import Tally

__all__ = ["Engine", "Part", "Path", "check_device", "run_block", "simulate", "simulate_trains"]

Path = Literal["auto", "events", "patterns", "dense", "steps"]
_TOGETHER = 16  # steps of a chunk
Part = tuple[NDArray[np.floating], dict[str, NDArray[np.int64]]]  # outputs (rows, steps, classes), counts (rows, steps)


class Engine(Protocol):
    """Computes chunks of a block of images; ``begin`` resets every membrane."""

    @property
    def block(self) -> int:
        """Images that are run together."""
        ...

    @property
    def chunk(self) -> int:
        """Steps that are run together."""
        ...

    def begin(self, rows: NDArray[np.int64]) -> None:
        """A new block: these rows of the input, clean membranes."""
        ...

    def advance(self, step: int, count: int, observers: Sequence[Observer]) -> Part:
        """The next ``count`` steps."""
        ...

    def keep(self, going: NDArray[np.bool_]) -> None:
        """Continue with these rows of the block only."""
        ...

    def paths(self) -> dict[str, str]:
        """How each layer was computed."""
        ...


def simulate(
    network: SpikingNetwork,
    x: Tensor,
    steps: int,
    *,
    seed: int = 0,
    first: int = 0,
    precision: Precision = "float32",
    early: Margin | str | None = None,
    settle: int = 0,
    observers: Sequence[Observer] = (),
    device: str = "cpu",
    path: Path = "auto",
    progress: StepCallback | None = None,
) -> Responses:
    """Run ``network`` on inputs as they come from the data; see :meth:`SpikingNetwork.run`."""
    length = check_int("steps", steps)
    check_device(device)
    _check_memory(network, length)
    if not isinstance(x, Tensor):
        raise UsageError(f"inputs are a tensor of rows or images, not {type(x).__name__}; torch.as_tensor makes one")
    start = check_int("first", first, least=0)
    how: dict[str, Any] = {
        "precision": precision,
        "early": None if early is None else Exit.of(early),
        "settle": settle,
        "device": device,
        "path": path,
    }
    source = source_of(network, x, check_int("seed", seed, least=0), start)
    counting = [observer for observer in observers if isinstance(observer, Counting)]
    chunk = _chunk(early, observers)
    if is_spread() and len(counting) == len(observers) and device == "cpu" and path != "steps":
        block = _engine(network, source, length, precision=precision, device=device, path=path, chunk=chunk).block
        if block < len(x):
            work = _Part(network, length, seed, tuple(counting), how)
            return _spread(work, [(x[at : at + block], start + at) for at in range(0, len(x), block)], progress)
    return _run(network, source, length, observers=observers, progress=progress, **how)


@dataclasses.dataclass(frozen=True, eq=False)
class _Part:
    """The data common to all blocks of images, sent to a worker once and called there with each block."""

    network: SpikingNetwork
    steps: int
    seed: int
    observers: tuple[Counting, ...]
    how: dict[str, Any]

    def __call__(self, part: tuple[Tensor, int]) -> tuple[Responses, list[Any]]:
        fresh = [observer.fresh() for observer in self.observers]
        x, first = part
        found = _run(
            self.network, source_of(self.network, x, self.seed, first), self.steps, observers=fresh, **self.how
        )
        return found, [observer.counted() for observer in fresh]


def _spread(work: _Part, blocks: Sequence[tuple[Tensor, int]], progress: StepCallback | None) -> Responses:
    """Run blocks of images on workers: the same blocks as in one process, so that every layer takes the same path."""
    found: dict[int, Responses] = {}
    tasks = [(x.clone(), first) for x, first in blocks]  # a view would be sent with its whole storage
    for index, (responses, counted) in completed(work, tasks):
        found[index] = responses
        for observer, counts in zip(work.observers, counted, strict=True):
            observer.add(counts)
        if progress is not None:
            progress(sum(part.images for part in found.values()), sum(len(x) for x, _ in blocks))
    return Responses.joined([found[index] for index in range(len(tasks))])


def simulate_trains(
    network: SpikingNetwork,
    trains: NDArray[Any],
    *,
    precision: Precision = "float32",
    early: Margin | None = None,
    observers: Sequence[Observer] = (),
    device: str = "cpu",
    path: Path = "auto",
) -> Responses:
    """Run ``network`` on given spikes −1, 0, +1 of shape (images, steps, …), of any type; they are not copied."""
    if trains.ndim < 3 or trains.shape[2:] != network.input_shape or len(trains) == 0:
        raise DataMismatch(f"spike trains are (images, steps, *{network.input_shape}), not {trains.shape}")
    whole = trains.dtype.kind in "biu"
    if not all(((part >= -1) & (part <= 1)).all() and (whole or not (part % 1).any()) for part in trains):
        raise DataMismatch("spike trains are made of −1, 0 and +1 only")
    _check_memory(network, trains.shape[1])
    given = Trains(trains)
    length = check_int("steps", trains.shape[1])
    return _run(network, given, length, precision=precision, early=early, observers=observers, device=device, path=path)


def _check_memory(network: SpikingNetwork, steps: int) -> None:
    """Refuse a network of which not even one image fits in memory: a small file may describe any number of units."""
    values, together = sum(math.prod(shape) for shape in network.shapes.values()), min(steps, _TOGETHER)
    check_memory(
        f"one image of this network, {values:,} values in each of {together} steps,",
        values * (2 * together + 4),
        "it can be run where there is more, or made smaller",
    )


def _run(
    network: SpikingNetwork,
    source: Source,
    steps: int,
    *,
    precision: Precision,
    early: Margin | None,
    observers: Sequence[Observer],
    settle: int = 0,
    device: str,
    path: Path,
    progress: StepCallback | None = None,
) -> Responses:
    for name, value, known in (("precision", precision, get_args(Precision)), ("path", path, get_args(Path))):
        if value not in known:
            raise UnknownName(name, str(value), known)
    if precision == "int8":
        check_quantised(network)
    units = {node.name: math.prod(network.shapes[node.name]) for node in network.populations}
    if check_int("settle", settle, least=0) >= steps:
        raise UsageError(
            f"settle must be less than the {steps} steps of the run, not {settle}: nothing would be summed"
        )
    if isinstance(network.neuron, Graded) and (settle or early is not None):
        what = f"settle={settle}" if settle else f"early={early}"
        raise UsageError(f"{network.neuron} sends most in its first step, and later steps correct it; leave out {what}")
    tally = Tally(len(source), steps, network.classes, units, early, settle=settle)
    chunk = _chunk(early, observers)
    engine = _engine(network, source, steps, precision=precision, device=device, path=path, chunk=chunk)
    with pinned_threads(1):
        for start in range(0, len(source), engine.block):
            run_block(engine, np.arange(start, min(start + engine.block, len(source))), steps, tally, observers)
            if progress is not None:
                progress(min(start + engine.block, len(source)), len(source))
    return tally.responses(engine.paths())


def run_block(
    engine: Engine, rows: NDArray[np.int64], steps: int, tally: Tally, observers: Sequence[Observer] = ()
) -> None:
    """All steps of one block of images, from clean membranes."""
    engine.begin(rows)
    step = 0
    while step < steps and len(rows):
        count = min(engine.chunk, steps - step)
        outputs, counts = engine.advance(step, count, observers)
        going = tally.add(rows, step, outputs, counts)
        step += count
        if not going.all() and step < steps:
            rows = rows[going]
            engine.keep(going)


def check_device(device: str) -> None:
    """Refuse a device that cannot be used here."""
    try:
        torch.zeros(1, device=device).item()
    except (
        RuntimeError,
        AssertionError,
        NotImplementedError,
    ) as error:  # torch asserts that it was built for the device
        raise UsageError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]})") from error


def _chunk(early: object, observers: Sequence[Observer]) -> int | None:
    """One step at a time where observers would otherwise see steps of images that have ended."""
    return 1 if early is not None and observers else None


def _engine(
    network: SpikingNetwork,
    source: Source,
    steps: int,
    *,
    precision: Precision,
    device: str,
    path: Path,
    chunk: int | None,
) -> Engine:
    if path == "steps" or torch.device(device).type != "cpu":
        from weightsmith.spiking.simulation.reference import StepEngine

        return StepEngine(network, source, precision, device, chunk=chunk)
    from weightsmith.spiking.simulation.chunked import ChunkEngine

    return ChunkEngine(network, source, precision, steps, path, chunk=chunk)
