"""Take concatenations of channels out of a traced network, without changing its function.

Readers of joined signals read each signal instead: activations, pools and flattening act channel by channel, so that
f(cat(a, b)) = cat(f(a), f(b)); weights are split by input channels, W·cat(a, b) = W₁·a + W₂·b. In this way spikes stay
spikes, and every connection is counted once. Where neither applies, the join becomes a sum of signals padded with zero
channels.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion._flow import Flow, flow_of
from weightsmith.spiking.conversion._kinds import called, kind_of

__all__ = ["without_joins"]

_BY_CHANNEL = frozenset({"relu", "average", "adaptive", "largest", "mean", "multiply", "divide", "dropout"})


def without_joins(network: fx.GraphModule, example: Tensor) -> None:
    """Rewrite the graph of ``network`` in place; a join along another dimension than channels is refused."""
    modules = dict(network.named_modules())
    joins = [node for node in network.graph.nodes if kind_of(node, modules) == "join"]
    if joins:
        rewriter = _Rewriter(network, flow_of(network, example))
        while joins:
            joins += rewriter.spread(joins.pop(0))
        network.graph.eliminate_dead_code()
        network.recompile()


class _Rewriter:
    def __init__(self, network: fx.GraphModule, flow: Flow) -> None:
        self._network, self._graph, self._plain = network, network.graph, flow.values
        self._shapes = dict(flow.shapes)
        self._space = 1 if flow.sequences else 2  # dimensions of an image
        self._modules = dict(flow.modules)

    def spread(self, join: fx.Node) -> list[fx.Node]:
        """Let every reader of ``join`` read its parts; returns the new joins that this creates."""
        parts = self._parts(join)
        made, total = [], None
        for user in [user for user in join.users if user not in self._plain]:
            kind = kind_of(user, self._modules)
            if kind == "join":
                listed = [part for each in _listed(user) for part in (parts if each is join else [each])]
                user.args = (listed, *user.args[1:])
                user.kwargs = {name: value for name, value in user.kwargs.items() if name != "tensors"}
            elif kind in _BY_CHANNEL or (kind == "flatten" and len(self._shapes[user]) == 1):
                made.append(self._each(user, join, parts, flat=kind == "flatten"))
            elif kind in ("dense", "convolution"):
                self._split(user, parts)
            else:
                total = self._sum(join, parts) if total is None else total
                user.replace_input_with(join, total)
        return made

    def _parts(self, join: fx.Node) -> list[fx.Node]:
        parts, shape = _listed(join), self._shapes[join]
        axis = join.args[1] if len(join.args) > 1 else join.kwargs.get("dim", 0)
        known = all(isinstance(part, fx.Node) and part in self._shapes for part in parts)
        if (
            not known
            or not isinstance(axis, int)
            or axis not in (1, -len(shape) if len(shape) == 1 else -1 - self._space)
        ):
            raise UsageError(
                f"{called(join, self._modules)} cannot be made spiking: only signals joined along channels "
                f"(dim=1) convert, not along {axis}"
            )
        return parts

    def _each(self, user: fx.Node, join: fx.Node, parts: Sequence[fx.Node], *, flat: bool) -> fx.Node:
        """``user`` on every part, and a join of the results in its place."""
        whole, after = self._shapes[join], self._shapes[user]
        pieces = []
        with self._graph.inserting_before(user):
            for part in parts:
                if flat:
                    piece = self._graph.call_function(torch.flatten, (part, 1))
                else:
                    piece = self._graph.node_copy(user, functools.partial(_swapped, join, part))
                channels = self._shapes[part][0]
                self._shapes[piece] = (channels, *after[1:]) if len(after) > 1 else (channels * after[0] // whole[0],)
                pieces.append(piece)
            joined = self._graph.call_function(torch.cat, (pieces, 1))
        self._replace(user, joined)
        return joined

    def _split(self, user: fx.Node, parts: Sequence[fx.Node]) -> None:
        """A layer with weights as the sum of one layer for each part; the bias goes with the first."""
        module: Any = self._modules[str(user.target)]
        if getattr(module, "groups", 1) != 1:
            raise UsageError(
                f"{called(user, self._modules)} cannot be made spiking: it has groups and reads joined signals; join "
                "them after this layer"
            )
        begin, total = 0, None
        with self._graph.inserting_before(user):
            for number, part in enumerate(parts):
                end = begin + self._shapes[part][0]
                own = copy.deepcopy(module)
                own.weight = nn.Parameter(module.weight.detach()[:, begin:end].clone(), requires_grad=False)
                own.bias = module.bias if number == 0 else None
                name = f"{user.target}_{number}"
                while name in self._modules:
                    name += "_"
                self._network.add_submodule(name, own)
                self._modules[name] = own
                layer = self._graph.call_module(name, (part,))
                total = layer if total is None else self._graph.call_function(operator.add, (total, layer))
                begin = end
        assert total is not None
        self._replace(user, total)

    def _sum(self, join: fx.Node, parts: Sequence[fx.Node]) -> fx.Node:
        """The join as a sum of its parts, each padded with zero channels."""
        shape = self._shapes[join]
        if len(shape) != 3:
            raise UsageError(
                f"{called(join, self._modules)} cannot be made spiking: joined features must be read by a dense layer"
            )
        front, total, last = 0, None, join
        for part in parts:
            channels = self._shapes[part][0]
            margins = (*(0, 0) * self._space, front, shape[0] - front - channels)
            with self._graph.inserting_after(last):
                last = self._graph.call_function(functional.pad, (part, margins))
            if total is not None:
                with self._graph.inserting_after(last):
                    last = self._graph.call_function(operator.add, (total, last))
            total = last
            front += channels
        assert total is not None
        self._shapes[total] = shape
        return total

    def _replace(self, old: fx.Node, new: fx.Node) -> None:
        self._shapes[new] = self._shapes[old]
        old.replace_all_uses_with(new)
        self._graph.erase_node(old)


def _swapped(old: fx.Node, new: fx.Node, node: fx.Node) -> fx.Node:
    return new if node is old else node


def _listed(join: fx.Node) -> list[Any]:
    given: Any = join.args[0] if join.args else join.kwargs["tensors"]
    return list(given)
