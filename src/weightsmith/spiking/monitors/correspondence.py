"""Conversion error: rates against activations, and the answers of the two networks against each other.

With a the activation of a unit for an image, and y its spikes per step (of graded neurons the sum of their sizes) times
its amplitude (the value of a spike; 1 if unknown), over all images and units of a population:

    slope          Σ a·y / Σ a²                     the line through the origin nearest to the points
    correlation    Pearson's, of a and y
    error          √(Σ (y − a)² / Σ a²)             only if the amplitude is known: else the two have no common unit
    scatter        √(Σ (y − slope·a)² / Σ y²)       the part of y that no common factor explains
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.records import Record
from weightsmith.core.seeds import stream
from weightsmith.core.statistics import Interval, wilson
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.graph import Neurons
from weightsmith.spiking.monitors._watching import Watched, check_units, chosen, per_unit, shown_shape
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.simulation.responses import UNDECIDED

__all__ = ["Confusion", "Correspondence", "PopulationCorrespondence", "Rates", "confusion", "correspondence"]

_BATCH = 16
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class PopulationCorrespondence(Record):
    """Rates of one population against the activations they represent (see the formulas above).

    A number is None where it is not defined: all activations are zero, or do not vary, or nothing fired.
    ``activations`` and ``rates`` (times the amplitude) are some points of the scatter plot, drawn by the seed.
    """

    name: str
    layer: str
    units: int
    calibrated: bool
    slope: float | None
    correlation: float | None
    error: float | None
    scatter: float | None
    activations: NDArray[np.float32]
    rates: NDArray[np.float32]


@dataclasses.dataclass(frozen=True, eq=False)
class Correspondence(Record):
    """Rates against activations, population by population, for ``images`` images run for ``steps`` steps on average."""

    images: int
    steps: float
    populations: tuple[PopulationCorrespondence, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Confusion(Record):
    """``matrix[i, j]``: images that the network assigns class i and the spiking network class j.

    ``undecided[i]`` counts those of class i for which no spike had reached the output; they do not count as agreement.
    """

    matrix: NDArray[np.int64]
    undecided: NDArray[np.int64]
    agreement: Interval


class Rates:
    """An observer that counts the spikes of every unit for some images.

    ``images`` is a number of first rows of the input, or a list of rows; each takes 4 bytes per unit.
    """

    membranes, inputs = False, False

    def __init__(
        self,
        network: SpikingNetwork,
        *,
        images: int | Iterable[int] = 16,
        populations: Iterable[str] | None = None,
    ) -> None:
        self.network = network
        self._nodes = chosen(network, populations)
        self._watched = Watched(images, self._nodes)
        images_watched = len(self._watched.rows)
        self._counts = {
            node.name: np.zeros((images_watched, *shown_shape(network, node.name)), np.int32) for node in self._nodes
        }

    @property
    def populations(self) -> tuple[Neurons, ...]:
        """The populations that are watched."""
        return self._nodes

    @property
    def images(self) -> NDArray[np.int64]:
        """The rows of the input that were seen."""
        return self._watched.rows[self._watched.ended() > 0]

    @property
    def steps(self) -> NDArray[np.int64]:
        """The number of steps seen of each of :attr:`images`."""
        ended = self._watched.ended()
        return ended[ended > 0]

    def of(self, population: str) -> NDArray[np.float64]:
        """Spikes per step (images, positions, channels), net of those taken back; for graded neurons the sum."""
        if population not in self._counts:
            raise UnknownName("population", population, self._counts)
        counts = self._counts[population][self._watched.ended() > 0]
        neuron = self.network.neuron
        return counts / (neuron.largest if isinstance(neuron, Graded) else self.steps[:, None, None])

    def see(
        self,
        population: str,
        images: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Count a part of the run."""
        del membranes
        if population in self._counts:
            check_units(self.network, population, spikes)
            here, mine = self._watched.indices(population, images, step, spikes.shape[1])
            self._counts[population][mine] += spikes[here].sum(axis=1, dtype=np.int32)


def correspondence(
    rates: Rates,
    activations: Callable[[Tensor], Mapping[str, Tensor]],
    x: Tensor,
    *,
    points: int = 2000,
    seed: int = 0,
) -> Correspondence:
    """Compare ``rates`` with the activations of the network that was converted, for the same images.

    ``activations`` returns for a normalised batch the values of each population's layer after its ReLU
    (:meth:`Converted.activations`). ``x`` are the rows of the run, as they come from the data.
    """
    images = rates.images
    if len(x) <= images[-1]:
        raise DataMismatch(f"image {images[-1]} was run, but x has {len(x)} rows; give the x of the run")
    sums = {node.name: _Sums(rates, node, points, seed) for node in rates.populations}
    done = 0
    for upto, batch in batches_for(rates.network.card, x[torch.from_numpy(images)], _BATCH):
        values = activations(batch)
        for name, found in sums.items():
            if name not in values:
                raise DataMismatch(f"there are no activations of the population {name!r}, only of {', '.join(values)}")
            found.add(slice(done, upto), values[name])
        done = upto
    return Correspondence(len(images), float(rates.steps.mean()), tuple(found.result() for found in sums.values()))


class _Sums:
    """Sums over the points of one population, and the few points that are kept."""

    def __init__(self, rates: Rates, node: Neurons, points: int, seed: int) -> None:
        network = rates.network
        self._node, self._shape = node, network.shapes[node.name]
        self._rates = rates.of(node.name)
        if node.amplitude is not None:
            self._rates = self._rates * per_unit(network, node.name, node.amplitude)
        number = self._rates.size
        drawn = stream(seed, "correspondence", node.name).choice(number, min(points, number), replace=False)
        self._points = np.sort(drawn)
        self._kept: list[NDArray[np.float64]] = []
        self._moments = np.zeros(6)

    def add(self, images: slice, values: Tensor) -> None:
        """Add the activations of these images."""
        rates = self._rates[images]
        if tuple(values.shape) != (len(rates), *self._shape):
            raise DataMismatch(
                f"{self._node.name} has values of shape {self._shape}, not the {tuple(values.shape[1:])} of activations"
            )
        shown = values.detach().double().cpu().reshape(len(rates), self._shape[0], -1).transpose(1, 2).numpy()
        a, y = shown.reshape(-1), rates.reshape(-1)
        if not np.isfinite(a).all():
            raise DataMismatch(f"activations of {self._node.name} hold NaN or infinity")
        self._moments += [a.sum(), y.sum(), a @ a, y @ y, a @ y, (y - a) @ (y - a)]
        first = images.start * rates[0].size
        inside = self._points[(self._points >= first) & (self._points < first + a.size)]
        self._kept.append(a[inside - first])

    def result(self) -> PopulationCorrespondence:
        """The figures of the population."""
        total_a, total_y, aa, yy, ay, apart = self._moments.tolist()
        number = self._rates.size
        spread = math.sqrt(_spread(aa, total_a, number) * _spread(yy, total_y, number))
        known = self._node.amplitude is not None
        return PopulationCorrespondence(
            name=self._node.name,
            layer=self._node.layer,
            units=math.prod(self._shape),
            calibrated=known,
            slope=ay / aa if aa else None,
            correlation=(ay - total_a * total_y / number) / spread if spread else None,
            error=math.sqrt(apart / aa) if known and aa else None,
            scatter=math.sqrt(max(0.0, 1 - ay**2 / (aa * yy))) if aa and yy else None,
            activations=np.concatenate(self._kept).astype(np.float32),
            rates=self._rates.reshape(-1)[self._points].astype(np.float32),
        )


def _spread(squares: float, total: float, number: int) -> float:
    """Σ (x − mean)² from Σ x² and Σ x; zero if only rounding errors of equal values are left."""
    spread = squares - total**2 / number
    return spread if spread > _ROUNDING * squares else 0.0


def confusion(
    network: NDArray[np.integer], spiking: NDArray[np.integer], classes: int, *, confidence: float = 0.95
) -> Confusion:
    """The confusion matrix of the answers of a network and of its spiking network, one answer of each per image.

    >>> found = confusion(np.array([0, 1, 1, 2]), np.array([0, 1, 2, -1]), 3)
    >>> found.matrix.tolist(), found.undecided.tolist(), found.agreement.value
    ([[1, 0, 0], [0, 1, 1], [0, 0, 0]], [0, 0, 1], 0.5)
    """
    if network.shape != spiking.shape or network.ndim != 1 or len(network) == 0:
        raise UsageError(
            f"confusion takes one answer of each network for every image, not {network.shape} and {spiking.shape}"
        )
    for name, answers, least in (("network", network, 0), ("spiking network", spiking, UNDECIDED)):
        if answers.min() < least or answers.max() >= classes:
            odd = answers[(answers < least) | (answers >= classes)][0]
            raise DataMismatch(f"the {name} answers {odd}, which is not one of the {classes} classes")
    matrix = np.zeros((classes, classes + 1), np.int64)
    np.add.at(matrix, (network, np.where(spiking == UNDECIDED, classes, spiking)), 1)
    agreement = wilson(int(np.trace(matrix)), len(network), confidence)
    return Confusion(matrix[:, :classes].copy(), matrix[:, classes].copy(), agreement)
