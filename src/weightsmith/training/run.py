"""The results of training: history, reason of the end, diagnosis, network."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from weightsmith.core.csv_text import csv_text
from weightsmith.core.display import Displayed
from weightsmith.core.errors import UnknownName
from weightsmith.core.records import Origin, Record
from weightsmith.training.diagnosis.gradients import GradientDiagnosis

__all__ = ["EpochEnd", "EpochRow", "History", "Hook", "Progress", "StopTraining", "Stopped", "TrainRecord", "TrainRun"]


class Stopped(enum.Enum):
    """Why training ended."""

    DONE = "done"
    EARLY = "early"
    DIVERGED = "diverged"


@dataclasses.dataclass(frozen=True, eq=False)
class EpochRow(Record):
    """One epoch: the rate of its last step; loss and accuracy on the training batches (with dropout and augmentation,
    while the weights change), and on the validation split after it; the value of the penalties; the share of steps
    whose gradient was clipped; the values of metrics and hooks. A regression has ``train_r2`` and ``validation_r2``
    instead of accuracies."""

    epoch: int
    steps: int
    rate: float
    train_loss: float
    train_accuracy: float | None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    penalty: float | None = None
    clipped: float | None = None
    extra: dict[str, float] = dataclasses.field(default_factory=dict)

    def value(self, column: str) -> float | None:
        """A column of the row, including those of hooks."""
        if column in self.extra:
            return self.extra[column]
        names = [field.name for field in dataclasses.fields(self) if field.name != "extra"]
        if column not in names:
            raise UnknownName("column", column, [*names, *self.extra])
        found: float | None = getattr(self, column)
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class History(Record):
    """The epochs in order."""

    rows: tuple[EpochRow, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold anything."""
        names = [field.name for field in dataclasses.fields(EpochRow) if field.name != "extra"]
        filled = [name for name in names if any(row.value(name) is not None for row in self.rows)]
        return (*filled, *dict.fromkeys(name for row in self.rows for name in row.extra))

    def column(self, name: str) -> tuple[float | None, ...]:
        """One column from the first epoch to the last; None where it was not measured."""
        if self.rows and any(name in row.extra for row in self.rows):
            return tuple(row.extra.get(name) for row in self.rows)
        return tuple(row.value(name) for row in self.rows)

    def to_csv(self) -> str:
        """The history as CSV text, a line per epoch; numbers are written so that they read back exactly."""
        columns = self.columns
        return csv_text(columns, zip(*map(self.column, columns), strict=True))


@dataclasses.dataclass(frozen=True, eq=False)
class TrainRecord(Record):
    """The record of a training run, without its weights.

    ``restored`` is the epoch whose weights the network has: the last one, or the best one (by ``monitor``) when early
    stopping requires it or the run diverged; 0 means the weights before training. ``settings`` holds every option in
    its text form.
    """

    settings: dict[str, Any]
    history: History
    stopped: Stopped
    reason: str
    monitor: str
    best_epoch: int
    restored: int
    parameters: int
    trained: int
    gradients: GradientDiagnosis | None
    removed: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    network: str
    origin: Origin


@dataclasses.dataclass(frozen=True)
class EpochEnd:
    """The argument of hooks after each epoch; the network is the one in training and must not be changed.

    ``rates`` are factors of the learning rate by the name of a layer, for the steps that follow; a hook may set them.
    """

    network: nn.Module
    row: EpochRow
    rates: dict[str, float] = dataclasses.field(default_factory=dict)


class StopTraining(Exception):
    """Raise it in a hook to end the run after the present epoch, with its text as the reason."""


Hook = Callable[[EpochEnd], Mapping[str, float] | None]


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of training: counted from 1; means over the epoch so far; ``left`` in seconds, None at the start.

    ``accuracy`` is the mean score of the rows, R² for a regression.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    rate: float
    left: float | None


@dataclasses.dataclass(frozen=True, repr=False)
class TrainRun(Displayed):
    """A finished run: its record, the trained network, and the weights kept on the way."""

    record: TrainRecord
    network: nn.Module
    kept: Mapping[int, Callable[[], nn.Module]] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"TrainRun({self})"

    def __str__(self) -> str:
        """One line: network, data, epochs, reason of the end, and last accuracy."""
        rows, settings = self.record.history.rows, self.record.settings
        last = f", {self.record.monitor} {rows[-1].value(self.record.monitor):.4g}" if rows else ""
        return f"{settings['network']} on {settings['data']}: {len(rows)} epochs{last}, {self.record.reason}"

    @property
    def history(self) -> History:
        """The epochs."""
        return self.record.history

    @property
    def stopped(self) -> Stopped:
        """Why it ended."""
        return self.record.stopped

    @property
    def gradients(self) -> GradientDiagnosis | None:
        """The diagnosis of vanishing and exploding gradients, if it was requested."""
        return self.record.gradients

    def checkpoint(self, epoch: int) -> nn.Module:
        """The network as it was after ``epoch`` (0: before training), one of those that ``keep`` named."""
        if epoch not in self.kept:
            known = ", ".join(map(str, sorted(self.kept))) or "none; name them with keep=(0, 5, …)"
            raise UnknownName("kept epoch", str(epoch), [known])
        return self.kept[epoch]()
