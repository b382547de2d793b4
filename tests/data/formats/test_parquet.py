from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats import parquet
from weightsmith.data.formats.parquet import ParquetFiles, Pixels, cached_pixels

PIXELS = np.random.default_rng(5).integers(0, 256, (7, 4, 6, 3), np.uint8)
LABELS = [2, 0, 1, 1, 0, 2, 2]
NAMES = ["ant", "bee", "cat"]


def encoded(image: np.ndarray, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


def write(path, images=None, labels=LABELS, *, column="img", label="label", metadata=None, group=3):
    images = [encoded(image) for image in PIXELS] if images is None else images
    arrays = {column: pa.array([{"bytes": image, "path": None} for image in images]), label: pa.array(labels)}
    table = pa.table(arrays).replace_schema_metadata(metadata)
    pq.write_table(table, path, row_group_size=group)
    return path


def hugging_face(names=NAMES, label="label"):
    features = {"img": {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
    return {"huggingface": json.dumps({"info": {"features": features}})}


def read(path, splits=("train",)):
    return ParquetFiles.find(path, splits, (4, 6), "label", 3).read(splits)[splits[0]]


@pytest.mark.parametrize("kind", [("PNG", {}), ("WEBP", {"lossless": True, "exact": True})], ids=lambda kind: kind[0])
@pytest.mark.parametrize("column", ["img", "image"])
def test_lossless_images_come_out_as_they_were(tmp_path, kind, column):
    images = [encoded(image, kind[0], **kind[1]) for image in PIXELS]
    part = read(write(tmp_path / "train.parquet", images, column=column, metadata=hugging_face()))
    assert np.array_equal(part.x, PIXELS.transpose(0, 3, 1, 2))
    assert part.y.tolist() == LABELS
    assert part.classes == tuple(NAMES)
    assert part.notes == ()


def test_lossy_images_are_noted(tmp_path):
    images = [encoded(PIXELS[0], "WEBP", quality=50), *(encoded(image) for image in PIXELS[1:])]
    part = read(write(tmp_path / "train.parquet", images))
    assert len(part.notes) == 1
    assert "1 of 7 images are stored with loss" in part.notes[0]
    assert part.classes == ()


def test_lossy_webp_with_an_extended_header_is_seen():
    image = Image.fromarray(np.dstack([PIXELS[0], np.full((4, 6), 9, np.uint8)]), "RGBA")
    for lossless in (True, False):
        file = io.BytesIO()
        image.save(file, "WEBP", lossless=lossless, quality=50, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")
        assert file.getvalue()[12:16] == b"VP8X"
        assert parquet._is_lossy(file.getvalue()) is not lossless


def test_several_files_are_joined_in_name_order(tmp_path):
    images = [encoded(image) for image in PIXELS]
    write(tmp_path / "train-00001-of-00002.parquet", images[4:], LABELS[4:])
    write(tmp_path / "train-00000-of-00002.parquet", images[:4], LABELS[:4])
    write(tmp_path / "test.parquet", images[:1], [0])
    part = read(tmp_path)
    assert np.array_equal(part.x, PIXELS.transpose(0, 3, 1, 2))
    assert part.y.tolist() == LABELS


def test_other_colour_modes_become_rgb(tmp_path):
    grey = Image.fromarray(PIXELS[0]).convert("L")
    file = io.BytesIO()
    grey.save(file, "PNG")
    part = read(write(tmp_path / "train.parquet", [file.getvalue()], [0]))
    assert np.array_equal(part.x[0], np.stack([np.asarray(grey)] * 3))


IMAGES = [encoded(image) for image in PIXELS]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [*IMAGES[:6], encoded(PIXELS[0].transpose(1, 0, 2))]}, "image 6 has 4×6 pixels, not 6×4"),
        ({"images": [*IMAGES[:4], IMAGES[4][:40], *IMAGES[5:]]}, "image 4 cannot be decoded"),
        ({"images": [b"", *IMAGES[1:]]}, "image 0 cannot be decoded"),
        ({"images": [None, *IMAGES[1:]]}, "image 0 is empty"),
        ({"images": [encoded(PIXELS[0], "BMP"), *IMAGES[1:]]}, "image 0 cannot be decoded"),
        ({"labels": [0, 1, 2, 3, 0, 0, 0]}, "label 3 in row 3 is not one of the 3 classes"),
        ({"labels": [0, 1, None, 0, 0, 0, 0]}, "column label (int64, 1 empty) is not whole numbers"),
        ({"labels": [0.5] * 7}, "column label (double, 0 empty) is not whole numbers"),
        ({"labels": ["a"] * 7}, "column label (string, 0 empty) is not whole numbers"),
        ({"label": "fine_label"}, "has no column label, only img, fine_label"),
        ({"column": "picture"}, "has no column img or image, only picture, label"),
        ({"metadata": hugging_face(["ant"])}, "its schema names 1 classes, not 3"),
        ({"metadata": {"huggingface": "{"}}, "metadata in its schema is damaged"),
        ({"metadata": {"huggingface": "[]"}}, "metadata in its schema is damaged"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, change, message):
    path = write(tmp_path / "train.parquet", **change)
    with pytest.raises(FileRefused) as caught:
        read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_in_a_plain_column_are_refused(tmp_path):
    pq.write_table(pa.table({"img": IMAGES, "label": LABELS}), tmp_path / "train.parquet")
    with pytest.raises(FileRefused, match="column img is binary, not a struct"):
        read(tmp_path / "train.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nothing at all"])
def test_what_is_not_parquet(tmp_path, content):
    (tmp_path / "train.parquet").write_bytes(content)
    with pytest.raises(FileRefused, match="is not readable as Parquet"):
        read(tmp_path / "train.parquet")


def test_a_cut_file_is_refused(tmp_path):
    path = write(tmp_path / "train.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + whole[260:])
    with pytest.raises(FileRefused):
        read(path)


def test_the_pixels_of_a_large_file_are_decoded_once(tmp_path, own_cache, monkeypatch):
    monkeypatch.setattr(parquet, "_CACHE_FROM", 7)
    path = write(tmp_path / "train.parquet")
    first = read(path)
    assert len(list(own_cache.glob("decoded/*.npz"))) == 1
    monkeypatch.setattr(parquet, "_decode", None)  # decoding again would fail
    again = read(path)
    assert np.array_equal(first.x, again.x)


def test_the_pixels_of_a_small_file_are_not_kept(tmp_path, own_cache):
    read(write(tmp_path / "train.parquet"))
    assert not own_cache.exists()


MADE = Pixels(np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2), 1)


class Decoder:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return MADE


def check(found):
    assert np.array_equal(found.pixels, MADE.pixels)
    assert found.pixels.dtype == np.uint8
    assert found.lossy == 1


def test_decoded_once_per_source(own_cache):
    decode = Decoder()
    for source in ("aa", "aa", "bb", "aa"):
        check(cached_pixels(source, decode))
    assert decode.calls == 2
    assert len(list(own_cache.glob("decoded/*.npz"))) == 2
    assert not list(own_cache.rglob("*.part"))


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:300] + b"?" + b[301:], lambda b: b"", lambda b: b + b"x"]
)
def test_a_damaged_cache_is_rebuilt(own_cache, damage):
    decode = Decoder()
    cached_pixels("aa", decode)
    (path,) = own_cache.glob("decoded/*.npz")
    path.write_bytes(damage(path.read_bytes()))
    check(cached_pixels("aa", decode))
    check(cached_pixels("aa", decode))
    assert decode.calls == 2
    assert len(list(own_cache.glob("decoded/*.npz"))) == 1


def test_a_cache_that_cannot_be_written_is_no_error(own_cache):
    own_cache.write_text("a file where the folder should be")
    decode = Decoder()
    check(cached_pixels("aa", decode))
    check(cached_pixels("aa", decode))
    assert decode.calls == 2


def test_a_folder_in_the_files_place_is_no_error(own_cache):
    (own_cache / "decoded" / "aa-bb.npz").mkdir(parents=True)
    check(cached_pixels("aa", Decoder()))
