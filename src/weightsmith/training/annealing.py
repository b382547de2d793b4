"""Schedules shaped to the length of the run: down along a cosine, or up and down once."""

from __future__ import annotations

import math

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.training._schedule import Per, Schedule, Span, count
from weightsmith.training.watching import FRESH, Watch

__all__ = ["Cosine", "OneCycle"]


class Cosine(Schedule, name="cosine"):
    """Half a cosine: η(t) = η_min + ½ (η0 − η_min)(1 + cos(π t/T)) (Loshchilov & Hutter 2017, eq. 5, no restarts).

    η0 is ``rate``, η_min ``least``, T the run or, if given, ``over``. So the rate stands at η_min when T steps are
    *done*; the last step still moves. Up to there it is torch's ``CosineAnnealingLR(T_max=T)`` and Keras'
    ``CosineDecay``; after T it stays at η_min as in Keras, while torch's rises again.

    >>> [round(Cosine(0.1).at(t, Span(steps=10, epochs=10)), 4) for t in (0, 25, 50, 75)]
    [0.1, 0.0854, 0.05, 0.0146]
    """

    rate: float = param(gt=0, lt=math.inf, doc="η0, the rate of the first step")
    least: float = param(default=0.0, ge=0, doc="η_min, where it ends")
    over: int | None = param(default=None, ge=1, doc="T in steps (or epochs); none: the whole run")
    per: Per = param(default="step", doc="what t and T count")

    def check(self) -> None:
        """The end lies below the start."""
        if self.least >= self.rate:
            raise OptionError(f"cosine: least must be < rate, but {self.least:g} is not below {self.rate:g}")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """η_min + (η0 − η_min) cos²(π t/2T), the same without the cancellation in 1 + cos near the end."""
        length = self.over or span.length(self.per)
        done = count(step, span, self.per) / length
        if done >= 1:
            return self.least
        return self.least + (self.rate - self.least) * math.cos(math.pi / 2 * done) ** 2


class OneCycle(Schedule, name="one-cycle"):
    """One cycle: up from ``start``·η to the peak η along half a cosine, then down to ``end``·η along another.

    For the steps t of a cycle of T, with t1 = ``warm``·T − 1 (Smith & Topin 2018, as in torch's ``OneCycleLR``):
    η(t) = η · mix(start, 1, t/t1) up to t1, then η · mix(1, end, (t − t1)/(T − 1 − t1)), where
    mix(a, b, x) = b + ½ (a − b)(1 + cos(π x)). η is ``rate``, T the run or, if given, ``over`` steps. The last step of
    the cycle has the rate end·η, and it stays there.

    The defaults are torch's (``div_factor=25``, ``final_div_factor=1e4``, ``pct_start=0.3``); only the rate is
    cycled, the momentum is left alone (torch: ``cycle_momentum=False``). A rise of less than a step is left out, so a
    very short run starts at the peak.

    >>> [round(OneCycle(0.1).at(t, Span(steps=10, epochs=10)), 7) for t in (0, 29, 60, 99)]
    [0.004, 0.1, 0.058928, 4e-07]
    """

    rate: float = param(gt=0, lt=math.inf, doc="η, the rate at the peak")
    start: float = param(default=0.04, gt=0, le=1, doc="rate of the first step, as a share of the peak")
    warm: float = param(default=0.3, ge=0, lt=1, doc="share of the cycle in which the rate rises")
    end: float = param(default=4e-6, gt=0, le=1, doc="rate of the last step, as a share of the peak")
    over: int | None = param(default=None, ge=2, doc="T in steps; none: the whole run")

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The rate on its way up or down."""
        last = (self.over or span.total) - 1
        top = max(0.0, self.warm * (last + 1) - 1)
        step = min(step, last)
        if step < top:
            return self.rate * _mix(self.start, 1.0, step / top)
        return self.rate * (_mix(1.0, self.end, (step - top) / (last - top)) if last > top else 1.0)


def _mix(first: float, second: float, share: float) -> float:
    """From ``first`` at share 0 to ``second`` at share 1 along half a cosine."""
    return second + (first - second) * math.cos(math.pi / 2 * share) ** 2
