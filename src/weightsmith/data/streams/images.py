"""Encoded images, in separate files or one after another in one file, decoded by threads when they are needed."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.records import digest_of
from weightsmith.core.storage import file_digest, reading
from weightsmith.data.formats.images import decoded_into
from weightsmith.data.streams.rows import Rows, in_threads
from weightsmith.data.streams.spool import TemporaryFile

__all__ = ["EncodedImages", "ImageFiles"]


@dataclass(frozen=True)
class ImageFiles:
    """Image files as rows ``(c, h, w)`` of pixels, resized to ``size`` (h, w) if theirs differs."""

    paths: tuple[Path, ...]
    size: tuple[int, int]
    grey: bool
    dtype = torch.uint8

    @property
    def shape(self) -> tuple[int, ...]:
        """Images, channels, height, width."""
        return (len(self.paths), 1 if self.grey else 3, *self.size)

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The images of each batch."""
        return in_threads(self._decoded, batches)

    def _decoded(self, rows: Rows) -> Tensor:
        pixels: NDArray[np.uint8] = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, row in enumerate(rows):
            decoded_into(pixels[place], self.paths[row])
        return torch.from_numpy(pixels)

    def identity(self) -> str:
        """A digest of the bytes of all files, in order, and of the size they are read at."""
        return _digest_of_files(self.paths, f"{self.shape}")


@functools.lru_cache(maxsize=8)
def _digest_of_files(paths: tuple[Path, ...], how: str) -> str:
    digest = hashlib.sha256(how.encode())
    for path in paths:
        with reading(path):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Images as rows ``(c, h, w)`` of pixels; ``places`` holds where each begins and its length."""

    file: TemporaryFile
    places: NDArray[np.int64]
    size: tuple[int, int]
    grey: bool
    origin: Path
    dtype = torch.uint8

    @property
    def shape(self) -> tuple[int, ...]:
        """Images, channels, height, width."""
        return (len(self.places), 1 if self.grey else 3, *self.size)

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The images of each batch."""
        return in_threads(self._decoded, batches)

    def _decoded(self, rows: Rows) -> Tensor:
        pixels: NDArray[np.uint8] = np.empty((len(rows), *self.shape[1:]), np.uint8)
        with self.file.path.open("rb", buffering=0) as file:
            for place, row in enumerate(rows):
                begin, length = self.places[row].tolist()
                file.seek(begin)
                decoded_into(
                    pixels[place], self.origin.with_name(f"{self.origin.name}, image {row}"), file.read(length)
                )
        return torch.from_numpy(pixels)

    def identity(self) -> str:
        """A digest of the encoded images, in order, and of the size they are read at."""
        return digest_of(f"{file_digest(self.file.path)} {self.shape}")
