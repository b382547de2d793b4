from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.readers.hdf5 import Dataset, Hdf5File


def opened(path: Path) -> Hdf5File:
    return Hdf5File(path, 0, path.stat().st_size)


def test_plain_packed_and_turned_values(tmp_path):
    values = np.arange(12, dtype="f4").reshape(3, 4)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["plain"] = values
        file["big_endian"] = values.astype(">f4")
        file.create_dataset("packed", data=values, chunks=(2, 2), compression="gzip")
        file["half"] = values.astype("f2")
        file["scalar"] = np.float64(2.5)
        file["text"] = "hello"
        file.attrs["layer_names0"] = [b"a", b"b"]
        file.attrs["layer_names1"] = [b"c"]
        file.attrs["keras_version"] = "2.9"
    file = opened(tmp_path / "m.h5")
    for name in ("plain", "big_endian", "packed", "half"):
        assert file.read(file.datasets[name]).tolist() == values.tolist()
    assert file.read(file.datasets["half"]).dtype == torch.float16
    assert file.read(file.datasets["scalar"]).item() == 2.5
    assert file.datasets["text"].torch_name is None
    with pytest.raises(FileRefused, match="'text'"):
        file.read(file.datasets["text"])
    assert file.texts("", "layer_names") == ["a", "b", "c"]
    assert (file.text("", "keras_version"), file.text("", "backend")) == ("2.9", None)


def test_sixteen_bits_said_to_be_bfloat16(tmp_path):
    values = torch.tensor([1.5, -2.0]).bfloat16()
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["w"] = values.view(torch.int16).numpy()
        file["w"].attrs["dtype"] = "bfloat16"
    file = opened(tmp_path / "m.h5")
    assert file.datasets["w"].torch_name == "bfloat16"
    assert torch.equal(file.read(file.datasets["w"]), values)


def crashed(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], -signal.SIGSEGV, b"", b"")


def hung(*arguments: object, **options: object) -> None:
    raise subprocess.TimeoutExpired("h5", 60)


def babbling(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], 0, b"hello", b"")


@pytest.mark.parametrize(("child", "reason"), [(crashed, "crashed on it"), (hung, "60 s"), (babbling, "not be listed")])
def test_a_child_that_fails_refuses_the_file(child, reason, tmp_path, monkeypatch):
    (tmp_path / "m.h5").write_bytes(b"anything")
    monkeypatch.setattr(subprocess, "run", child)
    with pytest.raises(FileRefused, match=reason):
        opened(tmp_path / "m.h5")


@pytest.mark.slow
def test_the_library_stays_out_of_this_process(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["w"] = np.ones(3)
    code = (
        "import sys; from pathlib import Path; from weightsmith.networks.readers.hdf5 import Hdf5File;"
        "p = Path(sys.argv[1]); f = Hdf5File(p, 0, p.stat().st_size); print(f.read(f.datasets['w']).sum().item());"
        "print('h5py' in sys.modules)"
    )
    command = [os.sys.executable, "-c", code, str(tmp_path / "m.h5")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "3.0\nFalse\n"


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"weightsmith\[keras\]"):
        Hdf5File(tmp_path / "m.h5", 0, 0)


def test_types_by_their_name():
    assert Dataset("x", (1,), "<f8", 0, "x").torch_name == "float64"
    assert Dataset("x", (1,), "|b1", 0, "x").torch_name == "bool"
    assert Dataset("x", (1,), "<c8", 0, "x").torch_name is None
    assert Dataset("x", (1,), "|V2", 0, "x").torch_name is None
