from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import weightsmith as ws

HOSTILE = runpy.run_path(str(Path(__file__).parent.parent / "networks" / "hostile.py"))["HOSTILE"]


def test_layers_parameters_types_and_what_is_left_out(run, tmp_path):
    path = ws.save(ws.networks.mlp(4, 3, 2, batch_norm="after"), tmp_path / "n.safetensors")
    answer = run("inspect", path)
    report = json.loads(run("inspect", path, "--json").out)
    assert [(layer["name"], layer["shape"], layer["dtype"]) for layer in report["layers"]] == [
        ("dense1", [3, 4], "float32"),
        ("output", [2, 3], "float32"),
    ]
    assert report["parameters"] == 12 + 3 + 6 + 6 + 2
    assert report["in_layers"] + sum(item["parameters"] for item in report["left_out"]) == report["parameters"]
    assert report["network"] == "mlp:3,batch_norm=after,input_shape=[4],classes=2"
    assert "2 layers with 18 of 29 parameters (62.07 %)" in answer.out
    assert "scale of a batch norm" in answer.out


def test_recognised_files_say_what_they_are(run, tmp_path):
    state = {f"module.{n.replace('fc.', 'linear.')}": t for n, t in ws.networks.resnet(20).state_dict().items()}
    save_file(state, tmp_path / "r.safetensors")
    answer = run("inspect", tmp_path / "r.safetensors", "--layers", "module.layer1.*")
    assert "resnet:20" in answer.out
    assert "normalisation  imagenet" in answer.out
    assert "6 layers with" in answer.out


def test_small_types_quantised_and_tied_weights(run, tmp_path):
    half = {"a.weight": torch.ones(4, 4, dtype=torch.bfloat16), "q.weight": torch.ones(4, 4, dtype=torch.int8)}
    save_file(half, tmp_path / "h.safetensors")
    report = json.loads(run("inspect", tmp_path / "h.safetensors", "--json").out)
    assert report["layers"][0]["dtype"] == "bfloat16"
    assert report["left_out"][0]["name"] == "q.weight"
    assert "no scale" in report["left_out"][0]["reason"]
    shared = nn.Parameter(torch.ones(3, 3))
    torch.save({"a.weight": shared, "b.weight": shared}, tmp_path / "t.pt")
    assert "a  (tied with b)" in run("inspect", tmp_path / "t.pt").out


# Some of every form: that each of them is refused, tests/networks/test_weights.py shows.
@pytest.mark.parametrize("name", list(HOSTILE)[::4])
def test_bad_files_are_one_line_and_code_3(run, name, tmp_path):
    path = HOSTILE[name].build(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    answer = run("inspect", path)
    assert (answer.code, len(answer.lines), answer.out) == (3, 1, "")
    assert str(tmp_path) in answer.err
    assert HOSTILE[name].reason in answer.err
    assert sorted(tmp_path.rglob("*")) == before


AS_NOBODY = """
import os, sys
from weightsmith.cli import main
try: main(["inspect", sys.argv[1], "--json"])  # so that everything is imported while it can be
except SystemExit: os.chmod(sys.argv[1], 0)
if os.getuid() == 0: os.setuid(65534)  # root may read everything
main(["inspect", sys.argv[1]])
"""


@pytest.mark.slow
def test_no_permission_is_code_3(tmp_path):
    tmp_path.chmod(0o755)
    name = "secret.safetensors"  # by its name alone: the folders above may be closed to others
    save_file({"w": torch.ones(2, 2)}, tmp_path / name)
    answer = subprocess.run([sys.executable, "-c", AS_NOBODY, name], cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 3
    assert answer.stderr == f"weightsmith: {name}: no permission to read it\n"


def test_an_unknown_layer_pattern_is_code_2(run, tmp_path):
    path = ws.save(ws.networks.mlp(4, 2), tmp_path / "n.safetensors")
    assert run("inspect", path, "--layers", "conv*").code == 2


@pytest.fixture
def four_gigabytes(tmp_path):
    """A sharded folder of 4 GB that takes no room on the disk: the values are holes."""
    shards, width = 8, 16_384
    positions = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        size = width * width // 2
        header = {
            f"layers.{number}.{part}.weight": {
                "dtype": "BF16",
                "shape": [width // 2, width // 2],
                "data_offsets": [index * size, (index + 1) * size],
            }
            for index, part in enumerate(("q", "k", "v", "o"))
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (tmp_path / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + 4 * size)
        positions |= dict.fromkeys(header, name)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": positions}))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > 4e9
    return tmp_path


PEAK = """
import sys
from weightsmith.cli import main
try: main(["inspect", sys.argv[1]])
finally:
    # Not ru_maxrss, which a child takes over from the process that started it.
    status = dict(line.split(":") for line in open("/proc/self/status"))
    sys.stderr.write(status["VmHWM"].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_four_gigabytes_in_shards_take_less_than_one_of_memory(four_gigabytes):
    command = [sys.executable, "-c", PEAK, str(four_gigabytes)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(answer.stderr) * 1024 < 1e9
    assert "32 layers with 2,147,483,648 of 2,147,483,648 parameters" in answer.stdout
