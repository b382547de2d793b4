"""Valid files of every format, cut off or with bytes flipped: they read as before in shape, or are refused.

Nothing else may happen: no other exception, no crash, no tensor of another size than its entry says.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.torch import save_file

from weightsmith.core.errors import FileRefused
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.weights import open_weights


def state() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "conv.weight": torch.randn(4, 3, 2, 2, generator=generator),
        "fc.weight": torch.randn(5, 4, generator=generator).bfloat16(),
        "bn.num_batches_tracked": torch.tensor(3),
    }


def onnx_bytes() -> bytes:
    values = {name: tensor.float().numpy() for name, tensor in state().items() if tensor.ndim}
    values["codes"] = np.arange(12, dtype="i1").reshape(4, 3)
    values["scale"] = np.array(0.5, "f4")
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["a"]),
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["d"]),
        helper.make_node("MatMul", ["a", "d"], ["b"]),
        helper.make_node("Gemm", ["b", "fc.weight"], ["y"], transB=1),
    ]
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(value, name) for name, value in values.items()]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)).SerializeToString()


def h5_bytes() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for number in range(3):
            file[f"layers/dense_{number}/vars/0"] = np.ones((5, 4), "f4")
            file[f"layers/dense_{number}/vars"].attrs["name"] = f"layer {number}"
        file.create_dataset("layers/packed/vars/0", data=np.ones((9, 9), "f4"), chunks=(4, 4), compression="gzip")
    return buffer.getvalue()


def saved(write: Callable[[Path], object]) -> Callable[[Path], bytes]:
    def build(folder: Path) -> bytes:
        write(folder / "made")
        return (folder / "made").read_bytes()

    return build


def npz_bytes(packed: bool) -> bytes:
    buffer = io.BytesIO()
    save = np.savez_compressed if packed else np.savez
    save(buffer, **{name: tensor.float().numpy() for name, tensor in state().items()})
    return buffer.getvalue()


def keras_bytes() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("config.json", json.dumps({"class_name": "Sequential", "config": {"layers": []}}))
        archive.writestr("model.weights.h5", h5_bytes())
    return buffer.getvalue()


FORMATS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "safetensors": ("m.safetensors", saved(lambda path: save_file(state(), path, {"a": "b"}))),
    "zip": ("m.pt", saved(lambda path: torch.save({"epoch": 3, "state_dict": state()}, path))),
    "legacy": ("m.pth", saved(lambda path: torch.save(state(), path, _use_new_zipfile_serialization=False))),
    "npz": ("m.npz", lambda _: npz_bytes(False)),
    "packed npz": ("m.npz", lambda _: npz_bytes(True)),
    "onnx": ("m.onnx", lambda _: onnx_bytes()),
}
# Each attempt starts a process.
SLOW_FORMATS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "h5": ("m.weights.h5", lambda _: h5_bytes()),
    "keras": ("m.keras", lambda _: keras_bytes()),
}


def read(path: Path) -> str:
    """Read everything; the answer is that it was refused, or that shapes agree."""
    try:
        weights = open_weights(path)
        shapes = {name: tuple(weights.tensor(name).shape) for name in weights.entries}
        stacks = [layer.matrices.ndim for layer in walk(weights)]
    except FileRefused as error:
        return "refused" if str(path) in str(error) and str(error).isprintable() else f"badly told: {error!r}"
    assert shapes == {name: entry.shape for name, entry in weights.entries.items()}
    assert set(stacks) <= {3}
    return "read"


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
        # Headers are at the ends, so these are hit more often.
        reach = int(rng.choice([64, 400, len(content)]))
        offset = int(rng.integers(min(reach, len(content))))
        offset = offset if rng.random() < 0.6 else len(content) - 1 - offset
        changed[offset] = int(rng.choice([0, 255, rng.integers(256), changed[offset] ^ (1 << int(rng.integers(8)))]))
    return bytes(changed)


def attempts(name: str, build: Callable[[Path], bytes], folder: Path, cuts: int, flips: int) -> dict[str, int]:
    content = build(folder)
    path = folder / name
    path.write_bytes(content)
    assert read(path) == "read"
    outcomes = {"read": 0, "refused": 0}
    for length in sorted({int(n) for n in np.linspace(0, len(content) - 1, cuts)} | {len(content) - 1}):
        path.write_bytes(content[:length])
        assert read(path) == "refused", f"cut at {length} of {len(content)}"
    rng = np.random.default_rng(1)
    for _ in range(flips):
        path.write_bytes(damaged(content, rng))
        outcomes[read(path)] += 1
    return outcomes


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused(kind, tmp_path):
    outcomes = attempts(*FORMATS[kind], tmp_path, 60, 200)
    assert outcomes["read"] > 5
    assert outcomes["refused"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_many_damaged_files_are_read_or_refused(kind, tmp_path):
    assert sum(attempts(*FORMATS[kind], tmp_path, 1000, 1000).values()) == 1000


@pytest.mark.parametrize("kind", SLOW_FORMATS)
def test_a_few_damaged_hdf5_files(kind, tmp_path):
    assert sum(attempts(*SLOW_FORMATS[kind], tmp_path, 3, 4).values()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", SLOW_FORMATS)
def test_damaged_hdf5_files_are_read_or_refused(kind, tmp_path):
    outcomes = attempts(*SLOW_FORMATS[kind], tmp_path, 10, 30)
    assert outcomes["refused"] > 5
