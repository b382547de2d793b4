"""The script is tested here in this process; that it runs in one of its own is tested with hdf5.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from weightsmith.networks.readers import h5listing


@pytest.fixture(autouse=True)
def no_limit(monkeypatch):
    monkeypatch.setattr(h5listing, "_limit_memory", lambda more: None)


@pytest.fixture
def listed(capfdbinary):
    def run(path: Path, begin: int = 0, *dataset: str) -> bytes:
        h5listing.main(str(path), begin, path.stat().st_size - begin, *dataset)
        sys.stdout.flush()
        return capfdbinary.readouterr().out

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
    content = listed(write(tmp_path / "m.h5"), 0, "packed", "3200")
    assert np.frombuffer(content, "<f8").tolist() == list(range(400))


def test_a_stretch_of_a_file(listed, tmp_path):
    inner = write(tmp_path / "m.h5").read_bytes()
    (tmp_path / "outer").write_bytes(b"x" * 77 + inner)
    direct, shifted = json.loads(listed(tmp_path / "m.h5")), json.loads(listed(tmp_path / "outer", 77))
    assert direct == shifted


def test_a_tree_without_end_is_refused(listed, tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["deep/" * 70 + "x"] = np.ones(1)
    assert "more groups" in json.loads(listed(tmp_path / "m.h5"))["refused"]
    with h5py.File(tmp_path / "ring.h5", "w") as file:
        inner = file.create_group("a/b")
        inner["back"] = file["a"]
        file["x"] = np.ones(1)
    assert len(json.loads(listed(tmp_path / "ring.h5"))["datasets"]) == 1
