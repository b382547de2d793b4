"""What is told while an epoch runs: its means so far, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable

from weightsmith.training.run import Progress
from weightsmith.training.schedules import Span
from weightsmith.training.stepping import Step

__all__ = ["Clock", "Total"]

_REPORT = 0.1  # seconds between two reports


class Total:
    """Sums over the steps of an epoch."""

    def __init__(self) -> None:
        self._loss, self._correct, self._rows = 0.0, 0, 0

    def add(self, step: Step) -> None:
        """Take a step in."""
        self._loss += step.loss * step.rows
        self._correct += step.correct
        self._rows += step.rows

    @property
    def loss(self) -> float:
        """The mean loss so far."""
        return self._loss / self._rows

    @property
    def accuracy(self) -> float:
        """The share of images that were right."""
        return self._correct / self._rows


class Clock:
    """Tells the progress at intervals, with an estimate of the time left."""

    def __init__(self, progress: Callable[[Progress], None] | None, steps: int) -> None:
        self._progress, self._steps = progress, steps
        self._skipped = self._done = 0
        self._began, self._told = time.monotonic(), 0.0

    def skip(self, steps: int) -> None:
        """Count steps that an earlier run has done."""
        self._skipped = self._done = steps

    def tick(self, epoch: int, number: int, span: Span, total: Total, rate: float) -> None:
        """A step is done."""
        self._done += 1
        if self._progress is None:
            return
        now = time.monotonic()
        if now - self._told < _REPORT and number + 1 < span.steps:
            return
        self._told = now
        left = (now - self._began) / (self._done - self._skipped) * (self._steps - self._done)
        self._progress(Progress(epoch, span.epochs, number + 1, span.steps, total.loss, total.accuracy, rate, left))
