"""Device mismatch: on analog hardware no two neurons have quite the same threshold and leak.

With σ the spread asked for and z a normal number drawn for each neuron,

    threshold ← threshold · exp(σ_threshold · z)        leak ← 1 − (1 − leak) · exp(σ_leak · z')

so that the median neuron is as it should be. The same seed draws the same z for every spread: networks of different
spreads are the same devices, made more or less carefully.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.seeds import stream
from weightsmith.spiking.graph import Neurons, Shape
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Mismatch

__all__ = ["with_mismatch"]

_LEAST_LEAK = float(np.finfo(np.float32).eps)  # a membrane that forgets everything within a step


def with_mismatch(network: SpikingNetwork, mismatch: Mismatch, seed: int) -> SpikingNetwork:
    """The network with a threshold and a leak of its own for every neuron.

    A leak that would fall to zero or below is set to the least positive one; neurons that do not leak still do not.
    """
    if mismatch.threshold == 0 and mismatch.leak == 0:
        return network
    return network.replaced(
        _varied(node, network.shapes[node.name], network.neuron.leak, mismatch, seed) for node in network.populations
    )


def _varied(node: Neurons, shape: Shape, common_leak: float, mismatch: Mismatch, seed: int) -> Neurons:
    generator = stream(seed, "mismatch", node.name)
    thresholds, leaks = generator.standard_normal(shape), generator.standard_normal(shape)
    threshold, leak = node.threshold, node.leak
    if mismatch.threshold:
        threshold = _as(node.threshold, _spread(node.threshold, shape) * np.exp(mismatch.threshold * thresholds))
    given = np.full(shape, common_leak) if leak is None else _spread(leak, shape)
    if mismatch.leak and not (given == 1).all():
        drawn = 1 - (1 - given) * np.exp(mismatch.leak * leaks)
        leak = _as(node.threshold, np.clip(drawn, _LEAST_LEAK, 1))
    return dataclasses.replace(node, threshold=threshold, leak=leak)


def _spread(values: Tensor, shape: Shape) -> NDArray[np.float64]:
    """Values per channel or per unit as values per unit."""
    array = values.detach().double().numpy()
    return np.broadcast_to(array.reshape(*array.shape, *[1] * (len(shape) - array.ndim)), shape)


def _as(like: Tensor, values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values).to(like.dtype)
