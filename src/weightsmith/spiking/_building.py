"""The nodes of a spiking network, made call by call from what flows through a traced one."""

from __future__ import annotations

import dataclasses
from collections import Counter

from torch import fx

from weightsmith.core.errors import UsageError
from weightsmith.spiking._flow import Call, Flow
from weightsmith.spiking._kinds import kind_of
from weightsmith.spiking._refusals import refusal
from weightsmith.spiking._rules import RULES
from weightsmith.spiking.graph import INPUT, Neurons, Node, Synapses

__all__ = ["built"]


def built(flow: Flow) -> tuple[tuple[Node, ...], dict[str, str]]:
    """The nodes, the last of which gives the scores, and for each population the name of the fx node it stands for."""
    names = _names(flow.graph.graph)
    signals = {flow.entry: INPUT}
    made: dict[str, Node] = {}
    places: dict[str, str] = {}
    for node in flow.graph.graph.nodes:
        reads = [other for other in node.all_input_nodes if other in signals]
        if node.op not in ("call_module", "call_function", "call_method") or node in flow.values or not reads:
            continue  # an end of the flow, a plain value, or a constant, which is refused where it is used
        rule = RULES.get(kind_of(node, flow.modules) or "")
        if rule is None:
            raise refusal(node, flow.modules)
        new = rule(Call(node, flow, names[node], signals, made))
        made |= {each.name: each for each in new}
        signals[node] = new[-1].name if new else signals[reads[0]]
        if new and isinstance(new[-1], Neurons):
            places[new[-1].name] = node.name
    nodes = _reached(made, signals[_only_output(flow, signals)])
    return _with_layers(nodes), {name: place for name, place in places.items() if name in {n.name for n in nodes}}


def _names(graph: fx.Graph) -> dict[fx.Node, str]:
    """A module's own name where it is called once and no other node has it, else the name fx gave the node."""
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    taken = {node.name: node for node in graph.nodes}

    def name(node: fx.Node) -> str:
        own = str(node.target)
        free = node.op == "call_module" and calls[own] == 1 and taken.get(own, node) is node and own != INPUT
        return own if free else node.name

    return {node: name(node) for node in graph.nodes}


def _only_output(flow: Flow, signals: dict[fx.Node, str]) -> fx.Node:
    (end,) = (node for node in flow.graph.graph.nodes if node.op == "output")
    result = end.args[0]
    if not isinstance(result, fx.Node) or result not in signals:
        raise UsageError("the network must give one tensor, one score per class, that comes from its input")
    return result


def _reached(made: dict[str, Node], last: str) -> tuple[Node, ...]:
    """The nodes that the last one is made from, and it at the end."""
    needed = {last}
    for node in reversed(made.values()):
        if node.name in needed:
            needed |= set(node.sources)
    return tuple(node for node in made.values() if node.name in needed)


def _with_layers(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Populations told which layer they threshold: after a residual add, the one that lies deepest.

    Deep means behind many populations; of several that are equally deep it is the last.
    """
    depth = {INPUT: 0}
    layer: dict[str, tuple[int, int, str]] = {INPUT: (0, -1, "")}
    result: list[Node] = []
    for index, node in enumerate(nodes):
        deepest = max(depth[name] for name in node.sources)
        depth[node.name] = deepest + isinstance(node, Neurons)
        layer[node.name] = max(layer[name] for name in node.sources)
        if isinstance(node, Synapses):
            layer[node.name] = (deepest, index, node.name)
        elif isinstance(node, Neurons):
            result.append(dataclasses.replace(node, layer=layer[node.name][2] or node.source))
            layer[node.name] = (0, -1, "")
            continue
        result.append(node)
    return tuple(result)
