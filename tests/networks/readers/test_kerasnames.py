from __future__ import annotations

from typing import Any

import pytest

from weightsmith.networks.readers.hdf5 import Dataset, Hdf5File
from weightsmith.networks.readers.kerasnames import Configuration, snake_case, variables


class Listed(Hdf5File):
    """An HDF5 file that consists of its listing only."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], groups: dict[str, Any] | None = None) -> None:
        self.groups = groups or {}
        self.datasets = {path: Dataset(path, shape, "<f4", 0, path) for path, shape in shapes.items()}


def named(file: Listed, config: object = None) -> list[tuple[str, str, str]]:
    return [(v.layer, v.role, v.dataset.path) for v in variables(file, Configuration(config))]


def sequential(*layers: tuple[str, dict[str, object]]) -> dict[str, object]:
    return {"class_name": "Sequential", "config": {"layers": [{"class_name": k, "config": c} for k, c in layers]}}


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        *(("Dense", "dense"), ("Conv2D", "conv2d"), ("Conv2DTranspose", "conv2d_transpose"), ("LSTM", "lstm")),
        *(("SimpleRNN", "simple_rnn"), ("LSTMCell", "lstm_cell"), ("SeparableConv2D", "separable_conv2d")),
        *(("BatchNormalization", "batch_normalization"), ("MultiHeadAttention", "multi_head_attention")),
    ],
)
def test_classes_in_paths(name, snake):
    assert snake_case(name) == snake


def test_numbers_are_ordered_as_numbers_without_a_configuration():
    shapes = {f"layers/dense{end}/vars/0": (3, 3) for end in ("_10", "_2", "", "_1")}
    assert [layer for layer, _, _ in named(Listed(shapes))] == ["dense", "dense_1", "dense_2", "dense_10"]


def test_configuration_gives_names_and_order():
    config = sequential(
        ("InputLayer", {}), ("Dense", {"name": "z_first"}), ("Conv2D", {"name": "mid"}), ("Dense", {"name": "a"})
    )
    shapes = {"layers/conv2d/vars/0": (3, 3, 1, 2), "layers/dense/vars/0": (3, 3), "layers/dense_1/vars/0": (3, 3)}
    assert [layer for layer, _, _ in named(Listed(shapes), config)] == ["z_first", "mid", "a"]


def test_names_in_attributes():
    shapes = {"layers/dense/vars/0": (3, 3), "layers/dense/vars/1": (3,)}
    groups = {"layers/dense/vars": {"name": "head"}}
    assert [(layer, role) for layer, role, _ in named(Listed(shapes, groups))] == [("head", "kernel"), ("head", "bias")]


def test_inner_models_attention_and_wrappers():
    cell = {"0": (5, 12), "1": (3, 12), "2": (12,)}
    shapes = {
        "layers/functional/layers/dense/vars/0": (3, 3),
        "layers/multi_head_attention/query_dense/vars/0": (6, 2, 3),
        "layers/multi_head_attention/output_dense/vars/0": (2, 3, 6),
        **{f"layers/lstm/cell/vars/{n}": shape for n, shape in cell.items()},
        **{f"layers/bidirectional/backward_layer/cell/vars/{n}": shape for n, shape in cell.items()},
    }
    found = {v.dataset.path: v for v in variables(Listed(shapes), Configuration(None))}
    assert found["layers/functional/layers/dense/vars/0"].layer == "functional.dense"
    assert found["layers/multi_head_attention/query_dense/vars/0"].layer == "multi_head_attention.query"
    assert found["layers/multi_head_attention/output_dense/vars/0"].facts.output
    recurrent = found["layers/lstm/cell/vars/1"]
    assert (recurrent.layer, recurrent.role, recurrent.gates) == ("lstm", "recurrent_kernel", 4)
    backward = found["layers/bidirectional/backward_layer/cell/vars/0"]
    assert (backward.layer, backward.facts.backward, backward.gates) == ("bidirectional", True, 4)


def test_the_older_format_has_names_everywhere():
    shapes = {
        "model_weights/head/head/kernel:0": (3, 3),
        "model_weights/head/head/bias:0": (3,),
        "model_weights/inner/block/conv/kernel:0": (3, 3, 1, 2),
        "model_weights/rnn/rnn/lstm_cell/kernel:0": (5, 12),
        "model_weights/rnn/rnn/lstm_cell/recurrent_kernel:0": (3, 12),
        "model_weights/two/two/backward_gru/gru_cell/kernel:0": (5, 9),
        "model_weights/two/two/backward_gru/gru_cell/recurrent_kernel:0": (3, 9),
        "optimizer_weights/x": (3,),
    }
    layers = {"head": ["bias", "kernel"], "rnn": [], "inner": [], "two": []}
    groups: dict[str, Any] = {"model_weights": {"layer_names": list(layers)}}
    for path in shapes:
        _, layer, *rest = path.split("/")
        groups.setdefault(f"model_weights/{layer}", {"weight_names": []})["weight_names"].append("/".join(rest))
    found = list(variables(Listed(shapes, groups), Configuration(None)))
    assert [(v.layer, v.role, v.gates) for v in found] == [
        ("head", "kernel", 0),
        ("head", "bias", 0),
        ("rnn", "kernel", 4),
        ("rnn", "recurrent_kernel", 4),
        ("inner.block.conv", "kernel", 0),
        ("two", "kernel", 3),
        ("two", "recurrent_kernel", 3),
    ]
    assert [v.facts.backward for v in found][-2:] == [True, True]


def test_facts_of_the_configuration():
    config = sequential(("Conv2D", {"name": "c", "groups": 4}), ("EinsumDense", {"equation": "ab,bc->ac"}))
    configuration = Configuration(config)
    assert configuration.by_path["layers/conv2d"].groups == configuration.by_name["c"].groups == 4
    assert configuration.by_path["layers/einsum_dense"].equation == "ab,bc->ac"


@pytest.mark.parametrize(
    "config",
    [None, 3, [], {"config": 3}, {"config": {"layers": [3, {"class_name": 4}, {"class_name": "X", "config": 5}]}}],
)
def test_a_configuration_of_any_shape_does_no_harm(config):
    assert isinstance(Configuration(config).names, dict)
    assert [layer for layer, _, _ in named(Listed({"layers/dense/vars/0": (2, 2)}), config)] == ["dense"]


def test_groups_of_a_wrong_kind_are_one():
    for wrong in ("4", -1, 0, 2.5, None):
        assert Configuration(sequential(("Conv2D", {"groups": wrong}))).by_path["layers/conv2d"].groups == 1
