"""CIFAR-10 and CIFAR-100, recognised by what is in a folder or by the file given.

    Parquet     train.parquet, test.parquet (or train-00000-of-00001.parquet …)
    binary      data_batch_1.bin … test_batch.bin; CIFAR-100: train.bin, test.bin
    python      data_batch_1 … test_batch; CIFAR-100: train, test

The last two are the official archives, unpacked (also in the folder they unpack to) or as they are.
Source: Krizhevsky, *Learning multiple layers of features from tiny images*, 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weightsmith.data.archives import is_archive
from weightsmith.data.arrays import Files
from weightsmith.data.batches import BatchFiles, Layout
from weightsmith.data.parquet import ParquetFiles

__all__ = ["CIFAR10_FILES", "CIFAR100_FILES", "find_cifar"]

CIFAR10_FILES = Layout(
    classes=10,
    batches={"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
    label_bytes=1,
    label_name="label",
    names_files=("batches.meta.txt", "batches.meta"),
    folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
    archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
)
CIFAR100_FILES = Layout(
    classes=100,
    batches={"train": ("train",), "test": ("test",)},
    label_bytes=2,
    label_name="fine_label",
    names_files=("fine_label_names.txt", "meta"),
    folders=("cifar-100-binary", "cifar-100-python"),
    archives=("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
)


def find_cifar(place: Path, splits: Sequence[str], layout: Layout) -> Files | None:
    """The files of every split asked for at ``place`` (a folder, a Parquet file or an archive), in whichever form."""
    parquet = ParquetFiles.find(place, splits, (32, 32), layout.label_name, layout.classes)
    if parquet is not None:
        return parquet
    if is_archive(place):
        return BatchFiles(place, layout)
    for folder in (place, *(place / name for name in layout.folders)):
        if any(layout.complete(folder, splits, suffix) for suffix in (".bin", "")):
            return BatchFiles(folder, layout)
    archives = (place / name for name in layout.archives)
    return next((BatchFiles(archive, layout) for archive in archives if is_archive(archive)), None)
