"""The use of each tensor of an ONNX graph: kind, orientation and scale, from the nodes it feeds.

A weight is followed through nodes that only pass it on (Identity, Cast, Transpose, QuantizeLinear,
DequantizeLinear). MatMul stores its weight in × out, Gemm as given by ``transB``; both become out × in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weightsmith.networks.layers.forms import Form

__all__ = ["Quantisation", "Use", "attribute", "nodes_of", "uses"]

_HANDED_ON = ("Identity", "Cast", "QuantizeLinear", "Dropout")
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_SMALL_PARTS = {
    "Conv": {2: "Bias"},
    "ConvTranspose": {2: "Bias"},
    "Gemm": {2: "Bias"},
    "LSTM": {3: "Bias", 5: "Buffer", 6: "Buffer", 7: "Scale"},
    "GRU": {3: "Bias", 5: "Buffer"},
    "RNN": {3: "Bias", 5: "Buffer"},
    "BatchNormalization": {1: "Scale", 2: "Bias", 3: "Buffer", 4: "Buffer"},
    "LayerNormalization": {1: "Scale", 2: "Bias"},
    "InstanceNormalization": {1: "Scale", 2: "Bias"},
    "GroupNormalization": {1: "Scale", 2: "Bias"},
}
# Operators on integers have weight, scale and zero point as inputs 3, 4, 5: the float operator, and the axis of scales.
_INTEGER = {"QLinearConv": ("Conv", 0), "QLinearMatMul": ("MatMul", 1)}


@dataclass(frozen=True)
class Quantisation:
    """Names of the scale and zero point of integer values, and the axis they run along."""

    scale: str
    zero_point: str | None
    axis: int
    block: int = 0

    @property
    def parts(self) -> tuple[str, ...]:
        """The tensors needed to scale."""
        return (self.scale,) if self.zero_point is None else (self.scale, self.zero_point)


@dataclass(frozen=True)
class Use:
    """The use of a tensor: a kind (None: unknown), transposed or not, its gates' order, its scale."""

    kind: str | None = None
    turned: bool = False
    quantisation: Quantisation | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The tensors needed to scale this one, if any."""
        return () if self.quantisation is None else self.quantisation.parts


def nodes_of(graph: Any) -> Iterator[Any]:
    """All nodes, including those of branches and loop bodies."""
    todo = [graph]
    while todo:
        for node in todo.pop().node:
            yield node
            todo.extend(a.g for a in node.attribute if a.HasField("g"))
            todo.extend(inner for a in node.attribute for inner in a.graphs)


def attribute(node: Any, name: str, default: int) -> int:
    """An integer attribute of a node."""
    for item in node.attribute:
        if item.name == name:
            return int(item.i)
    return default


def uses(nodes: list[Any], dimensions: Mapping[str, int]) -> dict[str, Use]:
    """The first use of each tensor, given with its number of dimensions."""
    readers: dict[str, list[tuple[Any, int]]] = {}
    for node in nodes:
        for index, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, index))
    return {name: _use(name, count, readers) for name, count in dimensions.items()}


def _use(name: str, dimensions: int, readers: Mapping[str, list[tuple[Any, int]]]) -> Use:
    """Follow a tensor until a node uses it as a weight; each name is visited once, so this ends for any graph."""
    unused = Use()
    todo, seen = [(name, Use())], {name}
    while todo:
        current, so_far = todo.pop()
        for node, index in readers.get(current, ()):
            found = _direct(node, index, dimensions, so_far)
            if found is not None:
                return found
            passed_through = _passed_through(node, dimensions, so_far) if index == 0 and node.output else None
            if passed_through is not None and node.output[0] not in seen:
                seen.add(node.output[0])
                todo.append((node.output[0], passed_through))
                unused = replace(unused, quantisation=passed_through.quantisation or unused.quantisation)
    return unused


def _passed_through(node: Any, dimensions: int, so_far: Use) -> Use | None:
    """The use so far, updated by this node; None if the node does more than pass the tensor on."""
    if node.op_type in _HANDED_ON:
        return so_far
    if node.op_type == "Transpose" and dimensions == 2:
        order = [list(item.ints) for item in node.attribute if item.name == "perm"]
        return so_far if order == [[0, 1]] else replace(so_far, turned=not so_far.turned)
    if node.op_type == "DequantizeLinear" and len(node.input) > 1:
        zero = node.input[2] if len(node.input) > 2 and node.input[2] else None
        scale = Quantisation(node.input[1], zero, attribute(node, "axis", 1), attribute(node, "block_size", 0))
        return replace(so_far, quantisation=scale)
    return None


def _direct(node: Any, index: int, dimensions: int, so_far: Use) -> Use | None:
    """The use of the tensor by a node, None if it is not an operator with weights."""
    operator = node.op_type
    if operator in _INTEGER and index == 3 and len(node.input) > 5:
        operator, axis = _INTEGER[operator]
        so_far = replace(so_far, quantisation=Quantisation(node.input[4], node.input[5] or None, axis))
        index = 1
    if operator in ("Conv", "ConvTranspose") and index == 1 and 3 <= dimensions <= 5:
        form = Form(f"{operator}{dimensions - 2}d", groups=max(1, attribute(node, "group", 1)))
        return replace(so_far, kind=str(form))
    if operator == "Gemm" and index == 1:
        return replace(so_far, kind="Linear", turned=so_far.turned != (attribute(node, "transB", 0) == 0))
    if operator == "Gemm" and index == 0:
        return replace(so_far, kind="Linear", turned=so_far.turned != (attribute(node, "transA", 0) == 1))
    if operator == "MatMul" and dimensions == 2:
        return replace(so_far, kind="Linear", turned=so_far.turned != (index == 1))
    if operator in _GATES and index in (1, 2):
        return replace(so_far, kind=str(Form(operator, gates=_GATES[operator])))
    if operator == "Gather" and index == 0 and dimensions == 2 and attribute(node, "axis", 0) == 0:
        return replace(so_far, kind="Embedding")
    part = _SMALL_PARTS.get(operator, {}).get(index)
    return replace(so_far, kind=part) if part else None
