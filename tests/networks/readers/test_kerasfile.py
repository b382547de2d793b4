"""Files written by hand as Keras 3 and Keras 2 lay them out."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from weightsmith.core.errors import FileRefused
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.weights import open_weights


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


VARIABLES = {
    "layers/conv2d/vars": [draw(3, 3, 1, 8), draw(8)],
    "layers/batch_normalization/vars": [draw(8), draw(8), draw(8), draw(8)],
    "layers/depthwise_conv2d/vars": [draw(3, 3, 8, 1), draw(8)],
    "layers/conv2d_transpose/vars": [draw(2, 2, 6, 8), draw(6)],
    "layers/embedding/vars": [draw(20, 5)],
    "layers/lstm/cell/vars": [draw(5, 16), draw(4, 16), draw(16)],
    "layers/gru/cell/vars": [draw(5, 12), draw(4, 12), draw(2, 12)],
    "layers/multi_head_attention/query_dense/vars": [draw(6, 2, 3), draw(2, 3)],
    "layers/multi_head_attention/output_dense/vars": [draw(2, 3, 6), draw(6)],
    "layers/dense/vars": [draw(6, 4), draw(4)],
    "layers/dense_1/vars": [draw(4, 3), draw(3)],
    "layers/dropout/seed_generator/vars": [np.array([1, 2], "u4")],
    "optimizer/vars": [np.array(3), draw(6, 4), draw(4)],
}
LAYERS = [
    ("InputLayer", "input"),
    ("Conv2D", "first"),
    ("BatchNormalization", "norm"),
    ("DepthwiseConv2D", "depthwise"),
    ("Conv2DTranspose", "up"),
    ("Embedding", "words"),
    ("LSTM", "memory"),
    ("GRU", "gate"),
    ("MultiHeadAttention", "attention"),
    ("Dense", "hidden"),
    ("Dropout", "drop"),
    ("Dense", "head"),
    ("Lambda", "danger"),
]
CONFIG = {
    "class_name": "Functional",
    "config": {"name": "net", "layers": [{"class_name": kind, "config": {"name": name}} for kind, name in LAYERS]},
}


def h5_bytes(names: bool = False) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for group, arrays in VARIABLES.items():
            for number, array in enumerate(arrays):
                file[f"{group}/{number}"] = array
            if names:
                file[group].attrs["name"] = f"named_{group.split('/')[-2]}"
    return buffer.getvalue()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as file:
        file.writestr("metadata.json", json.dumps({"keras_version": "3.10.0", "date_saved": "today"}))
        file.writestr("config.json", json.dumps(CONFIG))
        file.writestr("model.weights.h5", h5_bytes())
    return tmp_path / "net.keras"


STACKS = {
    "first": ("Conv2d", (1, 8, 9)),  # of one input channel: out × (in·k)
    "depthwise": ("Conv2d", (72, 1, 1)),
    "up": ("ConvTranspose2d", (4, 6, 8)),
    "words": ("Embedding", (1, 20, 5)),
    "memory.weight_ih_l0": ("LSTM", (4, 4, 5)),
    "memory.weight_hh_l0": ("LSTM", (4, 4, 4)),
    "gate.weight_ih_l0": ("GRU", (3, 4, 5)),
    "gate.weight_hh_l0": ("GRU", (3, 4, 4)),
    "attention.query": ("Linear", (1, 6, 6)),
    "attention.attention_output": ("Linear", (1, 6, 6)),
    "hidden": ("Linear", (1, 4, 6)),
    "head": ("Linear", (1, 3, 4)),
}


def test_a_keras_archive(archive):
    weights = open_weights(archive)
    assert weights.metadata == {"keras_version": "3.10.0", "date_saved": "today"}
    found = walk(weights)
    assert {layer.name: (layer.kind, tuple(layer.matrices.shape)) for layer in found} == STACKS
    notes = {layer.name: layer.notes for layer in found.layers if layer.notes}
    assert set(notes) == {"first", "depthwise"}
    assert notes["depthwise"] == ("8 groups",)
    assert np.array_equal(weights.tensor("head.weight").numpy(), VARIABLES["layers/dense_1/vars"][0].T)
    assert np.array_equal(weights.tensor("norm.running_var").numpy(), VARIABLES["layers/batch_normalization/vars"][3])
    assert weights.tensor("first.weight").is_contiguous()
    stored = sum(a.size for g, arrays in VARIABLES.items() for a in arrays if "optimizer" not in g and "seed" not in g)
    assert found.parameters == stored - 16  # the running statistics are buffers
    (left,) = weights.left_out
    assert (left.name, left.parameters) == ("optimizer", 0)


@pytest.mark.parametrize("names", [False, True])
def test_weights_only(names, tmp_path):
    (tmp_path / "net.weights.h5").write_bytes(h5_bytes(names))
    found = {layer.name: (layer.kind, tuple(layer.matrices.shape)) for layer in walk(tmp_path / "net.weights.h5")}
    expected = dict(STACKS)
    own = {"first": "conv2d", "depthwise": "depthwise_conv2d", "up": "conv2d_transpose", "words": "embedding"}
    own |= {"hidden": "dense", "head": "dense_1"}
    for name, path in own.items():
        expected[f"named_{path}" if names else path] = expected.pop(name)
    shared = {name: value for name, value in expected.items() if name in found}
    assert {name: found[name] for name in shared} == shared
    assert sorted(found.values()) == sorted(STACKS.values())


def legacy(path: Path, config: bool) -> Path:
    """Keras 2: a group per layer, with ``weight_names`` that are paths inside it."""
    layers = {
        "first": {"first/kernel:0": draw(3, 3, 1, 8), "first/bias:0": draw(8)},
        "norm": {f"norm/{n}:0": draw(8) for n in ("gamma", "beta", "moving_mean", "moving_variance")},
        "up": {"up/kernel:0": draw(2, 2, 6, 8)},
        "flat": {},
        "memory": {"memory/lstm_cell/kernel:0": draw(5, 16), "memory/lstm_cell/recurrent_kernel:0": draw(4, 16)},
        "head": {"head/kernel:0": draw(4, 3), "head/bias:0": draw(3)},
    }
    kinds = {
        "first": "Conv2D",
        "norm": "BatchNormalization",
        "up": "Conv2DTranspose",
        "memory": "LSTM",
        "head": "Dense",
    }
    configs = [{"class_name": kinds.get(name, "Flatten"), "config": {"name": name}} for name in layers]
    with h5py.File(path, "w") as file:
        root: Any = file
        if config:
            file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"layers": configs}})
            file.attrs["keras_version"] = "2.9.0"
            root = file.create_group("model_weights")
            file["optimizer_weights/iteration"] = np.array(3)
        root.attrs["layer_names"] = [name.encode() for name in layers]
        for name, weights in layers.items():
            group = root.create_group(name)
            group.attrs["weight_names"] = [key.encode() for key in weights]
            for key, value in weights.items():
                group[key] = value
    return path


@pytest.mark.parametrize("config", [True, False])
def test_the_older_format(config, tmp_path):
    weights = open_weights(legacy(tmp_path / "net.h5", config))
    found = walk(weights)
    kinds = {layer.name: (layer.kind, tuple(layer.matrices.shape)) for layer in found}
    assert list(kinds) == ["first", "up", "memory.weight_ih_l0", "memory.weight_hh_l0", "head"]
    assert kinds["head"] == ("Linear", (1, 3, 4))
    assert kinds["memory.weight_hh_l0"] == ("LSTM", (4, 4, 4))
    # Only the configuration knows that this convolution is a transposed one.
    assert kinds["up"] == (("ConvTranspose2d", (4, 6, 8)) if config else ("Conv2d", (4, 8, 6)))
    assert ("keras_version" in weights.metadata) == config
    assert [item.name for item in weights.left_out] == (["optimizer_weights"] if config else [])
    assert torch.equal(weights.tensor("head.bias"), torch.from_numpy(draw(3)))


def test_other_weights_in_the_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as file:
        file.writestr("config.json", "{}")
        file.writestr("model.weights.npz", b"")
    with pytest.raises(FileRefused, match=r"'model\.weights\.npz'; only model\.weights\.h5"):
        open_weights(tmp_path / "net.keras")


def test_two_layers_of_one_name_keep_their_paths(tmp_path):
    with h5py.File(tmp_path / "net.weights.h5", "w") as file:
        for group in ("dense", "dense_1"):
            file[f"layers/{group}/vars/0"] = draw(3, 2)
            file[f"layers/{group}/vars"].attrs["name"] = "same"
    assert list(open_weights(tmp_path / "net.weights.h5").entries) == ["same.weight", "layers.dense_1.vars.0"]


def test_hard_links_are_tied_weights(tmp_path):
    with h5py.File(tmp_path / "net.weights.h5", "w") as file:
        file["layers/dense/vars/0"] = draw(3, 2)
        file["layers/dense_1/vars/0"] = file["layers/dense/vars/0"]
    assert [(layer.name, layer.tied_with) for layer in walk(tmp_path / "net.weights.h5")] == [("dense", ("dense_1",))]


REAL = Path(__file__).parents[2] / "reference" / "keras_files"
IMAGES = {  # name, shape in Keras, axes that lead to torch's layout
    "conv.weight": ((3, 3, 3, 4), (3, 2, 0, 1)),
    "conv.bias": ((4,), (0,)),
    "norm.weight": ((4,), (0,)),
    "norm.bias": ((4,), (0,)),
    "norm.running_mean": ((4,), (0,)),
    "norm.running_var": ((4,), (0,)),
    "depthwise.weight": ((3, 3, 4, 1), (2, 3, 0, 1)),
    "depthwise.bias": ((4,), (0,)),
    "up.weight": ((2, 2, 5, 4), (3, 2, 0, 1)),
    "up.bias": ((5,), (0,)),
    "dense.weight": ((45, 2), (1, 0)),
    "dense.bias": ((2,), (0,)),
}
WORDS = {
    "words.weight": ((11, 5), (0, 1)),
    "lstm.weight_ih_l0": ((5, 24), (1, 0)),
    "lstm.weight_hh_l0": ((6, 24), (1, 0)),
    "lstm.bias": ((24,), (0,)),
    "gru.weight_ih_l0": ((6, 9), (1, 0)),
    "gru.weight_hh_l0": ((3, 9), (1, 0)),
    "gru.bias": ((2, 9), (0, 1)),
    "dense.weight": ((3, 2), (1, 0)),
    "dense.bias": ((2,), (0,)),
}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("images.keras", IMAGES),
        ("images.weights.h5", IMAGES),
        ("words.keras", WORDS),
        ("words.weights.h5", WORDS),
        ("words.h5", WORDS),
    ],
)
def test_files_that_keras_itself_wrote(file, expected):
    """Written by ``benchmarks/peers/keras_files.py``: the k-th weight holds k + i/4096 at flat position i."""
    weights = open_weights(REAL / file)
    assert set(weights.entries) == set(expected)
    for number, (name, (shape, axes)) in enumerate(expected.items()):
        values = number + np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4096
        values = values.transpose(axes)
        if name.startswith("gru.weight"):  # Keras orders the gates z, r, h and torch r, z, n
            values = values.reshape(3, 3, -1)[[1, 0, 2]].reshape(9, -1)
        assert np.array_equal(weights.tensor(name).numpy(), values), name
