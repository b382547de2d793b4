"""The inputs of a spiking network, step by step: encoded images, or given spike trains."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.encoding import LEVELS, Poisson, draws, image_keys
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Currents", "Draws", "Source", "Trains", "source_of"]


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
    """Poisson spikes of images (images, …) whose numbers, by which they are drawn, begin at ``first``."""

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
    """Spikes that are given: (images, steps, …) of −1, 0, +1."""

    spikes: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.spikes)

    def step(self, images: slice | Tensor, step: int) -> Tensor:
        """The spikes of one step."""
        rows = images.numpy() if isinstance(images, Tensor) else images  # NumPy takes a tensor of one for a number
        return torch.from_numpy(self.spikes[rows, step]).float()


Source = Currents | Draws | Trains


def source_of(network: SpikingNetwork, x: Tensor, seed: int, first: int) -> Currents | Draws:
    """Inputs from the data, normalised by the network's card, as the network's encoding feeds them."""
    if len(x) == 0:
        raise UsageError("there is no image to run on")
    # Draws compare numbers of 24 bits; currents in double precision are not rounded.
    double = x.dtype == torch.float64 and not isinstance(network.encode, Poisson)
    dtype = torch.float64 if double else torch.float32
    shaped = [inputs.contiguous() for _, inputs in batches_for(network.card, x, 1024, dtype)]
    ready = torch.cat(shaped)
    if tuple(ready.shape[1:]) != network.input_shape:
        raise DataMismatch(f"the network takes inputs of shape {network.input_shape}, not {tuple(ready.shape[1:])}")
    network.encode.check_inputs(ready)
    if isinstance(network.encode, Poisson):
        return Draws(ready, network.encode.scale, seed, first)
    return Currents(ready)
