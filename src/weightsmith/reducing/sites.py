"""Where units can be taken out: a site is a set of units with the layers that write them and those that read them.

In ``dense → sigmoid → dense`` the first layer writes the units of a site and the second reads them; a batch norm on
the way carries one value per unit. Behind a residual connection several layers write the same units, so they go from
all of them at once; after flattening, one channel is read at several inputs of a dense layer. The layer that gives the
network's output writes no site and is never touched.

Networks of dense layers are traced by torch.fx; all others by the dependency graph of torch-pruning (extra ``prune``).

>>> import torch
>>> from weightsmith.networks.models.mlp import mlp
>>> found = find_sites(mlp(10, 20, 7, activation="sigmoid"), torch.zeros(2, 10))
>>> [(site.name, site.units, site.activation, [port.layer for port in site.readers]) for site in found.sites]
[('dense1', 20, 'sigmoid', ['output'])]
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks.editing.fold import fold_batch_norm
from weightsmith.reducing._dense_sites import dense_sites, is_dense
from weightsmith.reducing._graph_sites import graph_sites
from weightsmith.reducing._raw_sites import RawSites

__all__ = ["Port", "Site", "Sites", "find_sites"]

Indices = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Port:
    """The places of a layer that belong to the units: ``indices[unit]`` are those of one unit, of outputs or inputs."""

    layer: str
    indices: Indices

    def of(self, units: Sequence[int]) -> Indices:
        """The places of these units, in order."""
        return self.indices[list(units)].reshape(-1)


@dataclasses.dataclass(frozen=True)
class Site:
    """Units that go together with the layers that write, carry and read them.

    ``activation`` is the last one before they are read (None: none was seen). ``shifts`` names, for each reader that
    can take a constant, the layer that does: itself by its bias, or the batch norm that follows it by its mean.
    """

    name: str
    units: int
    kind: Literal["dense", "conv"]
    activation: str | None
    writers: tuple[Port, ...]
    carriers: tuple[Port, ...]
    readers: tuple[Port, ...]
    shifts: dict[str, str]

    @property
    def takes_constants(self) -> bool:
        """Whether a constant in place of a unit can be told to all its readers."""
        return all(port.layer in self.shifts for port in self.readers)

    @property
    def ports(self) -> tuple[Port, ...]:
        """All layers that a cut changes."""
        return (*self.writers, *self.carriers, *self.readers)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that write the units."""
        return tuple(port.layer for port in self.writers)

    def widths(self, network: nn.Module, units: int) -> dict[str, int]:
        """The outputs of its layers with that many units left: those that write them, and depthwise convolutions."""
        carrying = [port.layer for port in self.carriers if _spatial(network.get_submodule(port.layer))]
        return dict.fromkeys((*self.layers, *carrying), units)


@dataclasses.dataclass(frozen=True)
class Sites:
    """All sites of a network in the order of its layers, and why other layers have none."""

    sites: tuple[Site, ...]
    obstacles: dict[str, str]

    def matching(self, layers: str | Sequence[str] | None) -> tuple[Site, ...]:
        """The sites with a layer that one of the globs names; a layer that cannot be cut is refused with the reason."""
        if layers is None:
            if not self.sites:
                raise UsageError(f"nothing can be taken out of this network: {self._reasons()}")
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
            },
        )
        for raw in found.sites
    ]
    order = {name: place for place, name in enumerate(modules)}
    shared = _shared(network)
    obstacles = dict(found.obstacles)
    for site in sites:
        tied = next((port.layer for port in site.ports if port.layer in shared), None)
        if tied is not None:
            obstacles[site.name] = f"the weights of {tied} are also those of {shared[tied]}"
    kept = [site for site in sites if site.name not in obstacles]
    return Sites(tuple(sorted(kept, key=lambda site: order[site.name])), obstacles)


def _found(network: nn.Module, example: Tensor) -> RawSites:
    """By torch.fx where that suffices; units of dense layers that are added or joined take the dependency graph."""
    if not is_dense(network):
        return graph_sites(network, example)
    found = dense_sites(network)
    if len(found.obstacles) <= 1:  # the output always is one
        return found
    if importlib.util.find_spec("torch_pruning") is None:
        extra = "; the extra prune might find a way"
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


def _shared(network: nn.Module) -> dict[str, str]:
    """Layers that hold a parameter which another one holds too, with the name of the other."""
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
    """The batch norm that follows each layer directly, where the data flow can be traced."""
    try:
        return {layer: norm for norm, layer in fold_batch_norm(network).folded.items()}
    except UsageError:
        return {}
