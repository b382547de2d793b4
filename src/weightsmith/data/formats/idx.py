"""Images and labels in IDX files, plain or gzip: the form of MNIST and Fashion-MNIST.

    bytes 0–3   0, 0, type (8 = unsigned byte), number of dimensions
    then        one big-endian uint32 per dimension, then the values in row order

Four files: ``{train,t10k}-images-idx3-ubyte[.gz]`` and ``{train,t10k}-labels-idx1-ubyte[.gz]``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from weightsmith.core.errors import FileRefused
from weightsmith.data.arrays import Arrays, checked_labels, checked_size
from weightsmith.data.formats.archives import unzipped

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["IdxFiles", "read_idx"]

_PREFIX = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTE = 8


@dataclass(frozen=True)
class IdxFiles:
    """The IDX files of one data set in ``folder``, with images of ``size`` (h, w) and ``classes`` classes."""

    folder: Path
    size: tuple[int, int]
    classes: int

    @classmethod
    def find(cls, folder: Path, splits: Sequence[str], size: tuple[int, int], classes: int) -> IdxFiles | None:
        """The files in ``folder``, if every requested split is there."""
        files = cls(folder, size, classes)
        names = [(split, kind) for split in splits for kind in ("images-idx3", "labels-idx1")]
        return files if all(files._path(split, kind) for split, kind in names) else None

    @property
    def origin(self) -> str:
        """The folder."""
        return str(self.folder)

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        """Images ``(n, 1, h, w)`` and labels of each split."""
        return {split: self._read(split) for split in splits}

    def _read(self, split: str) -> Arrays:
        image_file, label_file = self._path(split, "images-idx3"), self._path(split, "labels-idx1")
        if image_file is None or label_file is None:
            raise FileRefused(self.folder, f"the IDX files of the {split} split are not there")
        images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
        if images.shape[1:] != self.size:
            raise FileRefused(image_file, f"holds images of {images.shape[1:]} pixels, not of {self.size}")
        if len(images) != len(labels):
            raise FileRefused(
                label_file, f"holds {len(labels)} labels for the {len(images)} images of {image_file.name}"
            )
        return Arrays(images[:, None], checked_labels(label_file, labels, self.classes))

    def _path(self, split: str, kind: str) -> Path | None:
        if split not in _PREFIX:
            return None
        path = self.folder / f"{_PREFIX[split]}-{kind}-ubyte.gz"
        return next((p for p in (path, path.with_suffix("")) if p.is_file()), None)


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in one IDX file, which must have this many dimensions and not a byte too many."""
    with unzipped(path) as file:
        return _read_array(path, file, dimensions)


def _read_array(path: Path, file: BinaryIO, dimensions: int) -> NDArray[np.uint8]:
    head = file.read(4)
    wanted = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if head != wanted:
        raise FileRefused(path, f"starts with {head.hex(' ')}, not with the IDX magic {wanted.hex(' ')}")
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise FileRefused(path, "ends inside its header")
    shape = struct.unpack(f">{dimensions}I", sizes)
    size = checked_size(path, prod(shape), f"an array of shape {shape}")
    if not size:
        raise FileRefused(path, f"holds an empty array of shape {shape}")
    # Read in blocks, so that a header that claims more than there is takes no memory for it.
    blocks, missing = [], size
    while missing and (block := file.read(min(missing, 1 << 22))):
        blocks.append(block)
        missing -= len(block)
    if missing:
        raise FileRefused(path, f"declares {size:,} values of shape {shape} and ends {missing:,} short")
    if file.read(1):
        raise FileRefused(path, f"continues after the {size:,} values of shape {shape} that it declares")
    return np.frombuffer(bytearray().join(blocks), np.uint8).reshape(shape)
