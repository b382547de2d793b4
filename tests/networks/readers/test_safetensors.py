from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.safetensors import SafetensorsWeights
from weightsmith.networks.sealed import write_sealed

TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.bool),
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_reads_back(dtype, tmp_path):
    values = torch.tensor([[0.5, -2.0, 3.0], [0.0, 1.0, 4.0]]).to(dtype)
    save_file({"w": values}, tmp_path / "m.safetensors")
    weights = SafetensorsWeights(tmp_path / "m.safetensors")
    entry = weights.entries["w"]
    assert (entry.shape, entry.torch_dtype) == ((2, 3), dtype)
    read = weights.tensor("w")
    assert read.dtype == (torch.float32 if dtype.is_floating_point and dtype != torch.float64 else dtype)
    assert torch.equal(read, values.to(read.dtype))


@pytest.mark.parametrize("kept", [20, -4])
def test_a_cut_off_file_names_the_way_out(kept, tmp_path):
    save_file({"w": torch.ones(3)}, tmp_path / "m.safetensors")
    (tmp_path / "m.safetensors").write_bytes((tmp_path / "m.safetensors").read_bytes()[:kept])
    with pytest.raises(FileRefused, match=r"cut.*; copy or download it again$"):
        SafetensorsWeights(tmp_path / "m.safetensors")


def test_entries_stand_in_file_order_with_metadata(tmp_path):
    header = {
        "__metadata__": {"made by": "hand"},
        "z": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "a": {"dtype": "F32", "shape": [], "data_offsets": [4, 8]},
        "empty": {"dtype": "F32", "shape": [0, 3], "data_offsets": [8, 8]},
    }
    text = json.dumps(header).encode()
    data = struct.pack("<2f", 1.5, 2.5)
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    weights = SafetensorsWeights(tmp_path / "m.safetensors")
    assert list(weights.entries) == ["z", "a", "empty"]
    assert weights.metadata == {"made by": "hand"}
    assert (weights.tensor("z").tolist(), weights.tensor("a").item()) == ([1.5], 2.5)
    assert weights.tensor("empty").shape == (0, 3)


def test_types_that_are_not_read_are_named(tmp_path):
    header = {
        "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "packed": {"dtype": "F4", "shape": [4], "data_offsets": [4, 6]},
        "complex": {"dtype": "C64", "shape": [1], "data_offsets": [6, 14]},
    }
    text = json.dumps(header).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(14))
    weights = SafetensorsWeights(tmp_path / "m.safetensors")
    assert list(weights.entries) == ["w"]
    assert [(item.name, item.parameters, item.reason) for item in weights.left_out] == [
        ("packed", 4, "stored as F4, which is not read"),
        ("complex", 1, "stored as C64, which is not read"),
    ]


def test_eight_bit_floats_are_scaled_by_their_neighbour(tmp_path):
    codes = torch.tensor([[1.0, 2.0], [4.0, -8.0]]).to(torch.float8_e4m3fn)
    save_file({"w": codes, "w_scale_inv": torch.tensor([[0.5], [2.0]])}, tmp_path / "m.safetensors")
    weights = SafetensorsWeights(tmp_path / "m.safetensors")
    assert list(weights.entries) == ["w"]
    assert weights.tensor("w").tolist() == [[0.5, 1.0], [8.0, -16.0]]


def test_a_file_that_changes_is_refused(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    save_file({"w": torch.ones(2, 3)}, path)
    weights = SafetensorsWeights(path)
    save_file({"w": torch.ones(3, 3)}, path)
    with pytest.raises(FileRefused, match="was changed"):
        weights.tensor("w")
    with pytest.raises(FileRefused, match="changed while it was read"):
        weights._read("w")
    path.unlink()
    with pytest.raises(FileRefused, match="changed or removed"):
        weights.tensor("w")


@pytest.mark.parametrize("beside", ["record.json", "journal.jsonl"])
@pytest.mark.parametrize("name", ["network", "epoch-0003"])
def test_a_network_stripped_of_its_seal_does_not_pass_in_a_result_folder(tmp_path, name, beside):
    network = nn.Sequential(nn.Linear(3, 2))
    save_file(network.state_dict(), tmp_path / f"{name}.safetensors")
    assert len(SafetensorsWeights(tmp_path / f"{name}.safetensors").entries) == 2  # a folder of another tool
    (tmp_path / beside).write_text("{}")
    with pytest.raises(FileRefused, match="without the seal"):
        SafetensorsWeights(tmp_path / f"{name}.safetensors")
    save_file(network.state_dict(), tmp_path / "other.safetensors")
    assert len(SafetensorsWeights(tmp_path / "other.safetensors").entries) == 2


@pytest.mark.parametrize("kinds", [{"w": "Conv2d(groups=0)"}, {"w": "no kind"}, {"w": 3}], ids=str)
def test_kinds_that_do_not_exist_are_refused(tmp_path, kinds):
    path = write_sealed(tmp_path / "m.safetensors", {"w": torch.ones(2, 1, 3, 3)}, "{}", kinds)
    with pytest.raises(FileRefused, match="kinds of layers that do not exist"):
        SafetensorsWeights(path)
