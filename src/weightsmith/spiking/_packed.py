"""Spikes of whole populations on disk, eight to a byte."""

from __future__ import annotations

import math
from collections.abc import Hashable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["PackedSpikes"]


class PackedSpikes:
    """The spikes of one population, part by part, in a file that :meth:`remove` deletes; none of them in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[Hashable, tuple[int, tuple[int, ...]]] = {}

    def write(self, part: Hashable, spikes: NDArray[np.uint8]) -> None:
        """Store spikes (0 and 1, of any shape) under the name ``part``."""
        with self._path.open("ab") as file:
            self._places[part] = file.tell(), spikes.shape
            file.write(np.packbits(spikes).data)

    def read(self, part: Hashable) -> NDArray[np.uint8]:
        """The spikes stored under that name."""
        begin, shape = self._places[part]
        count = math.prod(shape)
        bits = np.fromfile(self._path, np.uint8, math.ceil(count / 8), offset=begin)
        return np.unpackbits(bits, count=count).reshape(shape)

    def remove(self) -> None:
        """Give the room back."""
        self._path.unlink()
