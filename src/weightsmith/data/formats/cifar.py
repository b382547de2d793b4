"""CIFAR-10 and CIFAR-100, recognised by the contents of a folder or the name of a file.

    Parquet     train.parquet, test.parquet (or train-00000-of-00001.parquet …)
    binary      data_batch_1.bin … test_batch.bin; CIFAR-100: train.bin, test.bin
    python      data_batch_1 … test_batch; CIFAR-100: train, test

The last two are the official archives, unpacked (also in the folder they unpack to) or packed.
Source: Krizhevsky, *Learning multiple layers of features from tiny images*, 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import FileRefused
from weightsmith.data.arrays import Arrays, Files, checked_labels
from weightsmith.data.formats.archives import is_archive, read_members
from weightsmith.data.formats.parquet import ParquetFiles
from weightsmith.data.formats.unpickle import read_pickle

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CIFAR10_FILES", "CIFAR100_FILES", "BatchFiles", "find_cifar"]


# The batches of the official CIFAR archives, in a folder or read straight from the archive.
#
# A record is 3,072 bytes: 32 × 32 of red, then green, then blue. In a binary batch each record follows its label
# (CIFAR-100: the coarse label, then the fine one); a python batch is a pickled dict of an array and a list of labels.


_PIXELS = 3 * 32 * 32
_LARGEST = 200_000_000  # bytes; CIFAR-100's training batch, the largest, has 155 million


@dataclass(frozen=True)
class _Layout:
    """The file layout of CIFAR-10 or CIFAR-100."""

    classes: int
    batches: dict[str, tuple[str, ...]]
    label_bytes: int
    label_name: str
    names_files: tuple[str, str]
    folders: tuple[str, ...]
    archives: tuple[str, ...]

    def complete(self, folder: Path, splits: Sequence[str], suffix: str) -> bool:
        """Whether every batch of these splits is a file in ``folder``."""
        return all((folder / f"{name}{suffix}").is_file() for split in splits for name in self.batches[split])


@dataclass(frozen=True)
class BatchFiles:
    """The binary or python batches at ``path``, a folder or an archive."""

    path: Path
    layout: _Layout

    @property
    def origin(self) -> str:
        """The folder or the archive."""
        return str(self.path)

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        """Images ``(n, 3, 32, 32)`` and labels of each split, its batches joined in order; one pass over an archive."""
        batches = [name for split in splits for name in self.layout.batches[split]]
        wanted = {*batches, *(f"{name}.bin" for name in batches), *self.layout.names_files}
        members = read_members(self.path, wanted, _LARGEST)
        suffix = ".bin" if f"{batches[0]}.bin" in members else ""
        for name in batches:
            if f"{name}{suffix}" not in members:
                raise FileRefused(self.path, f"{name}{suffix} is not there; the {'/'.join(splits)} split needs it")
        classes = self._class_names(members, suffix)
        return {split: self._split(members, split, suffix, classes) for split in splits}

    def _split(self, members: dict[str, bytes], split: str, suffix: str, classes: tuple[str, ...]) -> Arrays:
        decode = self._binary if suffix else self._python
        parts = []
        for name in self.layout.batches[split]:
            where = self.path / f"{name}{suffix}"
            pixels, labels = decode(where, members.pop(where.name))
            parts.append((pixels, checked_labels(where, labels, self.layout.classes)))
        x = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32)
        return Arrays(x, np.concatenate([labels for _, labels in parts]), classes)

    def _binary(self, where: Path, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.integer[Any]]]:
        record = self.layout.label_bytes + _PIXELS
        if not content or len(content) % record:
            raise FileRefused(
                where, f"has {len(content):,} bytes, which is not a whole number of {record}-byte records"
            )
        records = np.frombuffer(content, np.uint8).reshape(-1, record)
        return records[:, self.layout.label_bytes :], records[:, self.layout.label_bytes - 1].astype(np.int64)

    def _python(self, where: Path, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.integer[Any]]]:
        batch = _texts(read_pickle(content, where), where)
        pixels, labels = batch.get("data"), batch.get(f"{self.layout.label_name}s")
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS or not len(pixels):
            raise FileRefused(where, f"its 'data' is not an array of rows of {_PIXELS} bytes")
        # Bounds before the conversion: a label of hundreds of digits is an int as well.
        if not isinstance(labels, list) or not all(type(n) is int and abs(n) < 1 << 31 for n in labels):
            raise FileRefused(where, f"its '{self.layout.label_name}s' are not a list of whole numbers")
        if len(labels) != len(pixels):
            raise FileRefused(where, f"holds {len(labels)} labels for {len(pixels)} images")
        return pixels, np.array(labels, np.int64)

    def _class_names(self, members: dict[str, bytes], suffix: str) -> tuple[str, ...]:
        """The names in the file that comes with the batches, or none if it is not there."""
        name = self.layout.names_files[0 if suffix else 1]
        if name not in members:
            return ()
        where = self.path / name
        try:
            if suffix:
                names = members[name].decode().split()
            else:
                listed = _texts(read_pickle(members[name], where), where).get(f"{self.layout.label_name}_names")
                names = [item if isinstance(item, str) else item.decode() for item in listed or ()]
        except (UnicodeDecodeError, AttributeError, TypeError) as error:
            raise FileRefused(where, "the class names are not text") from error
        if len(names) != self.layout.classes:
            raise FileRefused(where, f"names {len(names)} classes, not {self.layout.classes}")
        return tuple(names)


def _texts(batch: Any, where: Path) -> dict[str, Any]:
    """The dict with text keys: Python 2 wrote bytes."""
    if not isinstance(batch, dict):
        raise FileRefused(where, f"holds a {type(batch).__name__}, not a dict")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in batch.items()}


CIFAR10_FILES = _Layout(
    classes=10,
    batches={"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
    label_bytes=1,
    label_name="label",
    names_files=("batches.meta.txt", "batches.meta"),
    folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
    archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
)
CIFAR100_FILES = _Layout(
    classes=100,
    batches={"train": ("train",), "test": ("test",)},
    label_bytes=2,
    label_name="fine_label",
    names_files=("fine_label_names.txt", "meta"),
    folders=("cifar-100-binary", "cifar-100-python"),
    archives=("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
)


def find_cifar(path: Path, splits: Sequence[str], layout: _Layout) -> Files | None:
    """The files of all requested splits at ``path`` (a folder, a Parquet file or an archive), in any of the formats."""
    parquet = ParquetFiles.find(path, splits, (32, 32), layout.label_name, layout.classes)
    if parquet is not None:
        return parquet
    if is_archive(path):
        return BatchFiles(path, layout)
    for folder in (path, *(path / name for name in layout.folders)):
        if any(layout.complete(folder, splits, suffix) for suffix in (".bin", "")):
            return BatchFiles(folder, layout)
    archives = (path / name for name in layout.archives)
    return next((BatchFiles(archive, layout) for archive in archives if is_archive(archive)), None)
