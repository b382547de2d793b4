"""The data flow of a traced network: shapes and plain values, from one example."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.spiking.conversion._kinds import called, module_of
from weightsmith.spiking.graph import Node, Shape

__all__ = ["Call", "Flow", "flow_of"]


@dataclasses.dataclass(frozen=True, eq=False)
class Flow:
    """For every node of ``graph`` either its output shape for one image, or its plain value (a size, a number).

    ``entry`` is the node at which the input enters, after reshapes of rows into sequences or images. With ``sequences``
    its shape is (channels, length), and every such signal is treated as an image of height 1.
    """

    graph: fx.GraphModule
    entry: fx.Node
    modules: Mapping[str, nn.Module]
    shapes: dict[fx.Node, Shape]
    values: dict[fx.Node, Any]
    sequences: bool = False

    def plain(self, value: Any) -> Any:
        """An argument with every node that has a plain value replaced by that value."""
        return fx.node.map_arg(value, lambda node: self.values.get(node, node))


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """One call in the data flow: a module, a function or a method, and the signals that it reads.

    ``signals`` maps every node so far that carries a signal to the name of the spiking node that computes it; ``made``
    has the nodes of the spiking network so far.
    """

    node: fx.Node
    flow: Flow
    name: str
    signals: Mapping[fx.Node, str]
    made: Mapping[str, Node]

    @property
    def module(self) -> Any:
        """The module that is called, if any."""
        return module_of(self.node, self.flow.modules)

    def option(self, index: int, name: str, default: Any = None) -> Any:
        """A parameter: of the module, or of the call at this index or by this name."""
        if self.module is not None:
            return getattr(self.module, name, default)
        return self.argument(index, name, default)

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """The argument of the call at this index or by this name."""
        given = self.node.args[index] if index < len(self.node.args) else self.node.kwargs.get(name, default)
        return self.flow.plain(given)

    @property
    def read(self) -> fx.Node:
        """The node whose signal it reads."""
        first = self.argument(0, "input")
        if not self.is_signal(first):
            raise self.refuse("reads values that do not come from the network's input")
        return first

    def is_signal(self, value: Any) -> TypeGuard[fx.Node]:
        """Whether an argument carries a signal from the network's input and is not a constant."""
        return isinstance(value, fx.Node) and value in self.signals

    @property
    def source(self) -> str:
        """The name of the signal it reads."""
        return self.signals[self.read]

    @property
    def entering(self) -> Node | None:
        """The node whose signal it reads; None for the input."""
        return self.made.get(self.source)

    @property
    def before(self) -> Shape:
        """The shape of the signal it reads, for one image."""
        return self.flow.shapes[self.read]

    @property
    def after(self) -> Shape:
        """Its output shape for one image."""
        return self.flow.shapes[self.node]

    def refuse(self, reason: str) -> UsageError:
        """The error that names this call and the reason."""
        return UsageError(f"{called(self.node, self.flow.modules)} cannot be made spiking: {reason}")


@torch.no_grad()
def flow_of(graph: fx.GraphModule, example: Tensor) -> Flow:
    """The shapes (without the batch dimension) and plain values for a batch of examples."""
    interpreter, entry = _Recorder(graph), _only_input(graph)
    try:
        interpreter.run(example)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise DataMismatch(f"the network cannot take inputs of shape {tuple(example.shape[1:])} ({reason})") from error
    modules, shapes = dict(graph.named_modules()), interpreter.shapes
    while len(readers := [user for user in entry.users if user in shapes]) == 1 and len(shapes[entry]) == 1:
        if not _reshapes(readers[0], modules):
            break
        entry = readers[0]
    sequences = len(shapes[entry]) == _SEQUENCE
    if sequences:
        shapes = {node: (shape[0], 1, shape[1]) if len(shape) == _SEQUENCE else shape for node, shape in shapes.items()}
    return Flow(graph, entry, modules, shapes, interpreter.values, sequences)


_SEQUENCE = 2  # dimensions: channels and length
_RESHAPING = {torch.reshape, torch.unflatten, torch.unsqueeze, "reshape", "unflatten", "unsqueeze", "view"}


def _reshapes(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a node only reshapes: the values keep their order."""
    picks_none = node.target is operator.getitem and None in (node.args[1] if isinstance(node.args[1], tuple) else ())
    return picks_none or node.target in _RESHAPING or isinstance(module_of(node, modules), nn.Unflatten)


def _only_input(graph: fx.GraphModule) -> fx.Node:
    """The one input; a further one with a default value and without readers is allowed."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder" and (node.users or not node.args)]
    if len(inputs) != 1:
        names = ", ".join(node.name for node in inputs) or "none"
        raise UsageError(f"the network must take one input, images or rows; it takes {len(inputs)} ({names})")
    found: fx.Node = inputs[0]
    return found


class _Recorder(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.shapes: dict[fx.Node, Shape] = {}
        self.values: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.shapes[n] = tuple(result.shape[1:])
        elif not _holds_tensors(result):
            self.values[n] = result
        return result


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_tensors, value.values()))
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_holds_tensors, value)))
