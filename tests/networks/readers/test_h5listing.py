"""The script is tested here in this process; that it runs in one of its own is tested with hdf5.py."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

from weightsmith.networks.readers import h5listing


@pytest.fixture(autouse=True)
def no_limit(monkeypatch):
    monkeypatch.setattr(h5listing, "_limit", lambda more, seconds: None)


@pytest.fixture
def answered(monkeypatch):
    monkeypatch.setattr(signal, "alarm", lambda seconds: 0)

    def run(path: Path, begin: int = 0, operation: str = "list", dataset: str = "", size: int = 0) -> tuple[str, bytes]:
        out = io.BytesIO()
        h5listing.answer(out, [60, 60, str(path), begin, path.stat().st_size - begin, operation, dataset, size])
        answer = out.getvalue()
        assert len(answer) == 9 + int.from_bytes(answer[1:9], "little")
        return answer[:1].decode(), answer[9:]

    return run


@pytest.fixture
def listed(answered):
    def run(*arguments) -> bytes:
        mark, content = answered(*arguments)
        assert mark == "+"
        return content

    return run


def write(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = np.arange(6, dtype="<f4").reshape(2, 3)
        file["layers/dense/vars"].attrs["name"] = "head"
        file["layers/dense/vars"].attrs["other"] = 3
        file.create_dataset("packed", data=np.arange(400.0).reshape(20, 20), chunks=(5, 5), compression="gzip")
        file["again"] = file["layers/dense/vars/0"]
        file.attrs["layer_names"] = [b"a", b"b"]
        file.attrs["model_config"] = "{}"
    return path


def test_listing(listed, tmp_path):
    path = write(tmp_path / "m.h5")
    found = json.loads(listed(path))
    assert found["groups"][""] == {"layer_names": ["a", "b"], "model_config": "{}"}
    assert found["groups"]["layers/dense/vars"] == {"name": "head"}
    sets = {item["path"]: item for item in found["datasets"]}
    plain = sets["layers/dense/vars/0"]
    assert (plain["shape"], plain["dtype"]) == ([2, 3], "<f4")
    values = np.frombuffer(path.read_bytes()[plain["offset"] :][:24], "<f4")
    assert values.tolist() == [0, 1, 2, 3, 4, 5]
    assert sets["packed"]["offset"] is None
    assert sets["layers/dense/vars/0"]["same"] == sets["again"]["same"]


def test_values_of_a_packed_dataset(listed, tmp_path):
    content = listed(write(tmp_path / "m.h5"), 0, "read", "packed", 3200)
    assert np.frombuffer(content, "<f8").tolist() == list(range(400))


def test_a_stretch_of_a_file(listed, tmp_path):
    inner = write(tmp_path / "m.h5").read_bytes()
    (tmp_path / "outer").write_bytes(b"x" * 77 + inner)
    direct, shifted = json.loads(listed(tmp_path / "m.h5")), json.loads(listed(tmp_path / "outer", 77))
    assert direct == shifted


def test_all_values_with_their_places(listed, tmp_path):
    content = listed(write(tmp_path / "m.h5"), 0, "values")
    head = int.from_bytes(content[:8], "little")
    index = json.loads(content[8 : 8 + head])
    assert set(index) == {"again", "layers/dense/vars/0", "packed"}
    packed = index["packed"]
    values = np.frombuffer(content[8 + head + packed["offset"] :][:3200], packed["dtype"])
    assert values.tolist() == list(range(400))


def test_what_the_library_raises_is_the_reason(answered, tmp_path):
    (tmp_path / "m.h5").write_bytes(b"nothing of the kind")
    mark, reason = answered(tmp_path / "m.h5")
    assert mark == "!"
    assert b"signature" in reason


def test_a_tree_without_end_is_refused(answered, listed, tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["deep/" * 70 + "x"] = np.ones(1)
    mark, reason = answered(tmp_path / "m.h5")
    assert mark == "-"
    assert b"more groups" in reason
    with h5py.File(tmp_path / "ring.h5", "w") as file:
        inner = file.create_group("a/b")
        inner["back"] = file["a"]
        file["x"] = np.ones(1)
    assert len(json.loads(listed(tmp_path / "ring.h5"))["datasets"]) == 1
