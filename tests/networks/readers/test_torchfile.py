from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers import torchfile
from weightsmith.networks.readers.pickles import Storage, StoredTensor
from weightsmith.networks.readers.torchfile import LegacyTorchWeights, TorchWeights, choose
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


@pytest.mark.parametrize(("legacy", "times"), [(False, 2), (True, 1)])
def test_a_mapped_file_is_mapped_again_once_more_than_the_limit_was_read(legacy, times, tmp_path, monkeypatch):
    """Two tensors fill the limit and the third exceeds it; what is read as a whole is read once."""
    torch.save(
        {f"w{i}": torch.full((4,), float(i)) for i in range(6)},
        tmp_path / "m.pt",
        _use_new_zipfile_serialization=not legacy,
    )
    loads, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda *args, **options: loads.append(args) or load(*args, **options))
    monkeypatch.setattr(torchfile, "_MAPPED_BYTES", 2 * 4 * 4)
    weights = open_weights(tmp_path / "m.pt")
    assert [weights.tensor(name)[0] for name in weights.entries] == list(range(6))
    assert len(loads) == times


PATH = Path("checkpoint.pt")


def tensor(count: int = 2) -> StoredTensor:
    return StoredTensor(Storage("0", torch.float32, count), torch.float32, 0, (count,), (1,))


WEIGHTS = {"a.weight": tensor(), "a.bias": tensor(), "version": 3}


@pytest.mark.parametrize(
    "root",
    [
        WEIGHTS,
        {"state_dict": WEIGHTS},
        {"model": WEIGHTS, "epoch": 3},
        {"model_state_dict": WEIGHTS, "optimizer_state_dict": {"state": {0: {"exp_avg": tensor()}}}},
        {"model": {"state_dict": WEIGHTS}},
        {"checkpoint": {"model": {"state_dict": WEIGHTS}}},
        {"generator": WEIGHTS, "epoch": 3},
        {"state_dict": WEIGHTS, "model": "resnet"},
    ],
)
def test_weights_are_found_under_their_usual_names(root):
    chosen = choose(root, PATH)
    assert list(chosen.tensors) == ["a.weight", "a.bias"]
    keys, found = chosen.tensors["a.bias"]
    value = root
    for key in keys:
        value = value[key]
    assert value is found


def test_others_are_summed_up_in_a_line_each():
    optimiser = {"state": {i: {"exp_avg": tensor(5), "step": tensor(1)} for i in range(3)}, "param_groups": [1, 2]}
    chosen = choose({"state_dict": WEIGHTS, "optimizer": optimiser, "ema": tensor(7), "epoch": 1}, PATH)
    assert [(item.name, item.parameters, item.reason) for item in chosen.left_out] == [
        ("optimizer", 0, "training state: 6 tensors, 18 values, not weights"),
        ("ema", 0, "outside 'state_dict': 1 tensors, 7 values, not weights"),
    ]


@pytest.mark.parametrize("name", ["sampler", "example_net", "ramp", "preamp"])
def test_words_that_only_contain_a_training_word(name):
    assert list(choose({name: {"w": tensor()}, "epoch": 1}, PATH).tensors) == ["w"]


@pytest.mark.parametrize("name", ["optimizer", "optimiser_states", "lr_scheduler", "amp", "rng_state", "callbacks"])
def test_training_state_is_no_network(name):
    with pytest.raises(FileRefused, match="no tensors"):
        choose({name: {"w": tensor()}, "epoch": 1}, PATH)


def test_two_networks_keep_their_names():
    chosen = choose({"generator": {"w": tensor()}, "discriminator": {"w": tensor()}}, PATH)
    assert list(chosen.tensors) == ["generator.w", "discriminator.w"]


def test_tensors_in_a_tuple_are_named_with_their_number():
    chosen = choose({"w": tensor(), "packed": (tensor(3), tensor(4))}, PATH)
    assert [(item.name, item.parameters) for item in chosen.left_out] == [("packed", 7)]


def test_a_container_that_holds_itself_does_no_harm():
    loop: list[object] = [tensor()]
    loop.append(loop)
    chosen = choose({"state_dict": WEIGHTS, "loop": loop}, PATH)
    assert "1 tensors" in chosen.left_out[0].reason


@pytest.mark.parametrize(
    ("root", "reason"),
    [(tensor(), "a single tensor"), ([tensor()], "a list"), ({"epoch": 3}, "no tensors"), (None, "a nonetype")],
)
def test_what_is_no_checkpoint(root, reason):
    with pytest.raises(FileRefused, match=reason):
        choose(root, PATH)


def test_two_tensors_of_one_name():
    with pytest.raises(FileRefused, match="two tensors"):
        choose({"a.b": tensor(), "a": {"b": tensor()}}, PATH)
