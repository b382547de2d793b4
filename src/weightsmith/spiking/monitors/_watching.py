"""Shared parts of the observers: the populations and images they watch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.spiking.graph import Neurons
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Watched", "check_units", "chosen", "per_unit", "rows_of", "shown_shape"]


class Watched:
    """The images that an observer watches, and the number of steps seen of each for every population."""

    def __init__(self, images: int | Iterable[int], populations: Sequence[Neurons]) -> None:
        self.rows = rows_of(images)
        self.seen = {node.name: np.zeros(len(self.rows), np.int64) for node in populations}

    def indices(
        self, population: str, images: NDArray[np.int64], step: int, length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The watched images among those shown: their indices in the batch, and among the watched ones."""
        at = np.searchsorted(self.rows, images)
        here = np.flatnonzero(self.rows[np.minimum(at, len(self.rows) - 1)] == images)
        mine = at[here]
        seen = self.seen[population]
        odd = np.flatnonzero(seen[mine] != step)
        if len(odd):
            image = images[here[odd[0]]]
            raise UsageError(
                f"step {step} of image {image} follows step {seen[mine[odd[0]]] - 1} of {population}: "
                "an observer watches one whole run; use a new one for each run"
            )
        seen[mine] = step + length
        return here, mine

    def ended(self) -> NDArray[np.int64]:
        """Steps seen of each watched image; refuses an observer that has seen nothing."""
        steps: NDArray[np.int64] = np.max(list(self.seen.values()), axis=0)
        if not steps.any():
            raise UsageError("the observer has seen nothing: pass it to run(observers=[…]) first")
        return steps


def rows_of(images: int | Iterable[int]) -> NDArray[np.int64]:
    """The rows of the input to watch: the first ``images``, or the given ones, in ascending order."""
    if isinstance(images, int | np.integer):
        images = range(images)
    rows = np.unique(np.asarray(list(images), np.int64))
    if len(rows) == 0 or rows[0] < 0:
        raise UsageError(f"images must be a number ≥ 1, or row numbers ≥ 0, not {images!r}")
    return rows


def chosen(network: SpikingNetwork, populations: Iterable[str] | None) -> tuple[Neurons, ...]:
    """The populations of these names, in the order of the network; all if None."""
    known = {node.name: node for node in network.populations}
    names = set(known if populations is None else populations)
    unknown = next(iter(sorted(names - set(known))), None)
    if unknown is not None:
        raise UnknownName("population", unknown, known)
    if not names:
        raise UsageError("populations is empty; leave it out (None) for all")
    return tuple(node for name, node in known.items() if name in names)


def shown_shape(network: SpikingNetwork, name: str) -> tuple[int, int]:
    """(positions, channels) of a node as observers see it."""
    channels, *space = network.shapes[name]
    return math.prod(space), channels


def check_units(network: SpikingNetwork, name: str, spikes: NDArray[np.integer]) -> None:
    """Refuse spikes (images, steps, positions, channels) that are not those of this node."""
    expected = shown_shape(network, name)
    if spikes.shape[2:] != expected:
        raise DataMismatch(f"{name} has {expected} positions and channels, not {spikes.shape[2:]}")


def per_unit(network: SpikingNetwork, name: str, values: Tensor) -> NDArray[np.float64]:
    """Values per channel, or per unit in the node's shape, as (positions, channels)."""
    flat = values.double().cpu().numpy().reshape(len(values), -1).T
    return np.broadcast_to(flat, shown_shape(network, name))
