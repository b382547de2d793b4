from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from weightsmith.core.errors import FileRefused, UnknownName
from weightsmith.data.datasets import load
from weightsmith.data.formats import parquet_images
from weightsmith.data.formats.parquet_images import Parquet
from weightsmith.data.streams import rows
from weightsmith.data.streams.rows import StreamedRows

DRAW = np.random.default_rng(3)


def encoded(pixels, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def write(path, images, labels, names=None, column="label"):
    metadata = None
    if names:
        metadata = {b"huggingface": json.dumps({"info": {"features": {column: {"names": names}}}}).encode()}
    schema = pa.schema(
        [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), (column, pa.int64())], metadata
    )
    cells = [{"bytes": content, "path": None} for content in images]
    pq.write_table(pa.table({"image": cells, column: labels}, schema), path, row_group_size=3)


@pytest.fixture
def photos(tmp_path):
    pixels = DRAW.integers(0, 256, (14, 6, 5, 3), np.uint8)
    write(tmp_path / "train-00000-of-00002.parquet", map(encoded, pixels[:7]), [0, 1] * 3 + [0], ["cat", "dog"])
    write(tmp_path / "train-00001-of-00002.parquet", map(encoded, pixels[7:10]), [1, 1, 0], ["cat", "dog"])
    write(tmp_path / "test.parquet", map(encoded, pixels[10:]), [0, 0, 1, 1], ["cat", "dog"])
    return tmp_path, pixels.transpose(0, 3, 1, 2)


def test_a_folder_of_shards_is_read_in_the_order_of_names(photos):
    folder, pixels = photos
    data = load(str(folder))
    assert data.classes == ("cat", "dog")
    assert np.array_equal(data.train.x, pixels[:10])
    assert np.array_equal(data.test.x, pixels[10:])
    assert data.train.y.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 1, 0]


def test_a_file_alone_is_all_train_and_streams_with_the_same_values(photos, monkeypatch):
    folder, pixels = photos
    path = folder / "train-00000-of-00002.parquet"
    whole = load(path, splits=("train",))
    monkeypatch.setattr(rows, "fits", lambda size: False)
    lazy = load(f"parquet:{path}", splits=("train",))
    assert isinstance(lazy.train.x, StreamedRows)
    assert lazy.digest() == whole.digest()
    assert np.array_equal(lazy.train.x[[6, 0]], pixels[[6, 0]])


def test_other_sizes_need_size(tmp_path):
    path = tmp_path / "a.parquet"
    images = [encoded(np.zeros((4, 6), np.uint8)), encoded(np.full((8, 10), 255, np.uint8))]  # height × width
    write(path, images, [0, 1], column="target")
    with pytest.raises(FileRefused, match=r"a\.parquet, image 1: has 10×8 pixels, others 6×4; give size="):
        Parquet(str(path)).read()
    part = Parquet(str(path), size=(2,)).read()["train"]
    assert part.x.tolist() == [[[[0, 0], [0, 0]]], [[[255, 255], [255, 255]]]]
    assert part.classes == ("0", "1")


def test_what_is_wrong_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, [encoded(np.zeros((4, 4), np.uint8)), b"no image"], [0, 1])
    with pytest.raises(FileRefused, match=r"a\.parquet, image 1: is not a readable image"):
        Parquet(str(path)).read()
    with pytest.raises(UnknownName, match=r"unknown column of a\.parquet 'lable'; did you mean 'label'"):
        Parquet(str(path), label="lable").read()
    write(path, [encoded(np.zeros((4, 4), np.uint8))], [-1])
    with pytest.raises(FileRefused, match="has the label -1"):
        Parquet(str(path)).read()
    with pytest.raises(FileRefused, match="no such file or folder"):
        Parquet(str(tmp_path / "nothing.parquet")).read()


def test_a_label_beyond_all_classes_is_refused_and_not_counted_up_to(tmp_path):
    write(tmp_path / "train.parquet", [encoded(np.zeros((4, 4, 3), np.uint8))] * 2, [0, 2**50])
    with pytest.raises(FileRefused, match="which is not a class"):
        Parquet(str(tmp_path / "train.parquet")).read()


@pytest.mark.parametrize(("count", "said"), [(0, "0"), (1, "1"), (9, "more")])
def test_fewer_or_more_images_than_labels_are_refused(tmp_path, monkeypatch, count, said):
    """A damaged file of a mutant: the labels were there, the column of images had no rows."""
    pixels = encoded(np.zeros((4, 4, 3), np.uint8))
    write(tmp_path / "a.parquet", [pixels, pixels], [0, 1])
    monkeypatch.setattr(parquet_images, "_contents", lambda files: ((files[0], pixels) for _ in range(count)))
    with pytest.raises(FileRefused, match=f"2 labels and {said} images"):
        load(f"parquet:{tmp_path / 'a.parquet'}")
