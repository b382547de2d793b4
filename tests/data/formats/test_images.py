from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats.images import decoded_into, opened_image

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8)


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_bytes_and_files_give_the_same_pixels(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(PIXELS))
    found = np.empty((2, 3, 5, 6), np.uint8)
    decoded_into(found[0], path)
    decoded_into(found[1], Path("row 7"), path.read_bytes())
    assert np.array_equal(found[0], PIXELS.transpose(2, 0, 1))
    assert np.array_equal(found[0], found[1])


def test_grey_is_repeated_where_colours_are_wanted_and_colours_become_grey():
    coloured, grey = np.empty((3, 5, 6), np.uint8), np.empty((1, 5, 6), np.uint8)
    decoded_into(coloured, Path("grey"), png(PIXELS[..., 0]))
    assert (coloured == PIXELS[..., 0]).all()
    decoded_into(grey, Path("colour"), png(PIXELS))
    luma = PIXELS @ np.array([0.299, 0.587, 0.114])  # ITU-R 601-2
    assert abs(grey[0] - luma).max() <= 1


def test_what_is_no_image_is_named_by_where_it_came_from():
    with pytest.raises(FileRefused, match="row 7: is not a readable image"), opened_image(Path("row 7"), b"nothing"):
        pass
