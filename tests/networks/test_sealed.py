from __future__ import annotations

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.networks.sealed import check_seal, is_sealed, sealed_content, write_sealed

TENSORS = {
    "b": torch.arange(3, dtype=torch.int64),
    "a.weight": torch.tensor([[1.5, -2.0]]),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "scalar": torch.tensor(7),
    "empty": torch.zeros(0, 4),
    "flag": torch.tensor([True, False, True]),
}


def read(path):
    """What reading does: the library's checks, then the seal."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise FileRefused(path, str(error)) from error
    if not is_sealed(metadata):
        return None
    check_seal(path, metadata)
    return sealed_content(metadata)


def test_other_tools_read_it_and_the_content_comes_back(tmp_path):
    path = write_sealed(tmp_path / "n.safetensors", TENSORS, '{"x": "ä\\"\n"}')
    for name, tensor in load_file(path).items():
        assert torch.equal(tensor, TENSORS[name])
        assert tensor.dtype == TENSORS[name].dtype
    assert read(path) == '{"x": "ä\\"\n"}'


def test_equal_networks_give_equal_bytes_whatever_the_order(tmp_path):
    one = write_sealed(tmp_path / "1.safetensors", TENSORS, "c").read_bytes()
    two = write_sealed(tmp_path / "2.safetensors", dict(reversed(TENSORS.items())), "c").read_bytes()
    assert one == two
    assert write_sealed(tmp_path / "3.safetensors", TENSORS, "d").read_bytes() != one


def test_strided_tensors_are_written_by_value(tmp_path):
    matrix = torch.arange(6.0).reshape(2, 3).T
    assert torch.equal(load_file(write_sealed(tmp_path / "n.safetensors", {"m": matrix}, ""))["m"], matrix)


def test_one_flipped_bit_anywhere_is_refused(tmp_path):
    path = write_sealed(tmp_path / "n.safetensors", {"w": torch.ones(2, 2), "v": torch.zeros(3)}, '{"card": 1}')
    good = path.read_bytes()
    for position in range(8 * len(good)):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        path.write_bytes(bad)
        with pytest.raises(FileRefused):
            read(path)


def test_cutting_and_adding_are_refused(tmp_path):
    path = write_sealed(tmp_path / "n.safetensors", {"w": torch.ones(2, 2)}, "c")
    good = path.read_bytes()
    for bad in (good[:-1], good + b"\0", good[:20], b""):
        path.write_bytes(bad)
        with pytest.raises(FileRefused):
            read(path)


def test_a_type_the_format_does_not_have_is_named(tmp_path):
    with pytest.raises(UsageError, match="z: tensors of type torch.complex64"):
        write_sealed(tmp_path / "n.safetensors", {"z": torch.zeros(2, dtype=torch.complex64)}, "")
    assert list(tmp_path.iterdir()) == []
