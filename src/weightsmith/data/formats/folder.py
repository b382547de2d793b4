"""Folders of images, one subfolder per class.

    photos/cat/1.png, photos/cat/more/2.jpg, photos/dog/1.png       all train
    photos/train/cat/…, photos/test/cat/…                           divided, if every subfolder is named after a split

Classes and images are taken in name order. Images are grey if all are, otherwise RGB; transparency is dropped. They
must have one size, unless ``size=`` resizes them. Their headers give the memory that they take; images that do not
fit are decoded when they are needed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weightsmith.core.errors import FileRefused, OptionError
from weightsmith.core.options import param
from weightsmith.core.storage import reading
from weightsmith.data.arrays import Arrays, checked_size
from weightsmith.data.formats.images import GREY_MODES, opened_image
from weightsmith.data.sources import Source, held_back

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Folder", "LabelledFiles", "labelled_files"]

_SPLIT_FOLDERS = {
    "train": "train",
    "test": "test",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
}
_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
_BATCH = 8  # images that must fit into memory together


class Folder(Source, name="folder"):
    """Images in one subfolder per class."""

    path: str = param(doc="the folder")
    size: tuple[int, ...] = param(default=(), ge=1, doc="resize to this height and width (one number: both)")
    test: float = held_back("test")
    validation: float = held_back("validation")

    def check(self) -> None:
        """One number or two."""
        if len(self.size) > 2:
            raise OptionError(f"folder: size takes height and width, not {len(self.size)} numbers")

    def read(self) -> dict[str, Arrays]:
        """Images ``(n, c, h, w)`` and labels of each split."""
        root = Path(self.path).expanduser()
        found = labelled_files(root)
        size, grey = self._format([path for files in found.splits.values() for path, _ in files])
        parts = {}
        for split, files in found.splits.items():
            labels = np.array([label for _, label in files], np.int64)
            x = _pixels(tuple(path for path, _ in files), size, grey)
            parts[split] = Arrays(x, labels, found.classes, found.notes)
        return parts

    def _format(self, paths: list[Path]) -> tuple[tuple[int, int], bool]:
        """The size (h, w) all images have or are resized to, and whether all are grey; only headers are read."""
        heads = []
        for path in paths:
            with opened_image(path) as image:
                heads.append((path, image.size[::-1], image.mode in GREY_MODES))
        grey = all(is_grey for *_, is_grey in heads)
        if self.size:
            return (self.size[0], self.size[-1]), grey
        first, size, _ = heads[0]
        for path, other, _ in heads:
            if other != size:
                raise FileRefused(
                    path,
                    f"has {other[1]}×{other[0]} pixels, but {first.name} {size[1]}×{size[0]}; give size= to resize all",
                )
        return size, grey


class LabelledFiles(NamedTuple):
    """The image files of each split with the number of their class, the classes, and a note on other files."""

    splits: dict[str, list[tuple[Path, int]]]
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def labelled_files(root: Path) -> LabelledFiles:
    """The image files of a folder, unread; a split without images is left out, a folder without any is refused."""
    if not root.is_dir():
        raise FileRefused(root, "no such folder")
    folders = _split_folders(root)
    classes = tuple(sorted({child.name for folder in folders.values() for child in _subfolders(folder)}))
    found = {split: _images(folder, classes) for split, folder in folders.items()}
    splits = {split: files for split, (files, _) in found.items() if files}
    if not splits:
        raise FileRefused(root, "holds no images in subfolders, one for each class")
    return LabelledFiles(splits, classes, tuple(note for _, left in found.values() for note in left))


def _split_folders(root: Path) -> dict[str, Path]:
    children = _subfolders(root)
    if not children or any(child.name not in _SPLIT_FOLDERS for child in children):
        return {"train": root}
    folders: dict[str, Path] = {}
    for child in children:
        split = _SPLIT_FOLDERS[child.name]
        if split in folders:
            raise FileRefused(root, f"holds two folders for the {split} split: {folders[split].name} and {child.name}")
        folders[split] = child
    return folders


def _subfolders(folder: Path) -> list[Path]:
    with reading(folder):
        return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _images(folder: Path, classes: tuple[str, ...]) -> tuple[list[tuple[Path, int]], list[str]]:
    """The image files with their labels, in order, and a note about the files that are not images."""
    files = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    ]
    other = [path for path, _ in files if path.suffix.lower() not in _SUFFIXES]
    notes = [f"{folder}: {len(other)} files that are not images were skipped, such as {other[0].name}"] if other else []
    return [(path, label) for path, label in files if path.suffix.lower() in _SUFFIXES], notes


def _pixels(paths: tuple[Path, ...], size: tuple[int, int], grey: bool) -> NDArray[np.uint8] | Tensor:
    """The decoded images: an array if they fit into memory, else a tensor that is read when needed."""
    from weightsmith.data.streams.images import ImageFiles
    from weightsmith.data.streams.rows import StreamedRows, in_memory_or_streamed

    checked_size(paths[0], math.prod(size) * 3 * _BATCH, f"a batch of {_BATCH} images of {size[1]}×{size[0]}")
    x = in_memory_or_streamed(ImageFiles(paths, size, grey))
    return x if isinstance(x, StreamedRows) else x.numpy()
