"""The user's own Parquet files with encoded images, as Hugging Face writes them.

    photos.parquet                                      all train
    photos/train-00000-of-00002.parquet, test-….parquet a folder: the split is the first part of a file's name

A struct column (``img`` or ``image``) holds the encoded bytes, a column of whole numbers the classes. Images must have
one size (read from their headers) unless ``size=`` resizes them. A row of a Parquet file cannot be read without its row
group, so images that do not fit into memory are copied, still encoded, to a temporary file and decoded from there when
they are needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weightsmith.core.errors import FileRefused, OptionError, UnknownName
from weightsmith.core.options import param
from weightsmith.data.arrays import Arrays, checked_size
from weightsmith.data.formats.images import GREY_MODES, opened_image
from weightsmith.data.formats.parquet import class_names, image_column, labels_of, opened_parquet, split_of
from weightsmith.data.sources import Source, held_back
from weightsmith.data.tensors import SPLITS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Parquet"]

_MOST_CLASSES = 100_000  # of labels without names: a larger one is a damaged number, not a class
_LABELS = ("label", "labels", "fine_label", "class", "target")
_BATCH = 64  # rows of a Parquet file that are in memory at a time


class Parquet(Source, name="parquet"):
    """Encoded images and their labels in Parquet files, as Hugging Face writes them."""

    path: str = param(doc="a .parquet file, or a folder of train-….parquet, test-….parquet")
    label: str = param(default="", doc="the label column; default: label, labels, fine_label, class or target")
    size: tuple[int, ...] = param(default=(), ge=1, doc="resize to this height and width (one number: both)")
    test: float = held_back("test")
    validation: float = held_back("validation")

    def check(self) -> None:
        """One number or two."""
        if len(self.size) > 2:
            raise OptionError(f"parquet: size takes height and width, not {len(self.size)} numbers")

    def read(self) -> dict[str, Arrays]:
        """Images ``(n, c, h, w)`` and labels of each split."""
        path = Path(self.path).expanduser()
        parts = _files(path)
        labels = {split: [self._labels(file) for file in files] for split, files in parts.items()}
        names = next((found for each in labels.values() for _, found in each if found), ())
        read = {}
        for split, files in parts.items():
            y = np.concatenate([found for found, _ in labels[split]])
            if int(y.min()) < 0 or int(y.max()) >= (len(names) or _MOST_CLASSES):
                raise FileRefused(
                    files[0], f"has the label {int(y.min() if y.min() < 0 else y.max())}, which is not a class"
                )
            read[split] = Arrays(self._pixels(files, len(y)), y, names)
        count = 1 + max(int(part.y.max()) for part in read.values())
        return {split: part._replace(classes=names or tuple(map(str, range(count)))) for split, part in read.items()}

    def _labels(self, path: Path) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        with opened_parquet(path) as file:
            columns = file.schema_arrow.names
            name = self.label or next((each for each in _LABELS if each in columns), "")
            if name not in columns:
                raise UnknownName(f"column of {path.name}", name or "label", columns)
            return labels_of(path, file, name), class_names(path, file, name, None)

    def _pixels(self, files: list[Path], rows: int) -> NDArray[np.uint8] | Tensor:
        """The images: decoded if they fit into memory, else kept encoded in a temporary file."""
        from weightsmith.data.streams.images import EncodedImages
        from weightsmith.data.streams.rows import StreamedRows, in_memory_or_streamed
        from weightsmith.data.streams.spool import Spool

        spool, places, size, grey = Spool("the Parquet file"), np.empty((rows, 2), np.int64), None, True
        expected, images = sum(file.stat().st_size for file in files), 0
        for where, content in itertools.islice(_contents(files), rows + 1):
            with opened_image(where, content) as image:
                found, grey = (image.height, image.width), grey and image.mode in GREY_MODES
            size = size or (self.size and (self.size[0], self.size[-1])) or found
            if not self.size and found != size:
                raise FileRefused(
                    where, f"has {found[1]}×{found[0]} pixels, others {size[1]}×{size[0]}; give size= to resize all"
                )
            if images < rows:
                places[images] = spool.write(content, expected), len(content)
            images += 1
        spool.close()
        if images != rows or size is None:
            raise FileRefused(
                files[0], f"is damaged: it has {rows:,} labels and {'more' if images > rows else images} images"
            )
        checked_size(files[0], math.prod(size) * 3, f"an image of {size[1]}×{size[0]}")
        x = in_memory_or_streamed(EncodedImages(spool.file, places, (size[0], size[1]), grey, files[0]))
        return x if isinstance(x, StreamedRows) else x.numpy()


def _files(path: Path) -> dict[str, list[Path]]:
    """The files of each split, in the order of their names."""
    if path.is_file():
        return {"train": [path]}
    if not path.is_dir():
        raise FileRefused(path, "no such file or folder")
    known = {"valid": "validation", "val": "validation", **{split: split for split in SPLITS}}
    found: dict[str, list[Path]] = {}
    for file in sorted(path.glob("*.parquet")):
        found.setdefault(known.get(split_of(file) or "", "train"), []).append(file)
    if not found:
        raise FileRefused(path, "holds no .parquet files")
    return found


def _contents(files: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """Every encoded image, with a name for messages, a few rows in memory at a time."""
    for path in files:
        with opened_parquet(path) as file:
            column, row = image_column(path, file), 0
            for batch in file.iter_batches(_BATCH, columns=[f"{column}.bytes"], use_threads=False):
                for content in batch.column(0).field("bytes").to_pylist():
                    if content is None:
                        raise FileRefused(path, f"image {row} is empty")
                    yield path.with_name(f"{path.name}, image {row}"), content
                    row += 1
