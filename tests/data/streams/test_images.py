from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weightsmith.core.errors import FileRefused
from weightsmith.data.datasets import load
from weightsmith.data.streams import rows
from weightsmith.data.streams.images import EncodedImages, ImageFiles
from weightsmith.data.streams.rows import StreamedRows
from weightsmith.data.streams.spool import Spool


@pytest.fixture
def photos(tmp_path):
    draw = np.random.default_rng(4)
    for split, count in (("train", 12), ("test", 6)):
        for name in ("cat", "dog"):
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 256, (9, 7 + number % 2, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.{('png', 'jpg')[number % 2]}")
    return tmp_path


def test_streamed_images_are_the_ones_in_memory(photos, monkeypatch):
    whole = load(f"folder:{photos},size=[8,8],validation=0.25")
    monkeypatch.setattr(rows, "fits", lambda size: False)
    lazy = load(f"folder:{photos},size=[8,8],validation=0.25")
    assert isinstance(lazy.train.x, StreamedRows)
    assert lazy.digest() == whole.digest()
    assert lazy.train.x[:].equal(whole.train.x)
    assert lazy.test.x[[3, 1]].equal(whole.test.x[[3, 1]])


def test_the_size_is_known_before_an_image_is_decoded(photos, monkeypatch):
    sizes = []
    monkeypatch.setattr(rows, "fits", lambda size: bool(sizes.append(size)))
    monkeypatch.setattr(ImageFiles, "_decoded", lambda self, numbers: pytest.fail("an image was decoded"))
    load(f"folder:{photos},size=[8,8]", splits=("train",))
    assert sorted(sizes) == [12 * 3 * 64, 24 * 3 * 64]


def test_a_damaged_image_is_named_when_its_row_is_read(photos, monkeypatch):
    monkeypatch.setattr(rows, "fits", lambda size: False)
    data = load(f"folder:{photos},size=[8,8]")
    path = photos / "train" / "cat" / "5.jpg"
    path.write_bytes(path.read_bytes()[:200])
    row = next(i for i, each in enumerate(data.train.x.reader.paths) if each == path)
    with pytest.raises(FileRefused, match=r"5\.jpg: is not a readable image"):
        data.train.x[[row]]


def test_the_identity_is_that_of_the_files(photos):
    paths = tuple(sorted((photos / "test" / "cat").iterdir()))
    before = ImageFiles(paths, (8, 8), grey=False).identity()
    assert ImageFiles(paths, (8, 9), grey=False).identity() != before
    assert ImageFiles(paths[::-1], (8, 8), grey=False).identity() != before


# One behind the other in a file.

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
