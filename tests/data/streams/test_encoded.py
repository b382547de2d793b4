from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weightsmith.core.errors import FileRefused
from weightsmith.data.streams.encoded import EncodedImages
from weightsmith.data.streams.rows import StreamedRows
from weightsmith.data.streams.spool import Spool

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), np.uint8)


def spooled(contents):
    spool = Spool("images")
    places = np.array([(spool.write(content), len(content)) for content in contents])
    spool.close()
    return EncodedImages(spool.file, places, (4, 6), grey=False, origin=Path("a.parquet"))


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_images_are_decoded_from_their_places():
    reader = spooled(map(png, PIXELS))
    x = StreamedRows(reader)
    assert np.array_equal(x[[4, 0, 4]], PIXELS[[4, 0, 4]].transpose(0, 3, 1, 2))
    assert np.array_equal(pickle.loads(pickle.dumps(x))[:], PIXELS.transpose(0, 3, 1, 2))
    assert reader.identity() == spooled(map(png, PIXELS)).identity() != spooled(map(png, PIXELS[::-1])).identity()


def test_a_damaged_one_is_named_by_its_row():
    with pytest.raises(FileRefused, match=r"a\.parquet, image 1: is not a readable image"):
        StreamedRows(spooled([png(PIXELS[0]), b"nothing"]))[:]
