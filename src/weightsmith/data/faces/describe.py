"""Describe the faces in folders of photographs: detect the face, crop it, compute LPQ and PHOG.

An image that shows no face, that cannot be read, or whose face has no edges (and so no PHOG) gives no row; it is listed
with the reason. Images are rotated by their EXIF orientation and converted to grey.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from weightsmith.core.csv_text import csv_text
from weightsmith.core.errors import DataMismatch, FileRefused, MissingExtra, OptionError, UsageError, how_to_install
from weightsmith.core.parallel import completed
from weightsmith.core.progress import StepCallback
from weightsmith.core.storage import write_atomic
from weightsmith.data.faces.descriptors import Descriptor
from weightsmith.data.faces.features import FaceFeatures, LeftOut
from weightsmith.data.faces.lpq import LPQ
from weightsmith.data.faces.phog import PHOG
from weightsmith.data.formats.folder import labelled_files
from weightsmith.data.formats.images import opened_image

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FaceFeatures",
    "LeftOut",
    "crop_face",
    "describe_faces",
    "face_table",
    "find_faces",
    "read_grey",
    "require_opencv",
]


Kind = TypeVar("Kind", bound=Descriptor)


class _Description(NamedTuple):
    lpq: NDArray[np.float32]
    phog: NDArray[np.float32]


def describe_faces(
    folder: str | Path,
    *,
    size: int = 128,
    lpq: LPQ | str = "lpq",
    phog: PHOG | str = "phog",
    crops: str | Path | None = None,
    workers: int = 1,
    progress: StepCallback | None = None,
) -> FaceFeatures:
    """The largest face of every image in ``folder``, one subfolder per class, resized to ``size`` pixels a side.

    The folder may be divided as for :class:`~weightsmith.data.Folder` (``train/…``, ``test/…``). The faces are
    written to the folder ``crops``, if given: a cascade has false positives, which only visual inspection finds.
    ``progress`` is called with the number of images done and in total. Needs the extra ``faces``.
    """
    require_opencv()
    root = Path(folder).expanduser()
    lpq, phog = _descriptor(LPQ, lpq), _descriptor(PHOG, phog)
    least = max(lpq.least_size, phog.least_size)
    if size < least:
        raise OptionError(f"size must be ≥ {least} for {lpq} and {phog}, not {size}")
    if crops is not None and Path(crops).resolve().is_relative_to(root.resolve()):
        raise UsageError(f"crops must not be inside {root}: they would be read as a class")
    found = labelled_files(root)
    tasks = [(split, path, label) for split, files in found.splits.items() for path, label in files]
    names = [_text(path.relative_to(root).as_posix()) for _, path, _ in tasks]
    copies = [None if crops is None else Path(crops) / f"{name}.png" for name in names]
    describe = functools.partial(_describe, size=size, lpq=lpq, phog=phog)
    images = [(path, copy) for (_, path, _), copy in zip(tasks, copies, strict=True)]
    results: dict[int, _Description | str] = {}
    for index, result in completed(describe, images, workers=workers):
        results[index] = result
        if progress is not None:
            progress(len(results), len(tasks))
    left_out = tuple(LeftOut(names[i], reason) for i in range(len(tasks)) if isinstance(reason := results[i], str))
    kept = [(i, result) for i in range(len(tasks)) if isinstance(result := results[i], _Description)]
    if not kept:
        first = left_out[0]
        raise FileRefused(root, f"none of its {len(tasks)} images gave a face; {first.path}: {first.reason}")
    return FaceFeatures(
        lpq=np.stack([result.lpq for _, result in kept]),
        phog=np.stack([result.phog for _, result in kept]),
        labels=np.array([tasks[i][2] for i, _ in kept], np.int64),
        classes=tuple(map(_text, found.classes)),
        paths=tuple(names[i] for i, _ in kept),
        splits=tuple(tasks[i][0] for i, _ in kept),
        left_out=left_out,
        notes=found.notes,
        recipe=f"face {size}×{size}, {lpq}, {phog}",
    )


def read_grey(path: Path) -> NDArray[np.uint8]:
    """An image file as grey pixels ``(h, w)``, rotated by its EXIF orientation."""
    from PIL import ImageOps

    with opened_image(path) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("L"))


def face_table(features: FaceFeatures, splits: tuple[str, ...], lpq: int = 5, phog: int = 5) -> str:
    """CSV: path, label, split, then the components of LPQ and of PHOG, fitted on the rows whose split is ``train``.

    ``weightsmith.data.load`` reads it back; nine digits keep a float32 exactly.
    """
    components = features.components(np.array(splits) == "train", lpq, phog)
    columns = [f"{name}{i}" for name, count in (("lpq", lpq), ("phog", phog)) for i in range(1, count + 1)]
    rows = (
        [path, features.classes[label], split, *(f"{value:.9g}" for value in row)]
        for path, label, split, row in zip(features.paths, features.labels, splits, components, strict=True)
    )
    return csv_text(["path", "label", "split", *columns], rows)


def _descriptor(kind: type[Kind], given: Kind | str) -> Kind:
    made: Descriptor = Descriptor.of(given)
    if not isinstance(made, kind):
        raise OptionError(f"{kind.name} is needed here, such as {kind()}, not {made}")
    return made


def _png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def _text(name: str) -> str:
    """A file name that can be written: bytes that are not UTF-8, as in old archives, are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def _describe(image: tuple[Path, Path | None], *, size: int, lpq: LPQ, phog: PHOG) -> _Description | str:
    """The description of the largest face in an image file, or the reason why there is none; also writes the crop."""
    path, copy = image
    try:
        crop = crop_face(read_grey(path), size)
    except FileRefused as error:
        return error.reason
    if crop is None:
        return "no face found"
    if copy is not None:
        write_atomic(copy, _png(crop))
    edges = phog(crop)
    return _Description(lpq(crop), edges) if edges.any() else "the face has no edges, so no PHOG"


# Faces by a cascade of simple features (Viola & Jones 2001), with OpenCV's trained frontal-face cascade.
#
# The largest face is cropped to a fixed grey square. If none is found the result is None, never the whole image.


_CASCADE = "haarcascade_frontalface_default.xml"
_STEP, _NEIGHBOURS = (
    1.1,
    5,
)  # window growth between scales; overlapping detections that make a face (OpenCV's tutorial has 3–6)


class _Box(NamedTuple):
    """A face in an image, in pixels from the left and from the top."""

    left: int
    top: int
    width: int
    height: int


def find_faces(grey: NDArray[np.uint8]) -> tuple[_Box, ...]:
    """The faces in a grey image, the largest first; equal ones from top to bottom, then left to right."""
    if grey.ndim != 2 or grey.dtype != np.uint8:
        raise DataMismatch(f"faces are looked for in a grey uint8 image (h, w), not in {grey.dtype} {grey.shape}")
    cv2 = require_opencv()
    # Loaded each time (a tenth of the search): a cascade keeps state, so sharing one between threads is unsafe.
    cascade = cv2.CascadeClassifier(cv2.data.haarcascades + _CASCADE)
    with _one_thread(cv2):
        found = cascade.detectMultiScale(np.ascontiguousarray(grey), scaleFactor=_STEP, minNeighbors=_NEIGHBOURS)
    boxes = [_Box(*(int(number) for number in box)) for box in found]
    return tuple(sorted(boxes, key=lambda box: (-box.width * box.height, box.top, box.left)))


def crop_face(grey: NDArray[np.uint8], size: int = 128) -> NDArray[np.uint8] | None:
    """The largest face as a square of ``size`` pixels, or None if no face is found."""
    from PIL import Image

    if size < 1:
        raise OptionError(f"size must be ≥ 1, not {size}")
    faces = find_faces(grey)
    if not faces:
        return None
    box = faces[0]
    cut = grey[box.top : box.top + box.height, box.left : box.left + box.width]
    return np.asarray(Image.fromarray(cut).resize((size, size), Image.Resampling.BILINEAR))


def require_opencv() -> Any:
    """The module ``cv2``, if it is installed and has a cascade classifier."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtra("finding faces", "faces") from error
    if not hasattr(cv2, "CascadeClassifier") or not hasattr(cv2, "data"):
        raise UsageError(
            f"OpenCV {cv2.__version__} has no cascade classifier; {how_to_install('faces')} installs one that has"
        )
    return cv2


@contextmanager
def _one_thread(cv2: Any) -> Iterator[None]:
    """Limit OpenCV to one thread (by default it takes every core, also in each of several workers) and restore it."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
