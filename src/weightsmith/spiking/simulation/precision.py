"""The float type of each node: the requested one, or, for integers, the smallest that is exact.

Integers are exact in float32 up to 2²⁴, and halves, at which membranes may start, up to 2²³. A current is at most Σ|w|
times the largest input or the number of spikes in one window of a pool; a membrane at most that times the steps, plus
the bias. Values that may exceed this, that leak, that are not integers, or that receive constant currents which are not
whole numbers are held in float64.

Graded spikes are multiples of 1/2^(K−1), so that for them all bounds are divided by 2^(K−1). With p = 2^(K−1)·z such a
neuron compares p/θ − m with n + ½ for integers n: unless the two are equal, they are at least 1/2θ apart, while p/θ
is rounded by at most p/θ·2⁻²⁴, which is less as p < 2²³. So the division decides every comparison as integers would.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightsmith.spiking.conversion.quantise import floating_nodes
from weightsmith.spiking.encoding import WHOLE, Constant
from weightsmith.spiking.graph import INPUT, Flatten, Gate, Neurons, Pool, Synapses
from weightsmith.spiking.network import Precision, SpikingNetwork

__all__ = ["kinds_of"]

_EXACT = 2**24
_ROWS = 16  # of weights checked together


def kinds_of(network: SpikingNetwork, precision: Precision, steps: int) -> dict[str, type[Any]]:
    """NumPy's float32 or float64 for the input and every node."""
    names = (INPUT, *(node.name for node in network.nodes))
    if precision != "int8":
        return dict.fromkeys(names, np.float64 if precision == "float64" else np.float32)
    kinds: dict[str, type[Any]] = {INPUT: np.float64}
    broken = floating_nodes(network)  # currents that are not integers
    reach = _reach(network)
    leaks, grain = network.neuron.leak != 1, network.neuron.largest
    for node in network.nodes:
        if isinstance(node, Neurons):
            longest = reach[node.source] * (steps + 1) + float(node.threshold.max())
            halves = _is_whole(node.threshold) and _is_whole(2 * node.start * node.threshold)
            fits = (
                not leaks
                and node.leak is None
                and grain * longest < _EXACT / 2
                and halves
                and node.source not in broken
            )
        else:
            if not _is_whole(getattr(node, "bias", None)) or not _is_whole(getattr(node, "factor", None)):
                broken.add(node.name)
            if broken & set(node.sources):
                broken.add(node.name)
            fits = grain * reach[node.name] < _EXACT and node.name not in broken
        kinds[node.name] = np.float32 if fits else np.float64
    kinds[network.nodes[-1].name] = np.float64
    return kinds


def _is_whole(values: Tensor | None) -> bool:
    return values is None or torch.equal(values, values.round())


def _reach(network: SpikingNetwork) -> dict[str, float]:
    """The largest output of each node in one step."""
    reach: dict[str, float] = {INPUT: WHOLE if isinstance(network.encode, Constant) else 1.0}
    for node in network.nodes:
        before = sum(reach[name] for name in node.sources)
        match node:
            case Neurons():
                reach[node.name] = 1.0
            case Synapses():
                bias = 0.0 if node.bias is None else float(node.bias.abs().max())
                reach[node.name] = (
                    before
                    * max(
                        float(part.double().abs().flatten(1).sum(dim=1).max())
                        for part in torch.split(node.weight, _ROWS)
                    )
                    + bias
                )
            case Pool():
                reach[node.name] = before if node.average else before * math.prod(node.kernel)
            case Flatten() | Gate():  # a largest sum changes by at most the largest value
                reach[node.name] = before
            case _:
                factor = getattr(node, "factor", None)
                reach[node.name] = before if factor is None else before * float(factor.abs().max())
    return reach
