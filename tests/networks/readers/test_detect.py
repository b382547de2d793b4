from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.detect import open_file, open_path


@pytest.mark.parametrize("name", ["m.safetensors", "m.bin", "m", "m.pt", "m.npz", "m.onnx", "m.tar"])
def test_the_content_decides_not_the_suffix(name, tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / name)
    assert open_file(tmp_path / name).format == "safetensors"
    torch.save({"a": torch.ones(2)}, tmp_path / name)
    assert open_file(tmp_path / name).format == "torch"
    torch.save({"a": torch.ones(2)}, tmp_path / name, _use_new_zipfile_serialization=False)
    if name != "m.safetensors":
        assert open_file(tmp_path / name).format == "torch (legacy)"
    with (tmp_path / name).open("wb") as file:
        np.savez(file, a=np.ones(2))
    assert open_file(tmp_path / name).format == "npz"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n....", "PNG image"),
        (b"\xff\xd8\xff\xe0 JFIF", "JPEG image"),
        (b"\x1f\x8b\x08....", "gzip"),
        (b"GGUF\x03....", "GGUF"),
        (b"\n  <!DOCTYPE html><html>", "web page"),
        (b"\x7fELF....", "program"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"PK\x05\x06" + bytes(18), "empty zip"),
        (b"some text that is no weights", "not a weight file of a known format"),
        (b"\x00", "not a weight file of a known format"),
        (b"", "is empty"),
    ],
)
def test_strangers_are_named(content, reason, tmp_path):
    (tmp_path / "weights").write_bytes(content)
    with pytest.raises(FileRefused, match=reason):
        open_file(tmp_path / "weights")


@pytest.mark.parametrize("name", ["m.npz", "m.keras", "m.h5"])
def test_a_wrong_suffix_is_said_to_be_wrong(name, tmp_path):
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(FileRefused, match=rf"is not a \.{name[2:]} file"):
        open_path(tmp_path / name)


def test_a_pickle_that_is_no_torch_file(tmp_path):
    (tmp_path / "m.pt").write_bytes(pickle.dumps({"w": [1.0, 2.0]}, 2))
    with pytest.raises(FileRefused, match="not one that torch.save wrote"):
        open_path(tmp_path / "m.pt")


@pytest.mark.parametrize(("name", "reason"), [("m\0.pt", "null character"), ("x" * 300, "too long")])
def test_names_no_file_can_have(name, reason, tmp_path):
    with pytest.raises(FileRefused, match=reason):
        open_path(tmp_path / name)


def test_folders_and_indices_are_distinguished(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    assert open_path(tmp_path).format == "safetensors"
    (tmp_path / "m.safetensors.index.json").write_text('{"weight_map": {"a": "m.safetensors"}}')
    assert open_path(tmp_path / "m.safetensors.index.json").format == "sharded"
    shutil.rmtree(tmp_path)
    with pytest.raises(FileRefused, match="no such file"):
        open_path(tmp_path)
