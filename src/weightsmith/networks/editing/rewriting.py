"""Write matrices back into a copy of a network.

>>> from torch import nn
>>> network = nn.Linear(3, 2, bias=False)
>>> rewritten(network, lambda layer: layer.matrices * 0).network.weight.abs().sum().item()
0.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from weightsmith.networks.editing.copying import copied
from weightsmith.networks.layers.pending import PendingLayer
from weightsmith.networks.layers.walk import LayerWeights, Walk, find_layers, opened
from weightsmith.networks.weights import LeftOut, Weights

__all__ = ["Rewritten", "rewritten"]

_PARTS = (".q", ".k", ".v")


@dataclass(frozen=True)
class Rewritten:
    """The new network (a module, or tensors by name); ``kept`` are layers that cannot be written, with the reason."""

    network: nn.Module | dict[str, Tensor]
    kept: dict[str, str] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()


def rewritten(
    network: object, change: Callable[[LayerWeights], Tensor | None], *, layers: str | None = None
) -> Rewritten:
    """A copy of ``network`` whose layers have the matrices that ``change`` returns; None leaves a layer unchanged.

    A module gives a module, everything else the tensors by name, in the types they are stored in. ``network`` is not
    changed. Weights that are computed from other tensors (weight norm, the products of an adapter) cannot be written
    and stay unchanged, as do tensors that are not layers.
    """
    source = opened(network)
    target: nn.Module | dict[str, Tensor]
    if isinstance(source, nn.Module):
        target = copied(source)
        tensors: dict[str, Tensor] = dict(target.named_parameters(remove_duplicate=False))
        findings = find_layers(target, layers=layers)
    else:
        target = tensors = _tensors(source)
        findings = find_layers(source, layers=layers)
    walked = Walk(findings.plans, findings.left_out)
    kept: dict[str, str] = {}
    with torch.no_grad():
        for index, plan in enumerate(findings.plans):
            weight = _stored_weight(plan, tensors)
            if weight is None:
                kept[plan.name] = "is computed from other tensors, which a new weight cannot be written to"
                continue
            matrices = change(walked.read(index))
            if matrices is not None:
                weight.copy_(_unstacked(plan, matrices))
    return Rewritten(target, kept, tuple(findings.left_out))


def _tensors(weights: Weights) -> dict[str, Tensor]:
    """A copy of every entry in its stored type; tied names share one tensor."""
    values: dict[str, Tensor] = {}
    for name in weights.entries:
        first = weights.aliases.get(name)
        values[name] = values[first] if first in values else weights.tensor_as_stored(name).clone()
    return values


def _stored_weight(plan: PendingLayer, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """The stored weight of a layer: a tensor, or its rows of a joint projection."""
    name = plan.name.removesuffix(plan.part) if plan.part else plan.name
    stored = tensors.get(f"{name}.weight", tensors.get(name))
    if stored is None:
        return None
    if plan.part:
        rows = plan.shape[0]
        stored = stored.narrow(0, _PARTS.index(plan.part) * rows, rows)
    return stored if tuple(stored.shape) == plan.shape else None


def _unstacked(plan: PendingLayer, matrices: Tensor) -> Tensor:
    """The inverse of ``Form.stack``: stacking the flat indices gives the source of each value."""
    indices = plan.form.stack(torch.arange(math.prod(plan.shape), device=matrices.device).reshape(plan.shape))
    flat = matrices.new_empty(indices.numel())
    flat[indices.reshape(-1)] = matrices.reshape(-1)
    return flat.reshape(plan.shape)
