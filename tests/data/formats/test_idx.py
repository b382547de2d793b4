from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats.idx import IdxFiles, read_idx

PIXELS = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
LABELS = np.array([2, 0, 1], np.uint8)


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def folder(files):
    images, labels = idx(PIXELS), idx(LABELS)
    return files(
        {
            "train-images-idx3-ubyte.gz": gzip.compress(images, mtime=0),
            "train-labels-idx1-ubyte": labels,
            "t10k-images-idx3-ubyte": idx(PIXELS[:1]),
            "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(LABELS[:1])),
        }
    )


def test_plain_and_gzip_files_are_read_alike(folder):
    found = IdxFiles.find(folder, ("train", "test"), (4, 5), 3)
    parts = found.read(("train", "test"))
    assert np.array_equal(parts["train"].x, PIXELS[:, None])
    assert parts["train"].y.tolist() == [2, 0, 1]
    assert parts["train"].y.dtype == np.int64
    assert parts["test"].x.shape == (1, 1, 4, 5)
    assert parts["train"].x.flags.writeable
    assert found.origin == str(folder)


def test_what_is_not_complete_is_not_found(folder):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    assert IdxFiles.find(folder, ("train", "test"), (4, 5), 3) is None
    assert IdxFiles.find(folder, ("train",), (4, 5), 3) is not None
    assert IdxFiles.find(folder / "no-such", ("train",), (4, 5), 3) is None
    assert IdxFiles.find(folder, ("validation",), (4, 5), 3) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with , not with the IDX magic 00 00 08 03"),
        (b"\x00\x00\x08\x01" + bytes(20), "starts with 00 00 08 01"),
        (idx(PIXELS, kind=13), "starts with 00 00 0d 03"),
        (idx(PIXELS)[:10], "ends inside its header"),
        (idx(PIXELS)[:-7], "declares 60 values of shape (3, 4, 5) and ends 7 short"),
        (idx(PIXELS) + b"x", "continues after the 60 values"),
        (idx(PIXELS[:0]), "empty array"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "would take 79,228,162,458,924,105,385,300,197,375 bytes"),
        (gzip.compress(idx(PIXELS), mtime=0)[:-9], "gzip stream is damaged or cut short"),
        (gzip.compress(idx(PIXELS), mtime=0)[:-5] + b"\x01\x01\x01\x01\x01", "gzip stream is damaged or cut short"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(FileRefused) as caught:
        read_idx(path, 3)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_promise_takes_no_memory(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(b"\x00\x00\x08\x03" + struct.pack(">3I", 40_000, 200, 200) + bytes(100))
    tracemalloc.start()
    with pytest.raises(FileRefused, match="short"):
        read_idx(path, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000  # 1.6 GB were promised


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("train-labels-idx1-ubyte", idx(LABELS[:2]), "holds 2 labels for the 3 images"),
        ("train-labels-idx1-ubyte", idx(np.array([0, 1, 3], np.uint8)), "label 3 in row 2"),
        ("train-images-idx3-ubyte.gz", idx(PIXELS.reshape(3, 5, 4)), r"images of \(5, 4\) pixels, not of \(4, 5\)"),
    ],
)
def test_files_that_do_not_belong_together(folder, member, content, message):
    (folder / member).write_bytes(content)
    with pytest.raises(FileRefused, match=message):
        IdxFiles.find(folder, ("train",), (4, 5), 3).read(("train",))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileRefused, match="no such file"):
        read_idx(tmp_path / "nothing", 3)
