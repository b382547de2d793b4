"""A spiking network computed without time: neurons as ReLU, gates as max pooling."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor
from torch.nn import functional

from weightsmith.spiking.graph import INPUT, Gate, Neurons, Node
from weightsmith.spiking.stepping import linear

__all__ = ["plain_scores"]


def plain_scores(nodes: Iterable[Node], x: Tensor) -> Tensor:
    """What the last node gives if neurons compute ReLU and gates the largest value of each window."""
    values = {INPUT: x}
    result = x
    for node in nodes:
        match node:
            case Neurons():
                result = values[node.source].relu()
            case Gate():
                result = functional.max_pool2d(values[node.source], node.kernel, node.stride, node.padding)
            case _:
                result = linear(node, values)
        values[node.name] = result
    return result
