"""Sites where units can be removed: sets of units with the layers that write them and those that read them.

In ``dense → sigmoid → dense`` the first layer writes the units of a site and the second reads them; a batch norm on
the way carries one value per unit. After a residual connection several layers write the same units, which are then
removed from all of them at once; after flattening, a dense layer reads one channel at several inputs. The output layer
of the network writes no site and is never cut.

Networks of dense layers are traced by torch.fx; all others by the dependency graph of torch-pruning (extra ``prune``).
Where that graph fails (ShuffleNet's reshaping), torch.fx finds the units that flow from layer to layer without being
reshaped, added or joined; the layers whose units are shuffled stay whole, with the reason.

>>> import torch
>>> from weightsmith.networks.models.mlp import mlp
>>> found = find_sites(mlp(10, 20, 7, activation="sigmoid"), torch.zeros(2, 10))
>>> [(site.name, site.units, site.activation, [port.layer for port in site.readers]) for site in found.sites]
[('dense1', 20, 'sigmoid', ['output'])]
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn
from torch.nn import functional

from weightsmith.core.errors import MissingExtra, UnknownName, UsageError
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.networks.editing.int8 import has_int8
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.networks.editing.tracing import trace
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.wrappers import check_open
from weightsmith.reducing.surgery._graph_sites import RawSite, RawSites, graph_sites, role

__all__ = ["Port", "Site", "Sites", "find_sites", "has_own_forward", "pads_with_zeros"]


Indices = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Port:
    """The indices of a layer that belong to the units: ``indices[unit]`` are those of one unit (outputs or inputs).

    Behind a group norm a unit is one of its groups, several channels.
    """

    layer: str
    indices: Indices

    def of(self, units: Sequence[int]) -> Indices:
        """The indices of these units, in order."""
        return self.indices[list(units)].reshape(-1)


@dataclasses.dataclass(frozen=True)
class Site:
    """Units that are removed together, with the layers that write, carry and read them.

    ``activation`` is the last one before they are read (None: none was seen). ``shifts`` names, for each reader that
    can absorb a constant, the layer that does: itself by its bias, or the batch norm that follows it by its mean (a
    transposed convolution cannot: its outputs read a constant with varying numbers of kernel entries).
    ``padded``: some reader pads the units with zeros. ``counts`` names integer attributes of modules that change with
    the units (``block.heads``), with the amount per unit, ``norms`` the batch norms directly behind writers.
    """

    name: str
    units: int
    kind: Literal["dense", "conv"]
    activation: str | None
    writers: tuple[Port, ...]
    carriers: tuple[Port, ...]
    readers: tuple[Port, ...]
    shifts: dict[str, str]
    padded: bool = False
    counts: tuple[tuple[str, int], ...] = ()
    norms: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def takes_constants(self) -> bool:
        """Whether all readers can absorb a constant in place of a unit."""
        return all(port.layer in self.shifts for port in self.readers)

    @property
    def ports(self) -> tuple[Port, ...]:
        """All layers that a cut changes."""
        return (*self.writers, *self.carriers, *self.readers)

    def is_spread(self, port: Port) -> bool:
        """Whether a reader sees each channel of a unit at several inputs (behind a flattening)."""
        return bool(port.indices.shape[1] > self.writers[0].indices.shape[1])

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that write the units."""
        return tuple(port.layer for port in self.writers)

    def widths(self, network: nn.Module, units: int) -> dict[str, int]:
        """The sizes of its layers with that many units left: outputs of writers and depthwise convolutions, heads."""
        carrying = [port for port in self.carriers if _spatial(network.get_submodule(port.layer))]
        widths = {port.layer: units * port.indices.shape[1] for port in (*self.writers, *carrying)}
        return widths | {name: units * each for name, each in self.counts}


@dataclasses.dataclass(frozen=True)
class Sites:
    """All sites of a network in the order of its layers, and the reasons why other layers have none."""

    sites: tuple[Site, ...]
    obstacles: dict[str, str]

    def matching(self, layers: str | Sequence[str] | None) -> tuple[Site, ...]:
        """The sites with a layer that matches one of the globs; a layer that cannot be cut raises with the reason."""
        if layers is None:
            if not self.sites:
                raise UsageError(
                    f"nothing can be removed from this network: {self._reasons()}; only dense layers and convolutions "
                    "that are read by plain dense layers, convolutions and batch norms can lose units"
                )
            return self.sites
        globs = [layers] if isinstance(layers, str) else list(layers)
        if not globs:
            raise UsageError("layers names no layer; leave it out (None) for all that can be cut")
        for glob in globs:
            if any(fnmatch.fnmatchcase(name, glob) for site in self.sites for name in site.layers):
                continue
            for name, reason in self.obstacles.items():
                if fnmatch.fnmatchcase(name, glob):
                    raise UsageError(f"{name}: cannot be cut: {reason}")
            raise UnknownName("layer", glob, [site.name for site in self.sites])
        return tuple(
            site
            for site in self.sites
            if any(fnmatch.fnmatchcase(name, glob) for name in site.layers for glob in globs)
        )

    def _reasons(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.obstacles.items()) or "it has no hidden layer"


def find_sites(network: nn.Module, example: Tensor) -> Sites:
    """The sites of ``network``, found with a batch of two inputs; the network is not changed."""
    check_open(network)
    if has_int8(network):
        raise UsageError("8-bit layers cannot lose units: reduce the network first, then round it to int8")
    found = _found(network, example)
    modules = dict(network.named_modules())
    following = _following_norms(network)
    sites = [
        Site(
            name=raw.writers[0][0],
            units=raw.units,
            kind="conv" if any(_spatial(modules[layer]) for layer, _ in raw.writers) else "dense",
            activation=raw.activation,
            writers=_ports(raw.writers),
            carriers=_ports(raw.carriers),
            readers=_ports(raw.readers),
            shifts={
                layer: layer if getattr(modules[layer], "bias", None) is not None else following[layer]
                for layer, _ in raw.readers
                if getattr(modules[layer], "bias", None) is not None or layer in following
                # A constant does not count the same everywhere: some positions are reached by fewer kernel entries.
                if not getattr(modules[layer], "transposed", False)
            },
            padded=any(pads_with_zeros(modules[layer]) for layer, _ in raw.readers),
            norms={layer: following[layer] for layer, _ in raw.writers if layer in following},
        )
        for raw in found.sites
    ]
    order = {name: index for index, name in enumerate(modules)}
    shared = _shared(network)
    obstacles = dict(found.obstacles)
    for site in sites:
        tied = next((port.layer for port in site.ports if port.layer in shared), None)
        if tied is not None:
            obstacles[site.name] = f"{tied} shares its weights with {shared[tied]}"
    kept = [site for site in sites if site.name not in obstacles]
    return Sites(tuple(sorted(kept, key=lambda site: order[site.name])), obstacles)


def _found(network: nn.Module, example: Tensor) -> RawSites:
    """By torch.fx if that suffices; sums and concatenations of dense layers need the dependency graph."""
    if not _is_dense(network):
        try:
            return graph_sites(network, example)
        except MissingExtra:
            raise
        except UsageError:
            with contextlib.suppress(UsageError):
                found = _plain_sites(network, example)
                if found.sites:
                    return found
            raise
    found = _plain_sites(network, example)
    if len(found.obstacles) <= 1:  # one is always the output layer
        return found
    if importlib.util.find_spec("torch_pruning") is None:
        extra = "; the extra prune may find a way"
        known = {name: reason + extra * ("output" not in reason) for name, reason in found.obstacles.items()}
        return RawSites(found.sites, known)
    try:
        return graph_sites(network, example)
    except UsageError:
        return found


def _ports(raw: Iterator[tuple[str, Indices]] | Sequence[tuple[str, Indices]]) -> tuple[Port, ...]:
    return tuple(Port(layer, indices) for layer, indices in raw)


def _spatial(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.conv._ConvNd)


def has_own_forward(module: nn.Module) -> bool:
    """Whether a dense layer or convolution is of a subclass with a forward of its own.

    >>> has_own_forward(nn.Conv2d(1, 1, 1)), has_own_forward(type("Mine", (nn.Linear,), {"forward": abs})(1, 1))
    (False, True)
    """
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    kind = next((kind for kind in kinds if isinstance(module, kind)), None)
    return kind is not None and type(module).forward is not kind.forward


def pads_with_zeros(module: nn.Module) -> bool:
    """Whether a layer reads zeros beyond the border of its input."""
    if getattr(module, "padding_mode", "zeros") != "zeros":
        return False
    padding = getattr(module, "padding", 0)
    return padding == "same" if isinstance(padding, str) else bool(np.any(padding))


def _shared(network: nn.Module) -> dict[str, str]:
    """Layers that share a parameter with another one, with the name of the other."""
    holders: dict[int, list[str]] = {}
    for name, value in network.named_parameters(remove_duplicate=False):
        holders.setdefault(id(value), []).append(name.rpartition(".")[0])
    return {
        layer: next(other for other in layers if other != layer)
        for layers in holders.values()
        if len(set(layers)) > 1
        for layer in layers
    }


def _following_norms(network: nn.Module) -> dict[str, str]:
    """The batch norm that directly follows each layer, where the data flow can be traced."""
    try:
        return {layer: norm for norm, layer in fold_batch_norm(network).folded.items()}
    except UsageError:
        return {}


# Sites whose units flow from layer to layer unchanged in number and order, by torch.fx, which needs no extra package.


_ACTIVATIONS: dict[object, str] = {
    nn.Sigmoid: "sigmoid",
    nn.Tanh: "tanh",
    nn.ReLU: "relu",
    nn.LeakyReLU: "leaky-relu",
    nn.ELU: "elu",
    nn.SELU: "selu",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.Softplus: "softplus",
    nn.ReLU6: "relu6",
    nn.CELU: "celu",
    nn.Mish: "mish",
    nn.Hardswish: "hardswish",
    nn.Hardsigmoid: "hardsigmoid",
    nn.Hardtanh: "hardtanh",
    nn.Softsign: "softsign",
    nn.LogSigmoid: "logsigmoid",
    torch.sigmoid: "sigmoid",
    torch.tanh: "tanh",
    torch.relu: "relu",
    torch.selu: "selu",
    functional.sigmoid: "sigmoid",
    functional.tanh: "tanh",
    functional.relu: "relu",
    functional.leaky_relu: "leaky-relu",
    functional.elu: "elu",
    functional.selu: "selu",
    functional.gelu: "gelu",
    functional.silu: "silu",
    functional.softplus: "softplus",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "relu": "relu",
}
_POOLING = nn.modules.pooling
_PASSING = (
    *(nn.modules.dropout._DropoutNd, nn.Identity, Dropout, nn.Flatten),
    *(_POOLING._MaxPoolNd, _POOLING._AvgPoolNd, _POOLING._AdaptiveMaxPoolNd, _POOLING._AdaptiveAvgPoolNd),
)
_HOLDERS = (nn.Linear, nn.BatchNorm1d, nn.PReLU)


def _is_dense(network: nn.Module) -> bool:
    """Whether all parameters belong to dense layers, 1-d batch norms and PReLUs, in a graph that fx can trace."""
    holders = [module for module in network.modules() if any(True for _ in module.parameters(recurse=False))]
    if not holders or not all(type(module) in _HOLDERS for module in holders):
        return False
    try:
        trace(network)
    except UsageError:
        return False
    return True


def _plain_sites(network: nn.Module, example: Tensor) -> RawSites:
    """The site of each layer whose units flow only into layers that read them, elementwise or pooled."""
    graph = trace(network, example)
    modules = dict(graph.named_modules())
    sites, obstacles = [], {}
    for node in graph.graph.nodes:
        layer = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(layer, nn.Linear | nn.modules.conv._ConvNd) or role(layer, outputs=True) == "carries":
            continue
        known = role(layer, outputs=True) == "writes"
        found = _followed(node, modules) if known else f"is a {type(layer).__name__} that cannot be cut"
        if isinstance(found, str):
            obstacles[str(node.target)] = found
        else:
            sites.append(found)
    return RawSites(sites, obstacles)


def _followed(start: fx.Node, modules: dict[str, nn.Module]) -> RawSite | str:
    """The site that ``start`` writes, or the reason why there is none."""
    units = len(outputs_first(modules[str(start.target)]))
    own = np.arange(units, dtype=np.int64)[:, None]
    if _uses(start, start) > 1:
        return "is used more than once"
    carriers, readers = [], []
    activations: set[str] = set()
    ahead = list(start.users)
    while ahead:
        node = ahead.pop(0)
        if node.op == "output":
            return "gives the output of the network"
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        key: object = type(module) if module is not None else node.target
        part = None if module is None or isinstance(module, nn.LayerNorm | nn.GroupNorm) else role(module, False)
        if (part is not None or isinstance(module, nn.PReLU)) and _uses(start, node) > 1:
            return f"its units pass through {node.target}, which is used more than once"
        if module is not None and part == "reads":
            inputs = int(outputs_first(module).shape[1])
            if inputs % units:
                return f"its {units} units do not divide the {inputs} inputs of {node.target}"
            readers.append((str(node.target), np.arange(inputs, dtype=np.int64).reshape(units, -1)))
            continue
        activations |= {"prelu"} if isinstance(module, nn.PReLU) else set()
        if part == "carries":
            carriers.append((str(node.target), own))
        elif key in _ACTIVATIONS:
            activations.add(_ACTIVATIONS[key])
        elif not (isinstance(module, (*_PASSING, nn.PReLU)) or node.target is functional.dropout or _is_pooled(node)):
            # By name: the repr of a function holds a memory address, which differs from run to run.
            named = getattr(node.target, "__name__", node.target) if module is None else type(module).__name__
            return f"its units pass through {named} ({node.name})"
        ahead += list(node.users)
    if not readers:
        return "no layer reads its units"
    # With several activations in between, none determines the range that the readers see.
    activation = activations.pop() if len(activations) == 1 else None
    return RawSite(units, activation, [(str(start.target), own)], carriers, readers)


def _is_pooled(node: fx.Node) -> bool:
    """Whether the step is the mean of an image's channels over their positions."""
    over = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return node.target in ("mean", torch.mean) and over in ([2, 3], (2, 3), [-2, -1], (-2, -1))


def _uses(start: fx.Node, node: fx.Node) -> int:
    """How often the module that ``node`` calls is called in the graph."""
    return sum(other.op == "call_module" and other.target == node.target for other in start.graph.nodes)
