"""Exact percentiles of activations, computed batch by batch in bounded memory.

The percentile p of n values has the rank (n − 1)·p/100 in ascending order, interpolated linearly between two
neighbours (NumPy's "linear"). Only the values from that rank on are kept, a small part for high percentiles.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.conversion.convert import Converted

__all__ = ["Level", "RunningPercentile", "activation_levels"]

_BATCH = 32


class RunningPercentile:
    """The percentile of each row of ``count`` values that are added in parts.

    >>> tenth = RunningPercentile(10, count=11)
    >>> tenth.add(torch.arange(6.0)[None])
    >>> tenth.add(torch.arange(6.0, 11.0)[None])
    >>> tenth.value(), tenth.largest()
    (tensor([1.], dtype=torch.float64), tensor([10.]))
    """

    def __init__(self, percent: float, count: int) -> None:
        self._rank = (count - 1) * (percent / 100)
        self._keep = count - math.floor(self._rank)
        self._missing, self._kept = count, torch.empty(0)

    def add(self, values: Tensor) -> None:
        """Add values (rows, part)."""
        self._missing -= values.shape[1]
        pool = torch.cat([self._kept, values], dim=1) if self._kept.numel() else values
        self._kept = pool.topk(min(self._keep, pool.shape[1]), dim=1).values

    def value(self) -> Tensor:
        """The percentile of every row, once all values are there."""
        if self._missing:
            raise UsageError(f"{self._missing} of the values are missing: their percentile is not known yet")
        high, low = (self._kept[:, max(0, self._keep - back)].double() for back in (2, 1))
        share = self._rank - math.floor(self._rank)
        return torch.lerp(low, high, share)

    def largest(self) -> Tensor:
        """The largest value of every row."""
        return self._kept[:, 0]


@dataclasses.dataclass(frozen=True, eq=False)
class Level:
    """The percentile and the largest of a population's activations, each (channels,), or (1,) for the whole layer."""

    percentile: Tensor
    largest: Tensor


def activation_levels(
    converted: Converted,
    x: Tensor,
    percent: float,
    *,
    per_channel: bool = True,
    progress: StepCallback | None = None,
) -> dict[str, Level]:
    """For every population the percentile of what its ReLU gives in the plain network, over images and positions.

    ``x`` are inputs as they come from the data.
    """
    network = converted.network
    found: dict[str, RunningPercentile] = {}
    for node in network.populations:
        shape = network.shapes[node.name]
        found[node.name] = RunningPercentile(percent, len(x) * math.prod(shape[1:] if per_channel else shape))
    for done, inputs in batches_for(network.card, x, _BATCH):
        network.encode.check_inputs(inputs)
        for name, values in converted.activations(inputs).items():
            rows = values.transpose(0, 1).flatten(1)
            found[name].add(rows if per_channel else rows.reshape(1, -1))
        if progress is not None:
            progress(done, len(x))
    return {name: Level(each.value(), each.largest()) for name, each in found.items()}
