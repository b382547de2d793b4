from __future__ import annotations

import multiprocessing
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.readers import hdf5
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


def child_that(does: str) -> str:
    """A script in place of the child: it takes a request and the handle of the answer, and then ``does``."""
    return (
        "import json, os, socket, sys, time\n"
        "text, [handle], _, _ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 65536, 1)\n" + does
    )


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os.abort()", "crashed on it"),
        ("os.write(handle, b'+' + (9).to_bytes(8, 'little') + b'cut'); os._exit(0)", "crashed on it"),
        ("time.sleep(60)", "in 1 s"),
        ("os.write(handle, b'+' + (5).to_bytes(8, 'little') + b'hello'); os._exit(0)", "not be listed"),
    ],
)
def test_a_child_that_fails_refuses_the_file(does, reason, tmp_path, monkeypatch):
    (tmp_path / "m.h5").write_bytes(b"anything")
    (tmp_path / "child.py").write_text(child_that(does))
    monkeypatch.setattr(hdf5, "_SCRIPT", tmp_path / "child.py")
    monkeypatch.setattr(hdf5, "_PATIENCE", 1)
    child = hdf5._Child()
    monkeypatch.setattr(hdf5, "_CHILD", child)
    with pytest.raises(FileRefused, match=reason):
        opened(tmp_path / "m.h5")
    if child._process is not None:
        child._process.kill()
    child.stop()


def test_a_file_that_blocks_the_library_is_given_up_in_time(tmp_path, monkeypatch):
    """A pipe blocks whoever opens it: the fork that tries is ended, the next file is read by the same child."""
    os.mkfifo(tmp_path / "pipe.h5")
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["plain"] = np.ones(3)
    opened(tmp_path / "m.h5")
    before = hdf5._CHILD._process
    monkeypatch.setattr(hdf5, "_PATIENCE", 1)
    with pytest.raises(FileRefused, match="in 1 s"):
        Hdf5File(tmp_path / "pipe.h5", 0, 100)
    monkeypatch.setattr(hdf5, "_PATIENCE", 60)
    assert opened(tmp_path / "m.h5").datasets["plain"].shape == (3,)
    assert hdf5._CHILD._process is before


def test_one_child_for_many_files_and_a_new_one_if_it_is_gone(tmp_path):
    for number in range(3):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["plain"] = np.full(3, number)
    children = set()
    for number in range(3):
        file = opened(tmp_path / f"{number}.h5")
        assert file.read(file.datasets["plain"]).tolist() == [number] * 3
        children.add(hdf5._CHILD._process.pid)
    assert len(children) == 1
    hdf5._CHILD._process.kill()
    hdf5._CHILD._process.wait()
    assert opened(tmp_path / "1.h5").datasets["plain"].shape == (3,)
    assert hdf5._CHILD._process.pid not in children


def test_a_fork_of_this_process_asks_a_child_of_its_own(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["plain"] = np.ones(3)
    opened(tmp_path / "m.h5")
    context = multiprocessing.get_context("fork")
    asked = context.Process(target=opened, args=(tmp_path / "m.h5",))
    asked.start()
    asked.join(60)
    assert asked.exitcode == 0
    assert opened(tmp_path / "m.h5").datasets["plain"].shape == (3,)


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
    with pytest.raises(MissingExtra, match=r"\.\[keras\]"):
        Hdf5File(tmp_path / "m.h5", 0, 0)


def test_types_by_their_name():
    assert Dataset("x", (1,), "<f8", 0, "x").torch_name == "float64"
    assert Dataset("x", (1,), "|b1", 0, "x").torch_name == "bool"
    assert Dataset("x", (1,), "<c8", 0, "x").torch_name is None
    assert Dataset("x", (1,), "|V2", 0, "x").torch_name is None
