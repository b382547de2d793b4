"""Two networks of the same data flow, run side by side from layer to layer.

A refit goes through the layers in the order of the network: the inputs of each come from the cut network with all
earlier layers refitted, its targets from the original. Running both networks from the beginning for every layer would
cost a pass for each, so the values that later nodes need are kept between two stops: in memory up to a limit, beyond
it in temporary files.

Where the output of a layer is added to another branch, that branch has drifted away from the original network. The
layer's target is then chosen to make the *sum* right, so the other branch is run before the layer is refitted.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.tracing import trace
from weightsmith.networks.models.dropout import Dropout

__all__ = ["NOT_A_STEP", "SUMS", "Resumed", "SideBySide", "Stop", "Values"]

NOT_A_STEP = "is not called as a layer"
_IN_MEMORY = 1 << 29  # bytes of values between two stops
_NORM = nn.modules.batchnorm._BatchNorm
_PASSING = (nn.Identity, Dropout, nn.modules.dropout._DropoutNd)
SUMS: tuple[Any, ...] = (operator.add, operator.iadd, torch.add, "add", "add_")
_IN_PLACE: tuple[Any, ...] = (operator.iadd, operator.isub, operator.imul)


@dataclasses.dataclass(frozen=True)
class Stop:
    """A layer of interest: its call, the batch norm behind it, the sum that it enters and the sum's other branch."""

    layer: str
    call: str
    given: str
    norm: str | None
    other: str | None
    total: str | None = None


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of a block of rows at a stop: input in the cut network, input and output in the original, drift.

    ``drift`` is the other branch of the sum in the original and in the cut network; None without a sum.
    """

    given: Tensor
    original: Tensor
    output: Tensor
    drift: tuple[Tensor, Tensor] | None


class SideBySide:
    """The original and the cut network, run block by block up to each stop."""

    def __init__(self, original: nn.Module, cut: nn.Module, blocks: Sequence[Tensor]) -> None:
        modules = [fx.GraphModule(network, trace(network, blocks[0]).graph) for network in (original, cut)]
        self._runs = [fx.Interpreter(module, garbage_collect_values=False) for module in modules]
        graphs = [module.graph for module in modules]
        names = [[node.name for node in graph.nodes] for graph in graphs]
        if names[0] != names[1]:
            raise UsageError("the steps of the cut network differ from those of the original")
        for node in graphs[0].nodes:
            if _may_write(node, self._runs[0].module) and len(node.all_input_nodes[0].users) > 1:
                raise UsageError(f"{node.name} changes in place a value that other steps also read")
        self._nodes = [{node.name: node for node in graph.nodes} for graph in graphs]
        self._order = {name: index for index, name in enumerate(names[0])}
        self._above = _ancestors(graphs[0])
        self._done: list[set[str]] = [set(), set()]
        self._blocks = blocks

    def stops(self, layers: Sequence[str]) -> tuple[list[Stop], dict[str, str]]:
        """The stops for these layers in an order in which they can be refitted; layers without one, with the reason."""
        calls: dict[str, list[fx.Node]] = {layer: [] for layer in layers}
        for node in self._nodes[0].values():
            if node.op == "call_module" and node.target in calls:
                calls[str(node.target)].append(node)
        refused = {
            layer: "is called more than once" if nodes else NOT_A_STEP
            for layer, nodes in calls.items()
            if len(nodes) != 1
        }
        found = {nodes[0].name: self._stop(layer, nodes[0]) for layer, nodes in calls.items() if len(nodes) == 1}
        ordered: list[Stop] = []
        begun: set[str] = set()

        def visit(name: str) -> None:
            for other in sorted(self._above[name] | {name}, key=self._order.__getitem__):
                if other in found and other not in begun:
                    schedule(found[other])

        def schedule(stop: Stop) -> None:
            begun.add(stop.call)
            visit(stop.given)
            if stop.other is not None:
                visit(stop.other)
                # A branch whose own layer waits for this one is not final yet: that layer makes the sum right.
                waiting = {each for each in self._above[stop.other] | {stop.other} if each in found}
                if waiting - {each.call for each in ordered}:
                    stop = dataclasses.replace(stop, other=None)
            ordered.append(stop)

        visit(next(name for name, node in self._nodes[0].items() if node.op == "output"))
        return ordered, refused

    def output_layer(self) -> str | None:
        """The layer that computes the output of the network, if it is a single one."""
        output = next(node for node in self._nodes[0].values() if node.op == "output")
        last = output.args[0]
        return str(last.target) if isinstance(last, fx.Node) and last.op == "call_module" else None

    def _stop(self, layer: str, call: fx.Node) -> Stop:
        """Follow the output of the layer to the next sum, through at most one batch norm."""
        given, norm, node = call.args[0], None, call
        assert isinstance(given, fx.Node)
        modules = self._runs[0].module
        while len(node.users) == 1:
            (user,) = node.users
            module = modules.get_submodule(str(user.target)) if user.op == "call_module" else None
            if isinstance(module, _NORM) and norm is None and module.running_var is not None:
                norm = str(user.target)
            elif user.target in SUMS and len(user.args) == 2 and not user.kwargs:
                other = user.args[1] if user.args[0] is node else user.args[0]
                if isinstance(other, fx.Node) and other is not node and call.name not in self._above[other.name]:
                    return Stop(layer, call.name, given.name, norm, other.name, user.name)
                break
            elif not isinstance(module, _PASSING):
                break
            node = user
        return Stop(layer, call.name, given.name, norm, None)

    @torch.no_grad()
    def shares_of_sums(self, layers: Sequence[str]) -> dict[str, float]:
        """The variance of each layer's branch as a share of the variance of the sum it enters, over the first block.

        1 for a layer without a sum.
        """
        stops = [stop for stop in self.stops(layers)[0] if stop.total is not None]
        parts = {
            stop.layer: (str(stop.total), part.name)
            for stop in stops
            for part in reversed(self._nodes[0][str(stop.total)].all_input_nodes)
            if part.name != stop.other
        }
        run = _Variances(self._runs[0].module, {name for pair in parts.values() for name in pair})
        run.run(self._blocks[0].clone())
        found = dict.fromkeys(layers, 1.0)
        for layer, (total, branch) in parts.items():
            if run.found.get(total, 0.0) > 0:
                found[layer] = run.found[branch] / run.found[total]
        return found

    @torch.no_grad()
    def walk(self, stops: Sequence[Stop]) -> Iterator[tuple[Stop, Iterator[Values]]]:
        """Each stop with the values of its blocks; a layer refitted at its stop then runs with the new weights."""
        first = next(name for name, node in self._nodes[0].items() if node.op == "placeholder")
        with _Store(len(self._blocks)) as store:
            for index, block in enumerate(self._blocks):
                store.put(index, [{first: block.clone()}, {first: block.clone()}])  # may be changed in place
            for stop in stops:
                yield stop, self._values(stop, store)

    def _values(self, stop: Stop, store: _Store) -> Iterator[Values]:
        wanted = [{stop.given}, {stop.given}]
        wanted[0].add(stop.call)
        if stop.other is not None:
            for names in wanted:
                names.add(stop.other)
        todo = []
        for side in (0, 1):
            needed = set().union(*(self._above[name] | {name} for name in wanted[side])) - self._done[side]
            todo.append(sorted(needed, key=self._order.__getitem__))
            self._done[side] |= needed
        for index in range(len(self._blocks)):
            values = store.take(index)
            for side in (0, 1):
                self._advance(side, todo[side], values[side])
            other = stop.other
            yield Values(
                given=values[1][stop.given],
                original=values[0][stop.given],
                output=values[0][stop.call],
                drift=None if other is None else (values[0][other], values[1][other]),
            )
            store.put(index, [self._live(side, values[side]) for side in (0, 1)])

    def _advance(self, side: int, todo: Sequence[str], values: dict[str, Any]) -> None:
        run, nodes = self._runs[side], self._nodes[side]
        run.env = {nodes[name]: value for name, value in values.items()}
        for name in todo:
            node = nodes[name]
            if node.op == "placeholder":
                continue
            values[name] = run.env[node] = run.run_node(node)

    def _live(self, side: int, values: dict[str, Any]) -> dict[str, Any]:
        """The values that nodes still to be run will read."""
        done, nodes = self._done[side], self._nodes[side]
        return {
            name: value for name, value in values.items() if any(user.name not in done for user in nodes[name].users)
        }


class Resumed:
    """A copy of a network that is run from one of its layers on; the values before are computed once and reused.

    ``network`` is the copy. Starts must not decrease. A network that cannot be traced is run from the beginning.
    """

    def __init__(self, network: nn.Module, blocks: Sequence[Tensor]) -> None:
        self._blocks, self._at = blocks, 0
        self._held: list[dict[fx.Node, Any]] = [{} for _ in blocks]
        self._nodes: list[fx.Node] = []
        try:
            module = trace(network, blocks[0])
        except UsageError:
            self.network: nn.Module = copy.deepcopy(network)
            return
        self.network, self._nodes = module, list(module.graph.nodes)
        self._run = fx.Interpreter(module, garbage_collect_values=False)

    def position(self, layers: Sequence[str]) -> int:
        """The step at which the first of these layers is called; 0 if unknown."""
        calls = [at for at, node in enumerate(self._nodes) if node.op == "call_module" and node.target in layers]
        return min(calls, default=0)

    @torch.no_grad()
    def outputs(self, start: int) -> Tensor:
        """The outputs of the network with its present weights; values before step ``start`` as first computed."""
        if not self._nodes:
            return torch.cat([self.network(block.clone()) for block in self._blocks])
        found = []
        for index, block in enumerate(self._blocks):
            if start > self._at:
                self._held[index] = self._live(self._through(index, block, self._at, start), start)
            found.append(self._through(index, block, max(start, self._at), len(self._nodes))[self._nodes[-1]])
        self._at = max(start, self._at)
        return torch.cat(found)

    def _through(self, index: int, block: Tensor, start: int, stop: int) -> dict[fx.Node, Any]:
        # Copies: a later step may change its inputs in place.
        held = self._held[index].items()
        self._run.env = {node: value.clone() if isinstance(value, Tensor) else value for node, value in held}
        for node in self._nodes[start:stop]:
            if node.op == "placeholder":
                self._run.args_iter = iter([block.clone()])
            self._run.env[node] = self._run.run_node(node)
            for given in node.all_input_nodes:
                if all(user in self._run.env for user in given.users):
                    self._run.env[given] = None  # no later step reads it
        return self._run.env

    def _live(self, values: dict[fx.Node, Any], stop: int) -> dict[fx.Node, Any]:
        ahead = set(self._nodes[stop:])
        return {node: value for node, value in values.items() if not ahead.isdisjoint(node.users)}


class _Variances(fx.Interpreter):
    """The variance of some steps' values over rows and positions, summed over channels.

    Measured as soon as they are computed: a later step may change them in place.
    """

    def __init__(self, module: Any, names: Collection[str]) -> None:
        super().__init__(module)
        self._names = names
        self.found: dict[str, float] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run the step, and measure the variance of its value."""
        value = super().run_node(n)
        if n.name in self._names and isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1:
            self.found[n.name] = float(value.transpose(0, 1).flatten(1).var(dim=1).sum())
        return value


def _ancestors(graph: fx.Graph) -> dict[str, set[str]]:
    above: dict[str, set[str]] = {}
    for node in graph.nodes:
        parents = node.all_input_nodes
        above[node.name] = set().union(*({parent.name} | above[parent.name] for parent in parents))
    return above


def _may_write(node: fx.Node, module: nn.Module) -> bool:
    """Whether the operation may change its first input in place: then the order of the steps matters."""
    if not node.all_input_nodes:
        return False
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    named = isinstance(node.target, str) and node.target.endswith("_")
    return named or node.target in _IN_PLACE or bool(node.kwargs.get("inplace"))


class _Store:
    """The values of each block between two stops, in memory or, if they are large, in temporary files."""

    def __init__(self, blocks: int) -> None:
        self._held: list[Any] = [None] * blocks
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def put(self, index: int, values: list[dict[str, Any]]) -> None:
        size = sum(value.nbytes for side in values for value in side.values() if isinstance(value, Tensor))
        if size * len(self._held) <= _IN_MEMORY:
            self._held[index] = values
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="weightsmith-")
        path = Path(self._folder.name) / str(index)
        torch.save(values, path)
        self._held[index] = path

    def take(self, index: int) -> list[dict[str, Any]]:
        held = self._held[index]
        self._held[index] = None
        return torch.load(held, weights_only=True) if isinstance(held, Path) else held  # type: ignore[no-any-return]
