"""A network as a chain of blocks, and its lower part up to a given block.

A network can be cut where a single tensor is passed on: after each dense layer or convolution of a plain network, but
only between the blocks of a residual one, because inside a block the shortcut is needed as well. torch.fx finds these
cut points in the data flow, for any architecture:

>>> from weightsmith.networks.models.resnet import resnet
>>> chain = Chain(resnet(20))
>>> len(chain.blocks), chain.blocks[0].layers, chain.blocks[-1].layers
(11, ('conv1', 'bn1'), ('fc',))
>>> chain.blocks[4].layers
('layer2.0.conv1', 'layer2.0.bn1', 'layer2.0.conv2', 'layer2.0.bn2')

Operations without weights (activation, pooling, dropout, flattening) belong to the block of the layer before them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.tracing import trace

__all__ = ["Block", "Chain", "without_last_dense"]


@dataclass(frozen=True)
class Block:
    """A part of a network that is kept or cut off as one; ``layers`` are its layers with parameters or buffers."""

    layers: tuple[str, ...]

    def under(self, part: str) -> Block:
        """The same block, renamed for a network that became the submodule ``part`` of another."""
        return Block(tuple(f"{part}.{layer}" for layer in self.layers))


class Chain:
    """The blocks of a network from its input to its output; the last one gives the output."""

    blocks: tuple[Block, ...]

    def __init__(self, network: nn.Module, example: Tensor | None = None) -> None:
        self._whole = trace(network, example)
        inputs = [node.name for node in self._whole.graph.nodes if node.op == "placeholder"]
        if len(inputs) != 1:
            raise UsageError(f"{type(network).__name__} takes {len(inputs)} inputs ({', '.join(inputs)}), not one")
        self._ends = list(_ends(self._whole))
        found, start = [], 0
        nodes = list(self._whole.graph.nodes)
        for end in self._ends:
            stop = nodes.index(end) + 1
            found.append(Block(tuple(_holders(self._whole, nodes[start:stop]))))
            start = stop
        self.blocks = tuple(found)

    def lower(self, count: int) -> nn.Module:
        """The first ``count`` blocks, with the names their layers have in the whole network.

        Dropout or batch norm called as functions stay in evaluation mode; as layers they follow the mode.
        """
        if not 1 <= count < len(self.blocks):
            raise UsageError(f"cannot keep {count} blocks: the network can be cut after {self._cuts()}")
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        for node in self._whole.graph.nodes:
            copies[node] = graph.node_copy(node, lambda old: copies[old])
            if node is self._ends[count - 1]:
                graph.output(copies[node])
                break
        return fx.GraphModule(self._whole, graph)

    def _cuts(self) -> str:
        last = len(self.blocks) - 1
        return "none of its layers" if last < 1 else "its first block" if last == 1 else f"blocks 1 to {last}"


def without_last_dense(network: nn.Module, example: Tensor) -> tuple[nn.Module, tuple[Block, ...]]:
    """A copy of ``network`` without its last dense layer, and the remaining layers with weights.

    For networks whose data flow cannot be traced. Blocks are in the order of definition, one per layer with weights;
    the dense layer must compute the output, which is checked on ``example``.
    """
    copied = copy.deepcopy(network).eval()
    name, last = next(
        ((name, module) for name, module in reversed([*copied.named_modules()]) if isinstance(module, nn.Linear)),
        ("", None),
    )
    if last is None or not name:
        raise UsageError(f"{type(network).__name__} has no dense layer that could be cut off")
    given: list[Tensor] = []
    hook = last.register_forward_hook(lambda _module, _inputs, output: given.append(output))
    with torch.no_grad():
        answer = copied(example)
    hook.remove()
    if len(given) != 1 or not isinstance(answer, Tensor) or not torch.equal(answer, given[0]):
        raise UsageError(
            f"{type(network).__name__}: its data flow cannot be traced, so only its last dense layer ({name}) could be "
            "cut off, but that layer does not give the output"
        )
    parent, _, own = name.rpartition(".")
    setattr(copied.get_submodule(parent), own, nn.Identity())
    blocks: list[list[str]] = []
    for layer, module in copied.named_modules():
        if any(True for own in (module.parameters, module.buffers) for _ in own(recurse=False)):
            if _has_weights(module) or not blocks:
                blocks.append([])
            blocks[-1].append(layer)
    return copied, tuple(Block(tuple(layers)) for layers in blocks)


def _ends(whole: fx.GraphModule) -> Iterator[fx.Node]:
    """The last node of each block: only one value is passed on, and a layer with weights comes next."""
    nodes = [node for node in whole.graph.nodes if node.op != "output"]
    index = {node: number for number, node in enumerate(nodes)}
    last_use = {
        node: max((index.get(user, len(nodes)) for user in node.users), default=-1)
        for node in nodes
        if node.op != "get_attr"  # a constant, available everywhere
    }
    candidate: fx.Node | None = None
    passing: set[fx.Node] = set()
    weighed = False  # whether the block so far has a layer with weights
    for number, node in enumerate(nodes):
        if _is_weighted(whole, node):
            if candidate is not None:
                yield candidate
                candidate, weighed = None, False
            weighed = True
        passing = {value for value in (*passing, node) if last_use.get(value, -1) > number}
        if weighed and passing == {node}:
            candidate = node
    if candidate is not None:
        yield candidate


def _is_weighted(whole: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_module":
        return _has_weights(whole.get_submodule(str(node.target)))
    return node.op == "get_attr" and _parameter_dimensions(whole, str(node.target)) > 1


def _has_weights(module: nn.Module) -> bool:
    return any(parameter.dim() > 1 for parameter in module.parameters())


def _parameter_dimensions(whole: fx.GraphModule, name: str) -> int:
    parameter = dict(whole.named_parameters()).get(name)
    return 0 if parameter is None else parameter.dim()


def _holders(whole: fx.GraphModule, nodes: list[fx.Node]) -> Iterator[str]:
    """The layers among ``nodes`` that hold parameters or statistics, each once."""
    parameters = dict(whole.named_parameters())
    seen: set[str] = set()
    for node in nodes:
        name = str(node.target)
        if node.op == "call_module":
            module = whole.get_submodule(name)
            holds = any(True for own in (module.parameters, module.buffers) for _ in own())
        else:
            holds = node.op == "get_attr" and name in parameters
        if holds and name not in seen:
            seen.add(name)
            yield name
