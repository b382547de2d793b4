"""Moments of membrane potentials, and of the inputs of the weights before them.

Moments are taken over images, steps and positions while a network runs; the run itself is not stored. To measure
the first layers only, run the :func:`truncated` network, which ends after the population of interest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Node, Pool, Scale, Shape, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.simulation.reference import linear
from weightsmith.spiking.simulation.sources import source_of

__all__ = ["Arrivals", "MembraneMoments", "arrivals", "truncated"]

_AT_ONCE = 1 << 16  # values converted to float64 at a time: few enough to stay in the cache


class MembraneMoments:
    """An observer that computes mean and variance, per channel, of every membrane just before its threshold test.

    Without ``populations`` it observes all. Parts are merged by the rule of Chan, Golub and LeVeque ("Updating formulae
    and a pairwise algorithm for computing sample variances", 1979), so that a large mean does not swallow a small
    variance.
    """

    membranes, inputs = True, False

    def __init__(self, populations: Iterable[str] | None = None) -> None:
        if isinstance(populations, str):
            raise UsageError(
                f"populations must be a list of names, not {populations!r}; for one write [{populations!r}]"
            )
        self._wanted = None if populations is None else frozenset(populations)
        self._seen: dict[str, _Moments] = {}

    def see(
        self,
        population: str,
        images: NDArray[np.int64],  # noqa: ARG002 (part of the protocol)
        step: int,  # noqa: ARG002
        spikes: NDArray[np.integer],  # noqa: ARG002
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Take in membranes (images, steps, positions, channels)."""
        if self._wanted is not None and population not in self._wanted:
            return
        if membranes is None:
            raise UsageError(f"{population}: no membranes were observed, so there are no moments")
        channels = membranes.shape[-1]
        moments = self._seen.setdefault(population, _Moments(channels))
        rows = membranes.reshape(-1, channels)
        for part in _parts(len(rows), channels):
            moments.add(rows[part].astype(np.float64))

    def count(self, population: str) -> int:
        """The number of values seen of each channel: images · steps · positions."""
        return self._of(population).count

    def mean(self, population: str) -> NDArray[np.float64]:
        """The mean of each channel."""
        return self._of(population).mean.copy()

    def variance(self, population: str) -> NDArray[np.float64]:
        """The variance of each channel over all values seen (divided by their count)."""
        moments = self._of(population)
        return moments.squares / moments.count

    def _of(self, population: str) -> _Moments:
        if population not in self._seen:
            raise UnknownName("population among those seen", population, self._seen)
        return self._seen[population]


class _Moments:
    """Count, mean and sum of squared deviations of each column of the rows added."""

    def __init__(self, columns: int) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(columns), np.zeros(columns)

    def add(self, rows: NDArray[np.float64]) -> None:
        mean = rows.mean(axis=0)
        squares = np.square(rows - mean).sum(axis=0)
        total = self.count + len(rows)
        apart = mean - self.mean
        self.squares += squares + apart**2 * (self.count * len(rows) / total)
        self.mean += apart * (len(rows) / total)
        self.count = total


def _parts(rows: int, width: int) -> Iterable[slice]:
    """Slices of rows of this width, each with at most ``_AT_ONCE`` values."""
    length = max(1, _AT_ONCE // width)
    return (slice(start, start + length) for start in range(0, rows, length))


def truncated(network: SpikingNetwork, population: str) -> SpikingNetwork:
    """The network up to ``population`` only, with one output that stays zero."""
    if not isinstance(network.node(population), Neurons):
        raise UnknownName("population", population, [node.name for node in network.populations])
    needed, nodes = {population}, list[Node]()
    for node in reversed(network.nodes):
        if node.name in needed:
            nodes.append(node)
            needed.update(node.sources)
    flat = Flatten(f"{population} (flat)", population)
    silent = Synapses(f"{population} (end)", flat.name, torch.zeros(1, math.prod(network.shapes[population])))
    return dataclasses.replace(network, nodes=(*reversed(nodes), flat, silent))


@dataclasses.dataclass(frozen=True, eq=False)
class Arrivals:
    """Mean and mean square, over images and steps, of each value that enters a node (float64, in their shape).

    The mean square of spikes is their rate. It is None if no random inputs arrive (constant currents), or if random
    inputs are mixed before they arrive.
    """

    mean: Tensor
    square: Tensor | None


def arrivals(network: SpikingNetwork, synapses: str, x: Tensor, *, steps: int, seed: int = 0) -> Arrivals:
    """The moments of the inputs of ``synapses`` while ``network`` runs on ``x`` for ``steps`` steps.

    Those of the network's input are known without a run: a pixel x fires with probability scale·|x| (:class:`Poisson`).
    Those of a population are measured. Pools, flattening and scales in between are followed; sums and gates are
    refused.
    """
    root, chain = _way_to(network, synapses)
    if root != INPUT:
        watch = _Watch(root, network.shapes[root], chain)
        truncated(network, root).run(x, steps, seed=seed, observers=[watch])
        return watch.arrivals()
    scale = network.encode.scale if isinstance(network.encode, Poisson) else 1.0
    shown = source_of(network, x, seed, 0).x.double() * scale
    mean = _through(chain, shown.mean(dim=0, keepdim=True))[0]
    if not isinstance(network.encode, Poisson) or not all(isinstance(node, Flatten) for node in chain):
        return Arrivals(mean, None)
    return Arrivals(mean, _through(chain, shown.abs().mean(dim=0, keepdim=True))[0])


_Linear = Pool | Flatten | Scale


def _way_to(network: SpikingNetwork, synapses: str) -> tuple[str, list[_Linear]]:
    """The source of the values that arrive at ``synapses`` (the input or a population), and the nodes between."""
    chain: list[_Linear] = []
    name = network.node(synapses).sources[0]
    while name != INPUT and not isinstance(node := network.node(name), Neurons):
        if not isinstance(node, Pool | Flatten | Scale):
            raise UsageError(
                f"the inputs of {synapses} pass {name} ({type(node).__name__}), after which they are not measured; "
                "use by=norm and mean=membrane"
            )
        chain.insert(0, node)
        name = node.source
    return name, chain


def _through(chain: Sequence[_Linear], values: Tensor) -> Tensor:
    """Values (images, …) after the nodes of ``chain``."""
    for node in chain:
        values = linear(node, {node.source: values})
    return values


class _Watch:
    """Sums the spikes of one population as they leave a chain of nodes."""

    membranes, inputs = False, False

    def __init__(self, root: str, shape: Shape, chain: Sequence[_Linear]) -> None:
        self._root, self._shape, self._chain = root, shape, chain
        self._count = 0
        self._sum = self._squares = torch.zeros((), dtype=torch.float64)

    def see(
        self,
        population: str,
        images: NDArray[np.int64],  # noqa: ARG002 (part of the protocol)
        step: int,  # noqa: ARG002
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,  # noqa: ARG002
    ) -> None:
        if population != self._root:
            return
        rows = spikes.reshape(-1, *spikes.shape[2:])
        for part in _parts(len(rows), rows[0].size):
            # Positions come before channels here, and after them in the network.
            fired = torch.from_numpy(rows[part].astype(np.float64)).transpose(1, 2)
            arrived = _through(self._chain, fired.reshape(len(fired), *self._shape))
            self._sum = self._sum + arrived.sum(dim=0)
            self._squares = self._squares + arrived.square().sum(dim=0)
            self._count += len(fired)

    def arrivals(self) -> Arrivals:
        return Arrivals(self._sum / self._count, self._squares / self._count)
