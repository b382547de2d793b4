from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.readers.onnxfile import TYPES, OnnxValues
from weightsmith.networks.readers.onnxgraph import Quantisation
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
    weights = {}
    for letter, part in (("W", "ih"), ("R", "hh")):
        pieces = getattr(made, f"weight_{part}_l0").detach().chunk(len(order))
        weights[letter] = torch.cat([pieces[index] for index in order])[None].numpy()
    path = saved(tmp_path / "m.onnx", [node(module.__name__, "x", "W", "R", hidden_size=4)], weights)
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
    with pytest.raises(MissingExtra, match=r"\.\[onnx\]"):
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


REAL = np.array([[0.5, -2.0, 3.0], [0.0, 1.0, 4.0]])
PATH = Path("model.onnx")


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("code", TYPES)
def test_every_type_reads_back_as_bytes_and_as_numbers(code, raw):
    kind = helper.tensor_dtype_to_np_dtype(code)
    values = np.abs(REAL).astype(kind)
    if raw:
        tensor = numpy_helper.from_array(values, "w")
    else:
        tensor = helper.make_tensor("w", code, values.shape, values.astype(kind).flatten().tolist())
    assert tensor.HasField("raw_data") == raw
    read = OnnxValues(PATH, {"w": tensor}).read("w")
    assert read.shape == (2, 3)
    assert read.to(torch.float64).tolist() == values.astype("f8").tolist()


def test_external_values_are_read_where_they_lie(tmp_path):
    (tmp_path / "w.data").write_bytes(b"....." + REAL.astype("<f4").tobytes() + b"...")
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.data"), ("offset", "5"), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    values = OnnxValues(tmp_path / "model.onnx", {"w": tensor})
    assert values.read("w").tolist() == REAL.tolist()
    for offset in ("-1", "9", "1e3", "9" * 30):
        tensor.external_data[1].value = offset
        with pytest.raises(FileRefused):
            OnnxValues(tmp_path / "model.onnx", {"w": tensor})


@pytest.mark.parametrize(
    ("dims", "raw", "reason"),
    [
        ([2, 3], bytes(20), "claims 24 bytes and has 20"),
        ([-2, 3], b"", "impossible"),
        ([1] * 99, bytes(4), "impossible"),
    ],
)
def test_claims_are_checked(dims, raw, reason):
    tensor = TensorProto(name="w", data_type=1, dims=dims, raw_data=raw)
    with pytest.raises(FileRefused, match=reason):
        OnnxValues(PATH, {"w": tensor})


def test_numbers_must_be_as_many_as_the_shape_says():
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], float_data=[1.0] * 5)
    with pytest.raises(FileRefused, match="another number"):
        OnnxValues(PATH, {"w": tensor})


@pytest.mark.parametrize(
    ("scale", "axis", "block", "expected"),
    [
        ([2.0], 1, 0, [[2, 4, 6, 8], [10, 12, 14, 16]]),
        ([1.0, 10.0], 0, 0, [[1, 2, 3, 4], [50, 60, 70, 80]]),
        ([1.0, 2, 3, 4], 1, 0, [[1, 4, 9, 16], [5, 12, 21, 32]]),
        ([1.0, 2, 3, 4], -1, 0, [[1, 4, 9, 16], [5, 12, 21, 32]]),
        ([[1.0, 10.0], [2.0, 20.0]], 1, 2, [[1, 2, 30, 40], [10, 12, 140, 160]]),
    ],
)
def test_scales_along_an_axis(scale, axis, block, expected):
    codes = numpy_helper.from_array(np.arange(1, 9, dtype="i1").reshape(2, 4), "w")
    values = OnnxValues(PATH, {"w": codes, "s": numpy_helper.from_array(np.array(scale, "f4"), "s")})
    quantisation = Quantisation("s", None, axis, block)
    assert values.can_scale("w", quantisation)
    assert values.dequantised("w", quantisation).tolist() == expected


def test_zero_point_and_missing_scale():
    tensors = {
        "w": numpy_helper.from_array(np.array([[0, 255]], "u1"), "w"),
        "s": numpy_helper.from_array(np.array(0.5, "f4"), "s"),
        "z": numpy_helper.from_array(np.array(128, "u1"), "z"),
        "odd": numpy_helper.from_array(np.ones(7, "f4"), "odd"),
    }
    values = OnnxValues(PATH, tensors)
    assert values.dequantised("w", Quantisation("s", "z", 1)).tolist() == [[-64.0, 63.5]]
    assert not values.can_scale("w", Quantisation("nowhere", None, 1))
    assert not values.can_scale("w", Quantisation("odd", None, 1))
    assert not values.can_scale("w", Quantisation("odd", None, 5))
