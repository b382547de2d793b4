"""The readers of sites as least-squares problems: Gram matrices of their patches, from one pass over unlabelled rows.

A convolution's columns are the entries of its patches, padding included (``refitting/patches.py``). A dense layer that
reads every unit at many positions is treated as a map of the units themselves, the same at all positions p: its error
is measured by Σₚ WₚᵀWₚ of its weights. So is a layer with a custom forward, whose patches are unknown. Outputs are
weighted as the batch norm behind the reader scales them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.seeds import stream
from weightsmith.networks.editing.fold import norm_factor
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.reducing.criteria.elimination import ReaderProblem
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.refitting.patches import (
    at_least_float,
    columns_of,
    drawn_places,
    input_rows,
    is_supported,
)
from weightsmith.reducing.surgery.sites import Port, Site

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Reader", "readers_of"]

_PLACES = 64  # output positions of a convolution that are sampled per image
_BLOCK = 50


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader of a site, its problem, the means of its columns, and 1/γ̄ of its outputs.

    ``spread``: the columns are units, each read at several positions.
    """

    site: Site
    port: Port
    problem: ReaderProblem
    means: NDArray[np.float64]
    scale: NDArray[np.float64]
    spread: bool

    @property
    def changed(self) -> tuple[str, ...]:
        """The layers that :meth:`put` writes to."""
        return self.port.layer, self.site.shifts.get(self.port.layer, self.port.layer)

    @torch.no_grad()
    def put(self, network: nn.Module, weight: NDArray[np.float64]) -> None:
        """Write a refitted weight of the problem into the layer of ``network``; constants go where ``site`` says."""
        layer = network.get_submodule(self.port.layer)
        old = outputs_first(layer)
        if self.spread:
            indices = torch.from_numpy(self.port.indices)
            read = old.double().cpu()[:, indices].flatten(2)
            new = old.double().cpu().clone()
            new[:, indices.reshape(-1)] = torch.einsum(
                "oup,ku->okp", read, torch.from_numpy(np.ascontiguousarray(weight))
            ).reshape(new[:, indices.reshape(-1)].shape)
            lost = torch.from_numpy(self.means - self.means @ weight)
            shift = torch.einsum("oup,u->o", read, lost)
        else:
            change = (weight - self.problem.weight) * self.scale
            new = old.double().cpu() + torch.from_numpy(np.ascontiguousarray(change.T)).reshape(old.shape)
            shift = torch.from_numpy(-self.means @ change)
        old.copy_(new)
        taker = self.site.shifts.get(self.port.layer)
        if taker == self.port.layer:
            layer.get_parameter("bias").add_(shift.to(old))
        elif taker is not None:
            network.get_submodule(taker).get_buffer("running_mean").sub_(shift.to(old))


@torch.no_grad()
def readers_of(context: PruningContext) -> dict[str, tuple[Reader, ...]]:
    """The readers of every site of ``context``, measured in one pass over its calibration rows."""
    network = context.network
    places = [(site, port) for site in context.sites for port in site.readers]
    grams: dict[str, Gram] = {}
    handles = []
    x = context.x if context.calibration is None else context.calibration
    batches = context.batches(x, _BLOCK)
    try:
        for site, port in places:
            if port.layer in grams:
                continue
            module = network.get_submodule(port.layer)
            spread = _is_spread(module, site, port)
            grams[port.layer] = Gram(
                len(port.indices) if spread else outputs_first(module)[0].numel(),
                precision="float64" if context.dtype == torch.float64 else "mixed",
            )
            handles.append(module.register_forward_hook(_adding(grams[port.layer], port, spread, context.seed)))
        for done, inputs in batches:
            network(inputs)
            if context.progress is not None:
                context.progress(done, len(x))
    finally:
        for handle in handles:
            handle.remove()
    found: dict[str, list[Reader]] = {site.name: [] for site in context.sites}
    for site, port in places:
        found[site.name].append(_reader(network, site, port, grams[port.layer]))
    return {name: tuple(readers) for name, readers in found.items()}


def _is_spread(module: nn.Module, site: Site, port: Port) -> bool:
    if not is_supported(module):
        return True
    return isinstance(module, nn.Linear) and site.is_spread(port) and port.indices.size == module.in_features


def _adding(gram: Gram, port: Port, spread: bool, seed: int) -> Callable[[nn.Module, Any, Tensor], None]:
    """A hook that adds the rows of a reader to its Gram matrix."""
    generator = stream(seed, "places", port.layer)
    indices = torch.from_numpy(port.indices)

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        given = inputs[0]
        if spread:
            places = given if isinstance(module, nn.Linear) else given.movedim(1, -1)
            rows = places.flatten(0, -2)[:, indices.to(given.device)].movedim(1, -1).flatten(0, 1)
        else:
            rows = input_rows(module, given, drawn_places(module, output, _PLACES, generator))
        gram.add(at_least_float(rows).cpu().numpy())

    return hook


def _reader(network: nn.Module, site: Site, port: Port, gram: Gram) -> Reader:
    module = network.get_submodule(port.layer)
    taker = site.shifts.get(port.layer)
    products = (gram.about_mean() if taker is not None else gram).products / gram.rows
    means = gram.means if taker is not None else np.zeros(gram.units)
    weight = outputs_first(module).double().cpu()
    if _is_spread(module, site, port):
        read = weight[:, torch.from_numpy(port.indices)].flatten(2)
        metric = torch.einsum("oup,ovp->uv", read, read).numpy()
        own = np.arange(len(port.indices))[:, None]
        problem = ReaderProblem(products, np.eye(len(own)), own, metric)
        return Reader(site, port, problem, means, np.ones(len(own)), spread=True)
    factor = _norm_factor(network, taker, port.layer, len(weight))
    alive = np.where(factor != 0, factor, 1.0)
    columns = np.stack([columns_of(module, inputs) for inputs in port.indices])
    problem = ReaderProblem(products, weight.flatten(1).T.numpy() * factor, columns)
    return Reader(site, port, problem, means, np.where(factor != 0, 1 / alive, 0.0), spread=False)


def _norm_factor(network: nn.Module, taker: str | None, layer: str, outputs: int) -> NDArray[np.float64]:
    """The factors of the batch norm behind a reader on its outputs; ones without a batch norm."""
    if taker is None or taker == layer:
        return np.ones(outputs)
    found: NDArray[np.float64] = norm_factor(network.get_submodule(taker), torch.float64).detach().cpu().numpy()
    return found
