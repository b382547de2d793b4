"""The input of a pruning method: the network, its sites, the training rows, and the measurements made on them."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import stream
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.fold import norm_factor
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.networks.evaluation import batches_for, inputs_of
from weightsmith.networks.precision import input_type
from weightsmith.networks.running import memory_format_of
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.search.evaluator import Evaluator, Masks, evaluator_of
from weightsmith.reducing.surgery.masking import unit_axis
from weightsmith.reducing.surgery.sites import Port, Site

__all__ = ["PruningContext", "drawn"]


@dataclasses.dataclass(frozen=True)
class PruningContext:
    """A network in ``eval`` mode with the sites in question, and training rows with their labels.

    ``fitness`` (of accuracies and masks) and ``price`` (of masks, in place of the number of units) are the user's
    functions for genetic search. ``folder`` holds the state of a search, ``identity`` the run that it belongs to.
    ``calibration`` are the rows on which Gram matrices of patches are measured (None: all of ``x``), ``orders`` the
    units of each site in their order of elimination, if a plan has measured it already.
    """

    network: nn.Module
    sites: tuple[Site, ...]
    x: Tensor
    y: Tensor
    seed: int = 0
    batch: int = 256
    device: str = "cpu"
    fitness: Callable[[NDArray[np.float64], Masks], NDArray[np.float64]] | None = None
    price: Callable[[Masks], NDArray[np.float64]] | None = None
    folder: Path | None = None
    identity: dict[str, str] = dataclasses.field(default_factory=dict)
    progress: StepCallback | None = None
    calibration: Tensor | None = None
    orders: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    @property
    def bits(self) -> int:
        """Units of all sites together: the length of a mask."""
        return sum(site.units for site in self.sites)

    @functools.cached_property
    def site_slices(self) -> tuple[slice, ...]:
        """The slice of each site's units in a mask."""
        ends = np.cumsum([site.units for site in self.sites]).tolist()
        return tuple(slice(end - site.units, end) for site, end in zip(self.sites, ends, strict=True))

    def split(self, mask: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Split a mask by site."""
        return {site.name: mask[part] for site, part in zip(self.sites, self.site_slices, strict=True)}

    def batches(self, x: Tensor, size: int | None = None) -> Iterator[tuple[int, Tensor]]:
        """Batches of ``x`` in the network's input format, each with the number of inputs so far."""
        memory_format = self._memory_format  # found out now, before the caller registers hooks
        batches = batches_for(card_of(self.network), x, size or self.batch, input_type(self.network), memory_format)
        return ((done, inputs.to(self.device)) for done, inputs in batches)

    @functools.cached_property
    def _memory_format(self) -> torch.memory_format:
        return memory_format_of(self.network, inputs_of(self.network, self.x[:2]).to(self.device))

    @torch.no_grad()
    def grams(self, centres: Mapping[str, float]) -> dict[str, Gram]:
        """The Gram matrix of every site's units over the training rows, all sites in one pass.

        The activations are the inputs of the reading layers, after pooling and batch norm; a channel has one value
        per image and position. An input that several readers share counts once.
        """
        grams = {site.name: Gram(site.units, centres[site.name]) for site in self.sites}
        batches = self.batches(self.x)
        with self.capturing(lambda site, rows: grams[site.name].add(rows)) as seen:
            for done, inputs in batches:
                seen.clear()
                self.network(inputs)
                if self.progress is not None:
                    self.progress(done, len(self.x))
        return grams

    @torch.no_grad()
    def reading_norms(self, site: Site) -> NDArray[np.float64]:
        """√Σ w² over the weights that read each unit, each output as the batch norm behind its layer scales it."""
        total = np.zeros(site.units)
        for port in site.readers:
            weight = outputs_first(self.network.get_submodule(port.layer)).double()
            norm = self.network.get_submodule(site.shifts.get(port.layer, port.layer))
            if isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.running_var is not None:
                scale = norm_factor(norm, torch.float64)
                weight = weight * scale.reshape(-1, *[1] * (weight.dim() - 1))
            columns = weight.square().sum(dim=(0, *range(2, weight.dim()))).cpu().numpy()
            total += columns[port.indices].sum(axis=1)
        found: NDArray[np.float64] = np.sqrt(total)
        return found

    def evaluator(self, rows: int | None = None) -> Evaluator:
        """A function from masks to accuracies in percent on ``rows`` training rows (drawn by the seed; None: all)."""
        chosen = drawn(len(self.x), rows, self.seed, "searched rows")
        return evaluator_of(self, self.x[chosen], self.y[chosen])

    @property
    def dtype(self) -> torch.dtype:
        """The type that the network computes in."""
        found = (value.dtype for value in self.network.parameters() if value.is_floating_point())
        return next(found, torch.float32)  # a network of 8-bit layers has none

    @contextmanager
    def capturing(
        self, callback: Callable[[Site, NDArray[np.float32]], None]
    ) -> Iterator[dict[str, list[weakref.ref[Tensor]]]]:
        """Pass the inputs of each site's readers to ``callback`` as rows of units, each tensor once."""
        seen: dict[str, list[weakref.ref[Tensor]]] = {}
        handles = []

        def hook(site: Site, port: Port) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
            def given(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                # Compared by weak reference: strong ones would keep all activations of the network in memory.
                if not any(known() is inputs[0] for known in seen.get(site.name, ())):
                    seen.setdefault(site.name, []).append(weakref.ref(inputs[0]))
                    callback(site, _rows_of_units(module, inputs[0], port))

            return given

        try:
            for site in self.sites:
                for port in site.readers:
                    reader = self.network.get_submodule(port.layer)
                    handles.append(reader.register_forward_pre_hook(hook(site, port)))
            yield seen  # the caller empties it between batches
        finally:
            for handle in handles:
                handle.remove()


def _rows_of_units(module: nn.Module, given: Tensor, port: Port) -> NDArray[np.float32]:
    """The input of a reader as rows (input and position) × units."""
    values = given.movedim(unit_axis(module, given), -1)
    if values.shape[-1] != port.indices.size or port.indices.shape[1] > 1:
        values = values[..., torch.from_numpy(port.indices)].movedim(-1, -2)
    rows = values.reshape(-1, len(port.indices)).contiguous().cpu()
    found: NDArray[np.float32] = (rows if rows.dtype == torch.float64 else rows.float()).numpy()
    return found


def drawn(total: int, rows: int | None, seed: int, name: str) -> Tensor:
    """Indices of ``rows`` out of ``total`` rows (None: all), drawn from the stream ``name`` of the seed, ascending."""
    if rows is None or rows >= total:
        return torch.arange(total)
    return torch.from_numpy(np.sort(stream(seed, name).choice(total, rows, replace=False)))
