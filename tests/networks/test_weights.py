from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from weightsmith.core.errors import FileRefused, UnknownName
from weightsmith.networks.weights import Entry, as_float, open_weights

BAD = runpy.run_path(str(Path(__file__).with_name("hostile.py")))
HOSTILE = BAD["HOSTILE"]


def seen(folder: Path) -> dict[str, object]:
    """Every path below a folder with its content, links and pipes by kind."""
    return {str(p): p.read_bytes() if p.is_file() and not p.is_symlink() else p.is_dir() for p in folder.rglob("*")}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(name, tmp_path):
    path = HOSTILE[name].build(tmp_path)
    before = seen(tmp_path)
    with pytest.raises(FileRefused) as caught:
        open_weights(path)
    message = str(caught.value)
    assert HOSTILE[name].reason in message
    assert message.isprintable()
    assert str(path if path.is_file() else path.parent) in message
    assert len(caught.value.reason) < 250
    assert seen(tmp_path) == before
    assert not (tmp_path / BAD["CANARY"]).exists()


LIMITED = """
import resource, runpy, sys, tempfile
from pathlib import Path
from weightsmith.core.errors import FileRefused
from weightsmith.networks.weights import open_weights
import torch, onnx
hostile = runpy.run_path(sys.argv[1])["HOSTILE"]
cases = []
for name, case in hostile.items():
    cases.append((name, case.build(Path(tempfile.mkdtemp(dir=sys.argv[2])))))
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
for name, path in cases:
    try:
        open_weights(path)
    except FileRefused:
        continue
    print("opened", name)
print("done")
"""


@pytest.mark.slow
def test_hostile_files_need_no_memory(tmp_path):
    """All of them once more in a process that may grow by one gigabyte at most; many claim a hundred."""
    script = [sys.executable, "-c", LIMITED, str(Path(__file__).with_name("hostile.py")), str(tmp_path)]
    answer = subprocess.run(script, capture_output=True, text=True, timeout=300)
    assert (answer.stdout, answer.returncode) == ("done\n", 0), answer.stderr[-2000:]


NOBODY = """
import os, sys
from weightsmith.core.errors import FileRefused
from weightsmith.networks.weights import open_weights
import weightsmith.networks.readers.detect, weightsmith.networks.readers.sharded, safetensors
os.setuid(65534)
try:
    open_weights(sys.argv[1])
except FileRefused as error:
    print(error.reason)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_without_permission_is_named(kind, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "inner").mkdir()
    save_file({"a": torch.ones(2)}, tmp_path / "inner" / "model.safetensors")
    # From the folder itself: those above may be closed to the user that root turns into.
    name = "inner/model.safetensors" if kind == "file" else "inner"
    (tmp_path / name).chmod(0)
    script = NOBODY if os.getuid() == 0 else NOBODY.replace("os.setuid(65534)", "")
    answer = subprocess.run([sys.executable, "-c", script, name], cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / name).chmod(0o755)
    assert answer.stdout == "no permission to read it\n", answer.stderr[-2000:]


def test_entries_know_their_size():
    entry = Entry("w", (3, 5), "float8_e4m3fn")
    assert (entry.parameters, entry.nbytes, entry.is_float) == (15, 15, True)
    assert Entry("n", (), "int64").nbytes == 8
    with pytest.raises(UnknownName, match="float99"):
        _ = Entry("w", (3,), "float99").nbytes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float32])
def test_real_numbers_become_float32(dtype):
    values = torch.tensor([0.5, -2.0]).to(dtype)
    assert as_float(values).dtype == torch.float32
    assert as_float(values).tolist() == [0.5, -2.0]


def test_other_types_stay():
    for dtype in (torch.float64, torch.int64, torch.bool):
        assert as_float(torch.ones(2, dtype=dtype)).dtype == dtype


def test_a_wrong_name_suggests_the_right_one(tmp_path):
    save_file({"conv1.weight": torch.ones(2)}, tmp_path / "m.safetensors")
    with pytest.raises(UnknownName, match=r"conv1\.weight"):
        open_weights(tmp_path / "m.safetensors").tensor("conv.weight")


def test_a_tensor_larger_than_the_machine_is_refused(tmp_path, monkeypatch):
    save_file({"a": torch.ones(100)}, tmp_path / "m.safetensors")
    monkeypatch.setattr("weightsmith.networks.weights.free_memory", lambda: 300)
    with pytest.raises(FileRefused, match="'a' needs 400 bytes of memory, and 300 bytes are free"):
        open_weights(tmp_path / "m.safetensors").tensor("a")


def test_tied_names_share_one_tensor_in_a_state_dict(tmp_path):
    tied = torch.ones(3, 2)
    torch.save({"a": tied, "b": tied, "c": torch.ones(3, 2)}, tmp_path / "m.pt")
    weights = open_weights(tmp_path / "m.pt")
    values = weights.state_dict()
    assert weights.aliases == {"b": "a"}
    assert values["a"] is values["b"]
    assert values["a"] is not values["c"]


def test_values_are_in_memory_of_their_own(tmp_path):
    for name in ("m.safetensors", "m.pt", "m.npz"):
        path = tmp_path / name
        if name == "m.npz":
            np.savez(path, a=np.ones((2, 2), "f4"))
        elif name == "m.pt":
            torch.save({"a": torch.ones(2, 2)}, path)
        else:
            save_file({"a": torch.ones(2, 2)}, path)
        weights = open_weights(path)
        weights.tensor("a").fill_(7)
        assert weights.tensor("a").tolist() == [[1, 1], [1, 1]]
        assert open_weights(path).tensor("a").tolist() == [[1, 1], [1, 1]]
