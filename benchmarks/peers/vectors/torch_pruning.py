"""A small VGG with fixed weights after Torch-Pruning has removed fixed channels and hidden units."""

from __future__ import annotations

from typing import Any

import torch
import torch_pruning
from torch import nn

from benchmarks.peers.inputs import codes, packed, weights

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("numpy", "torch", "torch-pruning")

REMOVED = {"0": [1, 4], "3": [0, 2, 7], "7": [3, 5, 6, 9]}


def vectors() -> dict[str, Any]:
    """Parameters, their shapes, the logits and the operations of the network before and after."""
    network = _network()
    image = torch.from_numpy(weights(2, 3, 8, 8, salt=41))
    before = _facts(network, image)
    graph = torch_pruning.DependencyGraph().build_dependency(network, example_inputs=image)
    for name, indices in REMOVED.items():
        layer = network.get_submodule(name)
        prune = (
            torch_pruning.prune_conv_out_channels
            if isinstance(layer, nn.Conv2d)
            else torch_pruning.prune_linear_out_channels
        )
        graph.get_pruning_group(layer, prune, idxs=indices).prune()
    return {
        "after": _facts(network, image),
        "before": before,
        "image": packed(codes(2, 3, 8, 8, salt=41)),
        "layers": {name: packed(codes(*shape, salt=salt)) for name, (shape, salt) in _PARAMETERS.items()},
        "network": "conv 3×3 padding 1, ReLU, average pool 2, conv 3×3 padding 1, ReLU, average pool 2, flatten, "
        "linear, ReLU, linear; weights are codes/64 divided by the square root of the fan in",
        "removed": REMOVED,
    }


_PARAMETERS = {
    "0.weight": ((6, 3, 3, 3), 42),
    "0.bias": ((6,), 43),
    "3.weight": ((8, 6, 3, 3), 44),
    "3.bias": ((8,), 45),
    "7.weight": ((12, 32), 46),
    "7.bias": ((12,), 47),
    "9.weight": ((5, 12), 48),
    "9.bias": ((5,), 49),
}


def _network() -> nn.Sequential:
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 12),
        nn.ReLU(),
        nn.Linear(12, 5),
    ).double()
    with torch.no_grad():
        for name, (shape, salt) in _PARAMETERS.items():
            value = torch.from_numpy(weights(*shape, salt=salt))
            network.get_parameter(name).copy_(value / value[0].numel() ** 0.5)
    return network


def _facts(network: nn.Module, image: torch.Tensor) -> dict[str, Any]:
    operations, parameters = torch_pruning.utils.count_ops_and_params(network, image[:1])
    with torch.no_grad():
        logits = network(image)
    return {
        "logits": logits.tolist(),
        "macs": int(operations),
        "parameters": int(parameters),
        "shapes": {name: list(value.shape) for name, value in network.named_parameters()},
    }
