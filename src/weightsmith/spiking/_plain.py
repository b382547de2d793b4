"""The nodes of a spiking network computed without time: neurons as ReLU, and what lies between populations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Synapses

__all__ = ["linear", "plain_scores"]


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


def linear(node: Synapses | Pool | Flatten | Scale | Add, values: Mapping[str, Tensor]) -> Tensor:
    """What a node between populations gives for the ``values`` (rows, …) of those it reads."""
    entering = values[node.sources[0]]
    match node:
        case Synapses() if node.dense:
            return functional.linear(entering, node.weight, node.bias)
        case Synapses():
            return functional.conv2d(
                entering, node.weight, node.bias, node.stride, node.padding, node.dilation, node.groups
            )
        case Pool():
            return functional.avg_pool2d(entering, node.kernel, node.stride, node.padding)
        case Flatten():
            return entering.flatten(1)
        case Scale():
            return entering * node.factor.reshape(-1, *[1] * (entering.dim() - 2))
        case Add():
            return torch.stack([values[name] for name in node.sources]).sum(dim=0)
