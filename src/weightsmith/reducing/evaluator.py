"""Accuracies of masks: how often a network is right with some of its units silent.

A single hidden layer before the output is evaluated for all masks in one matrix product (:mod:`population`); any other
network is run mask by mask.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import batches_for
from weightsmith.reducing.masking import silenced
from weightsmith.reducing.population import Readout

if TYPE_CHECKING:
    from weightsmith.reducing.scene import Scene

__all__ = ["Evaluator", "Masks", "evaluator_of"]

Masks = NDArray[np.bool_]
Evaluator = Callable[[Masks], NDArray[np.float64]]


def evaluator_of(scene: Scene, x: Tensor, y: Tensor) -> Evaluator:
    """A function from masks (one per row) to accuracies in percent on inputs ``x`` with labels ``y``."""
    last = _last_layer(scene, x)
    if last is not None:
        return Readout(*last, y.numpy())
    batches = [
        inputs.to(scene.device) for _, inputs in batches_for(card_of(scene.network), x, scene.batch, scene.dtype)
    ]
    return functools.partial(_one_by_one, scene, batches, y)


@torch.no_grad()
def _last_layer(scene: Scene, x: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None:
    """Hidden values, weights and biases, if one dense layer turns the units into the output and nothing follows."""
    if len(scene.sites) != 1 or len(scene.sites[0].readers) != 1:
        return None
    (port,) = scene.sites[0].readers
    reader = scene.network.get_submodule(port.layer)
    if not isinstance(reader, nn.Linear) or port.indices.shape[1] != 1 or reader.in_features != len(port.indices):
        return None
    exact = torch.float64 if scene.dtype == torch.float64 else torch.float32
    weight = reader.weight.detach().cpu().to(exact)[:, torch.from_numpy(port.indices[:, 0])]
    given: Tensor | None = reader.bias
    bias = weight.new_zeros(len(weight)) if given is None else given.detach().cpu().to(exact)
    hidden: list[NDArray[np.float32]] = []
    with scene.listening(lambda _site, rows: hidden.append(rows)) as seen:
        for _, inputs in batches_for(card_of(scene.network), x, scene.batch, scene.dtype):
            seen.clear()
            outputs = scene.network(inputs.to(scene.device)).cpu()
            expected = nn.functional.linear(torch.from_numpy(hidden[-1]), weight, bias)
            if expected.shape != outputs.shape or not torch.allclose(expected, outputs.to(exact)):
                return None
    return np.concatenate(hidden), weight.numpy(), bias.numpy()


@torch.no_grad()
def _one_by_one(scene: Scene, batches: Sequence[Tensor], y: Tensor, masks: Masks) -> NDArray[np.float64]:
    found = np.empty(len(masks))
    for place, mask in enumerate(masks):
        with silenced(scene.network, scene.sites, scene.split(mask)):
            called = torch.cat([scene.network(inputs).argmax(dim=1).cpu() for inputs in batches])
        found[place] = 100 * float((called == y).sum()) / len(y)
    return found
