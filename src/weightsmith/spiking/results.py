"""The results of a conversion: the spiking network, its accuracy after each step, and its cost."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.display import Displayed
from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Comparison, Interval, mcnemar, wilson
from weightsmith.spiking.choices import Choice, Verdict
from weightsmith.spiking.conversion.balance import ThresholdRange
from weightsmith.spiking.conversion.calibrate import Calibration
from weightsmith.spiking.conversion.distilling import Distillation
from weightsmith.spiking.energy.cost import SpikeCost
from weightsmith.spiking.l4.adjust import Adjustment
from weightsmith.spiking.monitors.activity import ActivityRecord
from weightsmith.spiking.monitors.correspondence import Confusion, Correspondence
from weightsmith.spiking.monitors.raster import RasterRecord
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["Decisions", "Population", "SpikeRecord", "SpikeRun", "Watched"]


@dataclasses.dataclass(frozen=True, eq=False)
class Population(Record):
    """One population: neurons, thresholds (for int8 before they are rounded), rate in spikes per neuron and step."""

    name: str
    layer: str
    units: int
    threshold: ThresholdRange
    rate: float
    spikes_per_image: float


@dataclasses.dataclass(frozen=True, eq=False)
class Decisions(Record):
    """Answers on the same images: of the given network, and of the spiking one after each step.

    ``correct[t]`` counts right answers after step t + 1, ``undecided[t]`` images without any answer yet, and
    ``only_network[t]`` those that only the network has right. ``cost`` compares the spiking network after the last step
    with the network, image by image (McNemar): its difference is a gain; :meth:`cost_after` does so for other steps.
    ``settled`` is the number of steps after which half of the images never change their answer again, ``ended`` the
    mean number of steps an image was run for.
    """

    split: str
    images: int
    network: Interval
    spiking: Interval
    cost: Comparison
    correct: NDArray[np.int64]
    undecided: NDArray[np.int64]
    only_network: NDArray[np.int64]
    confusion: Confusion
    settled: int
    ended: float

    def accuracy(self, steps: int) -> Interval:
        """The accuracy after ``steps`` steps, with its Wilson interval."""
        return wilson(int(self.correct[self._index(steps)]), self.images)

    def cost_after(self, steps: int) -> Comparison:
        """The spiking network after ``steps`` steps against the network, paired (McNemar)."""
        index = self._index(steps)
        lost, right = int(self.only_network[index]), int(self.correct[index])
        both = round(self.network.value * self.images) - lost
        # Images in the order: both right, only the spiking network, only the network, neither.
        number = np.arange(self.images)
        return mcnemar(number < right, (number < both) | ((number >= right) & (number < right + lost)))

    def _index(self, steps: int) -> int:
        if not 1 <= steps <= len(self.correct):
            raise UsageError(f"the network was run for {len(self.correct)} steps: there are no answers after {steps}")
        return steps - 1

    def steps_within(self, points: float) -> int | None:
        """The number of steps from which on the spiking network loses at most ``points`` percentage points."""
        least = self.network.value - points / 100
        worse = np.nonzero(self.correct / self.images < least)[0]
        first = 1 if len(worse) == 0 else int(worse[-1]) + 2
        return first if first <= len(self.correct) else None


@dataclasses.dataclass(frozen=True, eq=False)
class Watched(Record):
    """Detailed measurements on a few images: firing statistics, rates against activations, some spike trains."""

    activity: ActivityRecord
    correspondence: Correspondence
    raster: RasterRecord


@dataclasses.dataclass(frozen=True, eq=False)
class SpikeRecord(Record):
    """The record of a conversion, without weights and durations.

    ``obstacle`` says why the network cannot be written as NIR; it is None where it can, and in older records.
    ``verdict`` says whether a wish held on the test rows.
    """

    settings: dict[str, Any]
    network: str
    steps: int
    populations: tuple[Population, ...]
    decisions: Decisions
    cost: SpikeCost
    adjustment: Adjustment | None
    watched: Watched | None
    paths: dict[str, str]
    notes: tuple[str, ...]
    result: str
    origin: Origin
    calibration: Calibration | None = None
    distillation: Distillation | None = None
    choice: Choice | None = None
    obstacle: str | None = None
    verdict: Verdict | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class SpikeRun(Displayed):
    """A finished conversion: its record and the spiking network."""

    record: SpikeRecord
    network: SpikingNetwork

    def __repr__(self) -> str:
        return f"SpikeRun({self})"

    def __str__(self) -> str:
        """One line: neuron, accuracy, steps and cost."""
        record = self.record
        decisions, cost = record.decisions, record.cost
        share = "" if cost.ratio is None else f" ({cost.ratio:.2g} of the network's)"
        return (
            f"{record.settings['neuron']}, {record.settings['encode']}: {decisions.split} accuracy "
            f"{decisions.network.value:.2%} → {decisions.spiking.value:.2%} after {record.steps} "
            f"step{'s' if record.steps > 1 else ''}, {cost.energy / 1e6:.3g} µJ per image{share}"
        )

    @property
    def accuracy(self) -> Interval:
        """After the last step."""
        return self.record.decisions.spiking

    @property
    def rates(self) -> dict[str, float]:
        """Spikes per neuron and step of each population."""
        return {population.name: population.rate for population in self.record.populations}
