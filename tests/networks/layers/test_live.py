"""A stand-in with the parts of Keras 3 that matter; what real models give was compared by hand on two backends.

The files in ``tests/reference/keras_files`` were written by Keras itself: a model of the same layers and the same
values must be walked exactly as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.networks.layers.live import KerasModelWeights
from weightsmith.networks.layers.walk import opened, walk
from weightsmith.networks.weights import open_weights

REAL = Path(__file__).parents[2] / "reference" / "keras_files"


class Variable:
    """As ``keras.Variable``: a dtype that is text, and an array on request."""

    def __init__(self, values: Any, dtype: str = "float32") -> None:
        self.array, self.dtype, self.shape = values, dtype, values.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


class TorchVariable(Variable):
    """On the torch backend ``value`` is a parameter."""

    @property
    def value(self) -> nn.Parameter:
        return nn.Parameter(torch.from_numpy(self.array))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise AssertionError("a torch parameter needs no array")


class Saveable:
    def _obj_type(self) -> str:
        return "Layer"


class Layer(Saveable):
    def __init__(self, *variables: Any, name: str = "", **config: Any) -> None:
        self.name, self._variables, self._config = name, variables, config
        self._metrics: list[Any] = []

    @property
    def input(self) -> Any:
        raise ValueError("the layer was never called")

    def save_own_variables(self, store: dict[str, Any]) -> None:
        for number, variable in enumerate(self._variables):
            store[str(number)] = variable

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, **self._config}


class Model(Layer):
    def __init__(self, *layers: Any, name: str = "net") -> None:
        super().__init__(name=name)
        self.layers = list(layers)

    @property
    def broken(self) -> Any:
        raise AttributeError("has no value before the model is built")


class Sequential(Model):
    def _obj_type(self) -> str:
        return "Sequential"

    @property
    def _functional(self) -> Model:
        return Model(*self.layers)

    def get_config(self) -> dict[str, Any]:
        layers = [{"class_name": type(layer).__name__, "config": layer.get_config()} for layer in self.layers]
        return {"name": self.name, "layers": layers}


class Optimizer(Layer):
    def _obj_type(self) -> str:
        return "Optimizer"


for kind in (Saveable, Layer, Model, Sequential, Optimizer):
    kind.__module__ = "keras.src.stand_in"


def of(kind: str, name: str, *variables: Any, **config: Any) -> Any:
    return type(kind, (Layer,), {})(*variables, name=name, **config)


def filled(*shapes: tuple[int, ...], variable: type[Variable] = Variable) -> list[Variable]:
    """The k-th variable holds k + i/4096 at flat position i, as in the reference files."""
    return [
        variable(k + np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4096)
        for k, shape in enumerate(shapes)
    ]


def images(variable: type[Variable] = Variable) -> Sequential:
    shapes = [(3, 3, 3, 4), (4,), (4,), (4,), (4,), (4,), (3, 3, 4, 1), (4,), (2, 2, 5, 4), (5,), (45, 2), (2,)]
    v = filled(*shapes, variable=variable)
    return Sequential(
        of("Conv2D", "conv", *v[:2], groups=1),
        of("BatchNormalization", "norm", *v[2:6]),
        of("DepthwiseConv2D", "depthwise", *v[6:8]),
        of("Conv2DTranspose", "up", *v[8:10]),
        of("Flatten", "flatten"),
        of("Dense", "dense", *v[10:]),
    )


def words() -> Sequential:
    v = filled((11, 5), (5, 24), (6, 24), (24,), (6, 9), (3, 9), (2, 9), (3, 2), (2,))
    lstm, gru = of("LSTM", "lstm"), of("GRU", "gru")
    lstm.cell, gru.cell = of("LSTMCell", "lstm_cell", *v[1:4]), of("GRUCell", "gru_cell", *v[4:7])
    return Sequential(of("Embedding", "words", v[0]), lstm, gru, of("Dense", "dense", *v[7:]))


@pytest.mark.parametrize(
    ("model", "file"), [(images(), "images.keras"), (images(TorchVariable), "images.keras"), (words(), "words.keras")]
)
def test_a_model_is_walked_as_its_file(model, file):
    live, stored = walk(model), walk(REAL / file)
    assert live.layers == stored.layers
    assert [item for item in live.left_out if item.parameters] == [item for item in stored.left_out if item.parameters]
    assert live.parameters == stored.parameters
    for ours, theirs in zip(live, stored, strict=True):
        assert torch.equal(ours.matrices, theirs.matrices), ours.name
    weights, file_weights = KerasModelWeights(model), open_weights(REAL / file)
    for name in file_weights.entries:
        assert torch.equal(weights.tensor(name), file_weights.tensor(name)), name


class Own(Model):
    """A model of the user's own: no configuration, layers in attributes, lists and dicts, one of them shared."""

    def __init__(self) -> None:
        super().__init__()
        self.zeta = of("Dense", "dense_1", *filled((6, 4), (4,)))
        self.alpha = of("Dense", "dense_2", *filled((4, 3), (3,)))
        self.blocks = [of("Dense", "dense_3", *filled((3, 5))), [of("Dense", "dense_4", *filled((5, 5)))], 7]
        self.by_name = {"first": of("Conv1D", "conv1d", *filled((2, 5, 3)))}
        self.again = self.alpha
        self.itself = self
        self.optimizer = Optimizer(*filled((6, 4)))
        self.loop: list[Any] = []
        self.loop.append(self.loop)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError


Own.__module__ = "user.code"


def test_a_model_of_ones_own():
    model = Own()
    model.layers = [model.zeta, model.alpha]
    shapes = {layer.name: layer.shape for layer in walk(model).layers}
    assert shapes == {
        "dense_2": (3, 4),
        "blocks.dense_3": (5, 3),
        "blocks.container.dense_4": (5, 5),
        "by_name.conv1d": (3, 5, 2),
        "dense_1": (4, 6),
    }


def test_attention_is_found_under_its_public_name():
    attention = of("MultiHeadAttention", "attention")
    attention._query_dense = of("EinsumDense", "query", *filled((6, 2, 3), (2, 3)), equation="abc,cde->abde")
    attention._output_dense = of("EinsumDense", "attention_output", *filled((2, 3, 6), (6,)))
    type(attention).query_dense = property(lambda self: self._query_dense)
    type(attention).output_dense = property(lambda self: self._output_dense)
    output, query = walk(Sequential(attention))
    kernel = attention._query_dense._variables[0].array
    assert (query.name, query.kind) == ("attention.query", "Linear")
    assert np.array_equal(query.matrices[0].numpy(), kernel.reshape(6, 6).T)
    assert np.array_equal(output.matrices[0].numpy(), attention._output_dense._variables[0].array.reshape(6, 6).T)


def test_one_variable_in_two_layers_is_tied():
    (kernel,) = filled((3, 3))
    found = walk(Sequential(of("Dense", "first", kernel), of("Dense", "second", kernel)))
    assert [(layer.name, layer.tied_with) for layer in found.layers] == [("first", ("second",))]


@pytest.mark.parametrize(
    ("dtype", "entry"), [("float16", "float16"), ("bfloat16", "bfloat16"), ("float8_e4m3fn", "float32")]
)
def test_types(dtype, entry):
    values = np.array([[1, 2, 3], [4, 5, 6]], "f2" if dtype == "float16" else "f4")
    found = walk(Sequential(of("Dense", "d", Variable(values, dtype))))
    assert found.layers[0].dtype == entry
    assert torch.equal(found.read(0).matrices[0], torch.tensor([[1.0, 4], [2, 5], [3, 6]]))


def test_what_is_no_number_is_left_out():
    found = walk(
        Sequential(of("Dense", "d", *filled((2, 2))), of("Lookup", "table", Variable(np.array(["a"]), "string")))
    )
    assert [(item.name, item.reason) for item in found.left_out] == [("table.0", "of type object, not real numbers")]


def test_a_model_without_weights_is_refused():
    with pytest.raises(UsageError, match="net: the Keras model has no weights yet; build it"):
        walk(Sequential(of("Dense", "d")))


def test_keras_two_is_refused():
    model = type("Model", (), {"__module__": "tf_keras.engine"})()
    with pytest.raises(UsageError, match="a model of Keras 2 cannot be read from memory"):
        walk(model)


def test_only_models_of_keras_are_models():
    class Model:
        pass

    assert isinstance(opened(images()), KerasModelWeights)
    assert not isinstance(opened(nn.Linear(2, 2)), KerasModelWeights)
    with pytest.raises(UsageError, match="a Model cannot be walked"):
        opened(Model())


def test_on_the_torch_backend_a_model_is_a_module_too():
    """Its kernels are in × out there: walking it as a module would turn every matrix round."""

    class Both(Sequential, nn.Module):
        def __init__(self, layer: Any) -> None:
            nn.Module.__init__(self)
            Sequential.__init__(self, layer)
            self.kernel = nn.Parameter(torch.zeros(5, 4))

    (layer,) = walk(Both(of("Dense", "d", *filled((6, 4), variable=TorchVariable))))
    assert (layer.name, layer.shape) == ("d", (4, 6))


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
