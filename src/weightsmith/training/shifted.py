"""A schedule in a run that is only a part of the run the schedule was made for."""

from __future__ import annotations

import functools

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.training._schedule import Schedule, Span
from weightsmith.training.watching import FRESH, Monitor, Watch

__all__ = ["Shifted"]


class Shifted(Schedule, name="shifted"):
    """A later part of another run: η(t) = ψ(t + k·S), ψ shaped to N epochs, whatever the length of this run.

    k is ``start``, the epochs of that run that are taken for done, N its ``epochs``, S the steps of an epoch and ψ the
    schedule whose text form is ``then``. Training on with the rates of an earlier phase is what Renda, Frankle and
    Carbin (ICLR 2020) call learning-rate rewinding. A plateau inside starts with its first rate, because the cuts that
    it made in that run are not known here.

    >>> whole, part = Schedule.parse("cosine:0.1"), Shifted(6, 8, then="cosine:0.1")
    >>> whole.at(60, Span(steps=10, epochs=8)) == part.at(0, Span(steps=10, epochs=2))
    True
    """

    start: int = param(ge=0, doc="k, the epochs that are taken for done")
    epochs: int = param(ge=1, doc="N, the epochs of the run that the schedule is shaped to")
    then: str = param(doc="text form of that run's schedule, such as cosine:0.1")

    def check(self) -> None:
        """There is something left after ``start``, and ``then`` is a schedule, kept in its shortest form."""
        if self.start >= self.epochs:
            raise OptionError(f"shifted: start must be < epochs, but {self.start} is not below {self.epochs}")
        object.__setattr__(self, "then", str(self.whole))

    @functools.cached_property
    def whole(self) -> Schedule:
        """The schedule ψ behind ``then``."""
        from weightsmith.training import schedules  # not above: that file gathers all schedules, this one among them

        return schedules.Schedule.parse(self.then)

    @property
    def monitor(self) -> Monitor | None:
        """What ψ watches."""
        return self.whole.monitor

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:
        """ψ's rate, k epochs later."""
        return self.whole.at(step + self.start * span.steps, Span(span.steps, self.epochs, span.skipped), watch)

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:
        """Handed on to ψ, by its own count of the epochs."""
        return self.whole.observe(watch, epoch + self.start, value)
