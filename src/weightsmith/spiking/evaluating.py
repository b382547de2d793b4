"""``evaluate_spiking``: the accuracy of a spiking network after every number of steps, and its rates."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from weightsmith.core.options import Range
from weightsmith.core.progress import StepCallback, as_callback
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval, wilson
from weightsmith.core.verbs import Device, Doc, Seed, Split, TestRows, verb
from weightsmith.spiking.neurons import Precision

if TYPE_CHECKING:
    from weightsmith.spiking.network import SpikingNetwork

__all__ = ["FiringLayer", "SpikingEvaluation", "StepAccuracy", "evaluate_spiking"]

USUAL_STEPS = 64


@dataclasses.dataclass(frozen=True, eq=False)
class StepAccuracy(Record):
    """The accuracy after ``steps`` steps with its 95 % Wilson interval, and the number of images without an answer."""

    steps: int
    accuracy: float
    low: float
    high: float
    undecided: int


@dataclasses.dataclass(frozen=True, eq=False)
class FiringLayer(Record):
    """A population of neurons: ``rate`` in spikes per neuron and step, ``spikes`` per image."""

    layer: str
    population: str
    neurons: int
    rate: float
    spikes: float


@dataclasses.dataclass(frozen=True, eq=False)
class SpikingEvaluation(Record):
    """The accuracy and firing rates of a spiking network on one split."""

    data: str
    split: str
    images: int
    neuron: str
    encode: str
    precision: str
    steps: tuple[StepAccuracy, ...]
    layers: tuple[FiringLayer, ...]
    notes: tuple[str, ...]
    origin: Origin


@verb
def evaluate_spiking(
    network: SpikingNetwork | str | Path,
    data: Any,
    *,
    steps: Annotated[
        int | None, Range(ge=1), Doc("time steps per image of a spiking network; default: those of its record, or 64")
    ] = None,
    split: Split = None,
    test_rows: TestRows = None,
    precision: Annotated[Precision, Doc("number format in which a spiking network runs", rare=True)] = "float32",
    seed: Seed = 0,
    device: Device = "cpu",
    progress: StepCallback | bool | None = None,
) -> SpikingEvaluation:
    """Run a spiking ``network`` (or its file) on one split of ``data``, with the rows and spikes of its conversion.

    The default of ``steps`` is 64; on the command line it is taken from the network's record.
    """
    from weightsmith.data.judging import draw_rows
    from weightsmith.networks.evaluation import labels_for
    from weightsmith.spiking.files import load_spiking, spiking_digest
    from weightsmith.spiking.simulation.responses import UNDECIDED
    from weightsmith.spiking.simulation.simulate import simulate

    spiking = load_spiking(network) if isinstance(network, str | Path) else network
    rows = draw_rows(data, split, test_rows, seed)
    labels = labels_for(spiking.card, rows.data, rows.part.y, spiking.classes)[1].numpy()
    found = simulate(
        spiking,
        rows.part.x,
        steps or USUAL_STEPS,
        seed=seed,
        precision=precision,
        device=device,
        progress=as_callback(progress),
    )
    correct = found.correct(labels).sum(axis=0, dtype=np.int64).tolist()
    undecided = (found.answers == UNDECIDED).sum(axis=0, dtype=np.int64).tolist()
    rates, spikes = found.rates(), found.spikes()
    return SpikingEvaluation(
        data=rows.data.name,
        split=rows.split,
        images=found.images,
        neuron=str(spiking.neuron),
        encode=str(spiking.encode),
        precision=precision,
        steps=tuple(
            _after(step, wilson(right, found.images), still_open)
            for step, (right, still_open) in enumerate(zip(correct, undecided, strict=True), 1)
        ),
        layers=tuple(
            FiringLayer(
                layer=node.layer or node.name,
                population=node.name,
                neurons=found.units[node.name],
                rate=rates[node.name],
                spikes=spikes[node.name] / found.images,
            )
            for node in spiking.populations
        ),
        notes=(*spiking.card.notes, *rows.data.notes),
        origin=Origin(seed, {"network": spiking_digest(spiking), "data": rows.part.digest()}),
    )


def _after(steps: int, share: Interval, undecided: int) -> StepAccuracy:
    return StepAccuracy(steps, share.value, share.low, share.high, undecided)
