from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.layers import walk
from weightsmith.networks.weights import open_weights


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def saved(path: Path, nodes: list[object], tensors: dict[str, np.ndarray], **options: object) -> Path:
    """A graph with these nodes; its ends are not what is tested."""
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x", "y")]
    given = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], given)
    model = helper.make_model(graph, producer_name="by hand")
    onnx.save(model, path, **options)
    return path


def node(operator: str, *inputs: str, output: str = "y", **attributes: object) -> object:
    return helper.make_node(operator, list(inputs), [output], **attributes)


def test_matrices_are_out_by_in_whatever_the_operator(tmp_path):
    tensors = {"gemm": draw(4, 3), "turned": draw(4, 5), "product": draw(5, 6), "bias": draw(4)}
    nodes = [
        node("Gemm", "x", "gemm", "bias", output="a", transB=1),
        node("Gemm", "a", "turned", output="b"),
        node("MatMul", "b", "product"),
    ]
    weights = open_weights(saved(tmp_path / "m.onnx", nodes, tensors))
    assert {name: entry.shape for name, entry in weights.entries.items()} == {
        "gemm": (4, 3),
        "turned": (5, 4),
        "product": (6, 5),
        "bias": (4,),
    }
    assert np.array_equal(weights.tensor("gemm").numpy(), tensors["gemm"])
    assert np.array_equal(weights.tensor("product").numpy(), tensors["product"].T)
    assert weights.tensor("product").is_contiguous()
    found = walk(weights)
    assert [(layer.name, layer.kind, layer.notes) for layer in found] == [
        ("gemm", "Linear", ()),
        ("turned", "Linear", ()),
        ("product", "Linear", ()),
    ]
    assert found.parameters == 12 + 20 + 30 + 4
    assert weights.metadata == {"producer": "by hand", "graph": "net"}


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_with_their_groups(groups, tmp_path):
    module = nn.Conv2d(8, 12, 3, groups=groups)
    nodes = [node("Conv", "x", "w", "b", group=groups)]
    tensors = {"w": module.weight.detach().numpy(), "b": module.bias.detach().numpy()}
    (layer,) = walk(saved(tmp_path / "m.onnx", nodes, tensors))
    (expected,) = walk(module)
    assert torch.equal(layer.matrices, expected.matrices)


@pytest.mark.parametrize(("module", "order"), [(nn.LSTM, (0, 3, 1, 2)), (nn.GRU, (1, 0, 2)), (nn.RNN, (0,))])
def test_gates_come_in_the_order_of_torch(module, order, tmp_path):
    """ONNX keeps i o f c and z r h; ``order`` is where each of its gates stands in torch."""
    made = module(5, 4)
    told = {}
    for letter, part in (("W", "ih"), ("R", "hh")):
        pieces = getattr(made, f"weight_{part}_l0").detach().chunk(len(order))
        told[letter] = torch.cat([pieces[place] for place in order])[None].numpy()
    path = saved(tmp_path / "m.onnx", [node(module.__name__, "x", "W", "R", hidden_size=4)], told)
    found = {layer.name: layer for layer in walk(path)}
    expected = {layer.name: layer for layer in walk(made)}
    for letter, name in (("W", "weight_ih_l0"), ("R", "weight_hh_l0")):
        assert found[letter].kind == expected[name].kind
        assert torch.equal(found[letter].matrices, expected[name].matrices)


def test_dequantised_weights_are_layers_and_scales_are_not(tmp_path):
    codes = np.arange(-6, 6, dtype="i1").reshape(4, 3)
    tensors = {"q": codes, "s": np.array([0.5, 1.0, 2.0], "f4"), "z": np.array([0, 1, 0], "i1"), "lost": codes}
    nodes = [
        node("DequantizeLinear", "q", "s", "z", output="w", axis=1),
        node("MatMul", "x", "w", output="a"),
        node("DynamicQuantizeLinear", "a", output="aq"),
        node("MatMulInteger", "aq", "lost", output="i"),
        node("Cast", "i", to=1),
    ]
    nodes[2].output.extend(["as", "az"])
    weights = open_weights(saved(tmp_path / "m.onnx", nodes, tensors))
    expected = ((codes - [0, 1, 0]) * [0.5, 1.0, 2.0]).T
    assert weights.tensor("q").tolist() == expected.tolist()
    (layer,) = walk(weights)
    assert (layer.name, layer.kind) == ("q", "Linear")
    reasons = {item.name: item.reason for item in weights.left_out}
    assert set(reasons) == {"s", "z", "lost"}
    assert reasons["lost"] == "integer-quantised (int8), no constant scale"


def test_embeddings_constants_and_shapes(tmp_path):
    table, constant = draw(7, 3), draw(3, 2)
    nodes = [
        node("Gather", "table", "x", output="a"),
        node("Constant", output="k", value=numpy_helper.from_array(constant, "unused name")),
        node("MatMul", "a", "k", output="b"),
        node("Constant", output="shape", value=numpy_helper.from_array(np.array([1, -1]), "s")),
        node("Reshape", "b", "shape"),
    ]
    weights = open_weights(saved(tmp_path / "m.onnx", nodes, {"table": table}))
    assert weights.kinds == {"table": "Embedding", "k": "Linear"}
    assert np.array_equal(weights.tensor("k").numpy(), constant.T)
    assert "shape" not in weights.entries


def test_external_data_beside_the_graph(tmp_path):
    tensors = {"a": draw(40, 30), "b": draw(30, 20)}
    nodes = [node("Gemm", "x", "a", output="h", transB=1), node("MatMul", "h", "b")]
    options = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0}
    path = saved(tmp_path / "m.onnx", nodes, tensors, **options)
    assert path.stat().st_size < 1000 < (tmp_path / "m.data").stat().st_size
    weights = open_weights(path)
    assert np.array_equal(weights.tensor("a").numpy(), tensors["a"])
    (tmp_path / "m.data").write_bytes(b"short")
    with pytest.raises(FileRefused, match="cut short"):
        weights.tensor("a")


def test_an_invalid_graph_is_refused(tmp_path):
    path = saved(tmp_path / "m.onnx", [node("Conv", "x")], {"w": draw(2, 2)})
    with pytest.raises(FileRefused, match="not a valid ONNX file"):
        open_weights(path)


def test_strange_types_are_named(tmp_path):
    text = helper.make_tensor("text", onnx.TensorProto.STRING, [1], [b"hello"])
    path = saved(tmp_path / "m.onnx", [node("Gemm", "x", "w", transB=1)], {"w": draw(3, 2)})
    model = onnx.load(path)
    model.graph.initializer.append(text)
    onnx.save(model, path)
    weights = open_weights(path)
    assert [(item.name, item.reason) for item in weights.left_out] == [("text", "of ONNX type 8, which is not read")]


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    path = saved(tmp_path / "m.onnx", [node("Gemm", "x", "w", transB=1)], {"w": draw(3, 2)})
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"weightsmith\[onnx\]"):
        open_weights(path)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(64, 5)
        self.free = nn.Linear(5, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.depthwise(self.conv(x))))
        return self.free(torch.relu(self.fc(x.flatten(1))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_torch_exports_walks_like_the_module(tmp_path):
    torch.manual_seed(0)
    network = Small().eval()
    network.norm.running_mean.normal_()
    torch.onnx.export(network, (torch.randn(2, 1, 8, 8),), tmp_path / "m.onnx", dynamo=True, optimize=False)
    found = {layer.name: layer for layer in walk(tmp_path / "m.onnx")}
    expected = {layer.name: layer for layer in walk(network)}
    for name in ("conv", "depthwise", "fc", "free"):
        assert found[name].kind == expected[name].kind
        torch.testing.assert_close(found[name].matrices, expected[name].matrices)
