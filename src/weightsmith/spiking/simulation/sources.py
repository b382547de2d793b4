"""The inputs of a spiking network, step by step: encoded images, or given spike trains."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.encoding import LEVELS, Poisson, draws, image_keys
from weightsmith.spiking.graph import Shape
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Currents", "Draws", "Source", "Trains", "entering", "source_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Currents:
    """Constant currents (images, …), the same at every step."""

    x: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def step(self, images: slice | Tensor, _step: int) -> Tensor:
        """The input of one step."""
        return self.x[images]


@dataclasses.dataclass(frozen=True, eq=False)
class Draws:
    """Poisson spikes of images (images, …), drawn by image numbers that start at ``first``."""

    x: Tensor
    scale: float
    seed: int
    first: int

    def __len__(self) -> int:
        return len(self.x)

    def keys(self) -> Tensor:
        """One key per image."""
        return image_keys(self.seed, torch.arange(self.first, self.first + len(self.x)))

    def step(self, images: slice | Tensor, step: int) -> Tensor:
        """The spikes −1, 0, +1 of one step."""
        x = self.x[images]
        rows = x.flatten(1)
        drawn = draws(self.keys()[images].to(x.device), step, rows.shape[1])
        fired = drawn < (rows.abs() * self.scale).double() * LEVELS
        return (fired * rows.sign()).reshape(x.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Trains:
    """Given spikes: (images, steps, …) of −1, 0, +1, of any type and in any order in memory."""

    spikes: NDArray[Any]

    def __len__(self) -> int:
        return len(self.spikes)

    def step(self, images: slice | Tensor, step: int) -> Tensor:
        """The spikes of one step."""
        rows = (
            images.numpy() if isinstance(images, Tensor) else images
        )  # NumPy would read a one-element tensor as a number
        return torch.from_numpy(self.spikes[rows, step].astype(np.float32))


Source = Currents | Draws | Trains


def source_of(network: SpikingNetwork, x: Tensor, seed: int, first: int) -> Currents | Draws:
    """Inputs from the data, normalised by the network's card and encoded as the network does."""
    if len(x) == 0:
        raise UsageError("there is no image to run on")
    # Draws compare 24-bit numbers; currents stay in double precision.
    double = x.dtype == torch.float64 and not isinstance(network.encode, Poisson)
    dtype = torch.float64 if double else torch.float32
    shaped = [inputs.contiguous() for _, inputs in batches_for(network.card, x, 1024, dtype)]
    ready = torch.cat(shaped)
    if tuple(ready.shape[1:]) != network.input_shape:
        raise DataMismatch(f"the network takes inputs of shape {network.input_shape}, not {tuple(ready.shape[1:])}")
    network.encode.check_inputs(ready)
    if isinstance(network.encode, Poisson):
        return Draws(ready, network.encode.scale, seed, first)
    return Currents(network.encode.given(ready))


def entering(
    source: Source, rows: NDArray[np.int64], shape: Shape, step: int, count: int, *, kind: type[Any], once: bool
) -> NDArray[Any]:
    """The input of these rows in ``count`` steps as (images, steps, positions, channels); constant currents one step.

    ``once``: they flow at the first step of the run only.
    """
    images, channels, positions = len(rows), shape[0], math.prod(shape[1:])
    if isinstance(source, Currents):
        maps = source.x[torch.from_numpy(rows)].reshape(images, 1, channels, positions)
        pixels: NDArray[Any] = maps.transpose(2, 3).contiguous().numpy().astype(kind)
        if not once:
            return pixels
        flowing = np.zeros((images, count, positions, channels), pixels.dtype)
        flowing[:, : max(0, 1 - step)] = pixels
        return flowing
    spikes = np.empty((images, count, positions, channels), np.int8)
    if isinstance(source, Draws):
        from weightsmith.spiking.simulation._kernels import draw

        flat = source.x[torch.from_numpy(rows)].contiguous().numpy().reshape(-1)
        keys = source.keys().numpy()[rows].view(np.uint64)
        draw(flat, keys, np.float32(source.scale), step, count, channels, spikes.reshape(-1))
        return spikes
    given = source.spikes[rows, step : step + count].reshape(images, count, channels, positions)
    spikes[:] = given.transpose(0, 1, 3, 2)
    return spikes
