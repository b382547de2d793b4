"""Convert a trained network into a spiking one: every ReLU becomes a population, the linear parts stay.

The spike rate of an integrate-and-fire neuron is max(0, current)/threshold as long as it is below one spike per step,
so rates can replace ReLU activations. Any network that torch.fx can trace is accepted if it consists of Linear, Conv1d,
Conv2d, batch norm after them, ReLU and ReLU6 (as module or function), average and max pooling, residual adds, flatten
and dropout; everything else is refused by name. Sequences (channels, length) become images of height 1. The converted
network is checked against the original on an example before it is returned.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.seeds import pinned_threads, torch_stream
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.running import arranged
from weightsmith.networks.wrappers import check_open
from weightsmith.spiking.conversion._building import built, check_products
from weightsmith.spiking.conversion._flow import flow_of
from weightsmith.spiking.conversion._kinds import called, kind_of, module_of
from weightsmith.spiking.conversion.amplitudes import with_amplitudes
from weightsmith.spiking.conversion.joins import without_joins
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Neurons, Node, Shape
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import AnyNeuron
from weightsmith.spiking.simulation.reference import plain_value

__all__ = ["Converted", "convert", "plain_scores"]


_EXAMPLES = 3  # a batch size that no network is likely to have hard-coded
_TOLERANCE = 1e-3  # of the largest score; float32 sums in another order differ by about 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class Converted:
    """A spiking network with the plain network it was converted from.

    ``network`` has thresholds of 1 until it is balanced. ``folded`` computes the same as the original, with batch norm
    folded and without idle parts; ``fx_names`` maps each population to its fx node. ``taken`` is the input shape of the
    original: that of the spiking network, or that of rows or sequences which are reshaped into its images.
    """

    network: SpikingNetwork
    folded: fx.GraphModule
    fx_names: Mapping[str, str]
    taken: Shape

    @torch.no_grad()
    def activations(self, x: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """The values after the ReLU of each population (or those of ``names``) for a normalised batch."""
        wanted = list(self.fx_names if names is None else names)
        for name in wanted:
            if name not in self.fx_names:
                raise UnknownName("population", name, self.fx_names)
        watch = _Watch(self.folded, {self.fx_names[name]: name for name in wanted})
        watch.run(self._arranged(x))
        return {name: watch.seen[name].reshape(len(x), *self.network.shapes[name]) for name in wanted}

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """The scores of the plain network for a normalised batch."""
        scores: Tensor = self.folded(self._arranged(x))
        return scores

    def _arranged(self, x: Tensor) -> Tensor:
        return arranged(self.folded, x if x.dim() == len(self.taken) + 1 else x.reshape(len(x), *self.taken))


class _Watch(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule, wanted: Mapping[str, str]) -> None:
        super().__init__(graph)
        self.wanted, self.seen = wanted, dict[str, Tensor]()

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.name in self.wanted:
            self.seen[self.wanted[n.name]] = value
        return value


def convert(
    network: nn.Module, neuron: AnyNeuron, encode: Poisson | Constant, *, input_shape: Shape | None = None
) -> Converted:
    """Convert ``network``, which is not changed; all thresholds are 1 until they are balanced.

    Where inputs are whole numbers of a step (:class:`ConstantInput`), weights that read them are multiplied by it.
    ``input_shape`` is needed if the network's card does not have it.

    >>> from weightsmith.networks.models.vgg import vgg
    >>> from weightsmith.spiking.neurons import IF
    >>> found = convert(vgg(5, (3, 8, 8), widths=(4, 4, 4), classifier=(8,)), IF(), Poisson())
    >>> [(node.name, node.layer) for node in found.network.populations]
    [('features.1', 'features.0'), ('features.4', 'features.3'), ('features.7', 'features.6'),
     ('classifier.2', 'classifier.1')]
    """
    card = card_of(network)
    shape = tuple(input_shape or card.input_shape)
    if not shape:
        raise UsageError(
            "the input shape of the network is not known; give input_shape, such as (3, 32, 32) for images, (784,) for "
            "rows, (2, 500) for sequences of two channels"
        )
    plain = _plain_copy(network)
    _check_layers(plain)
    _check_finite(plain)
    example = torch.randn(_EXAMPLES, *shape, generator=torch_stream(0, "conversion"))
    folded = _tidied(plain, example)
    with torch.no_grad(), pinned_threads(1):
        flow = flow_of(folded, example)
        nodes, fx_names = built(flow)
        _check_ends(nodes)
        seen = flow.shapes[flow.entry]
        spiking = SpikingNetwork(nodes, seen, neuron, encode, dataclasses.replace(card, input_shape=seen))
        _check_scores(plain(example), plain_scores(nodes, example.reshape(-1, *seen)))
    if isinstance(encode, Constant) and encode.step is not None:
        spiking = with_amplitudes(spiking, {INPUT: torch.full(seen[:1], encode.step)})
    return Converted(spiking, folded, fx_names, shape)


def _plain_copy(network: nn.Module) -> nn.Module:
    """A copy in float32 on the CPU whose weights are plain tensors, not parametrizations computed in each pass."""
    check_open(network)
    plain = copied(network).eval()
    for module in list(plain.modules()):
        if parametrize.is_parametrized(module):
            _make_permanent(module)
    return plain.to(device="cpu", dtype=torch.float32)


def _make_permanent(module: nn.Module) -> None:
    # torch deletes the weight from the module's class, which a copy shares with the original: give the copy its own.
    known = type(module)
    own = {name: value for name, value in vars(known).items() if name not in ("__dict__", "__weakref__")}
    module.__class__ = type(known.__name__, known.__bases__, own)
    for name in list(module.parametrizations):  # type: ignore[arg-type]  # torch types it as a tensor or module
        parametrize.remove_parametrizations(module, name, leave_parametrized=True)


_WHOLE = {
    nn.RNNBase: "recurrent layers feed their output back at every step of a sequence",
    nn.RNNCellBase: "recurrent cells feed their output back at every step of a sequence",
    nn.MultiheadAttention: "attention multiplies signals with each other, but neurons can only add them",
    nn.TransformerEncoderLayer: "attention multiplies signals with each other, but neurons can only add them",
    nn.TransformerDecoderLayer: "attention multiplies signals with each other, but neurons can only add them",
}


def _check_layers(network: nn.Module) -> None:
    """Refuse layers that can never convert, before the operations that prepare their input are refused instead."""
    for name, module in network.named_modules():
        reason = next((reason for kind, reason in _WHOLE.items() if isinstance(module, kind)), None)
        if reason is not None:
            raise UsageError(
                f"{name or 'the network'} ({type(module).__name__}) cannot be made spiking: {reason}; convert a "
                "feed-forward network of dense layers or convolutions"
            )


def _check_finite(network: nn.Module) -> None:
    for name, value in (*network.named_parameters(), *network.named_buffers()):
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            layer, _, tensor = name.rpartition(".")
            raise DataMismatch(f"{layer or 'the network'}: its {tensor} holds NaN or infinity")


def _check_ends(nodes: tuple[Node, ...]) -> None:
    if nodes and isinstance(nodes[-1], Neurons):
        raise UsageError(
            f"{nodes[-1].name}: a ReLU follows the last layer and would cut off negative scores; remove it"
        )
    if not any(isinstance(node, Neurons) for node in nodes):
        raise UsageError("the network has no ReLU: nothing in it would spike")


def _check_scores(scores: Tensor, found: Tensor) -> None:
    """Refuse a conversion whose scores differ from the network's."""
    if scores.dim() != 2 or scores.shape != found.shape:
        raise UsageError(f"the network gives values of shape {tuple(scores.shape[1:])}, not one score per class")
    far = float((scores - found).abs().max())
    if not far <= _TOLERANCE * float(scores.abs().max()) + torch.finfo(torch.float32).eps:
        raise UsageError(
            f"the converted network would compute different scores (by {far:.3g}): a layer has hooks, "
            "overwrites values that others read, or computes something else than its type does"
        )


def plain_scores(nodes: Iterable[Node], x: Tensor) -> Tensor:
    """The output of the last node if neurons compute ReLU and gates the largest value of each window."""
    values = {INPUT: x}
    result = x
    for node in nodes:
        result = values[node.name] = plain_value(node, values)
    return result


# Simplify the data flow of a network before conversion without changing its function.
#
# 1. Batch norm is folded into the layer before it.
# 2. Operations without effect at test time (dropout, identities) are removed.
# 3. In-place operations become out-of-place ones; later readers of the overwritten value read the result.
# 4. Joined channels are separated (:mod:`weightsmith.spiking.conversion.joins`).
# 5. A ReLU after a max pooling moves before it, max(0, max x) = max(max(0, x)): spikes can be pooled, currents cannot.


_PLAIN: dict[Any, Any] = {
    torch.relu_: torch.relu,
    operator.iadd: operator.add,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
}


def _tidied(network: nn.Module, example: Tensor) -> fx.GraphModule:
    """A simplified copy of ``network`` in ``eval`` mode; refuses a batch norm that cannot be folded."""
    folded = fold_batch_norm(network, example)
    modules = dict(folded.network.named_modules())
    check_products(folded.network)
    for name, reason in folded.kept.items():
        kind = type(modules[name]).__name__ if name in modules else "batch_norm"
        raise UsageError(
            f"{name} ({kind}) cannot be folded: {reason}; it must come right after a dense layer or convolution"
        )
    graph = folded.network.graph
    _without_idle(graph, modules)
    _out_of_place(graph, modules)
    _without(graph, [node for node in graph.nodes if kind_of(node, modules) == "copy"])
    for node in graph.nodes:  # a view may have needed the copy that was there
        if node.op == "call_method" and node.target == "view" and not isinstance(node.args[-1], torch.dtype):
            node.target = "reshape"
    graph.eliminate_dead_code()
    without_joins(folded.network, example)
    _relu_first(graph, dict(folded.network.named_modules()))
    folded.network.delete_all_unused_submodules()
    folded.network.recompile()
    return folded.network


def _without_idle(graph: fx.Graph, modules: dict[str, nn.Module]) -> None:
    idle = []
    for node in graph.nodes:
        kind, module = kind_of(node, modules), module_of(node, modules)
        if kind == "chance" and node.kwargs.get("training", True):
            raise UsageError(
                f"{called(node, modules)} drops values at test time too; set training=self.training, or use nn.Dropout"
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
    # Find all before changing any: several nodes may call one module.
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
    for pool in reversed(list(graph.nodes)):  # backwards, so that a ReLU can move past several pools
        relu = next(iter(pool.users), None)
        if kind_of(pool, modules) != "largest" or relu is None or len(pool.users) > 1:
            continue
        if kind_of(relu, modules) == "relu":
            relu.replace_all_uses_with(pool)
            relu.replace_input_with(pool, pool.all_input_nodes[0])
            pool.replace_input_with(pool.all_input_nodes[0], relu)
            pool.prepend(relu)
