"""Images in Parquet files as Hugging Face writes them: a struct column with encoded bytes, a column of labels.

    img: struct<bytes: binary, path: string>    (or ``image``)      PNG or WebP
    label: int64                                (or another column named by the data set)

Class names come from the schema's metadata if it has them. Row groups are read one after another, so memory
holds the pixels and one group. Decoding is the slow part (95 µs an image, and two threads are no faster than one), so
the pixels of large files are kept in the cache.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weightsmith.core.errors import FileRefused, WeightsmithError
from weightsmith.core.records import digest_of
from weightsmith.core.storage import file_digest, reading, write_atomic
from weightsmith.data.arrays import Arrays, checked_labels, checked_size
from weightsmith.data.folders import cache_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ParquetFiles",
    "Pixels",
    "cached_pixels",
    "class_names",
    "image_column",
    "labels_of",
    "opened_parquet",
    "split_of",
]


_IMAGE_COLUMNS = ("img", "image")
# Below this many images decoding takes less than two seconds, and keeping the pixels is not worth the disk.
_CACHE_FROM = 20_000


@dataclass(frozen=True)
class ParquetFiles:
    """The Parquet files of each split, with RGB images of ``size`` (h, w) and labels in ``label_column``."""

    path: Path
    parts: dict[str, tuple[Path, ...]]
    size: tuple[int, int]
    label_column: str
    classes: int

    @classmethod
    def find(
        cls, path: Path, splits: Sequence[str], size: tuple[int, int], label_column: str, classes: int
    ) -> ParquetFiles | None:
        """The files ``<split>.parquet`` or ``<split>-*.parquet`` in the folder ``path``, or ``path`` itself."""
        files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
        parts = {split: tuple(file for file in files if split_of(file) == split) for split in splits}
        return cls(path, parts, size, label_column, classes) if all(parts.values()) else None

    @property
    def origin(self) -> str:
        """The folder or file."""
        return str(self.path)

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        """Images ``(n, 3, h, w)`` and labels of each split; several files of a split are joined in name order."""
        return {split: _joined([self._read(path) for path in self.parts[split]]) for split in splits}

    def _read(self, path: Path) -> Arrays:
        with opened_parquet(path) as file:
            column = image_column(path, file, self.label_column)
            labels = checked_labels(path, labels_of(path, file, self.label_column), self.classes)
            names = class_names(path, file, self.label_column, self.classes)
            rows = file.metadata.num_rows
            checked_size(path, rows * 3 * self.size[0] * self.size[1], f"{rows:,} images")
            if rows < _CACHE_FROM:
                found = _decoded(path, file, column, self.size)
            else:
                found = cached_pixels(file_digest(path), lambda: _decoded(path, file, column, self.size))
        notes = (
            f"{path.name}: {found.lossy:,} of {rows:,} images are stored with loss (WebP), so accuracies are not "
            "comparable with published ones",
        )
        return Arrays(found.pixels, labels, names, notes if found.lossy else ())


def split_of(path: Path) -> str | None:
    """The split that a file's name begins with: ``train.parquet``, ``train-00000-of-00002.parquet``."""
    name = path.name.split("-")[0].removesuffix(".parquet")
    return name if path.suffix == ".parquet" else None


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """The file, its footer read; any fault in it raises an error that names the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path):
        try:
            with pq.ParquetFile(path) as file:
                yield file
        except WeightsmithError:
            raise
        except (
            pa.ArrowException,
            ValueError,
            LookupError,
            TypeError,
            OverflowError,
        ) as error:  # such as a name that is not text
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise FileRefused(path, f"is not readable as Parquet ({reason})") from error


def image_column(path: Path, file: Any, label_column: str | None = None) -> str:
    """The column of encoded images; refused if it, or the column of labels, is not there."""
    import pyarrow as pa

    schema = file.schema_arrow
    column = next((name for name in _IMAGE_COLUMNS if name in schema.names), None)
    if column is None or (label_column or column) not in schema.names:
        absent = " or ".join(_IMAGE_COLUMNS) if column is None else label_column
        raise FileRefused(path, f"has no column {absent}, only {', '.join(schema.names)}")
    kind = schema.field(column).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise FileRefused(path, f"column {column} is {kind}, not a struct with the encoded image in 'bytes'")
    return column


def labels_of(path: Path, file: Any, column: str) -> NDArray[np.int64]:
    """The column of labels, which must be whole numbers."""
    labels = file.read(columns=[column], use_threads=False).column(column)
    if labels.null_count or not np.issubdtype(labels.type.to_pandas_dtype(), np.integer):
        raise FileRefused(path, f"column {column} ({labels.type}, {labels.null_count} empty) is not whole numbers")
    return np.asarray(labels.to_numpy(), np.int64)


def class_names(path: Path, file: Any, column: str, classes: int | None) -> tuple[str, ...]:
    """The class names in Hugging Face's schema metadata, one for each class; empty without such metadata."""
    metadata = (file.schema_arrow.metadata or {}).get(b"huggingface")
    if metadata is None:
        return ()
    try:
        names = json.loads(metadata)["info"]["features"][column].get("names", [])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileRefused(path, f"the Hugging Face metadata in its schema is damaged ({error!r})") from error
    count = len(names) if classes is None else classes
    if names and not (isinstance(names, list) and len(names) == count and all(type(n) is str for n in names)):
        raise FileRefused(path, f"its schema names {len(names)} classes, not {classes}")
    return tuple(names)


def _decoded(path: Path, file: Any, column: str, size: tuple[int, int]) -> Pixels:
    height, width = size
    pixels = np.empty((file.metadata.num_rows, 3, height, width), np.uint8)
    lossy = row = 0
    for group in range(file.num_row_groups):
        checked_size(path, file.metadata.row_group(group).total_byte_size, f"row group {group}")
        table = file.read_row_group(group, columns=[f"{column}.bytes"], use_threads=False)
        contents = table.column(column).combine_chunks().field("bytes").to_pylist()
        decoded = [_decode(path, row + i, content, size) for i, content in enumerate(contents)]
        # Pillow gives rows of RGB triples; here the channels come first.
        block = np.frombuffer(b"".join(decoded), np.uint8).reshape(-1, height, width, 3)
        pixels[row : row + len(block)] = block.transpose(0, 3, 1, 2)
        lossy += sum(map(_is_lossy, contents))
        row += len(block)
    return Pixels(pixels, lossy)


def _decode(path: Path, row: int, content: bytes | None, size: tuple[int, int]) -> bytes:
    from PIL import Image

    if content is None:
        raise FileRefused(path, f"image {row} is empty")
    try:
        # Not a context manager: there is no file to close, and closing costs a tenth of the time.
        image = Image.open(io.BytesIO(content), formats=("WEBP", "PNG"))
        if image.size == size[::-1]:
            return (image if image.mode == "RGB" else image.convert("RGB")).tobytes()
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
        raise FileRefused(path, f"image {row} cannot be decoded ({error})") from error
    raise FileRefused(path, f"image {row} has {image.width}×{image.height} pixels, not {size[1]}×{size[0]}")


def _is_lossy(content: bytes) -> bool:
    """Whether the image is a lossy WebP: a ``VP8`` chunk where a lossless one has ``VP8L``."""
    kind = content[12:16] if content[8:12] == b"WEBP" else b""
    return kind == b"VP8 " or (kind == b"VP8X" and b"VP8L" not in content)


def _joined(parts: list[Arrays]) -> Arrays:
    if len(parts) == 1:
        return parts[0]
    notes = tuple(note for part in parts for note in part.notes)
    return Arrays(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]), parts[0].classes, notes)


# Decoded pixels, kept in the cache so that a data set is decoded once.
#
# A file ``decoded/<digest of the source>-<digest of this file>.npz`` is found by the first digest and checked by the
# second: a damaged one is removed and the pixels are decoded again. A cache that cannot be written is no error.


class Pixels(NamedTuple):
    """Images ``(n, c, h, w)`` and how many of them were stored with loss."""

    pixels: NDArray[np.uint8]
    lossy: int


def cached_pixels(source: str, decode: Callable[[], Pixels]) -> Pixels:
    """The pixels of the file with digest ``source``: from the cache, or decoded and stored there."""
    folder = cache_folder() / "decoded"
    for path in sorted(folder.glob(f"{source}-*.npz")):
        found = _read(path)
        if found is not None:
            return found
        with suppress(OSError):  # another process may have removed it, or the folder may be read-only
            path.unlink()
    decoded = decode()
    _write(folder, source, decoded)
    return decoded


def _read(path: Path) -> Pixels | None:
    """The content of the file, or None if it is damaged."""
    try:
        if file_digest(path) != path.stem.partition("-")[2]:
            return None
    except FileRefused:
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return Pixels(arrays["pixels"], int(arrays["lossy"]))


def _write(folder: Path, source: str, decoded: Pixels) -> None:
    file = io.BytesIO()
    np.savez(file, pixels=decoded.pixels, lossy=np.int64(decoded.lossy))
    content = file.getvalue()
    with suppress(FileRefused):
        write_atomic(folder / f"{source}-{digest_of(content)}.npz", content)
