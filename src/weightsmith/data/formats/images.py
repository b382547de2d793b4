"""One encoded image, from a file or from bytes, as pixels: checked, made grey or RGB, resized."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weightsmith.core.errors import FileRefused

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

__all__ = ["GREY_MODES", "decoded_into", "opened_image"]

GREY_MODES = {"1", "L", "LA"}
_DEEP = {"F", "I", "I;16", "I;16B", "I;16L", "I;16N"}
_MOST_PIXELS = 1 << 26


def decoded_into(pixels: NDArray[np.uint8], path: Path, content: bytes | None = None) -> None:
    """Fill ``pixels`` (c, h, w) with the image at ``path``, or in ``content``, resized if needed (bilinear)."""
    from PIL import Image

    channels, height, width = pixels.shape
    mode = "L" if channels == 1 else "RGB"
    with opened_image(path, content) as image:
        plain = image if image.mode == mode else image.convert(mode)
        fitted = plain if plain.size == (width, height) else plain.resize((width, height), Image.Resampling.BILINEAR)
        pixels[...] = np.asarray(fitted).reshape(height, width, channels).transpose(2, 0, 1)


@contextmanager
def opened_image(path: Path, content: bytes | None = None) -> Iterator[Image]:
    """The image, its header read and checked; any fault in it raises an error that names the file."""
    from PIL import Image

    try:
        with Image.open(path if content is None else io.BytesIO(content)) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise FileRefused(path, f"has {image.width}×{image.height} pixels, too many to read")
            if image.mode in _DEEP:
                raise FileRefused(path, f"has more than 8 bits per pixel (mode {image.mode}); convert it first")
            yield image
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise FileRefused(path, f"is not a readable image ({error})") from error
