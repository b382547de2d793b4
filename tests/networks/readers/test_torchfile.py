from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.torchfile import LegacyTorchWeights, TorchWeights
from weightsmith.networks.weights import open_weights

TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.uint16, torch.bool),
]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_reads_back(dtype, legacy, tmp_path):
    if legacy and dtype in (torch.uint16, torch.float8_e4m3fn, torch.float8_e5m2):
        torch.save({"w": torch.zeros(2, dtype=dtype)}, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
        with pytest.raises(FileRefused, match="save it again"):
            open_weights(tmp_path / "m.pt")
        return
    values = torch.tensor([[0.5, 2.0, 3.0], [0.0, 1.0, 4.0]]).to(dtype)
    torch.save({"w": values}, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy)
    weights = open_weights(tmp_path / "m.pt")
    assert type(weights) is (LegacyTorchWeights if legacy else TorchWeights)
    assert weights.entries["w"].torch_dtype == dtype
    read = weights.tensor("w")
    assert read.dtype == (torch.float32 if dtype.is_floating_point and dtype != torch.float64 else dtype)
    assert torch.equal(read, values.to(read.dtype))


@pytest.mark.parametrize("legacy", [False, True])
def test_views_transposes_and_parameters(legacy, tmp_path):
    base = torch.arange(24.0).reshape(4, 6)
    content = {"turned": base.t(), "part": base[1:3, ::2], "parameter": nn.Parameter(base), "empty": base[:0]}
    torch.save(content, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy)
    weights = open_weights(tmp_path / "m.pt")
    for name, value in content.items():
        assert torch.equal(weights.tensor(name), value.detach())
        assert weights.tensor(name).is_contiguous()
    assert weights.aliases == {}


def test_a_real_checkpoint(tmp_path):
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.randn(5, 4)).sum().backward()
    optimiser.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [3, 5])
    checkpoint = {
        "epoch": 4,
        "best": 0.9,
        "arch": "mlp",
        "state_dict": network.state_dict(),
        "optimizer": optimiser.state_dict(),
        "scheduler": schedule.state_dict(),
    }
    torch.save(checkpoint, tmp_path / "checkpoint.pth.tar")
    weights = open_weights(tmp_path / "checkpoint.pth.tar")
    assert list(weights.entries) == list(network.state_dict())
    assert all(torch.equal(weights.tensor(name), value) for name, value in network.state_dict().items())
    (left,) = weights.left_out
    assert (left.name, left.parameters) == ("optimizer", 0)
    assert "training state" in left.reason


def test_complex_and_quantised_tensors_are_named(tmp_path):
    quantised = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8)
    torch.save({"w": torch.ones(2), "c": torch.ones(3, dtype=torch.complex64), "q": quantised}, tmp_path / "m.pt")
    weights = open_weights(tmp_path / "m.pt")
    assert list(weights.entries) == ["w"]
    assert [(item.name, item.parameters, item.reason) for item in weights.left_out] == [
        ("c", 3, "complex numbers"),
        ("q", 6, "quantised by torch (qint8)"),
    ]


def test_names_allowed_by_the_user_do_not_help_a_file(tmp_path):
    """``add_safe_globals`` opens torch.load for the whole process; the list here stays closed."""
    torch.save({"w": torch.ones(2), "range": range(3)}, tmp_path / "m.pt")
    with (
        torch.serialization.safe_globals([(range, "__builtin__.xrange"), range]),
        pytest.raises(FileRefused, match="range"),
    ):
        open_weights(tmp_path / "m.pt")


def test_a_file_changed_behind_our_back_is_refused(tmp_path):
    """A mapped file that shrinks would end the process, not raise."""
    torch.save({"w": torch.ones(200, 300)}, tmp_path / "m.pt")
    weights = open_weights(tmp_path / "m.pt")
    weights.tensor("w")
    torch.save({"w": torch.ones(3, 3)}, tmp_path / "m.pt")
    with pytest.raises(FileRefused, match="was changed"):
        weights.tensor("w")


def test_what_torch_reads_must_be_what_was_described(tmp_path):
    torch.save({"w": torch.ones(2, 3)}, tmp_path / "m.pt")
    weights = open_weights(tmp_path / "m.pt")
    for other, reason in (({"w": torch.ones(3, 3)}, "not what its pickle describes"), ({"v": 1}, "weights_only")):
        weights._loaded = other
        with pytest.raises(FileRefused, match=reason):
            weights.tensor("w")


def test_pickle_protocol_four_is_refused_with_the_way_out(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "m.pt", pickle_protocol=4)
    with pytest.raises(FileRefused, match="protocol 4: save it again"):
        open_weights(tmp_path / "m.pt")


MEASURE = """
import sys
import torch
from weightsmith.networks.weights import open_weights
used = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
before = used()
weights = open_weights(sys.argv[1])
listed = used()
for name in weights.entries:
    weights.tensor(name)
print(listed - before, used() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured through /proc")
def test_zip_files_are_read_one_tensor_at_a_time(tmp_path):
    torch.save({f"w{i}": torch.zeros(32 << 20) for i in range(8)}, tmp_path / "m.pt")  # 8 of 128 MB
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "m.pt")]
    listed, read = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert listed < 50 << 20
    assert read < 700 << 20  # one tensor, and 256 to 384 MB of mapped pages
