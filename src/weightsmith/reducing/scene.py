"""What a method of reduction looks at: the network, its sites, the training rows, and what can be measured on them."""

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

from weightsmith.core.seeds import stream
from weightsmith.networks.card import card_of
from weightsmith.networks.evaluation import batches_for
from weightsmith.reducing.gram import Gram
from weightsmith.reducing.population import Readout
from weightsmith.reducing.sites import Port, Site

__all__ = ["Evaluator", "Masks", "Scene", "drawn"]

Masks = NDArray[np.bool_]
Evaluator = Callable[[Masks], NDArray[np.float64]]


@dataclasses.dataclass(frozen=True)
class Scene:
    """A network in ``eval`` mode with the sites in question, and training rows with their labels.

    ``fitness`` and ``price`` are the user's own for genetic search: of accuracies and masks, and of masks alone in
    place of the number of units. ``folder`` is where a search keeps its state, ``identity`` tells what it belongs to.
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
    progress: Callable[[int, int], None] | None = None

    @property
    def bits(self) -> int:
        """Units of all sites together: the length of a mask."""
        return sum(site.units for site in self.sites)

    @functools.cached_property
    def site_slices(self) -> tuple[slice, ...]:
        """Where the units of each site lie in a mask."""
        ends = np.cumsum([site.units for site in self.sites]).tolist()
        return tuple(slice(end - site.units, end) for site, end in zip(self.sites, ends, strict=True))

    def split(self, mask: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """A mask by site."""
        return {site.name: mask[part] for site, part in zip(self.sites, self.site_slices, strict=True)}

    @torch.no_grad()
    def grams(self, centres: Mapping[str, float]) -> dict[str, Gram]:
        """The Gram matrix of every site's units over the training rows, all sites in one pass.

        What counts is what the readers are given, so pooling and batch norm are part of it; a channel has one value
        per image and position. What several readers are given counts once for each that is given something else.
        """
        grams = {site.name: Gram(site.units, centres[site.name]) for site in self.sites}
        with self._listening(lambda site, rows: grams[site.name].add(rows)) as seen:
            for done, inputs in batches_for(card_of(self.network), self.x, self.batch, self._dtype):
                seen.clear()
                self.network(inputs.to(self.device))
                if self.progress is not None:
                    self.progress(done, len(self.x))
        return grams

    @torch.no_grad()
    def reading_norms(self, site: Site) -> NDArray[np.float64]:
        """√Σ w² over the weights that read each unit, each output as the batch norm behind its layer scales it."""
        total = np.zeros(site.units)
        for port in site.readers:
            weight = self.network.get_submodule(port.layer).get_parameter("weight").double()
            norm = self.network.get_submodule(site.shifts.get(port.layer, port.layer))
            if isinstance(norm, nn.modules.batchnorm._BatchNorm) and norm.running_var is not None:
                scale = (norm.running_var.double() + norm.eps).rsqrt()
                scale = scale * norm.weight.double() if norm.affine else scale
                weight = weight * scale.reshape(-1, *[1] * (weight.dim() - 1))
            columns = weight.square().sum(dim=(0, *range(2, weight.dim()))).cpu().numpy()
            total += columns[port.indices].sum(axis=1)
        found: NDArray[np.float64] = np.sqrt(total)
        return found

    def evaluator(self, rows: int | None = None) -> Evaluator:
        """A function from masks to accuracies in percent on ``rows`` training rows (drawn by the seed; None: all).

        A mask silences units where they are read. A single hidden layer before the output is evaluated for all masks
        in one matrix product, everything else mask by mask.
        """
        chosen = drawn(len(self.x), rows, self.seed, "searched rows")
        x, y = self.x[chosen], self.y[chosen]
        last = self._last_layer(x)
        if last is not None:
            return Readout(*last, y.numpy())
        batches = [
            inputs.to(self.device) for _, inputs in batches_for(card_of(self.network), x, self.batch, self._dtype)
        ]
        return functools.partial(self._one_by_one, batches, y)

    @property
    def _dtype(self) -> torch.dtype:
        return next(value.dtype for value in self.network.parameters() if value.is_floating_point())

    @contextmanager
    def _listening(
        self, heard: Callable[[Site, NDArray[np.float32]], None]
    ) -> Iterator[dict[str, list[weakref.ref[Tensor]]]]:
        """Hooks that hand on what the readers of each site are given, as rows of units; a tensor is heard once."""
        seen: dict[str, list[weakref.ref[Tensor]]] = {}
        handles = []

        def hook(site: Site, port: Port) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
            def given(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                # Known by a weak reference: held tensors would keep all activations of the network in memory.
                if not any(known() is inputs[0] for known in seen.get(site.name, ())):
                    seen.setdefault(site.name, []).append(weakref.ref(inputs[0]))
                    heard(site, _rows_of_units(module, inputs[0], port))

            return given

        try:
            for site in self.sites:
                for port in site.readers:
                    reader = self.network.get_submodule(port.layer)
                    handles.append(reader.register_forward_pre_hook(hook(site, port)))
            yield seen  # to be emptied between batches
        finally:
            for handle in handles:
                handle.remove()

    @torch.no_grad()
    def _last_layer(self, x: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None:
        """Hidden values, weights and biases, if one dense layer turns the units into the output and nothing follows."""
        if len(self.sites) != 1 or len(self.sites[0].readers) != 1:
            return None
        (port,) = self.sites[0].readers
        reader = self.network.get_submodule(port.layer)
        if not isinstance(reader, nn.Linear) or port.indices.shape[1] != 1 or reader.in_features != len(port.indices):
            return None
        weight = reader.weight.detach().cpu()[:, torch.from_numpy(port.indices[:, 0])]
        given: Tensor | None = reader.bias
        bias = weight.new_zeros(len(weight)) if given is None else given.detach().cpu()
        hidden: list[NDArray[np.float32]] = []
        with self._listening(lambda _site, rows: hidden.append(rows)) as seen:
            for _, inputs in batches_for(card_of(self.network), x, self.batch, self._dtype):
                seen.clear()
                outputs = self.network(inputs.to(self.device)).cpu()
                expected = nn.functional.linear(torch.from_numpy(hidden[-1]), weight, bias)
                if expected.shape != outputs.shape or not torch.allclose(expected, outputs):
                    return None
        return np.concatenate(hidden), weight.numpy(), bias.numpy()

    @torch.no_grad()
    def _one_by_one(self, batches: list[Tensor], y: Tensor, masks: Masks) -> NDArray[np.float64]:
        found = np.empty(len(masks))
        for place, mask in enumerate(masks):
            with self._silenced(mask):
                called = torch.cat([self.network(inputs).argmax(dim=1).cpu() for inputs in batches])
            found[place] = 100 * float((called == y).sum()) / len(y)
        return found

    @contextmanager
    def _silenced(self, mask: NDArray[np.bool_]) -> Iterator[None]:
        handles = []
        parts = self.split(mask)
        try:
            for site in self.sites:
                for port in site.readers:
                    reader = self.network.get_submodule(port.layer)
                    handles.append(reader.register_forward_pre_hook(_Silence(reader, port, parts[site.name])))
            yield
        finally:
            for handle in handles:
                handle.remove()


class _Silence:
    """A hook that sets the units that are off to zero in the input of a reader."""

    def __init__(self, reader: nn.Module, port: Port, on: NDArray[np.bool_]) -> None:
        weight = next(reader.parameters())
        keep = torch.ones(weight.shape[1], dtype=weight.dtype, device=weight.device)
        keep[port.indices[~on].reshape(-1)] = 0
        positions = weight.dim() - 2 if isinstance(reader, nn.modules.conv._ConvNd) else 0
        self.keep = keep.reshape(-1, *[1] * positions)

    def __call__(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        first, *others = inputs
        return (first * self.keep, *others)


def _rows_of_units(module: nn.Module, given: Tensor, port: Port) -> NDArray[np.float32]:
    """What a reader is given, as rows (input and position) × units."""
    axis = 1 if isinstance(module, nn.modules.conv._ConvNd) else given.dim() - 1
    values = given.movedim(axis, -1)
    if values.shape[-1] != port.indices.size or port.indices.shape[1] > 1:
        values = values[..., torch.from_numpy(port.indices)].movedim(-1, -2)
    rows = values.reshape(-1, len(port.indices)).contiguous().cpu()
    found: NDArray[np.float32] = (rows if rows.dtype == torch.float64 else rows.float()).numpy()
    return found


def drawn(total: int, rows: int | None, seed: int, name: str) -> Tensor:
    """Numbers of ``rows`` out of ``total`` rows (None: all), drawn from the stream ``name`` of the seed, ascending."""
    if rows is None or rows >= total:
        return torch.arange(total)
    return torch.from_numpy(np.sort(stream(seed, name).choice(total, rows, replace=False)))
