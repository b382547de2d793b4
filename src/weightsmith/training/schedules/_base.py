"""The family of learning-rate schedules, and the length of a run that they are shaped to.

``at(step, span)`` gives the rate of each step, and ``observe`` takes a metric after each epoch; most schedules only use
the first. The state is a :class:`~weightsmith.training.watching.Watch` that the caller keeps.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from weightsmith.core.errors import UsageError
from weightsmith.core.identity import identity_of
from weightsmith.core.options import Option
from weightsmith.training.watching import FRESH, Monitor, Watch

__all__ = ["OwnSchedule", "Per", "Schedule", "Span", "count"]

Per = Literal["step", "epoch"]


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """The length of a run: ``steps`` per epoch, ``epochs``; ``skipped`` steps at its start belong to a warm-up.

    >>> Span(steps=100, epochs=3).total, Span(100, 3, skipped=50).total
    (300, 250)
    """

    steps: int
    epochs: int
    skipped: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.epochs < 1 or self.skipped < 0:
            raise UsageError(f"a run of {self.epochs} epochs with {self.steps} steps each: both must be at least 1")

    @property
    def total(self) -> int:
        """All steps of the run that are not skipped, at least one."""
        return max(1, self.steps * self.epochs - self.skipped)

    def length(self, per: Per) -> int:
        """The length of the run in steps, or in epochs (a partial epoch counts as one)."""
        return self.total if per == "step" else math.ceil(self.total / self.steps)


def count(step: int, span: Span, per: Per) -> int:
    """The t of the formulas: the step itself, or the whole epochs done before it.

    >>> count(250, Span(steps=100, epochs=3), "step"), count(250, Span(steps=100, epochs=3), "epoch")
    (250, 2)
    """
    return step if per == "step" else step // span.steps


class Schedule(Option):
    """The family of learning-rate schedules."""

    @property
    def monitor(self) -> Monitor | None:
        """The column of the history that :meth:`observe` needs, or None."""
        return None

    @abstractmethod
    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:
        """The rate for this step (counted from 0) of a run of this length."""

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:  # noqa: ARG002 (most do not look)
        """The watch after an epoch (counted from 1) that ended with this ``value`` of the monitored column."""
        return watch

    @property
    def may_grow(self) -> bool:
        """Whether the rates of a run do not change if it gets more epochs, so that it can be extended."""
        some, more = (Span(steps=10, epochs=epochs) for epochs in (10, 20))
        return all(self.at(step, some) == self.at(step, more) for step in range(some.total))


@dataclasses.dataclass(frozen=True)
class OwnSchedule:
    """A plain function of the step (counted from 0), such as ``lambda step: 0.1 / (1 + step / 1000)``.

    A run with ``out`` can resume only if the function can be identified.
    """

    function: Callable[[int], float]
    monitor: ClassVar[None] = None
    may_grow: ClassVar[bool] = True

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The value of the function, which must be a finite rate ≥ 0."""
        rate: Any = self.function(step)
        if not isinstance(rate, int | float) or not 0 <= rate < math.inf:
            raise UsageError(f"schedule: the function gives {rate!r} for step {step}; a rate is a number ≥ 0")
        return float(rate)

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:  # noqa: ARG002
        """The watch, unchanged."""
        return watch

    def __str__(self) -> str:
        return identity_of(self.function)
