"""Spikes of whole populations on disk, eight to a byte."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.spiking.graph import Shape

__all__ = ["PackedSpikes"]


class PackedSpikes:
    """The spikes of one population for ``images`` × ``steps``, in a file that :meth:`remove` deletes."""

    def __init__(self, path: Path, images: int, steps: int, shape: Shape) -> None:
        self._path, self._shape, self._units = path, shape, math.prod(shape)
        size = (images, steps, math.ceil(self._units / 8))
        self._bits: NDArray[np.uint8] | None = np.memmap(path, np.uint8, "w+", shape=size)

    def write(self, images: slice, steps: slice, spikes: Tensor) -> None:
        """Store spikes (images, steps, …) given as truth values."""
        assert self._bits is not None
        self._bits[images, steps] = np.packbits(spikes.flatten(2).numpy(), axis=-1)

    def read(self, images: slice, steps: slice) -> Tensor:
        """Spikes (images, steps, …) as uint8."""
        assert self._bits is not None
        spikes = np.unpackbits(self._bits[images, steps], axis=-1, count=self._units)
        return torch.from_numpy(spikes).reshape(*spikes.shape[:2], *self._shape)

    def remove(self) -> None:
        """Give the room back."""
        self._bits = None
        self._path.unlink()
