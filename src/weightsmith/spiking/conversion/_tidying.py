"""Simplify the data flow of a network before conversion without changing its function.

1. Batch norm is folded into the layer before it.
2. What does nothing at test time (dropout, identities) is taken out.
3. In-place operations become out-of-place ones; later readers of the overwritten value read the result.
4. A ReLU after a max pooling moves before it, max(0, max x) = max(max(0, x)): spikes can be pooled, currents cannot.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.networks.models.dropout import Dropout
from weightsmith.spiking.conversion._kinds import called, kind_of, module_of

__all__ = ["tidied"]

_PLAIN: dict[Any, Any] = {
    torch.relu_: torch.relu,
    operator.iadd: operator.add,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
}


def tidied(network: nn.Module) -> fx.GraphModule:
    """A simplified copy of ``network`` in ``eval`` mode; a batch norm that cannot be folded is refused by name."""
    folded = fold_batch_norm(network)
    modules = dict(folded.network.named_modules())
    for name, reason in folded.kept.items():
        kind = type(modules[name]).__name__ if name in modules else "batch_norm"
        raise UsageError(
            f"{name} ({kind}) cannot be folded: {reason}; it must stand right after a dense layer or convolution"
        )
    graph = folded.network.graph
    _without_idle(graph, modules)
    _out_of_place(graph, modules)
    _without(graph, [node for node in graph.nodes if kind_of(node, modules) == "copy"])
    graph.eliminate_dead_code()
    _relu_first(graph, modules)
    folded.network.delete_all_unused_submodules()
    folded.network.recompile()
    return folded.network


def _without_idle(graph: fx.Graph, modules: dict[str, nn.Module]) -> None:
    idle = []
    for node in graph.nodes:
        kind, module = kind_of(node, modules), module_of(node, modules)
        if kind == "chance" and node.kwargs.get("training", True):
            raise UsageError(
                f"{called(node, modules)} drops at test time too; write training=self.training, or use nn.Dropout"
            )
        scales = isinstance(module, Dropout) and module.kind == "after" and module.rate
        if kind in ("idle", "chance") or (kind == "dropout" and not scales):
            idle.append(node)
    _without(graph, idle)


def _without(graph: fx.Graph, idle: list[fx.Node]) -> None:
    for node in idle:
        node.replace_all_uses_with(node.all_input_nodes[0])
        graph.erase_node(node)


def _out_of_place(graph: fx.Graph, modules: dict[str, nn.Module]) -> None:
    order = {node: index for index, node in enumerate(graph.nodes)}
    # All of them before any is changed: several nodes may call one module.
    for node in [node for node in graph.nodes if kind_of(node, modules) and _is_in_place(node, modules)]:
        overwritten = node.all_input_nodes[0]
        for reader in list(overwritten.users):
            if order[reader] > order[node]:
                reader.replace_input_with(overwritten, node)
        _make_plain(node, modules)


def _is_in_place(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_")
    module = module_of(node, modules)
    return node.target in _PLAIN or bool(node.kwargs.get("inplace") or getattr(module, "inplace", False))


def _make_plain(node: fx.Node, modules: dict[str, nn.Module]) -> None:
    module: Any = module_of(node, modules)
    if module is not None:
        module.inplace = False
    elif node.op == "call_method":
        node.target = str(node.target).removesuffix("_")
    elif node.target in _PLAIN:
        node.target = _PLAIN[node.target]
    else:
        node.kwargs = {**node.kwargs, "inplace": False}


def _relu_first(graph: fx.Graph, modules: dict[str, nn.Module]) -> None:
    for pool in reversed(list(graph.nodes)):  # backwards, so that it passes several pools
        relu = next(iter(pool.users), None)
        if kind_of(pool, modules) != "largest" or relu is None or len(pool.users) > 1:
            continue
        if kind_of(relu, modules) == "relu":
            relu.replace_all_uses_with(pool)
            relu.replace_input_with(pool, pool.all_input_nodes[0])
            pool.replace_input_with(pool.all_input_nodes[0], relu)
            pool.prepend(relu)
