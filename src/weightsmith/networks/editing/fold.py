"""Fold batch norm into the preceding layer.

At test time batch norm is the affine map y = γ (z − μ̄)/σ̄ + β of the layer's output z = W x + b, so

    W ← (γ/σ̄) W        b ← (b − μ̄) γ/σ̄ + β        σ̄ = sqrt(running variance + ε)

per output channel. Grading uses the folded copy (batch norm undoes any scaling of the weights before it, so their scale
is meaningless); spiking converts it. torch.fx finds the data flow, so any traceable module works.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, fx, nn

from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.editing.tracing import trace

__all__ = ["Folded", "fold_batch_norm", "norm_factor"]

_Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclasses.dataclass(frozen=True)
class Folded:
    """The folded copy, which batch norms went into which layers, and which had to stay (with the reason)."""

    network: fx.GraphModule
    folded: dict[str, str]
    kept: dict[str, str]


def fold_batch_norm(network: nn.Module, example: Tensor | None = None) -> Folded:
    """A folded copy of ``network`` in ``eval`` mode, its card attached; the network itself is not changed.

    ``example`` is a batch of inputs, for modules that cannot be traced without one (:func:`trace`). Dense layers before
    a batch norm are assumed to take rows (n, features).
    """
    graph = trace(network, example)
    modules = dict(graph.named_modules())
    folded: dict[str, str] = {}
    kept: dict[str, str] = {}
    for node in list(graph.graph.nodes):
        if node.target is nn.functional.batch_norm:
            kept[node.name] = "is a function, not a module"
        norm = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(norm, nn.modules.batchnorm._BatchNorm):
            continue
        reason = _obstacle(node, modules, norm)
        if reason is not None:
            kept[str(node.target)] = reason
            continue
        before = _input_of(node)
        _absorb(modules[before.target], norm)
        folded[str(node.target)] = str(before.target)
        node.replace_all_uses_with(before)
        graph.graph.erase_node(node)
    graph.delete_all_unused_submodules()
    graph.recompile()
    with_card(graph, card_of(network))
    return Folded(graph, folded, kept)


def _obstacle(node: fx.Node, modules: dict[str, nn.Module], norm: Any) -> str | None:
    """Why this batch norm cannot be folded, or None."""
    before = _input_of(node)
    layer = modules.get(str(before.target)) if before.op == "call_module" else None
    if not isinstance(layer, _Layer):
        return "does not follow a dense layer or convolution"
    if len(before.users) > 1:
        return f"the output of {before.target} is also used elsewhere"
    if norm.running_mean is None:
        return "keeps no running statistics"
    if norm.num_features != layer.weight.shape[0]:
        return f"does not act on the outputs of {before.target}"
    for name in (node.target, before.target):
        if sum(other.op == "call_module" and other.target == name for other in node.graph.nodes) > 1:
            return f"{name} is used more than once"
    if any(other.op == "get_attr" and str(other.target).startswith(f"{before.target}.") for other in node.graph.nodes):
        return f"the weight of {before.target} is also used elsewhere"
    return None


def _input_of(node: fx.Node) -> Any:
    return node.args[0] if node.args else node.kwargs["input"]


def norm_factor(norm: Any, dtype: torch.dtype | None = None) -> Tensor:
    """γ/√(σ² + ε): the factor by which a batch norm multiplies each channel; ``dtype`` is that of its statistics."""
    scale = torch.rsqrt(norm.running_var.to(dtype) + norm.eps)
    return scale * norm.weight.to(dtype) if norm.affine else scale


@torch.no_grad()
def _absorb(layer: Any, norm: Any) -> None:
    scale = norm_factor(norm)
    shift = norm.bias if norm.affine else torch.zeros_like(scale)
    bias = layer.bias if layer.bias is not None else torch.zeros_like(norm.running_mean)
    weight = layer.weight * scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
    layer.weight = nn.Parameter(weight)
    layer.bias = nn.Parameter((bias - norm.running_mean) * scale + shift)
