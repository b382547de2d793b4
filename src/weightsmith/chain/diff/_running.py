"""Two networks on the same rows: answers, paired accuracy, latency, and energy of spikes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.chain.diff._records import LatencyDiff, LoneAccuracy, Missing, PairedAccuracy
from weightsmith.chain.diff._sides import Side
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.progress import StepCallback
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.data.judging import Rows
from weightsmith.networks.card import Card
from weightsmith.networks.evaluation import inputs_of, labels_for, scores
from weightsmith.networks.running import memory_format_of
from weightsmith.reducing.latency import compare_latency
from weightsmith.spiking.energy.cost import Prices, UnitCounts, spike_cost
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.simulation.simulate import simulate

__all__ = [
    "Answers",
    "answers_of",
    "latencies",
    "lone_accuracy",
    "on_rows",
    "paired_accuracy",
]

NO_ANSWER = -1
_STEPS = 64  # simulation steps of a spiking network whose record names none


@dataclasses.dataclass(frozen=True)
class Answers:
    """The predicted class of each row by name (None: no answer), whether it is right, and the energy."""

    predicted: list[str | None]
    right: NDArray[np.bool_]
    picojoules: float | None = None
    basis: str | None = None


def on_rows(side: Side, rows: Rows) -> Side:
    """The side restricted to these rows; ``cannot_run`` holds the reason if it cannot take one of them."""
    if side.module is None:
        return side
    try:
        scores(side.module, rows.part.x[:1])
    except (DataMismatch, UsageError) as error:
        return dataclasses.replace(side, module=None, cannot_run=str(error))
    return side


def answers_of(
    side: Side, rows: Rows, *, steps: int | None, seed: int, prices: Prices, progress: StepCallback | None
) -> Answers:
    """The answers of a network; raises with the reason if it cannot be run on the rows."""
    if side.spiking is not None:
        return _spiking_answers(
            side.spiking, rows, _how_to_run(side, steps), seed=seed, prices=prices, progress=progress
        )
    if side.module is None:
        raise UsageError(str(side.cannot_run))
    outputs = scores(side.module, rows.part.x, progress=progress)
    called = torch.where(outputs.isfinite().all(dim=1), outputs.argmax(dim=1), NO_ANSWER).numpy()
    return _answers(side.card, rows, called, outputs.shape[1])


def paired_accuracy(rows: Rows, a: Answers, b: Answers) -> PairedAccuracy:
    """Counts of rows that both, one or neither of the networks answer correctly, and their agreement."""
    count = len(rows.part)
    test = mcnemar(b.right, a.right)
    assert test.interval is not None  # McNemar's test always has both
    assert test.p is not None
    same = sum(x == y and x is not None for x, y in zip(a.predicted, b.predicted, strict=True))
    return PairedAccuracy(
        data=rows.data.name,
        split=rows.split,
        images=count,
        a=wilson(int(a.right.sum()), count),
        b=wilson(int(b.right.sum()), count),
        both=int((a.right & b.right).sum()),
        only_a=int((a.right & ~b.right).sum()),
        only_b=int((b.right & ~a.right).sum()),
        neither=int((~a.right & ~b.right).sum()),
        difference=test.interval,
        p=test.p,
        agreement=wilson(same, count),
    )


def lone_accuracy(rows: Rows, of: Literal["A", "B"], answers: Answers) -> LoneAccuracy:
    """The accuracy of the one network that could be run."""
    count = len(rows.part)
    return LoneAccuracy(of, rows.data.name, rows.split, count, wilson(int(answers.right.sum()), count))


def latencies(
    a: Side, b: Side, rows: Rows, batches: Sequence[int], repeats: int
) -> tuple[tuple[LatencyDiff, ...], list[Missing]]:
    """The latency of both per image on one thread, measured alternately, or the reason why it is missing."""
    examples = [_example_or_reason(side, rows.part.x[: max(batches)]) for side in (a, b)]
    missing = [
        Missing("time", side.name, each) for side, each in zip((a, b), examples, strict=True) if isinstance(each, str)
    ]
    if missing:
        return (), missing
    first, second = (each for each in examples if not isinstance(each, str))
    assert a.module is not None
    assert b.module is not None
    # The same values for both, each reshaped for its network: rows for a dense one, images for a convolutional one.
    try:
        found = compare_latency(
            _Reshaped(a.module, first),
            _Reshaped(b.module, second),
            first.flatten(1),
            batches=batches,
            repeats=repeats,
        )
    except (DataMismatch, UsageError) as error:
        return (), [Missing("time", f"{a.name} and {b.name}", str(error))]
    return tuple(
        LatencyDiff(
            batch=ratio.batch,
            a=found.before.at(ratio.batch).best,
            b=found.after.at(ratio.batch).best,
            ratio=ratio.median,
            low=ratio.low,
            high=ratio.high,
            clock=found.before.clock,
        )
        for ratio in found.ratios
    ), []


def _example_or_reason(side: Side, x: Tensor) -> Tensor | str:
    if side.spiking is not None:
        return "it spikes, and is simulated here: the time of the simulation says nothing about the target hardware"
    if side.module is None:
        return str(side.cannot_run)
    try:
        return inputs_of(side.module, x)
    except (DataMismatch, UsageError) as error:
        return str(error)


class _Reshaped(nn.Module):
    """A network that reshapes its inputs, so that two networks can be given the same rows."""

    def __init__(self, network: nn.Module, example: Tensor) -> None:
        super().__init__()
        self.network, self.shape = network, tuple(example.shape[1:])
        self.memory_format = memory_format_of(network, example)

    def forward(self, rows: Tensor) -> Tensor:
        """The outputs of the network for the rows."""
        inputs = rows.reshape(-1, *self.shape)
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=self.memory_format)
        answer: Tensor = self.network(inputs)
        return answer


def _how_to_run(side: Side, steps: int | None) -> dict[str, Any]:
    """The simulation settings in the record of a spiking network, if there is one."""
    settings: dict[str, Any] = {"steps": _STEPS, "precision": "float32", "early": None, "settle": 0}
    if isinstance(side.record, SpikeRecord | TailorRecord):
        settings = {name: side.record.settings.get(name, usual) for name, usual in settings.items()}
    return settings if steps is None else {**settings, "steps": steps}


def _spiking_answers(
    network: SpikingNetwork,
    rows: Rows,
    how: dict[str, Any],
    *,
    seed: int,
    prices: Prices,
    progress: StepCallback | None,
) -> Answers:
    counts = UnitCounts(network)
    found = simulate(network, rows.part.x, seed=seed, observers=(counts,), progress=progress, **how)
    cost = spike_cost(network, found, counts, prices, precision=how["precision"])
    answers = _answers(network.card, rows, found.answers[:, -1].astype(np.int64), network.classes)
    return dataclasses.replace(answers, picojoules=cost.energy, basis=f"{cost.basis} over {how['steps']} steps")


def _answers(card: Card, rows: Rows, called: NDArray[np.int64], count: int) -> Answers:
    names, labels = labels_for(card, rows.data, rows.part.y, count)
    if called.shape != tuple(labels.shape):
        raise DataMismatch(f"{len(called)} answers for {len(labels)} rows")
    predicted = [None if index == NO_ANSWER else names[index] for index in called.tolist()]
    return Answers(predicted, np.asarray(called == labels.numpy()))
