"""Faces by a cascade of simple features (Viola & Jones 2001), with OpenCV's trained frontal-face cascade.

The largest face is cut out, brought to a fixed square, grey. Where none is found there is no crop: the answer is None,
never the whole image or its middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weightsmith.core.errors import DataMismatch, MissingExtra, OptionError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Box", "crop_face", "find_faces", "require_opencv"]

_CASCADE = "haarcascade_frontalface_default.xml"
_STEP, _NEIGHBOURS = (
    1.1,
    5,
)  # window growth between scales; overlapping finds that make a face (OpenCV's tutorial has 3–6)


class Box(NamedTuple):
    """A face in an image, in pixels from the left and from the top."""

    left: int
    top: int
    width: int
    height: int


def find_faces(grey: NDArray[np.uint8]) -> tuple[Box, ...]:
    """The faces in a grey image, the largest first; of equal ones the upper, then the left."""
    if grey.ndim != 2 or grey.dtype != np.uint8:
        raise DataMismatch(f"faces are looked for in a grey uint8 image (h, w), not in {grey.dtype} {grey.shape}")
    cv2 = require_opencv()
    # Loaded each time (a tenth of the search): a cascade keeps state, so sharing one between threads is unsafe.
    cascade = cv2.CascadeClassifier(cv2.data.haarcascades + _CASCADE)
    with _one_thread(cv2):
        found = cascade.detectMultiScale(np.ascontiguousarray(grey), scaleFactor=_STEP, minNeighbors=_NEIGHBOURS)
    boxes = [Box(*(int(number) for number in box)) for box in found]
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
            f"OpenCV {cv2.__version__} has no cascade classifier; pip install 'weightsmith[faces]' brings one that has"
        )
    return cv2


@contextmanager
def _one_thread(cv2: Any) -> Iterator[None]:
    """OpenCV takes every core unless told not to, also in each of several workers; its setting is put back."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
