from __future__ import annotations

import pytest
from onnx import helper

from weightsmith.networks.readers.onnxgraph import Quantisation, Use, attribute, nodes_of, uses


def node(operator: str, *inputs: str, output: str = "y", **attributes: object) -> object:
    return helper.make_node(operator, list(inputs), [output], **attributes)


@pytest.mark.parametrize(
    ("made", "dimensions", "use"),
    [
        (node("Conv", "x", "w"), 4, Use("Conv2d")),
        (node("Conv", "x", "w", group=8), 3, Use("Conv1d(groups=8)")),
        (node("ConvTranspose", "x", "w"), 5, Use("ConvTranspose3d")),
        (node("Gemm", "x", "w", transB=1), 2, Use("Linear")),
        (node("Gemm", "x", "w"), 2, Use("Linear", turned=True)),
        (node("Gemm", "w", "x", transA=1), 2, Use("Linear", turned=True)),
        (node("MatMul", "x", "w"), 2, Use("Linear", turned=True)),
        (node("MatMul", "w", "x"), 2, Use("Linear")),
        (node("LSTM", "x", "w"), 3, Use("LSTM(gates=4)")),
        (node("GRU", "x", "v", "w"), 3, Use("GRU(gates=3)")),
        (node("RNN", "x", "w"), 3, Use("RNN")),
        (node("LSTM", "x", "v", "r", "w"), 2, Use("Bias")),
        (node("Gather", "w", "i"), 2, Use("Embedding")),
        (node("Gather", "w", "i", axis=1), 2, Use()),
        (node("BatchNormalization", "x", "w", "b", "m", "v"), 1, Use("Scale")),
        (node("BatchNormalization", "x", "s", "b", "m", "w"), 1, Use("Buffer")),
        (node("Conv", "x", "v", "w"), 1, Use("Bias")),
        (node("Add", "x", "w"), 2, Use()),
        (
            node("QLinearConv", "x", "a", "b", "w", "s", "z", "c", "d"),
            4,
            Use("Conv2d", False, Quantisation("s", "z", 0)),
        ),
    ],
)
def test_what_a_node_says_of_its_weight(made, dimensions, use):
    assert uses([made], {"w": dimensions}) == {"w": use}


def test_a_weight_is_followed_through_nodes_that_hand_it_on():
    nodes = [
        node("DequantizeLinear", "w", "s", "z", output="a", axis=0),
        node("Identity", "a", output="b"),
        node("Transpose", "b", output="c", perm=[1, 0]),
        node("MatMul", "x", "c"),
    ]
    assert uses(nodes, {"w": 2}) == {"w": Use("Linear", False, Quantisation("s", "z", 0))}


def test_a_tied_weight_is_what_it_is_first_used_for():
    nodes = [node("Gather", "w", "i"), node("Transpose", "w", output="t"), node("MatMul", "x", "t")]
    assert uses(nodes, {"w": 2})["w"].kind == "Embedding"


def test_a_ring_of_nodes_ends():
    nodes = [node("Identity", "w", output="a"), node("Identity", "a", output="b"), node("Identity", "b", output="a")]
    assert uses(nodes, {"w": 2}) == {"w": Use()}


def test_nodes_of_branches_are_found():
    inner = helper.make_graph([node("Relu", "x")], "inner", [], [])
    outer = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)], "o", [], [])
    assert sorted(found.op_type for found in nodes_of(outer)) == ["If", "Relu", "Relu"]


def test_an_attribute_has_a_default():
    assert attribute(node("Gemm", "x", "w", transB=1), "transB", 0) == 1
    assert attribute(node("Gemm", "x", "w"), "transB", 7) == 7
