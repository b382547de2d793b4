from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from weightsmith.core.errors import FileRefused
from weightsmith.networks.weights import open_weights


def write_index(folder: Path, name: str, weight_map: dict[str, str]) -> None:
    (folder / name).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def test_two_shards_read_as_one(tmp_path):
    save_file({"a": torch.ones(2), "b": torch.full((2,), 2.0)}, tmp_path / "model-1.safetensors", {"k": "v"})
    save_file({"c": torch.full((2,), 3.0)}, tmp_path / "model-2.safetensors")
    write_index(
        tmp_path,
        "model.safetensors.index.json",
        {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"},
    )
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        weights = open_weights(path)
        assert {name: value.tolist() for name, value in weights.state_dict().items()} == {
            "a": [1, 1],
            "b": [2, 2],
            "c": [3, 3],
        }
        assert weights.format == "sharded"
        assert weights.path == tmp_path
        assert weights.metadata == {"k": "v"}


def test_shards_of_pickled_files(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model-1.bin")
    torch.save({"b": torch.zeros(2)}, tmp_path / "pytorch_model-2.bin")
    weight_map = {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}
    write_index(tmp_path, "pytorch_model.bin.index.json", weight_map)
    assert open_weights(tmp_path).tensor("b").tolist() == [0, 0]


def test_safetensors_come_before_pickles(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    save_file({"a": torch.zeros(2)}, tmp_path / "model.safetensors")
    assert open_weights(tmp_path).tensor("a").tolist() == [0, 0]
    write_index(tmp_path, "pytorch_model.bin.index.json", {"a": "pytorch_model.bin"})
    write_index(tmp_path, "model.safetensors.index.json", {"a": "model.safetensors"})
    assert open_weights(tmp_path).tensor("a").tolist() == [0, 0]


def test_tensors_outside_the_index_are_named(tmp_path):
    save_file({"a": torch.ones(2), "more": torch.ones(5)}, tmp_path / "one.safetensors")
    write_index(tmp_path, "model.safetensors.index.json", {"a": "one.safetensors"})
    weights = open_weights(tmp_path)
    assert list(weights.entries) == ["a"]
    assert [(item.name, item.parameters) for item in weights.left_out] == [("more", 5)]


def test_a_scale_may_be_in_another_shard(tmp_path):
    save_file({"w": torch.tensor([[2, 4]], dtype=torch.int8)}, tmp_path / "one.safetensors")
    save_file({"w_scale": torch.tensor(0.5)}, tmp_path / "two.safetensors")
    weights = open_weights(tmp_path)
    assert weights.tensor("w").tolist() == [[1.0, 2.0]]
    assert [item.name for item in weights.left_out] == ["w_scale"]


def test_folder_of_several_files_without_index(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "one.safetensors")
    save_file({"b": torch.ones(2)}, tmp_path / "two.safetensors")
    (tmp_path / "config.json").write_text("{}")
    assert list(open_weights(tmp_path).entries) == ["a", "b"]


@pytest.mark.parametrize("other", ["training_args.bin", "optimizer.pt", "README.md", "arrays.npz", ".hidden.pt"])
def test_folder_with_one_weight_file(other, tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    (tmp_path / other).write_bytes(b"something")
    weights = open_weights(tmp_path)
    assert weights.path == tmp_path / "pytorch_model.bin"


def test_links_of_a_hub_cache_are_followed(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    save_file({"a": torch.ones(2)}, blobs / "123")
    (snapshot / "one.safetensors").symlink_to("../../blobs/123")
    write_index(snapshot, "model.safetensors.index.json", {"a": "one.safetensors"})
    assert open_weights(snapshot).tensor("a").tolist() == [1, 1]


def test_two_variants_are_not_guessed_between(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "one.safetensors")
    for variant in ("fp16", "bf16"):
        write_index(tmp_path, f"model.{variant}.safetensors.index.json", {"a": "one.safetensors"})
    with pytest.raises(FileRefused, match="several indices"):
        open_weights(tmp_path)


# Memory

LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured through /proc")
TENSOR = 256 << 20


def sparse_folder(folder: Path, shards: int, tensors: int) -> Path:
    """Shards of zeros that take no room on the disk; each tensor has 256 MB."""
    weight_map = {}
    for number in range(shards):
        name = f"model-{number}.safetensors"
        header = {
            f"layer{number}.{i}.weight": {
                "dtype": "BF16" if i % 2 else "F32",
                "shape": [8192, TENSOR // 8192 // (2 if i % 2 else 4)],
                "data_offsets": [i * TENSOR, (i + 1) * TENSOR],
            }
            for i in range(tensors)
        }
        weight_map.update(dict.fromkeys(header, name))
        text = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + tensors * TENSOR)
    write_index(folder, "model.safetensors.index.json", weight_map)
    return folder


MEASURE = """
import sys
import torch
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.weights import open_weights
# Not ru_maxrss: a child inherits that of its parent, which may have been larger than it will ever be.
used = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
before = used()
weights = open_weights(sys.argv[1])
total = sum(entry.nbytes for entry in weights.entries.values())
found = walk(weights)
assert len(found.layers) == len(weights.entries)
if sys.argv[2] == "read":
    for name in weights.entries:
        assert weights.tensor(name).sum() == 0
if sys.argv[2] == "walk":
    for layer in found:
        assert layer.matrices[0, 0, 0] == 0
print(total, before, used())
"""


def measured(folder: Path, what: str) -> tuple[int, int, int]:
    command = [sys.executable, "-c", MEASURE, str(folder), what]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    total, before, peak = map(int, answer.stdout.split())
    return total, before, peak


@LINUX
@pytest.mark.slow
def test_listing_four_gigabytes_takes_no_memory(tmp_path):
    total, before, peak = measured(sparse_folder(tmp_path, 4, 4), "list")
    assert total == 4 << 30
    assert peak < 1 << 30
    assert peak - before < 50 << 20


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("what", ["read", "walk"])
def test_reading_takes_the_memory_of_one_tensor(what, tmp_path):
    total, before, peak = measured(sparse_folder(tmp_path, 2, 3), what)
    assert total == 3 << 29
    # A bfloat16 tensor of 256 MB is 512 MB in float32, beside its mapped source.
    assert peak - before < 1200 << 20
