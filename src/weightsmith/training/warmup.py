"""A rise to the first rate of another schedule, before that schedule begins."""

from __future__ import annotations

import functools

from weightsmith.core.options import param
from weightsmith.training._schedule import Per, Schedule, Span
from weightsmith.training.watching import FRESH, Monitor, Watch

__all__ = ["WarmUp"]


class WarmUp(Schedule, name="warm-up"):
    """Warm-up: η(t) = ψ(0) · (t + 1)/(W + 1) for t < W, then ψ(t − W) (the gradual warm-up of Goyal et al. 2017).

    W is ``steps`` (or epochs, with ``per="epoch"``; the rate then still rises with every step) and ψ the schedule whose
    text form is ``then``. ψ begins to count when the warm-up ends, and what ψ calls the whole run is what is left of
    it. The rise is a straight line that would meet 0 one step before the run, so no step is wasted on a rate of 0 as
    with Keras' ``warmup_steps``; it is torch's ``LinearLR(start_factor=1/(W+1), total_iters=W)``. A plateau inside
    watches the epochs of the warm-up too.

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
        """``then`` is a schedule; it is kept in its shortest form, so that equal schedules are equal."""
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
        """What is left of the run for ψ."""
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
