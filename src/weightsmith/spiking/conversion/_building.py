"""Build the nodes of a spiking network from the calls of a traced one."""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Mapping

import torch
from torch import fx, nn
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion._flow import Call, Flow
from weightsmith.spiking.conversion._kinds import called, kind_of, module_of
from weightsmith.spiking.conversion._rules import RULES
from weightsmith.spiking.graph import INPUT, Neurons, Node, Synapses

__all__ = ["built", "check_products"]


def built(flow: Flow) -> tuple[tuple[Node, ...], dict[str, str]]:
    """The nodes, the last of which gives the scores, and for each population the name of its fx node."""
    names = _names(flow.graph.graph)
    signals = {flow.entry: INPUT}
    made: dict[str, Node] = {}
    fx_names: dict[str, str] = {}
    for node in flow.graph.graph.nodes:
        reads = [other for other in node.all_input_nodes if other in signals]
        if node.op not in ("call_module", "call_function", "call_method") or node in flow.values or not reads:
            continue  # an output, a plain value, or a constant; using a constant is refused later
        rule = RULES.get(kind_of(node, flow.modules) or "")
        if rule is None:
            raise _refusal(node, flow.modules)
        new = rule(Call(node, flow, names[node], signals, made))
        made |= {each.name: each for each in new}
        signals[node] = new[-1].name if new else signals[reads[0]]
        if new and isinstance(new[-1], Neurons):
            fx_names[new[-1].name] = node.name
    nodes = _reached(made, signals[_only_output(flow, signals)])
    return _with_layers(nodes), {name: fx_name for name, fx_name in fx_names.items() if name in {n.name for n in nodes}}


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
        raise UsageError("the network must return one tensor computed from its input, with one score per class")
    return result


def _reached(made: dict[str, Node], last: str) -> tuple[Node, ...]:
    """The nodes that the last one depends on, and itself at the end."""
    needed = {last}
    for node in reversed(made.values()):
        if node.name in needed:
            needed |= set(node.sources)
    return tuple(node for node in made.values() if node.name in needed)


def _with_layers(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Populations with the name of the layer they threshold: after a residual add, the deepest one.

    Depth is the number of populations before a layer; of several equally deep layers the last is taken.
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


# Kinds that cannot be converted, and what to do instead.


_SCORES = "remove the softmax, the scores before it suffice"
_ACTIVATION = "only ReLU converts (or ReLU6): a spike rate is max(0, x) of its input; train with ReLU"
_NORM = "normalises by the values of each image, which spikes do not carry; use batch norm, which is folded away"
_CONVOLUTION = "of the convolutions only Conv1d and Conv2d convert"
_PRODUCT = "multiplies signals with each other, as attention does, but neurons can only add them"
_REASONS: dict[str, str] = {
    **dict.fromkeys(("softmax", "logsoftmax", "softmax2d", "softmin"), _SCORES),
    **dict.fromkeys(
        (
            *("sigmoid", "tanh", "gelu", "silu", "mish", "elu", "selu", "celu", "glu", "leakyrelu", "prelu", "rrelu"),
            *("hardtanh", "hardswish", "hardsigmoid", "hardshrink", "softplus", "softsign", "softshrink"),
            *("logsigmoid", "tanhshrink", "threshold", "clamp", "clampmin", "abs", "exp", "pow", "sqrt"),
        ),
        _ACTIVATION,
    ),
    **dict.fromkeys(
        ("layernorm", "groupnorm", "localresponsenorm", "rmsnorm", "instancenorm1d", "instancenorm2d", "normalize"),
        _NORM,
    ),
    **dict.fromkeys(
        ("conv3d", "convtranspose1d", "convtranspose2d", "convtranspose3d"),
        _CONVOLUTION,
    ),
    **dict.fromkeys(
        ("linear", "conv1d", "conv2d"), "only as a module (nn.Linear, nn.Conv2d …), not as a function of weights"
    ),
}
_OTHER = (
    "has no spiking form here; supported are Linear, Conv1d, Conv2d, folded batch norm, ReLU, ReLU6, average and max "
    "pooling, residual adds, joined channels, flatten, dropout"
)


def _refusal(node: fx.Node, modules: Mapping[str, nn.Module]) -> UsageError:
    """The error for a node of a kind that cannot be converted."""
    module = module_of(node, modules)
    if module is not None:
        name = type(module).__name__
    else:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    reason = _REASONS.get(name.lower().replace("_", ""), _OTHER)
    return UsageError(f"{called(node, modules)} cannot be made spiking: {reason}")


_PRODUCTS = {
    *(torch.matmul, torch.bmm, torch.baddbmm, torch.einsum, operator.matmul),
    *("matmul", "bmm", "baddbmm", functional.scaled_dot_product_attention),
}


def check_products(graph: fx.GraphModule) -> None:
    """Refuse products of signals, such as hand-written attention, before the operations that lead to them are."""
    signals: set[fx.Node] = set()
    for node in graph.graph.nodes:
        reads = [other for other in node.all_input_nodes if other in signals]
        if node.op == "placeholder" or reads:
            signals.add(node)
        if node.op in ("call_function", "call_method") and node.target in _PRODUCTS and len(reads) > 1:
            owner, kind = next(reversed((node.meta.get("nn_module_stack") or {"": ("", None)}).values()))
            inside = f"{owner} ({kind.__name__}): " if owner else ""
            raise UsageError(f"{inside}{called(node, {})} cannot be made spiking: {_PRODUCT}")
