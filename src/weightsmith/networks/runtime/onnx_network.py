"""An ONNX file in onnxruntime: its scores and their computing time, by default on one thread."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, MissingExtra, UsageError
from weightsmith.core.records import Record

__all__ = ["OnnxNetwork", "OnnxTiming", "onnx_latency"]

_LEAST_SECONDS = 5e-3  # of a sample; shorter ones are repeated


@dataclasses.dataclass(frozen=True, eq=False)
class OnnxTiming(Record):
    """Milliseconds per input of one file at one batch size: the median and the quartiles of the samples."""

    file: str
    batch: int
    median: float
    low: float
    high: float


class OnnxNetwork:
    """A file opened in onnxruntime."""

    def __init__(self, path: str | Path, *, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtra("running ONNX files (onnxruntime)", "onnx") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        options.log_severity_level = 3
        self.path = Path(path)
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except _own_errors() as error:
            raise FileRefused(self.path, f"onnxruntime cannot open it ({str(error).splitlines()[0]})") from error
        self._input = self._session.get_inputs()[0].name

    def scores(self, inputs: Tensor, *, batch: int = 250) -> Tensor:
        """The scores for normalised inputs, rows × classes."""
        blocks = torch.split(inputs.float().contiguous(), batch)
        return torch.cat([torch.from_numpy(self._session.run(None, {self._input: b.numpy()})[0]) for b in blocks])


def _own_errors() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile)
    return (RuntimeError, ValueError, OSError, *found)


def onnx_latency(
    files: Sequence[str | Path],
    example: Tensor,
    *,
    batches: Sequence[int] = (1, 64),
    repeats: int = 15,
    threads: int = 1,
) -> tuple[OnnxTiming, ...]:
    """The time per input of each file, sampled in turn; rows of ``example`` are repeated to fill a batch."""
    if repeats < 4 or not len(example):
        raise UsageError(f"{repeats} repeats on {len(example)} rows: at least four samples and one row are needed")
    networks = [OnnxNetwork(file, threads=threads) for file in files]
    found = []
    for batch in batches:
        inputs = example.repeat(-(-batch // len(example)), *[1] * (example.dim() - 1))[:batch].float().contiguous()
        samples: list[list[float]] = [[] for _ in networks]
        for number in range(repeats + 1):
            for own, network in zip(samples, networks, strict=True):
                seconds = _sample(network, inputs)
                if number:  # the first one warms up
                    own.append(1e3 * seconds / batch)
        for network, own in zip(networks, samples, strict=True):
            low, median, high = statistics.quantiles(own, n=4)
            found.append(OnnxTiming(network.path.name, batch, median, low, high))
    return tuple(found)


def _sample(network: OnnxNetwork, inputs: Tensor) -> float:
    runs, began = 0, time.perf_counter()
    while not runs or time.perf_counter() - began < _LEAST_SECONDS:
        network.scores(inputs, batch=len(inputs))
        runs += 1
    return (time.perf_counter() - began) / runs
