"""Schedules that change another one: a warm-up before it, or a start in the middle of it."""

from __future__ import annotations

import functools

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.training.schedules._base import Per, Schedule, Span
from weightsmith.training.watching import FRESH, Monitor, Watch

__all__ = ["Shifted", "WarmUp"]


class WarmUp(Schedule, name="warm-up"):
    """Warm-up: η(t) = ψ(0) · (t + 1)/(W + 1) for t < W, then ψ(t − W) (the gradual warm-up of Goyal et al. 2017).

    W is ``steps`` (or epochs, with ``per="epoch"``; the rate then still rises with every step) and ψ the schedule whose
    text form is ``then``. ψ starts when the warm-up ends, and its whole run is the rest of the run. The rise is linear
    from 0 one step before the run, so no step is wasted on a rate of 0 as with Keras' ``warmup_steps``; it is torch's
    ``LinearLR(start_factor=1/(W+1), total_iters=W)``. A plateau inside monitors the epochs of the warm-up too.

    >>> schedule = WarmUp(4, then="cosine:0.1")
    >>> [round(schedule.at(t, Span(steps=12, epochs=2)), 3) for t in (0, 1, 2, 3, 4, 14)]
    [0.02, 0.04, 0.06, 0.08, 0.1, 0.05]
    >>> WarmUp(4, then="cosinus:0.1")
    Traceback (most recent call last):
    weightsmith.core.errors.UnknownName: unknown schedule 'cosinus'; did you mean 'cosine'? ...
    """

    steps: int = param(ge=1, doc="W, the length of the rise")
    then: str = param(doc="text form of the schedule that follows, such as cosine:0.1 or constant:0.01")
    per: Per = param(default="step", doc="what W counts")

    def check(self) -> None:
        """Check that ``then`` is a schedule; it is stored in its shortest form, so equal schedules compare equal."""
        object.__setattr__(self, "then", str(self.following))

    @functools.cached_property
    def following(self) -> Schedule:
        """The schedule ψ behind ``then``."""
        from weightsmith.training import schedules  # not above: that file gathers all schedules, this one among them

        return schedules.Schedule.parse(self.then)

    @property
    def monitor(self) -> Monitor | None:
        """What ψ watches."""
        return self.following.monitor

    def length(self, span: Span) -> int:
        """W in steps."""
        return self.steps if self.per == "step" else self.steps * span.steps

    def rest(self, span: Span) -> Span:
        """The rest of the run, for ψ."""
        return Span(span.steps, span.epochs, span.skipped + self.length(span))

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:
        """The rate on the line, or ψ's."""
        length, rest = self.length(span), self.rest(span)
        if step >= length:
            return self.following.at(step - length, rest, watch)
        return self.following.at(0, rest, watch) * (step + 1) / (length + 1)

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:
        """Handed on to ψ."""
        return self.following.observe(watch, epoch, value)


# A schedule shifted in time: this run is a part of a longer one.


class Shifted(Schedule, name="shifted"):
    """A later part of another run: η(t) = ψ(t + k·S), ψ shaped to N epochs, for any length of this run.

    k is ``start``, the epochs of that run that count as done, N its ``epochs``, S the steps of an epoch and ψ the
    schedule whose text form is ``then``. Renda, Frankle and Carbin (ICLR 2020) call it learning-rate rewinding to
    continue with the rates of an earlier phase. A plateau inside starts with its first rate, because the cuts that it
    made in that run are unknown here.

    >>> whole, part = Schedule.parse("cosine:0.1"), Shifted(6, 8, then="cosine:0.1")
    >>> whole.at(60, Span(steps=10, epochs=8)) == part.at(0, Span(steps=10, epochs=2))
    True
    """

    start: int = param(ge=0, doc="k, the epochs that count as done")
    epochs: int = param(ge=1, doc="N, the epochs of the run that the schedule is shaped to")
    then: str = param(doc="text form of that run's schedule, such as cosine:0.1")

    def check(self) -> None:
        """Check that epochs are left after ``start``, and that ``then`` is a schedule; store its shortest form."""
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
