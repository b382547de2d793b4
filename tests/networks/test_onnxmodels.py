from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.networks.layers import walk


def model() -> Any:
    rng = np.random.default_rng(0)
    weights = {"conv": rng.standard_normal((4, 3, 3, 3)), "gemm": rng.standard_normal((7, 4)), "bias": np.zeros(4)}
    tensors = [numpy_helper.from_array(value.astype("f4"), name) for name, value in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "conv", "bias"], ["y"]),
        helper.make_node("Flatten", ["y"], ["z"]),
        helper.make_node("Gemm", ["z", "gemm"], ["out"], transB=1),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 3, 3])
    made = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 7])
    return helper.make_model(helper.make_graph(nodes, "net", [given], [made], tensors))


def test_a_model_is_walked_as_its_file_and_not_changed(tmp_path):
    live = model()
    before = live.SerializeToString()
    onnx.save(live, tmp_path / "net.onnx")
    found, stored = walk(live), walk(tmp_path / "net.onnx")
    assert found.layers == stored.layers
    assert [layer.kind for layer in found.layers] == ["Conv2d", "Linear"]
    assert found.left_out == stored.left_out
    for ours, theirs in zip(found, stored, strict=True):
        assert torch.equal(ours.matrices, theirs.matrices)
    assert live.SerializeToString() == before


def test_values_outside_need_the_path():
    live = model()
    live.graph.initializer[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(UsageError, match="the values of conv are not in the ONNX model but in a file"):
        walk(live)


def test_without_a_graph_there_is_nothing():
    with pytest.raises(UsageError, match="the ONNX model has no graph"):
        walk(onnx.ModelProto())


def test_an_invalid_graph_is_refused():
    live = model()
    live.graph.node[0].op_type = "Nonsense"
    with pytest.raises(FileRefused, match="is not a valid ONNX file"):
        walk(live)


def test_nothing_else_is_a_model():
    for other in (model().graph, type("ModelProto", (), {})()):
        with pytest.raises(UsageError, match="cannot be walked"):
            walk(other)
