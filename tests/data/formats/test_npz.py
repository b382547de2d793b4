from __future__ import annotations

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats.npz import read_npz

X = np.arange(6.0).reshape(3, 2)


def saved(tmp_path, **arrays):
    np.savez_compressed(tmp_path / "t.npz", **arrays)
    return tmp_path / "t.npz"


def npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zipped(tmp_path, members: dict[str, bytes]):
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return tmp_path / "t.npz"


@pytest.mark.parametrize("dtype", [np.float64, np.float32, bool, ">f8"])
def test_numbers_become_float32(tmp_path, dtype):
    x, y = read_npz(saved(tmp_path, x=X.astype(dtype), y=np.array([0, 1, 0])))
    assert x.dtype == np.float32
    assert np.array_equal(x, X.astype(dtype).astype(np.float32))
    assert y.tolist() == [0, 1, 0]


def test_whole_numbers_stay(tmp_path):
    assert read_npz(saved(tmp_path, x=X.astype(np.int16), y=np.array([0, 1, 0])))[0].dtype == np.int64


def test_images_of_bytes_stay(tmp_path):
    x, y = read_npz(saved(tmp_path, x=np.ones((2, 1, 3, 3), np.uint8), y=np.array(["a", "b"])))
    assert x.dtype == np.uint8
    assert y.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "has no array 'y', only x"),
        ({"y": [0]}, "has no array 'x', only y"),
        ({"x": X, "y": [0, 1]}, r"per row of x \(3, 2\), not int64 \(2,\)"),
        ({"x": X, "y": [0.0, 1.0, np.inf]}, "y holds an infinite number"),
        ({"x": X, "y": [[[0]], [[1]], [[2]]]}, r"\(3, 1, 1\)"),
        ({"x": np.ones((3, 2, 2), np.uint8), "y": [0, 1, 2]}, r"x must be rows.*uint8"),
        ({"x": X[0], "y": [0, 1]}, r"x must be rows"),
        ({"x": X.astype(str), "y": [0, 1, 2]}, "x must be numbers"),
        ({"x": X * 1j, "y": [0, 1, 2]}, "x must be numbers"),
        ({"x": np.where(X == 3, np.inf, X), "y": [0, 1, 2]}, "row 1 of x holds an infinite number"),
        ({"x": np.where(X == 3, 1e300, X), "y": [0, 1, 2]}, "row 1 of x holds an infinite number"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, arrays, message):
    with pytest.raises(FileRefused, match=message):
        read_npz(saved(tmp_path, **{key: np.asarray(value) for key, value in arrays.items()}))


class Payload:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (str(self.target), "w")


def test_a_pickled_array_is_refused_and_does_nothing(tmp_path, canary):
    path = zipped(tmp_path, {"x.npy": npy(np.array([Payload(canary)], dtype=object)), "y.npy": npy(np.zeros(1, int))})
    canary.unlink(missing_ok=True)
    with pytest.raises(FileRefused, match="array 'x' claims object"):
        read_npz(path)


def test_a_header_that_claims_more_than_there_is(tmp_path):
    head = npy(np.zeros((3, 2))).replace(b"(3, 2), }", b"(9999999999, 2), }")
    path = zipped(tmp_path, {"x.npy": head, "y.npy": npy(np.zeros(3, int))})
    tracemalloc.start()
    with pytest.raises(FileRefused, match=r"array 'x' claims float64 \(9999999999, 2\), which its"):
        read_npz(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_zip_bomb_is_refused_by_its_declared_size(tmp_path, monkeypatch):
    from weightsmith.data import arrays

    monkeypatch.setattr(arrays, "LIMIT", 1_000_000)
    path = saved(tmp_path, x=np.zeros((1000, 1000)), y=np.zeros(1000, int))
    assert path.stat().st_size < 50_000
    with pytest.raises(FileRefused, match="array 'x' would take 8,000,128 bytes"):
        read_npz(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_what_is_no_archive(tmp_path, content):
    (tmp_path / "t.npz").write_bytes(content)
    with pytest.raises(FileRefused, match="is not a readable NumPy archive"):
        read_npz(tmp_path / "t.npz")


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY\x01\x00", b"garbage" * 9, b"\x93NUMPY\x01\x00\x08\x00{'a': 1}"])
def test_damaged_members(tmp_path, damage):
    with pytest.raises(FileRefused, match="is not a readable NumPy archive"):
        read_npz(zipped(tmp_path, {"x.npy": damage, "y.npy": npy(np.zeros(1, int))}))


def test_a_flipped_byte_is_seen(tmp_path):
    path = saved(tmp_path, x=np.random.default_rng(0).random((50, 9)), y=np.zeros(50, int))
    content = bytearray(path.read_bytes())
    content[1500] ^= 255
    path.write_bytes(content)
    with pytest.raises(FileRefused, match="is not a readable NumPy archive"):
        read_npz(path)
